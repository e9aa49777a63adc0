// Captures the output of a small program.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "io/process/process.h"

namespace longhaul::io {

struct ProgramEnd {
  std::string output;
  ExitStatus status;
};

// Runs a program to its end and returns its standard output (this function sets
// `options.stdout_fd`). Kills it when it takes longer than `limit` or prints more than
// `most_bytes`. Blocks.
Result<ProgramEnd> RunProgram(ProcessOptions options, Duration limit, size_t most_bytes);

// The same for at most 4 KiB, however the program ends.
Result<std::string> OutputOf(ProcessOptions options, Duration limit);

}  // namespace longhaul::io
