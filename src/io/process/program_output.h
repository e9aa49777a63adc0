// Captures the output of a small program.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "io/process/process.h"

namespace longhaul::io {

// Runs a program and returns its standard output (this function sets `options.stdout_fd`), at
// most 4 KiB. Kills it when it takes longer than `limit` or continues after closing its output.
// Blocks.
Result<std::string> OutputOf(ProcessOptions options, Duration limit);

}  // namespace longhaul::io
