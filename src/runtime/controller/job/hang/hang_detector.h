// Decides whether the workers of one job hang: how long to wait for a step before a probe, and when
// to restart them after a probe.
//
// Pure computation: the caller holds the deadline, sends the probes and restarts the workers.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"

namespace longhaul::runtime::controller {

struct HangLimits {
  Duration floor{};        // least time without a step before a probe
  double factor = 0;       // times the slowest recent report, if longer than `floor`
  Duration restart_after;  // without a step, before the workers are restarted
};

class HangDetector {
 public:
  struct Overdue {
    enum class Action { kProbe, kRestart } action = Action::kProbe;
    bool first = false;   // the first probe since the last report
    std::string silence;  // time without a report, and what a worker waits for
  };

  explicit HangDetector(Instant now) : last_progress_(now) {}

  // A new attempt begins. The earlier one's speed doesn't count.
  void BeginAttempt();
  // A report arrived. Returns the time since the one before it.
  Duration TakeReport(Instant at);
  // The time without a step is counted from `at` on.
  void CountFrom(Instant at) { last_progress_ = at; }
  // Counts the time without a step from `at`, unless it is counted from a later time already.
  void CountFromAtLeast(Instant at);
  // A worker reports what it waits for. Returns whether this is the first such report since the
  // last progress.
  bool NoteWait(std::string wait);
  // A worker that reports a wait does not hang: resets the number of probes.
  void ForgetProbes() { probes_ = 0; }

  // Returns how long to wait for the next report. `workers_end`: a worker has exited with 0, so the
  // others may do work that has no steps.
  Duration Patience(const HangLimits& limits, bool workers_end) const;
  // No report arrived within Patience(): counts a probe and returns what to do.
  Overdue TakeOverdue(const HangLimits& limits, Instant now);

  Instant last_progress() const { return last_progress_; }
  Duration slowest_report() const { return slowest_report_; }  // of recent ones
  // Whether enough times between two reports of this attempt are known to judge the next one. The
  // first step may compile, and the second one may be the first of the usual kind.
  bool has_learned() const { return reports_ > kReportsToLearn; }

 private:
  static constexpr uint32_t kReportsToLearn = 3;

  Instant last_progress_;
  Duration slowest_report_{};
  uint32_t reports_ = 0;  // of this attempt
  uint32_t probes_ = 0;   // since the last progress
  std::string wait_;      // what a worker waits for, since the last progress
};

}  // namespace longhaul::runtime::controller
