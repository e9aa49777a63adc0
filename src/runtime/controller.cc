// The entry of the core: takes events in, keeps the nodes and runs the deadlines.
#include "runtime/controller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

using internal::DeadlineKind;

Controller::Controller(const ControllerOptions& options)
    : state_(std::make_unique<State>(options)) {}
Controller::~Controller() = default;
Controller::Controller(Controller&&) noexcept = default;
Controller& Controller::operator=(Controller&&) noexcept = default;

Actions Controller::Step(const wire::Event& event, Instant now) { return state_->Step(event, now); }
std::optional<Instant> Controller::NextDeadline() const { return state_->NextDeadline(); }
Status Controller::CheckSubmission(const wire::Job& job) const {
  return state_->CheckSubmission(job);
}
uint64_t Controller::AcknowledgedSequence(const NodeId& node, uint64_t incarnation) const {
  return state_->AcknowledgedSequence(node, incarnation);
}
std::optional<wire::JobStatus> Controller::JobStatus(const JobId& id, Instant now) const {
  return state_->StatusOf(id, now);
}
std::vector<wire::JobStatus> Controller::AllJobs(Instant now) const { return state_->AllJobs(now); }
std::vector<wire::NodeStatus> Controller::AllNodes() const { return state_->AllNodes(); }
Status Controller::CheckInvariants() const { return state_->CheckInvariants(); }
Status Controller::CheckPlaces() const { return state_->CheckPlaces(); }
Status Controller::CheckConfiguration(const wire::SchedulingConfiguration& configuration) {
  return cluster::ClusterScheduler::Check(configuration);
}
std::vector<wire::QueueStatus> Controller::Queues() const { return state_->scheduler().Queues(); }
std::vector<scheduler::LinkView> Controller::Links() const { return state_->scheduler().Links(); }
Controller::Question Controller::AskWhy(const JobId& job) const {
  Question question;
  question.aside = state_->scheduler().AsideText(job);
  question.means.other_size = state_->CanChangeSize(job);
  if (question.aside.empty()) question.scheduler = state_->scheduler().Copy();
  return question;
}
Status Controller::CheckChanges(const wire::ChangesAsked& asked) const {
  return state_->CheckChanges(asked);
}
Controller::Remedy Controller::RemedyOf(const JobId& job,
                                        const std::vector<scheduler::Event>& fix) const {
  return state_->RemedyOf(job, fix);
}
uint64_t Controller::StateHash() const { return state_->StateHash(); }

bool IsTerminal(wire::JobState state) {
  return state == wire::SUCCEEDED || state == wire::FAILED || state == wire::STOPPED;
}

Actions Controller::State::Step(const wire::Event& event, Instant now) {
  now_ = std::max(now_, now);
  out_ = Actions();
  touched_.clear();
  if (Accept(event)) {
    Dispatch(event);
    Schedule();
  }
  return std::move(out_);
}

// Whether an event is new and from a life of its agent that still counts.
bool Controller::State::Accept(const wire::Event& event) {
  if (event.node().empty()) return true;
  if (event.has_agent_joined()) return true;  // may begin a new life
  Node* node = FindNode(NodeId(event.node()));
  if (node == nullptr || node->incarnation != event.incarnation()) return false;
  if (event.has_agent_disconnected()) return true;  // seen by the service, not sent by the agent
  if (event.sequence() <= node->last_sequence) return false;
  node->last_sequence = event.sequence();
  return true;
}

void Controller::State::Dispatch(const wire::Event& event) {
  switch (event.kind_case()) {
    case wire::Event::kControllerStarted:
      return OnControllerStarted(event.controller_started());
    case wire::Event::kJobSubmitted:
      return OnJobSubmitted(event.job_submitted().job());
    case wire::Event::kJobStopRequested:
      return OnJobStopRequested(event.job_stop_requested());
    case wire::Event::kTick:
      return OnTick();
    case wire::Event::kAgentJoined:
      return OnAgentJoined(event);
    case wire::Event::kAgentDisconnected:
      return OnAgentDisconnected(event);
    case wire::Event::kStoreOpened:
      return OnStoreOpened(event);
    case wire::Event::kWorkersStarted:
      return OnWorkersStarted(event);
    case wire::Event::kWorkersFailedToStart:
      return OnWorkersFailedToStart(event);
    case wire::Event::kPhaseEntered:
      return OnPhaseEntered(event);
    case wire::Event::kStepReported:
      return OnStepReported(event);
    case wire::Event::kWorkerExited:
      return OnWorkerExited(event);
    case wire::Event::kEpochClosed:
      return OnEpochClosed(event);
    case wire::Event::kSnapshotSealed:
      return OnSnapshotSealed(event);
    case wire::Event::kSnapshotReplicated:
      return OnSnapshotReplicated(event);
    case wire::Event::kSnapshotPersisted:
      return OnSnapshotPersisted(event);
    case wire::Event::kSnapshotCommitted:
      return OnSnapshotCommitted(event);
    case wire::Event::kSnapshotCopied:
      return OnSnapshotCopied(event);
    case wire::Event::kSnapshotFailed:
      return OnSnapshotFailed(event);
    case wire::Event::kWorkersProbed:
      return OnWorkersProbed(event);
    case wire::Event::kWorkerWaits:
      return OnWorkerWaits(event);
    case wire::Event::kWorkerResult:
      return OnWorkerResult(event.worker_result());
    case wire::Event::kNodeCordoned:
      return OnNodeCordoned(event.node_cordoned());
    case wire::Event::kChangesAsked:
      return OnChangesAsked(event.changes_asked());
    case wire::Event::KIND_NOT_SET:
      return;
  }
}

void Controller::State::OnControllerStarted(const wire::ControllerStarted& started) {
  const Status configured = scheduler_.Configure(started.scheduling(), now_);
  if (!configured.ok()) {
    Say("", wire::MessageNotice::ERROR,
        "the configuration is not used, the one before stays: " + configured.message());
  }
  for (auto& [id, node] : nodes_) {
    if (node.lost) continue;
    node.connected = false;
    node.cut = false;  // it is we who were away
    TellNode(node);
    deadlines_.Set(DeadlineKind::kNodeGrace, id.value(), now_ + options_.rejoin_grace);
  }
  // The time without a controller is nobody's fault.
  for (auto& [id, job] : jobs_) {
    if (!job.live()) continue;
    job.last_progress = now_;
    WatchProgress(job);
  }
}

void Controller::State::OnAgentJoined(const wire::Event& event) {
  const NodeId id(event.node());
  Node& node = nodes_[id];
  node_index_[id.value()] = &node;
  if (event.incarnation() < node.incarnation || event.incarnation() == 0) return;
  if (event.incarnation() == node.incarnation && event.sequence() <= node.last_sequence) return;
  if (event.incarnation() == node.incarnation && node.lost) {
    // It was given up and its ranks were replaced: this life of the agent doesn't count any more.
    // Its workers end when it is told that their epochs are over.
    node.lost = false;
  }
  node.id = id;
  std::optional<uint64_t> life_before;  // 0: this name is new
  if (event.incarnation() != node.incarnation) {
    if (node.incarnation != 0 && !node.lost) {
      LoseNode(node, id.value() + " was lost with its workers; a new agent has taken its name",
               InstantFromNanoseconds(event.at_ns()));
    }
    life_before = std::exchange(node.incarnation, event.incarnation());
  }
  if (std::exchange(node.cut, false) && !node.lost) scheduler_.Cut(id.value(), now_);
  node.last_sequence = event.sequence();
  node.connected = true;
  node.lost = false;
  peers_ -= node.facts.peer_port() != 0 ? 1 : 0;
  node.facts = event.agent_joined();
  peers_ += node.facts.peer_port() != 0 ? 1 : 0;
  if (life_before.has_value()) AdoptMemory(node, *life_before);
  TellNode(node);
  deadlines_.Clear(DeadlineKind::kNodeGrace, id.value());
  NoticeNode(node);
  Reconcile(node);
  FreeLeftOn(id);
  Schedule();
  for (auto& [job_id, job] : jobs_) TryDecide(job);
}

void Controller::State::TellNode(const Node& node) {
  spec::NodeCondition condition = scheduler_.StandardCondition(node.id.value());
  if (node.enlisted) condition = spec::NodeCondition::kReady;
  if (node.cordoned) condition = spec::NodeCondition::kCordoned;
  if (node.draining) condition = spec::NodeCondition::kDraining;
  // It may be back in a moment: what runs there stays, nothing new is sent.
  if (!node.connected) condition = spec::NodeCondition::kCordoned;
  if (node.lost) condition = spec::NodeCondition::kDown;
  scheduler_.SetNode(node.id.value(),
                     {node.facts.slots(), node.facts.cores(), node.facts.memory_bytes()}, condition,
                     now_);
}

// Brings an agent that (re)joined to where it should be. Commands may repeat, so what should be
// running is simply said again.
void Controller::State::Reconcile(Node& node) {
  for (const auto& running : node.facts.running()) {
    const Job* job = FindJob(running.job_id());
    const bool wanted = job != nullptr && job->live() && job->epoch == running.epoch() &&
                        !job->undecided && MemberOf(*job, node.id.value()).has_value();
    if (wanted) continue;
    wire::Command command;
    auto* kill = command.mutable_kill_workers();
    kill->set_job_id(running.job_id());
    kill->set_epoch(running.epoch());
    kill->set_reason("the epoch is over");
    Send(node.id, std::move(command));
  }
  for (const std::string& id : order_) {
    Job& job = jobs_.at(id);
    const auto member = MemberOf(job, node.id.value());
    const bool left = job.live() && job.left.contains(node.id);
    if (!member.has_value() && !left) continue;
    if (!member.has_value()) {
      // What it saves for a job that has left it is committed all the same.
    } else if (!job.live()) {
      wire::Command command;
      command.mutable_forget_job()->set_job_id(id);
      Send(node.id, std::move(command));
    } else if (job.state == wire::STOPPING) {
      SendKill(job, options_.stop_grace, "the job is being stopped");
    } else if (job.retreat.has_value()) {
      SayRetreat(job, node.id);
    } else if (job.epoch > 0 && !job.undecided && !job.closing.has_value()) {
      if (job.store_port != 0) {
        SendStart(job, *member);
      } else if (*member == 0) {
        SendOpenStore(job);
      }
    }
    SendPersist(job, node.id);
    if (job.copying.has_value() && job.copying->node == node.id) SendCopy(job);
    for (auto& [step, commit] : job.pending) {
      if (commit.committer == node.id) commit.granted = false;
    }
    const auto pending = job.pending;
    for (const auto& [step, commit] : pending) GrantIfWhole(job, step);
  }
}

void Controller::State::OnAgentDisconnected(const wire::Event& event) {
  Node& node = *FindNode(NodeId(event.node()));
  if (!node.connected) return;
  node.connected = false;
  node.cut = true;
  TellNode(node);
  deadlines_.Set(DeadlineKind::kNodeGrace, node.id.value(), now_ + options_.agent_grace);
  // A fault whose cause is still open probably has it here.
  for (auto& [id, job] : jobs_) {
    if (!job.live() || !job.undecided || !MemberOf(job, event.node()).has_value()) continue;
    ImproveCause(job, {"node", event.node() + " is gone: " + event.agent_disconnected().reason(),
                       event.node(), -1, InstantFromNanoseconds(event.at_ns()), true});
  }
  NoticeNode(node);
}

void Controller::State::LoseNode(Node& node, const std::string& why, Instant happened) {
  node.connected = false;
  node.lost = true;
  node.cut = false;
  ++node.losses;
  scheduler_.Fault(node.id.value(), why, now_);
  TellNode(node);
  deadlines_.Clear(DeadlineKind::kNodeGrace, node.id.value());
  NoticeNode(node);
  for (auto& [id, job] : jobs_) {
    const auto member = MemberOf(job, node.id.value());
    const auto left = job.left.find(node.id);
    if (left != job.left.end()) left->second.sealed = {};
    DropOrderOf(job, node.id);
    if (job.copying.has_value() && job.copying->node == node.id) {
      job.copying.reset();
      OrderCopy(job);
    }
    if (!job.live() || !member.has_value()) continue;
    job.gang[*member].sealed = {};
    job.gang[*member].closed = true;
    if (job.epoch > 0) NoteFault(job, {"node", why, node.id.value(), -1, happened, true});
    CloseIfStopped(job);
    CloseIfSaved(job);
    AdvanceRetreat(job);
  }
}

void Controller::State::OnNodeCordoned(const wire::NodeCordoned& cordoned) {
  Node* node = FindNode(NodeId(cordoned.target()));
  if (node == nullptr) return;
  node->cordoned = cordoned.cordoned();
  node->draining = cordoned.cordoned() && cordoned.drain();
  if (cordoned.cordoned()) node->enlisted = false;
  TellNode(*node);
  NoticeNode(*node);
  Schedule();
  for (auto& [id, job] : jobs_) TryDecide(job);
}

void Controller::State::OnTick() {
  while (const auto name = deadlines_.TakeDue(now_)) OnDeadline(*name);
}

void Controller::State::OnDeadline(const internal::Deadlines::Name& name) {
  const auto& [kind, id] = name;
  if (kind == DeadlineKind::kNodeGrace) {
    Node* node = FindNode(NodeId(id));
    if (node == nullptr || node->connected || node->lost) return;
    LoseNode(*node, id + " is gone: its agent did not come back", now_);
    Schedule();
    for (auto& [job_id, job] : jobs_) TryDecide(job);
    return;
  }
  if (kind == DeadlineKind::kSchedule) return;  // every step ends with a round that is due
  Job* job = FindJob(id);
  if (job == nullptr || !job->live()) return;
  switch (kind) {
    case DeadlineKind::kDecide:
      return TryDecide(*job);
    case DeadlineKind::kStart:
      return OnStartOverdue(*job);
    case DeadlineKind::kProgress:
      return OnProgressOverdue(*job);
    case DeadlineKind::kStop:
      return BeginClosing(*job, wire::STOPPED, job->reason + " (some workers did not answer)");
    case DeadlineKind::kClose:
      return Finalize(*job);
    case DeadlineKind::kRetreat:
      return OnRetreatOverdue(*job);
    case DeadlineKind::kNodeGrace:
    case DeadlineKind::kSchedule:
      return;
  }
}

Controller::State::Node* Controller::State::FindNode(const NodeId& id) {
  const auto found = node_index_.find(id.value());
  return found == node_index_.end() || found->second->incarnation == 0 ? nullptr : found->second;
}

const Controller::State::Node* Controller::State::FindNode(const NodeId& id) const {
  return const_cast<State*>(this)->FindNode(id);
}

// Only to agents that listen; the others are told when they are back (Reconcile).
void Controller::State::Send(const NodeId& id, wire::Command command) {
  const Node* node = FindNode(id);
  if (node == nullptr || !node->connected) return;
  command.set_term(1);
  out_.commands.emplace_back(id, std::move(command));
}

wire::Notice& Controller::State::AddNotice(const std::string& job_id) {
  wire::Notice& notice = out_.notices.emplace_back();
  notice.set_at_ns(ToNanoseconds(now_));
  notice.set_job_id(job_id);
  return notice;
}

void Controller::State::Say(const std::string& job_id, wire::MessageNotice::Severity severity,
                            std::string text) {
  auto* message = AddNotice(job_id).mutable_message();
  message->set_severity(severity);
  message->set_text(std::move(text));
}

uint64_t Controller::State::AcknowledgedSequence(const NodeId& id, uint64_t incarnation) const {
  const Node* node = FindNode(id);
  return node == nullptr || node->incarnation != incarnation ? 0 : node->last_sequence;
}

}  // namespace longhaul::runtime
