// What a small program prints.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "io/process/process.h"

namespace longhaul::io {

// Runs a program and returns what it writes to standard output (`options.stdout_fd` is ours to
// set), at most 4 KiB. It is killed when it takes longer than `limit` or continues after closing
// its output. Blocks.
Result<std::string> OutputOf(ProcessOptions options, Duration limit);

}  // namespace longhaul::io
