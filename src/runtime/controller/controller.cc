// The entry of the state machine: takes events in, hands each to the part that it concerns, and
// runs the deadlines.
#include "runtime/controller/controller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/controller/controller_context.h"
#include "runtime/controller/handlers/absent_nodes.h"
#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/checkpoint_handler.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/hang_handler.h"
#include "runtime/controller/handlers/hang_suspicions.h"
#include "runtime/controller/handlers/health/device_errors.h"
#include "runtime/controller/handlers/health/node_checks.h"
#include "runtime/controller/handlers/health/start_checks.h"
#include "runtime/controller/handlers/job_admission.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/handlers/job_releaser.h"
#include "runtime/controller/handlers/node_handler.h"
#include "runtime/controller/handlers/numeric_faults.h"
#include "runtime/controller/handlers/operator_changes.h"
#include "runtime/controller/handlers/run_time_limits.h"
#include "runtime/controller/handlers/slow_worker_reports.h"
#include "runtime/controller/handlers/snapshot_handler.h"
#include "runtime/controller/handlers/spare_nodes.h"
#include "runtime/controller/handlers/step_reports.h"
#include "runtime/controller/handlers/user_jobs.h"
#include "runtime/controller/invariants.h"
#include "runtime/controller/placement.h"
#include "runtime/controller/status.h"

namespace longhaul::runtime {

using controller::DeadlineKind;

// The context and the coordinators over it. A coordinator only stores references to the others, so
// they may be built in any order.
class Controller::Parts {
 public:
  explicit Parts(const ControllerOptions& options)
      : context(options),
        checkpoints(context, closer, placement),
        starter(context, checkpoints, faults, start_checks),
        start_checks(context, starter, faults),
        placement(context, starter, faults, closer, run_times),
        hangs(context, faults),
        suspicions(context),
        slow_workers(context),
        closer(context, checkpoints, faults, placement),
        faults(context, starter, hangs, closer, placement, spares, checks, numbers),
        checks(context, faults),
        run_times(context, closer, placement),
        snapshots(context, checkpoints, faults, closer, placement),
        numbers(context, faults, closer),
        device_errors(context, faults, placement),
        steps(context, faults, numbers, hangs, suspicions, slow_workers, placement),
        releaser(context, closer),
        admission(context, placement, releaser),
        nodes(context, checkpoints, starter, faults, closer, placement, snapshots, absent),
        changes(context, releaser),
        spares(context, starter),
        absent(context, spares),
        status(context),
        invariants(context, placement) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // Whether an event is new and from a life of its agent that still counts.
  bool Accept(const proto::Event& event);
  void Dispatch(const proto::Event& event);
  void OnControllerStarted(const proto::ControllerStarted& started);
  void OnWorkerExited(const proto::Event& event);
  void OnWorkersProbed(const proto::Event& event);
  void OnNodesChecked(const proto::Event& event);
  void OnTick();
  void CommitProven();
  void OnDeadline(const controller::Deadlines::Name& name);
  void OnJobDeadline(DeadlineKind kind, controller::JobRecord& job);

  controller::ControllerContext context;
  controller::CheckpointHandler checkpoints;
  controller::AttemptStarter starter;
  controller::StartChecks start_checks;
  controller::Placement placement;
  controller::HangHandler hangs;
  controller::HangSuspicions suspicions;
  controller::SlowWorkerReports slow_workers;
  controller::JobCloser closer;
  controller::FaultHandler faults;
  controller::NodeChecks checks;
  controller::RunTimeLimits run_times;
  controller::SnapshotHandler snapshots;
  controller::NumericFaults numbers;
  controller::DeviceErrors device_errors;
  controller::StepReports steps;
  controller::JobReleaser releaser;
  controller::JobAdmission admission;
  controller::NodeHandler nodes;
  controller::OperatorChanges changes;
  controller::SpareNodes spares;
  controller::AbsentNodes absent;
  controller::StatusReporter status;
  controller::Invariants invariants;
};

Controller::Controller(const ControllerOptions& options)
    : parts_(std::make_unique<Parts>(options)) {}
Controller::~Controller() = default;
Controller::Controller(Controller&&) noexcept = default;
Controller& Controller::operator=(Controller&&) noexcept = default;

Actions Controller::Step(const proto::Event& event, Instant now) {
  controller::ControllerContext& context = parts_->context;
  // Time never goes back: ledgers and deadlines subtract instants, and the clock of a restarted
  // controller may be behind the last event of its log.
  context.now = std::max(context.now, now);
  // Accounting comes before the event: the slots that were in use until now belong to the time that
  // has passed, whatever the event changes.
  context.usage.Pass(context.nodes.used_milli(), context.now);
  context.out = Actions();
  context.jobs.BeginStep();
  if (parts_->Accept(event)) {
    parts_->changes.AdvanceReservations();
    parts_->Dispatch(event);
    parts_->CommitProven();
    // Releases and placements feed each other: a job that ends in a scheduling round can release
    // dependants, and a released job needs another round.
    do {
      parts_->releaser.Settle();
      parts_->placement.Schedule();
    } while (context.releases.has_affected());
    parts_->spares.Settle();
  }
  return std::move(context.out);
}
std::optional<Instant> Controller::NextDeadline() const { return parts_->context.deadlines.Next(); }
Status Controller::CheckSubmission(const proto::Job& job) const {
  return parts_->admission.CheckSubmission(job);
}
Status Controller::CheckSubmission(const proto::JobsSubmitted& submitted) const {
  return parts_->admission.CheckSubmission(submitted);
}
Result<JobId> Controller::Resolve(const std::string& id_or_name) const {
  return parts_->status.Resolve(id_or_name);
}
std::vector<proto::JobStatus> Controller::Listing(Instant now) const {
  return parts_->status.Listing(now);
}
std::vector<proto::JobStatus> Controller::Elements(const JobId& array, Instant now) const {
  return parts_->status.Elements(array, now);
}
uint64_t Controller::AcknowledgedSequence(const NodeId& node, uint64_t incarnation) const {
  return parts_->context.nodes.AcknowledgedSequence(node, incarnation);
}
std::optional<proto::JobStatus> Controller::JobStatus(const JobId& id, Instant now) const {
  return parts_->status.StatusOf(id, now);
}
std::vector<proto::JobStatus> Controller::AllJobs(Instant now) const {
  return parts_->status.AllJobs(now);
}
std::vector<proto::NodeStatus> Controller::AllNodes() const { return parts_->status.AllNodes(); }
std::map<std::string, uint32_t> Controller::AbsentNodes() const {
  std::map<std::string, uint32_t> absent;
  const auto& file = parts_->context.scheduler.cluster().declaration();
  if (!file.has_value()) return absent;
  for (const spec::DeclaredNode& node : file->nodes) {
    const controller::Node* joined = parts_->context.nodes.Find(NodeId(node.name));
    if (joined != nullptr && joined->connected) continue;
    absent[node.name] = static_cast<uint32_t>(file->kinds[node.kind].devices.size());
  }
  return absent;
}
const std::optional<spec::ClusterDeclaration>& Controller::Declaration() const {
  return parts_->context.scheduler.cluster().declaration();
}
std::vector<Controller::CheckTarget> Controller::CheckTargets() const {
  return parts_->status.CheckTargets();
}
Status Controller::CheckInvariants() const { return parts_->invariants.CheckTouched(); }
Status Controller::CheckPlaces() const {
  RETURN_IF_ERROR(parts_->status.CheckUsage());
  return parts_->invariants.CheckPlaces();
}
Status Controller::CheckConfiguration(const proto::SchedulingConfiguration& configuration) {
  return scheduling::ClusterScheduler::Check(configuration);
}
std::vector<proto::QueueStatus> Controller::Queues() const {
  std::vector<proto::QueueStatus> queues = parts_->context.scheduler.Queues();
  controller::UserJobs(parts_->context).AddTo(queues);
  return queues;
}
std::vector<proto::NodeReservation> Controller::Reservations() const {
  std::vector<proto::NodeReservation> all;
  for (const auto& [name, each] : parts_->context.scheduler.reservations().all()) {
    all.push_back(each);
  }
  return all;
}
std::vector<scheduler::LinkView> Controller::Links() const {
  return parts_->context.scheduler.Links();
}
Controller::Question Controller::AskWhy(const JobId& job) const {
  const scheduling::ClusterScheduler& scheduler = parts_->context.scheduler;
  Question question;
  question.held = parts_->context.releases.WaitText(job.value());
  if (!question.held.empty()) {
    const controller::ReleaseUnit& unit = *parts_->context.releases.UnitOf(job.value());
    question.unit = unit.spec.id();
    question.depends = !unit.after.jobs().empty();
    return question;
  }
  question.aside = scheduler.AsideText(job);
  question.means.other_size = parts_->changes.CanChangeSize(job);
  if (question.aside.empty()) question.scheduler = scheduler.Copy();
  question.reserved = scheduler.ReservedText(job);
  return question;
}
Status Controller::CheckChanges(const proto::ChangesAsked& asked) const {
  return parts_->changes.Check(asked);
}
Controller::Remedy Controller::RemedyOf(const JobId& job,
                                        const std::vector<scheduler::Event>& fix) const {
  return parts_->changes.RemedyOf(job, fix);
}
std::unique_ptr<scheduling::ClusterScheduler> Controller::CopyScheduler() const {
  return std::make_unique<scheduling::ClusterScheduler>(parts_->context.scheduler.Clone());
}
UsageReport Controller::Usage(const UsageQuery& query, Instant now) const {
  return parts_->status.Usage(query, now);
}
Controller::UsageTotals Controller::CompareUsage(Instant now) const {
  return parts_->status.CompareUsage(now);
}
uint64_t Controller::StateHash() const { return parts_->status.StateHash(); }

std::string ElementIdOf(const std::string& array, uint32_t index) {
  return controller::ElementIdOf(array, index);
}

bool IsTerminal(proto::JobState state) {
  return state == proto::SUCCEEDED || state == proto::FAILED || state == proto::STOPPED;
}

bool Controller::Parts::Accept(const proto::Event& event) {
  // Only events of agents carry a node. All others come from the service itself, which does not
  // repeat them.
  if (event.node().empty()) return true;
  if (event.has_agent_joined()) return true;  // may begin a new life
  const NodeId id(event.node());
  if (event.has_agent_disconnected()) {  // seen by the service, not sent by the agent
    const controller::Node* node = context.nodes.Find(id);
    return node != nullptr && node->incarnation == event.incarnation();
  }
  return context.nodes.TakeSequence(id, event.incarnation(), event.sequence());
}

void Controller::Parts::Dispatch(const proto::Event& event) {
  switch (event.kind_case()) {
    case proto::Event::kControllerStarted:
      return OnControllerStarted(event.controller_started());
    case proto::Event::kJobSubmitted:
      return admission.OnJobSubmitted(event.job_submitted().job());
    case proto::Event::kJobsSubmitted:
      return admission.OnJobsSubmitted(event.jobs_submitted());
    case proto::Event::kJobStopRequested:
      return closer.OnJobStopRequested(event.job_stop_requested());
    case proto::Event::kTick:
      return OnTick();
    case proto::Event::kAgentJoined:
      nodes.OnAgentJoined(event);
      return spares.OnAgentJoined(NodeId(event.node()));
    case proto::Event::kAgentDisconnected:
      return nodes.OnAgentDisconnected(event);
    case proto::Event::kStoreOpened:
      return starter.OnStoreOpened(event);
    case proto::Event::kWorkersStarted:
      return starter.OnWorkersStarted(event);
    case proto::Event::kWorkersFailedToStart:
      return faults.OnWorkersFailedToStart(event);
    case proto::Event::kPhaseEntered:
      return starter.OnPhaseEntered(event);
    case proto::Event::kStepReported:
      return steps.OnStepReported(event);
    case proto::Event::kWorkerExited:
      return OnWorkerExited(event);
    case proto::Event::kAttemptClosed:
      return closer.OnAttemptClosed(event);
    case proto::Event::kSnapshotSealed:
      return snapshots.OnSnapshotSealed(event);
    case proto::Event::kCopyReceived:
      return snapshots.OnCopyReceived(event);
    case proto::Event::kSnapshotReplicated:
      return snapshots.OnSnapshotReplicated(event);
    case proto::Event::kSnapshotPersisted:
      return checkpoints.OnSnapshotPersisted(event);
    case proto::Event::kSnapshotCommitted:
      return checkpoints.OnSnapshotCommitted(event);
    case proto::Event::kSnapshotCopied:
      return checkpoints.OnSnapshotCopied(event);
    case proto::Event::kCheckpointsLost:
      return checkpoints.OnCheckpointsLost(event);
    case proto::Event::kSnapshotFailed:
      return snapshots.OnSnapshotFailed(event);
    case proto::Event::kWorkersProbed:
      return OnWorkersProbed(event);
    case proto::Event::kWorkersSampled:
      return slow_workers.OnWorkersSampled(event);
    case proto::Event::kWorkerSilent:
      return hangs.OnWorkerSilent(event);
    case proto::Event::kDeviceError:
      return device_errors.OnDeviceError(event);
    case proto::Event::kLogLimited:
      return faults.OnLogLimited(event);
    case proto::Event::kWorkerWaits:
      return hangs.OnWorkerWaits(event);
    case proto::Event::kNodesChecked:
      return OnNodesChecked(event);
    case proto::Event::kWorkerResult:
      return steps.OnWorkerResult(event.worker_result());
    case proto::Event::kNodeCordoned:
      return nodes.OnNodeCordoned(event.node_cordoned());
    case proto::Event::kChangesAsked:
      return changes.OnChangesAsked(event.changes_asked());
    case proto::Event::KIND_NOT_SET:
      return;
  }
}

void Controller::Parts::OnWorkerExited(const proto::Event& event) {
  faults.OnWorkerExited(event);
  suspicions.OnWorkerExited(event);
}

void Controller::Parts::OnNodesChecked(const proto::Event& event) {
  if (event.nodes_checked().fault() == 0) return start_checks.OnNodesChecked(event);
  checks.OnNodesChecked(event);
}

void Controller::Parts::OnControllerStarted(const proto::ControllerStarted& started) {
  const Status configured = context.scheduler.Configure(started.scheduling(), context.now);
  if (!configured.ok()) {
    context.AddMessage(
        "", proto::MessageNotification::ERROR,
        "the configuration is not used, the one before stays: " + configured.message());
  }
  nodes.DisconnectAll();
  checks.ForgetAll();
  start_checks.ForgetAll();
  // The time without a controller is no hang.
  for (auto& [id, job] : context.jobs.all()) {
    if (!job.live()) continue;
    job.hang.CountFrom(context.now);
    hangs.WatchProgress(job);
    suspicions.WatchEnd(job);
  }
  starter.WatchStartsAgain();
  run_times.WatchAll();
}

void Controller::Parts::OnWorkersProbed(const proto::Event& event) {
  suspicions.OnWorkersProbed(event);
  slow_workers.OnWorkersProbed(event);
  hangs.OnWorkersProbed(event);
}

void Controller::Parts::OnTick() {
  while (const auto name = context.deadlines.TakeDue(context.now)) OnDeadline(*name);
}

// A report of a step, the end of a job and its departure are all that a commit may wait for.
void Controller::Parts::CommitProven() {
  for (const controller::JobRecord* touched : context.jobs.touched()) {
    if (touched->writer.pending().empty()) continue;
    checkpoints.CommitProven(context.jobs.at(touched->id()));
  }
}

void Controller::Parts::OnDeadline(const controller::Deadlines::Name& name) {
  const auto& [kind, id] = name;
  if (kind == DeadlineKind::kNodeGrace) return nodes.OnGraceOver(NodeId(id));
  // Every step begins with the reservations and ends with a round, if they are due.
  if (kind == DeadlineKind::kSchedule || kind == DeadlineKind::kReserved) return;
  controller::JobRecord* job = context.jobs.Find(id);
  if (job != nullptr && job->live()) OnJobDeadline(kind, *job);
}

void Controller::Parts::OnJobDeadline(DeadlineKind kind, controller::JobRecord& job) {
  switch (kind) {
    case DeadlineKind::kDecide:
      return faults.TryDecide(job);
    case DeadlineKind::kStart:
      return hangs.OnStartOverdue(job);
    case DeadlineKind::kProgress:
      return hangs.OnProgressOverdue(job);
    case DeadlineKind::kSuspicion:
      return suspicions.OnDue(job);
    case DeadlineKind::kSlowness:
      return slow_workers.OnDue(job);
    case DeadlineKind::kStacks:
      return hangs.OnStacksOverdue(job);
    case DeadlineKind::kNodeCheck:
      return job.start_check ? start_checks.OnOverdue(job) : checks.OnOverdue(job);
    case DeadlineKind::kStop:
      return closer.BeginClosing(job, proto::STOPPED,
                                 job.life.reason() + " (some workers did not answer)");
    case DeadlineKind::kClose:
      return closer.Finalize(job);
    case DeadlineKind::kVacate:
      return placement.OnVacateOverdue(job);
    case DeadlineKind::kRunTime:
      return run_times.OnOverdue(job);
    case DeadlineKind::kNodeGrace:
    case DeadlineKind::kSchedule:
    case DeadlineKind::kReserved:
      return;
  }
}

}  // namespace longhaul::runtime
