// A job as the controller stores it: its identity and state, and one part for each concern.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "runtime/controller/job/checkpoint_copier.h"
#include "runtime/controller/job/checkpoint_writer.h"
#include "runtime/controller/job/data_ledger.h"
#include "runtime/controller/job/hang/hang_detector.h"
#include "runtime/controller/job/hang/idle_workers.h"
#include "runtime/controller/job/hang/node_inquiry.h"
#include "runtime/controller/job/hang/slowness_watch.h"
#include "runtime/controller/job/hang/stack_inquiry.h"
#include "runtime/controller/job/hang/start_times.h"
#include "runtime/controller/job/hang/suspected_hang.h"
#include "runtime/controller/job/job_faults.h"
#include "runtime/controller/job/job_placement.h"
#include "runtime/controller/job/job_progress.h"
#include "runtime/controller/job/numeric/numeric_watch.h"
#include "runtime/controller/job/rank_work.h"
#include "runtime/controller/job/snapshot_interval.h"
#include "runtime/controller/job/snapshot_tracker.h"
#include "runtime/controller/job/worker_group.h"
#include "runtime/controller/slot_claim.h"
#include "runtime/goodput/goodput_ledger.h"
#include "runtime/goodput/ledger_notes.h"

namespace longhaul::runtime::controller {

// Returns whether the transition is allowed. A state may follow itself with another reason.
bool IsTransition(proto::JobState from, proto::JobState to);

// Identity, specification and state.
class JobLifecycle {
 public:
  JobLifecycle(const proto::Job& spec, Instant now) : spec_(spec), submitted_(now) {}

  const std::string& id() const { return spec_.id(); }
  const proto::Job& spec() const { return spec_; }
  proto::JobState state() const { return state_; }
  const std::string& reason() const { return reason_; }
  bool live() const;
  uint64_t attempt() const { return attempt_; }
  Instant submitted() const { return submitted_; }
  Instant ended() const { return ended_; }
  const std::vector<std::string>& results() const { return results_; }
  // The outcome, once decided, while the last checkpoint is being written.
  std::optional<proto::JobState> closing() const { return closing_; }

  void Change(const proto::Job& spec) { spec_ = spec; }
  // Attempts are part of directory names on disk, so no number is used twice.
  void SkipAttempts(uint64_t newest);
  void BeginAttempt() { ++attempt_; }
  // Enters the state. Returns whether anything changed: a transition that is not allowed changes
  // nothing, because late events may request one. `leaving`: the gang vacates its nodes, so the job
  // does not become RUNNING again.
  bool Enter(proto::JobState state, const std::string& reason, bool leaving);
  // Requires that no outcome is decided.
  void BeginClosing(proto::JobState outcome, const std::string& reason);
  void End(Instant now) { ended_ = now; }
  void AddResult(const std::string& json);

 private:
  proto::Job spec_;
  proto::JobState state_ = proto::QUEUED;
  std::string reason_;
  Instant submitted_;
  Instant ended_;
  std::optional<proto::JobState> closing_;
  uint64_t attempt_ = 0;
  std::vector<std::string> results_;
};

// The parts of a job. Each owns its fields; the coordinators of the controller connect them.
struct JobRecord {
  JobRecord(const proto::Job& wanted, Instant now, Seconds time_between_failures)
      : life(wanted, now),
        hang(now),
        faults(wanted.faults_size()),
        ledger(now, wanted.nodes(), wanted.processes_per_node(),
               wanted.scheduling().share_milli() > 0 ? wanted.scheduling().share_milli() : 1'000),
        data(wanted.data()),
        interval(wanted.snapshot().interval_steps(), time_between_failures) {}

  const std::string& id() const { return life.id(); }
  const proto::Job& spec() const { return life.spec(); }
  bool live() const { return life.live(); }
  bool closing() const { return life.closing().has_value(); }
  uint32_t local() const { return spec().processes_per_node(); }
  // What its workers occupy of an accelerator on each node, in thousandths: all of them together.
  uint32_t accelerators_milli() const {
    const uint32_t share = spec().scheduling().share_milli();
    return share > 0 ? share : local() * 1'000;
  }
  // What its workers on a node occupy if they have these devices.
  SlotClaim ClaimOf(scheduler::GpuMask devices) const {
    SlotClaim claim;
    claim.slots_milli = accelerators_milli();
    claim.devices = devices;
    if (spec().scheduling().share_milli() == 0) return claim;
    claim.share_milli = static_cast<uint16_t>(spec().scheduling().share_milli());
    claim.memory_mib = static_cast<int64_t>(spec().scheduling().device_memory_bytes() >> 20);
    return claim;
  }
  // The numbers of nodes and ranks. A job without a gang has those that it is planned for.
  uint32_t nodes() const {
    return group.empty() ? spec().nodes() : static_cast<uint32_t>(group.size());
  }
  uint32_t world() const { return nodes() * local(); }
  uint64_t total_steps() const { return progress.TotalSteps(spec().total_steps()); }
  // The controller reads the job's steps from its output. Such a job chooses its restore source and
  // its first step after a restart by itself, unless it restores the controller's choice.
  bool reads_output() const { return !spec().workload().step_pattern().empty(); }
  // The last step that all nodes which report steps have done in the present attempt.
  uint64_t StepOfAll() const {
    const uint64_t restored = snapshots.restore().step();
    if (group.empty()) return restored;
    uint64_t step = group.member(0).reported_step;
    for (const Member& member : group.members()) {
      if (member.reported_step > restored) step = std::min(step, member.reported_step);
    }
    return step;
  }
  // No state after this step is restored, written or committed, in whatever memory it is.
  void ForgetStatesAbove(uint64_t step) {
    snapshots.ForgetAbove(step);
    writer.Rewind(step);
    copier.ForgetAbove(step);
  }
  bool restores_by_itself() const {
    return reads_output() && snapshots.restore().tier() == proto::Restore::TIER_NONE;
  }
  // Whether a command's workers have never reported a step.
  bool never_reported() const {
    return !spec().workload().built_in() && progress.highest_step() == 0;
  }
  // Whether this controller has ever started it.
  bool has_begun() const { return life.attempt() > spec().committed_attempt(); }

  JobLifecycle life;
  WorkerGroup group;
  JobPlacement placement;
  JobProgress progress;
  HangDetector hang;
  StartTimes starts;
  IdleWorkers idle;
  StackInquiry stacks;
  NodeInquiry nodes_checked;
  bool start_check = false;  // the present attempt waits for a check of its nodes
  SuspectedHang suspicion;
  SlownessWatch slowness;
  NumericWatch numeric;
  JobFaults faults;
  SnapshotTracker snapshots;
  CheckpointWriter writer;
  CheckpointCopier copier;
  GoodputLedger ledger;
  LedgerNotes ledger_notes;
  RankWork rank_work;
  DataLedger data;
  SnapshotInterval interval;
  mutable uint64_t checked_attempt = 0;  // the attempt whose gang Invariants has checked
};

}  // namespace longhaul::runtime::controller
