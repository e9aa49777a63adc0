// Bounds the disk space that a worker's log takes.
//
// A worker writes to its log itself, so nothing stands between the two that could slow it down or
// stop. The agent looks at the length of the file instead, and gives the blocks in its middle back
// to the file system: the beginning and the newest part stay, and so do all offsets, for readers
// that follow the file. The bytes between read as zero and take no space. Between two looks the
// file may exceed the limit. Leaves out file systems that cannot free a part of a file.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "io/fd.h"

namespace longhaul::service {

// The bytes [begin, end) of a file.
struct FreedRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const FreedRange&, const FreedRange&) = default;
};

// What to free of a log of `bytes` bytes of which [.., freed.end) from `freed.begin` on was freed
// before, so that it takes at most `limit`: all but the first quarter of the limit and the last
// half. Nothing while it takes no more than the limit. Requires limit >= 64 KiB.
std::optional<FreedRange> RangeToFree(uint64_t bytes, const FreedRange& freed, uint64_t limit);

class LogLimit {
 public:
  // `log` appends to the file. `limit` 0: there is none.
  LogLimit(io::Fd log, uint64_t limit);

  // Frees what is too much. Returns true the first time that it does so: a line in the log states
  // it. An error is returned once, after which there is no limit.
  Result<bool> Enforce();

  uint64_t limit() const { return limit_; }

 private:
  io::Fd log_;
  uint64_t limit_;
  FreedRange freed_;
  bool active_;
};

}  // namespace longhaul::service
