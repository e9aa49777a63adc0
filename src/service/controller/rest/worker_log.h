// A part of a worker's log: run_directory/logs/attempt-A/rank-R.log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace longhaul::service {

struct LogPart {
  uint64_t attempt = 0;
  uint64_t from = 0;  // bytes of the file before `text`
  uint64_t end = 0;   // the end of `text` in the file
  std::string text;
};

struct LogQuery {
  uint32_t rank = 0;
  std::optional<uint64_t> attempt;  // absent: the newest that has a log of this rank
  std::optional<uint64_t> from;     // absent: the last `bytes`
  uint64_t bytes = 64 << 10;        // at most
};

// Returns kNotFound when there is no such log (yet). The path is made of numbers only.
Result<LogPart> ReadWorkerLog(const std::string& run_directory, const LogQuery& query);

}  // namespace longhaul::service
