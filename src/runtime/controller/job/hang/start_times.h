// Learns how long the attempts of a job take until their first step, so that one which hangs before
// its first step is noticed sooner than by the limit for unknown jobs.
//
// Pure computation: the caller holds the deadline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::controller {

class StartTimes {
 public:
  using Phase = proto::PhaseEntered::Phase;

  // An attempt begins that restores from `tier`, with the phase START_UP.
  void Begin(proto::Restore::Tier tier, Instant now);
  // The controller was away for an unknown time: the attempt's times count anew, and nothing is
  // learned from them.
  void CountFrom(Instant now);
  // All its workers have entered the phase.
  void EnterPhase(Phase phase, Instant now);
  // The attempt has made its first step. Only the first call of an attempt counts.
  void NoteFirstStep(Instant at);
  // The attempt has made no step within a limit. The limits double until one makes a step.
  void NoteOverdue() { ++overdue_; }

  // Returns how long the attempt may take until its first step: three times as long as the slowest
  // one so far, which may have compiled, and at least two minutes; `longest` at most, and where no
  // attempt has restored from the same tier.
  Duration Limit(Duration longest) const;
  // Returns how long the present phase may take: three times as long as the slowest one so far of
  // an attempt that has made a step, and at least half a minute. Nothing if none is known.
  std::optional<Duration> PhaseLimit() const;
  // When the attempt began. Requires that it has made no step.
  Instant begun() const { return *begun_; }
  Duration Elapsed(Instant now) const { return begun_.has_value() ? now - *begun_ : Duration(0); }

 private:
  static constexpr size_t kPhases = 6;  // proto::PhaseEntered::Phase

  int64_t Doublings() const;

  std::set<proto::Restore::Tier> known_;
  Duration slowest_{};
  std::array<Duration, kPhases> slowest_of_{};  // by phase; zero: unknown
  proto::Restore::Tier tier_ = proto::Restore::TIER_NONE;
  std::optional<Instant> begun_;  // none: it has made a step
  bool learns_ = true;
  Phase phase_ = proto::PhaseEntered::START_UP;
  Instant phase_begun_{};
  std::array<Duration, kPhases> taken_{};  // by the phases of this attempt that are over
  uint32_t overdue_ = 0;                   // in a row
};

}  // namespace longhaul::runtime::controller
