#include "worker_api/snapshot_ways.h"

#include "base/text.h"

namespace longhaul::worker_api {

SnapshotWays::Way SnapshotWays::Next() const {
  if (!asynchronous_.has_value()) return Way::kAsynchronous;
  if (!direct_.has_value()) return Way::kDirect;
  return *asynchronous_ <= *direct_ || direct_in_turn_ >= kTryAgain ? Way::kAsynchronous
                                                                    : Way::kDirect;
}

void SnapshotWays::Asynchronous(Duration stopped, std::optional<Duration> copying) {
  last_ = Way::kAsynchronous;
  asynchronous_ = stopped;
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
  const std::string asynchronous = "asynchronous: " + time(asynchronous_);
  const std::string direct = "direct copy: " + time(direct_);
  return last_ == Way::kAsynchronous ? asynchronous + ", " + direct : direct + ", " + asynchronous;
}

}  // namespace longhaul::worker_api
