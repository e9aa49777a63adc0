// A job as the controller knows it: its identity and state machine, and the parts that each own a
// concern of it.
#pragma once

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
#include "runtime/controller/job/hang_detector.h"
#include "runtime/controller/job/job_faults.h"
#include "runtime/controller/job/job_placement.h"
#include "runtime/controller/job/job_progress.h"
#include "runtime/controller/job/snapshot_interval.h"
#include "runtime/controller/job/snapshot_tracker.h"
#include "runtime/controller/job/worker_group.h"
#include "runtime/goodput/goodput_ledger.h"

namespace longhaul::runtime::controller {

// Whether a job may go from one state to another. A state may follow itself with another reason.
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
  // The outcome that is decided while the last checkpoint is being written.
  std::optional<proto::JobState> closing() const { return closing_; }

  void Change(const proto::Job& spec) { spec_ = spec; }
  // Attempts name directories on disk, so none is used twice.
  void SkipAttempts(uint64_t newest);
  void BeginAttempt() { ++attempt_; }
  // Enters the state. Returns whether anything has changed: a transition that is not allowed
  // changes nothing, since late events may ask for one. `leaving`: the gang leaves its nodes, so
  // the job does not become RUNNING again.
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
        ledger(now, wanted.nodes(), wanted.processes_per_node()),
        data(wanted.data()),
        interval(wanted.snapshot().interval_steps(), time_between_failures) {}

  const std::string& id() const { return life.id(); }
  const proto::Job& spec() const { return life.spec(); }
  bool live() const { return life.live(); }
  bool closing() const { return life.closing().has_value(); }
  uint32_t local() const { return spec().processes_per_node(); }
  // Nodes and ranks; of the size that it is planned for while it has no gang.
  uint32_t nodes() const {
    return group.empty() ? spec().nodes() : static_cast<uint32_t>(group.size());
  }
  uint32_t world() const { return nodes() * local(); }
  uint64_t total_steps() const { return progress.TotalSteps(spec().total_steps()); }
  // Its steps are read from its output. What it restores, and from which step it continues after a
  // restart, is its own affair unless it restores what the controller has chosen.
  bool reads_output() const { return !spec().workload().step_pattern().empty(); }
  bool restores_by_itself() const {
    return reads_output() && snapshots.restore().tier() == proto::Restore::TIER_NONE;
  }
  // A command that reports steps to its agent is known by its first one.
  bool never_reported() const {
    return !spec().workload().built_in() && progress.highest_step() == 0;
  }
  // Whether it has ever been started here.
  bool has_begun() const { return life.attempt() > spec().committed_attempt(); }

  JobLifecycle life;
  WorkerGroup group;
  JobPlacement placement;
  JobProgress progress;
  HangDetector hang;
  JobFaults faults;
  SnapshotTracker snapshots;
  CheckpointWriter writer;
  CheckpointCopier copier;
  GoodputLedger ledger;
  DataLedger data;
  SnapshotInterval interval;
  mutable uint64_t checked_attempt = 0;  // whose gang Invariants has looked through
};

}  // namespace longhaul::runtime::controller
