// The numbers of one job that are no usable numbers: the finding that awaits a decision, and the
// one whose steps are being replayed.
//
// After a rollback the same steps are done again with the same data. If the finding repeats, the
// program or its data is the cause. If it does not, a device has computed another result before.
// Leaves out the action (handlers/numeric_faults.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "proto/job.pb.h"
#include "runtime/controller/job/numeric/loss_spikes.h"

namespace longhaul::runtime::controller {

struct NumericFinding {
  enum class Kind { kNotFinite, kSpike };

  Kind kind = Kind::kNotFinite;
  uint64_t first_step = 0;  // a report may cover several steps
  uint64_t last_step = 0;   // the step with which it was certain
  // That reported a loss that is not finite; none: the loss is the whole job's.
  std::set<uint32_t> ranks;
  std::string numbers;  // "the loss is 40.1, above the limit of 12.2 (...)"
  std::string place;    // "worker 3 on node-2", "all workers"; empty: unknown

  // "step 120", "steps 118 to 120"
  std::string Steps() const;
};

class NumericWatch {
 public:
  // A finding and the rollback because of it.
  struct Suspicion {
    NumericFinding finding;
    uint64_t attempt = 0;   // that it was found in
    uint32_t fault = 0;     // its number
    uint64_t restored = 0;  // the step that the replay began after
    // The losses of the replay's steps before the finding, compared bit for bit.
    uint64_t equal = 0;
    uint64_t different = 0;
  };

  // Returns how many steps after a step must have been good before its state counts as good; 0: the
  // job's policy does not depend on it.
  static uint64_t StepsOfProof(const proto::NumericPolicy& policy);
  // The newest state that counts as good if this step is the first bad one. Its loss is computed
  // with the state after the step before it, which may be bad already, unless that was proven.
  uint64_t NewestGood(uint64_t first_bad) const;

  // --- Reports.
  // Takes a finite loss of the whole job. `keep`: a replay may have to be compared with it.
  std::optional<LossSpikes::Spike> TakeLoss(uint64_t step, double loss, bool keep);
  // All nodes have reported this step without a finding. `steps`: StepsOfProof.
  void NoteGood(uint64_t step, uint64_t steps);
  // The first attempt begins with a state that counts as good.
  void BeginAttempt(uint64_t restored);

  // --- The finding that awaits a decision.
  void Open(const NumericFinding& finding);
  // Takes a further report about the same or an earlier step. Returns whether it changes anything.
  bool Improve(uint64_t first_step, uint64_t last_step, const std::set<uint32_t>& ranks);
  void SetPlace(const std::string& place) { open_->place = place; }
  void Close() { open_.reset(); }
  const std::optional<NumericFinding>& open() const { return open_; }
  // The newest state that may be restored, once there was a finding in the present attempt.
  std::optional<uint64_t> newest_good() const { return newest_good_; }
  // Until the next attempt, whether this state comes from a finding or may have caused it.
  bool IsBad(uint64_t step) const { return newest_good_.has_value() && step > *newest_good_; }

  // --- The replay.
  // The open finding leads to a rollback. `restored`: the replay begins after this step.
  void BeginReplay(uint64_t attempt, uint32_t fault, uint64_t restored);
  const std::optional<Suspicion>& suspicion() const { return suspicion_; }
  // Whether the open finding is that of the suspicion again.
  bool IsAgain() const;
  // The rollbacks whose first bad steps lie within 100 steps of each other, one after another.
  uint32_t close_rollbacks() const { return close_rollbacks_; }
  // The steps have been repeated without the finding. `check`: the nodes shall be checked at the
  // next opportunity.
  void EndReplay(bool check);
  bool check_due() const { return check_due_; }
  void NoteChecked() { check_due_ = false; }

 private:
  LossSpikes spikes_;
  std::optional<NumericFinding> open_;
  std::optional<uint64_t> newest_good_;
  std::optional<uint64_t> proven_;  // the newest state of the present history that was proven
  std::optional<Suspicion> suspicion_;
  std::map<uint64_t, double> losses_;   // by step, of the present history
  std::map<uint64_t, double> earlier_;  // of the steps that are being replayed
  uint64_t last_first_bad_ = 0;
  uint32_t close_rollbacks_ = 0;
  bool check_due_ = false;
};

}  // namespace longhaul::runtime::controller
