// The progress of one job: steps, losses, tokens and moving averages of its speed.
//
// Takes the step reports of the node that reports for the whole job and the start of each attempt.
// Leaves out when a missing step is a hang (hang_detector.h) and where the time of the ranks went
// (goodput/goodput_ledger.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/time.h"
#include "proto/events.pb.h"

namespace longhaul::runtime::controller {

class JobProgress {
 public:
  struct Losses {
    bool has_first = false;
    bool has_first_validation = false;
    double first = 0;
    double newest = 0;
    double first_validation = 0;
    double newest_validation = 0;
  };
  // What a report changed.
  struct Taken {
    bool first_of_attempt = false;
    bool new_step = false;  // beyond the highest step so far
  };

  // Begins an attempt with the state after `step`. Drops validation losses of later steps.
  void BeginAttempt(uint64_t step);
  // Takes the steps of a report; `took` is the time for all of them. Requires that the steps follow
  // the last reported one, or that the report is the first of an attempt.
  Taken TakeSteps(const proto::StepReported& report, Duration took, Instant at);
  void TakeLosses(const proto::StepReported& report);
  // Takes the ranks of a node, [first, first + count), that reported a loss that is not finite.
  // Returns whether no rank had one before: after such a loss, those of others follow soon.
  bool TakeNotFinite(uint32_t first, uint32_t count, const std::set<uint32_t>& ranks);
  // Returns whether to report a stall of this length: not when it is short, or within a minute
  // after the last reported one.
  bool ShouldReportStall(Duration stall, Instant at);
  // Returns the last step of the newest earlier attempt with reports, and only once.
  uint64_t TakeStepBefore();

  // The last step that every reporting node has done in the present attempt.
  uint64_t step() const { return step_; }
  uint64_t highest_step() const { return highest_step_; }                // of all attempts
  std::optional<Instant> last_step_at() const { return last_step_at_; }  // of the newest report
  // Whether a step was reported in the present attempt.
  bool reports_steps() const { return reports_steps_; }
  // The steps of the whole run as read from the output of the workers; 0 when unknown.
  uint64_t output_total() const { return output_total_; }
  const Losses& losses() const { return losses_; }
  double tokens() const { return tokens_; }  // of steps that count
  double flops() const { return flops_; }
  double tokens_per_second() const { return tokens_per_second_; }
  double flops_per_second() const { return flops_per_second_; }
  double step_seconds() const { return step_seconds_; }  // moving average

  // The steps of the whole run: as planned, else as read from the output; 0 when unknown.
  uint64_t TotalSteps(uint64_t planned) const { return planned > 0 ? planned : output_total_; }
  // Seconds until the run has done `total` steps; -1 when unknown.
  double EtaSeconds(uint64_t total) const;
  // The newest validation loss at or before `step`; nothing when there is none or it is not finite.
  std::optional<double> ValidationLossAt(uint64_t step) const;

 private:
  uint64_t step_ = 0;
  uint64_t highest_step_ = 0;
  std::optional<Instant> last_step_at_;
  uint64_t output_total_ = 0;
  bool reports_steps_ = false;
  uint64_t step_before_ = 0;
  std::optional<Instant> stall_reported_;
  double step_seconds_ = 0;
  Losses losses_;
  std::set<uint32_t> not_finite_;                 // the ranks whose newest loss is not finite
  std::map<uint64_t, double> validation_losses_;  // the newest ones, by step
  double tokens_ = 0;
  double flops_ = 0;
  double tokens_per_second_ = 0;
  double flops_per_second_ = 0;  // model FLOPs
};

}  // namespace longhaul::runtime::controller
