// A worker's files: its output and its error file, and the message that they give for its end.
//
//   RUN/logs/attempt-A/rank-R.log          standard output and standard error
//   RUN/logs/attempt-A/rank-R.error.json   TORCHELASTIC_ERROR_FILE
//   RUN/logs/attempt-A/rank-R.stack        the stack of a forked Python worker, while it runs
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::service {

struct WorkerOutput {
  std::string log_path;
  std::string error_path;
  std::string stack_path;
  io::Fd log;          // appends
  uint64_t begin = 0;  // length of the log at the worker's start
};

// Opens a log to append to it, and creates it if necessary. Refuses what is not a regular file: a
// job may have put a link or a pipe in its place, which would lead elsewhere or block the agent.
Result<io::Fd> OpenLog(const std::string& path);

// Creates the folders, opens the log and removes an older error file.
Result<WorkerOutput> OpenWorkerOutput(const std::string& run_directory, uint64_t attempt,
                                      uint32_t rank);

// Why a worker ended, from its own files: its error file's message and time, else the last lines of
// its output.
struct LastWords {
  std::string message;
  int64_t error_at_ns = 0;  // 0: unknown
};
LastWords ReadLastWords(const WorkerOutput& output);
// The same from the error file alone; nothing without one.
std::optional<LastWords> ReadErrorFile(const WorkerOutput& output);

// Returns the text of a file that a worker has written, at most 1 MiB. Refuses what is not a
// regular file, and never blocks.
Result<std::string> ReadWorkerFile(const std::string& path);
// Replaces the text of such a file, and creates it if necessary.
Status WriteWorkerFile(const std::string& path, const std::string& text);

// The bytes of a log in which LastLinesOf looks for lines.
constexpr size_t kMostTailBytes = 4 << 10;
// Returns the last 20 lines of the end of a log, as valid UTF-8 (base/utf8.h).
std::string LastLinesOf(std::string_view tail);
// Returns the last lines of a file from `begin` on, at most 20 and 4 KiB, as valid UTF-8
// (base/utf8.h); empty when the file can't be read.
std::string LastLines(const std::string& path, uint64_t begin);

}  // namespace longhaul::service
