// Decides whether the next snapshot is asynchronous or direct: whichever was measured to stop
// training for less time, for this state on this machine.
//
// An asynchronous snapshot stops training for its start (protecting or forking), for writes to what
// is not copied yet, and for the wait before the optimizer's step. A direct one stops it for the
// copy. The work of an asynchronous copy shows what a direct one would take, so nothing else is
// tried while the asynchronous way is cheaper; otherwise it is tried again every kTryAgain
// snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace longhaul::worker_api {

class SnapshotWays {
 public:
  static constexpr uint64_t kTryAgain = 16;  // snapshots

  enum class Way { kAsynchronous, kDirect };
  Way Next() const;

  // Records a measurement: the time that training stopped, and, if known, the work of the copy.
  void Asynchronous(Duration stopped, std::optional<Duration> copying);
  void Direct(Duration stopped);

  // Returns the last way and both times: "asynchronous: 1 ms, direct copy: 62 ms".
  std::string InWords() const;

 private:
  Way last_ = Way::kDirect;
  std::optional<Duration> asynchronous_, direct_;
  uint64_t direct_in_turn_ = 0;
};

}  // namespace longhaul::worker_api
