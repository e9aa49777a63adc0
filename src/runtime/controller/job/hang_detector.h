// Whether the workers of one job hang: how long no step may be reported before they are probed,
// and when a probe did not help.
//
// Pure computation: the caller holds the deadline, sends the probes and restarts the workers.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace longhaul::runtime::controller {

struct HangLimits {
  Duration floor{};        // the shortest time without a step that counts as silence
  double factor = 0;       // times the slowest recent report, where that is longer
  Duration restart_after;  // without a step, before the workers are restarted
};

class HangDetector {
 public:
  struct Overdue {
    enum class Action { kProbe, kRestart } action = Action::kProbe;
    bool first = false;   // the first probe since the last progress
    std::string silence;  // how long no step was reported, and what a worker waits for
  };

  explicit HangDetector(Instant now) : last_progress_(now) {}

  // A new attempt: the speed of the one before says nothing.
  void BeginAttempt();
  // A report arrived. Returns the time since the one before it.
  Duration TakeReport(Instant at);
  // The time without a step is counted from `at` on.
  void CountFrom(Instant at) { last_progress_ = at; }
  // The same unless a later time is known.
  void CountFromAtLeast(Instant at);
  // A worker reports what it waits for. Returns whether it is the first one since the last
  // progress.
  bool NoteWait(std::string wait);
  // A worker that reports a wait does not hang: the probes are counted anew.
  void ForgetProbes() { probes_ = 0; }

  // How long to wait for the next report. `workers_end`: a worker has ended well, so the others may
  // be busy with work that has no steps.
  Duration Patience(const HangLimits& limits, bool workers_end) const;
  // No report came in that time: what to do. Counts a probe.
  Overdue TakeOverdue(const HangLimits& limits, Instant now);

  Instant last_progress() const { return last_progress_; }
  Duration slowest_report() const { return slowest_report_; }  // of recent ones

 private:
  Instant last_progress_;
  Duration slowest_report_{};
  uint32_t probes_ = 0;  // since the last progress
  std::string wait_;     // what a worker waits for, since the last progress
};

}  // namespace longhaul::runtime::controller
