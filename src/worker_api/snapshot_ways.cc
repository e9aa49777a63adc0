#include "worker_api/snapshot_ways.h"

#include "base/text.h"

namespace longhaul::worker_api {

SnapshotWays::Way SnapshotWays::Next() const {
  if (!behind_.has_value()) return Way::kBehind;
  if (!direct_.has_value()) return Way::kDirect;
  return *behind_ <= *direct_ || direct_in_turn_ >= kTryAgain ? Way::kBehind : Way::kDirect;
}

void SnapshotWays::Behind(Duration stopped, std::optional<Duration> copying) {
  last_ = Way::kBehind;
  behind_ = stopped;
  if (copying.has_value()) direct_ = copying;
  direct_in_turn_ = 0;
}

void SnapshotWays::Direct(Duration stopped) {
  last_ = Way::kDirect;
  direct_ = stopped;
  ++direct_in_turn_;
}

std::string SnapshotWays::InWords() const {
  const auto time = [](const std::optional<Duration>& one) {
    return one.has_value() ? ToString(*one) : std::string("not tried");
  };
  const std::string behind = "asynchronous: " + time(behind_);
  const std::string direct = "direct copy: " + time(direct_);
  return last_ == Way::kBehind ? behind + ", " + direct : direct + ", " + behind;
}

}  // namespace longhaul::worker_api
