#include "runtime/controller/handlers/node_handler.h"

#include <optional>
#include <utility>

#include "runtime/controller/handlers/absent_nodes.h"
#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/checkpoint_handler.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/job_closer.h"
#include "runtime/controller/handlers/snapshot_handler.h"
#include "runtime/controller/placement.h"

namespace longhaul::runtime::controller {

// Nodes that were lost before the restart stay lost.
void NodeHandler::DisconnectAll() {
  for (const auto& [id, node] : context_.nodes.all()) {
    if (node.lost) continue;
    context_.nodes.Disconnect(id);
    context_.UpdateScheduler(id);
  }
  absent_.OnControllerStarted();
}

// The order matters. The earlier life is lost first, so that its workers' places are closed and
// faults noted. Then the node has the new agent's facts, whose memory is adopted before any
// decision can choose a restore. Decisions come last.
void NodeHandler::OnAgentJoined(const proto::Event& event) {
  const NodeId id(event.node());
  NodeTable& nodes = context_.nodes;
  const auto joining = nodes.BeginJoin(id, event.incarnation(), event.sequence());
  if (joining == NodeTable::Joining::kStale) return;
  std::optional<uint64_t> life_before;  // 0: this name is new
  if (joining == NodeTable::Joining::kNewLife) {
    if (nodes.IsAlive(id)) {
      LoseNode(id, id.value() + " was lost with its workers; a new agent has taken its name",
               InstantFromNanoseconds(event.at_ns()));
    }
    life_before = nodes.BeginLife(id, event.incarnation());
  }
  absent_.OnAgentJoined();
  const bool was_cut = nodes.Join(id, event.sequence(), event.agent_joined());
  if (was_cut) context_.scheduler.Cut(id.value(), context_.now);
  snapshots_.TakeMemory(id, life_before);
  context_.UpdateScheduler(id);
  context_.deadlines.Clear(DeadlineKind::kNodeGrace, id.value());
  context_.AddNodeNotification(id);
  if (life_before.has_value()) WarnOfContradiction(id);
  Reconcile(id);
  placement_.FreeLeftOn(id);
  ScheduleAndDecide();
}

void NodeHandler::WarnOfContradiction(const NodeId& id) {
  const std::string contradiction = context_.scheduler.Contradiction(id.value());
  if (contradiction.empty()) return;
  context_.AddMessage("", proto::MessageNotification::WARNING,
                      "node " + id.value() + " has less than the cluster file declares: " +
                          contradiction + "; correct the file, or repair the node");
}

void NodeHandler::ScheduleAndDecide() {
  placement_.Schedule();
  faults_.TryDecideAll();
}

// First everything that should not run is ended, then what should run is sent again. An attempt
// whose fault is undecided is ended too, since the next attempt needs the slots.
void NodeHandler::Reconcile(const NodeId& id) {
  for (const auto& running : context_.nodes.at(id).facts.running()) {
    const JobRecord* job = context_.jobs.Find(running.job_id());
    const bool wanted = job != nullptr && job->live() && job->life.attempt() == running.attempt() &&
                        !job->faults.undecided() && job->group.contains(id.value());
    if (wanted) continue;
    proto::Command command;
    auto* kill = command.mutable_kill_workers();
    kill->set_job_id(running.job_id());
    kill->set_attempt(running.attempt());
    kill->set_reason("the attempt is over");
    context_.Send(id, std::move(command));
  }
  for (const std::string& name : context_.jobs.order()) {
    JobRecord& job = context_.jobs.at(name);
    const auto place = job.group.PlaceOf(id.value());
    const bool left = job.live() && job.snapshots.HasLeft(id);
    if (!place.has_value() && !left) continue;
    if (place.has_value()) ReconcileJob(job, id, *place);
    // What it saves for a job that has left it is committed all the same.
    checkpoints_.SendAgain(job, id);
  }
}

void NodeHandler::ReconcileJob(JobRecord& job, const NodeId& id, size_t place) {
  if (!job.live()) {
    context_.SendForget(job.id(), id);
  } else if (job.life.state() == proto::STOPPING) {
    context_.SendKill(job, context_.options.stop_grace, "the job is being stopped");
  } else if (job.placement.leaving()) {
    placement_.SendVacateCommand(job, id);
  } else if (job.life.attempt() > 0 && !job.faults.undecided() && !job.closing()) {
    starter_.StartAgain(job, place);
  }
}

// A broken connection is no loss: workers continue, and events arrive after the reconnect. Only the
// grace period turns it into one. The scheduler places nothing new there in the meantime.
void NodeHandler::OnAgentDisconnected(const proto::Event& event) {
  const NodeId id(event.node());
  if (!context_.nodes.at(id).connected) return;
  context_.nodes.Cut(id);
  context_.UpdateScheduler(id);
  context_.deadlines.Set(DeadlineKind::kNodeGrace, id.value(),
                         context_.now + context_.options.agent_grace);
  // A fault whose cause is still open probably has it here.
  for (auto& [name, job] : context_.jobs.all()) {
    if (!job.live() || !job.faults.undecided() || !job.group.contains(event.node())) continue;
    faults_.ImproveCause(job, {proto::FaultClass::kNode,
                               event.node() + " is gone: " + event.agent_disconnected().reason(),
                               event.node(), -1, InstantFromNanoseconds(event.at_ns()), true});
  }
  context_.AddNodeNotification(id);
}

// For each job, memory and pending writes of the node are given up before the fault is noted,
// because the decision may follow at once and chooses the restore from what is left.
void NodeHandler::LoseNode(const NodeId& id, const std::string& why, Instant happened) {
  context_.nodes.Lose(id);
  context_.scheduler.Fault(id.value(), why, context_.now);
  context_.UpdateScheduler(id);
  context_.deadlines.Clear(DeadlineKind::kNodeGrace, id.value());
  context_.AddNodeNotification(id);
  for (auto& [name, job] : context_.jobs.all()) {
    const auto place = job.live() ? job.group.PlaceOf(id.value()) : std::nullopt;
    job.snapshots.LoseLeft(id);
    checkpoints_.DropNode(job, id);
    if (!place.has_value()) continue;
    job.snapshots.LosePlace(*place);
    job.group.Close(*place);
    if (job.life.attempt() > 0) {
      faults_.NoteFault(job, {proto::FaultClass::kNode, why, id.value(), -1, happened, true});
    }
    closer_.CloseIfStopped(job);
    closer_.CloseIfSaved(job);
    placement_.AdvanceVacate(job);
  }
}

void NodeHandler::OnNodeCordoned(const proto::NodeCordoned& cordoned) {
  const NodeId id(cordoned.target());
  if (context_.nodes.Find(id) == nullptr) return;
  context_.nodes.Cordon(id, cordoned.cordoned(), cordoned.drain());
  context_.UpdateScheduler(id);
  context_.AddNodeNotification(id);
  ScheduleAndDecide();
}

void NodeHandler::OnGraceOver(const NodeId& id) {
  const Node* node = context_.nodes.Find(id);
  // The agent may have rejoined in the same instant, before this deadline was handled.
  if (node == nullptr || node->connected || node->lost) return;
  if (absent_.AwaitLonger(*node)) return;
  LoseNode(id, id.value() + " is gone: its agent did not come back", context_.now);
  ScheduleAndDecide();
}

}  // namespace longhaul::runtime::controller
