// Whether a snapshot that may be asynchronous is: by what both ways were measured to stop
// training for, here, with this state.
//
// Behind the run training is stopped by the beginning (guarding or forking), by its writes to what
// is not copied yet, and by the wait before the optimizer's step; directly by the copy. The copy
// asynchronously tells what a direct one would take, so as long as it is the cheaper way nothing
// else is ever tried; where it is the dearer one it is tried again from time to time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace longhaul::worker_api {

class SnapshotWays {
 public:
  static constexpr uint64_t kTryAgain = 16;  // snapshots

  enum class Way { kBehind, kDirect };
  Way Next() const;

  // What was measured: the time that training stopped, and, where it is known, the work of the
  // copy.
  void Behind(Duration stopped, std::optional<Duration> copying);
  void Direct(Duration stopped);

  // The way of the last one and both times: "asynchronous: 1 ms, direct copy: 62 ms".
  std::string InWords() const;

 private:
  Way last_ = Way::kDirect;
  std::optional<Duration> behind_, direct_;
  uint64_t direct_in_turn_ = 0;
};

}  // namespace longhaul::worker_api
