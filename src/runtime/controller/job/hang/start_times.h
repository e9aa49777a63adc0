// Learns how long the attempts of a job take until their first step, so that one which hangs before
// its first step is noticed sooner than by the limit for unknown jobs.
//
// Pure computation: the caller holds the deadline.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/time.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::controller {

class StartTimes {
 public:
  // An attempt begins that restores from `tier`.
  void Begin(proto::Restore::Tier tier, Instant now);
  // The attempt has made its first step. Only the first call of an attempt counts.
  void NoteFirstStep(Instant at);
  // The attempt has made no step within the limit. The limit doubles until one makes a step.
  void NoteOverdue() { ++overdue_; }

  // Returns how long the attempt may take until its first step: three times as long as the slowest
  // one so far, which may have compiled, and at least two minutes; `longest` at most, and where no
  // attempt has restored from the same tier.
  Duration Limit(Duration longest) const;

 private:
  std::set<proto::Restore::Tier> known_;
  Duration slowest_{};
  proto::Restore::Tier tier_ = proto::Restore::TIER_NONE;
  std::optional<Instant> begun_;  // none: it has made a step
  uint32_t overdue_ = 0;          // in a row
};

}  // namespace longhaul::runtime::controller
