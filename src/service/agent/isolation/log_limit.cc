#include "service/agent/isolation/log_limit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/check.h"
#include "base/units.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kBlock = 4096;

uint64_t Down(uint64_t bytes) { return bytes / kBlock * kBlock; }

}  // namespace

std::optional<FreedRange> RangeToFree(uint64_t bytes, const FreedRange& freed, uint64_t limit) {
  CHECK(limit >= 16 * kBlock);
  const uint64_t taken = bytes - std::min(bytes, freed.end - freed.begin);
  if (taken <= limit) return std::nullopt;
  // Whole blocks: of others the file system would write zeros instead of giving them back.
  const FreedRange range{Down(limit / 4), Down(bytes - limit / 2)};
  return range.end > std::max(range.begin, freed.end) ? std::optional(range) : std::nullopt;
}

LogLimit::LogLimit(io::Fd log, uint64_t limit)
    : log_(std::move(log)), limit_(limit), active_(limit > 0 && log_.valid()) {}

Result<bool> LogLimit::Enforce() {
  struct stat facts {};
  if (!active_ || fstat(log_.get(), &facts) != 0) return false;
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  // The job has cut it itself.
  if (bytes < freed_.end) freed_ = {};
  const auto range = RangeToFree(bytes, freed_, limit_);
  if (!range.has_value()) return false;
  const bool first = freed_.end == 0;
  const uint64_t begin = first ? range->begin : freed_.end;  // the rest is free already
  if (fallocate(log_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(range->end - begin)) != 0) {
    active_ = false;
    return FromErrno(errno, "cannot free a part of the log");
  }
  freed_ = *range;
  if (!first) return false;
  const std::string size = ToString(Bytes(static_cast<int64_t>(limit_)));
  const std::string line =
      "\nlonghaul: this log has more than " + size +
      " (limits.log_size): the agent frees its middle, which then reads as zero bytes; the "
      "beginning and the newest part remain\n";
  // On a full disk the line is missing; the notification is not.
  [[maybe_unused]] const ssize_t written = write(log_.get(), line.data(), line.size());
  return true;
}

}  // namespace longhaul::service
