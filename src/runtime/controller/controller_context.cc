#include "runtime/controller/controller_context.h"

#include <utility>

namespace longhaul::runtime::controller {

JobRecord& JobTable::Add(const proto::Job& spec, Instant now, Seconds time_between_failures) {
  order_.push_back(spec.id());
  JobRecord& job =
      jobs_.emplace(spec.id(), JobRecord(spec, now, time_between_failures)).first->second;
  Touch(job);
  return job;
}

// A look-up for writing marks the job as touched, whether or not it is changed. So no handler can
// forget to mark a job that the invariants have to check.
JobRecord* JobTable::Find(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return nullptr;
  Touch(found->second);
  return &found->second;
}

const JobRecord* JobTable::Find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

// A handler often looks up the same job several times in a row. Comparing with the last entry
// removes these duplicates; any other one only costs a second check.
void JobTable::Touch(const JobRecord& job) {
  if (touched_.empty() || touched_.back() != &job) touched_.push_back(&job);
}

// A command to a node that is not connected is dropped, not queued: when the agent joins again,
// NodeHandler::Reconcile sends what it then has to do.
void ControllerContext::Send(const NodeId& id, proto::Command command) {
  const Node* node = nodes.Find(id);
  if (node == nullptr || !node->connected) return;
  command.set_term(1);
  out.commands.emplace_back(id, std::move(command));
}

void ControllerContext::SendKill(const JobRecord& job, Duration grace, const std::string& reason) {
  for (const Member& member : job.group.members()) {
    proto::Command command;
    auto* kill = command.mutable_kill_workers();
    kill->set_job_id(job.id());
    kill->set_attempt(job.life.attempt());
    kill->set_grace_ns(grace.count());
    kill->set_reason(reason);
    Send(member.node, std::move(command));
  }
}

void ControllerContext::SendForget(const std::string& job, const NodeId& node) {
  proto::Command command;
  command.mutable_forget_job()->set_job_id(job);
  Send(node, std::move(command));
}

void ControllerContext::SendInterval(const JobRecord& job, const NodeId& node, uint64_t steps) {
  proto::Command command;
  auto* set = command.mutable_set_snapshot_interval();
  set->set_job_id(job.id());
  set->set_attempt(job.life.attempt());
  set->set_steps(steps);
  Send(node, std::move(command));
}

proto::Notification& ControllerContext::AddNotification(const std::string& job) {
  proto::Notification& notification = out.notifications.emplace_back();
  notification.set_at_ns(ToNanoseconds(now));
  notification.set_job_id(job);
  return notification;
}

void ControllerContext::AddMessage(const std::string& job,
                                   proto::MessageNotification::Severity severity,
                                   std::string text) {
  auto* message = AddNotification(job).mutable_message();
  message->set_severity(severity);
  message->set_text(std::move(text));
}

void ControllerContext::AddNodeNotification(const NodeId& node) {
  *AddNotification("").mutable_node() = StatusOf(nodes.at(node));
}

void ControllerContext::AddFaultNotification(JobRecord& job, const proto::Fault& fault) {
  proto::Notification& notification = AddNotification(job.id());
  *notification.mutable_fault() = fault;
  AddLedger(job, notification);
}

void ControllerContext::AddLedger(JobRecord& job, proto::Notification& notification) const {
  auto* categories = notification.mutable_ledger()->mutable_categories();
  const proto::Ledger ledger = job.ledger.Summary(now);
  for (const proto::CategoryTime& each : ledger.categories()) {
    if (each.rank_seconds() > 0) *categories->Add() = each;
  }
  job.ledger_notes.Note(now);
}

void ControllerContext::SetState(JobRecord& job, proto::JobState state, const std::string& reason) {
  if (!job.life.Enter(state, reason, job.placement.leaving())) return;
  proto::Notification& notification = AddNotification(job.id());
  notification.mutable_state()->set_state(state);
  notification.mutable_state()->set_reason(reason);
  AddLedger(job, notification);
  bool changed = false;
  if (state == proto::RUNNING) {
    changed = active.insert(job.id()).second;
  } else if (state == proto::QUEUED || state == proto::STOPPING || IsTerminal(state)) {
    changed = active.erase(job.id()) > 0;
  }
  if (changed) ++active_changes;
}

// Later lines take precedence. An operator's choice overrides the cluster file, and what the
// controller observes overrides both.
void ControllerContext::UpdateScheduler(const NodeId& id) {
  const Node& node = nodes.at(id);
  spec::NodeCondition condition = scheduler.cluster().StandardCondition(id.value());
  if (node.enlisted) condition = spec::NodeCondition::kReady;
  if (node.cordoned) condition = spec::NodeCondition::kCordoned;
  if (node.draining) condition = spec::NodeCondition::kDraining;
  // It may be back in a moment: what runs there stays, nothing new is sent.
  if (!node.connected) condition = spec::NodeCondition::kCordoned;
  if (node.lost || node.avoided) condition = spec::NodeCondition::kDown;
  scheduler.SetNode(id.value(), {node.facts.slots(), node.facts.cores(), node.facts.memory_bytes()},
                    condition, now);
}

proto::NodeStatus ControllerContext::StatusOf(const Node& node) const {
  proto::NodeStatus status;
  status.set_name(node.id.value());
  status.set_connected(node.connected);
  status.set_cordoned(node.cordoned);
  status.set_slots(node.facts.slots());
  status.set_used_slots(node.used_slots());
  status.set_used_accelerators(node.used_milli / 1000.0);
  status.set_address(node.facts.address());
  status.set_host(node.facts.host());
  status.set_incarnation(node.incarnation);
  status.set_cores(node.facts.cores());
  status.set_memory_bytes(node.facts.memory_bytes());
  status.set_losses(node.losses);
  status.set_draining(node.draining);
  status.set_condition(std::string(spec::ToString(scheduler.ConditionOf(node.id.value()))));
  AddWindow(node, status);
  const scheduling::NodeHealth health = scheduler.HealthOf(node.id.value());
  status.set_health(health.thousandths / 1000.0);
  status.set_last_fault(health.last_fault);
  if (!health.last_fault.empty()) {
    status.set_last_fault_at_ns(ToNanoseconds(health.last_fault_at));
  }
  return status;
}

void ControllerContext::AddWindow(const Node& node, proto::NodeStatus& status) const {
  const scheduling::NodeReservations& reservations = scheduler.reservations();
  const proto::NodeReservation* next = nullptr;
  // A node may be in several reservations. The status shows the one that begins first.
  for (const std::string& name : scheduler.ReservationsOn(node.id.value())) {
    const proto::NodeReservation& each = reservations.all().at(name);
    if (next == nullptr || each.from_ns() < next->from_ns()) next = &each;
  }
  if (next == nullptr) return;
  proto::NodeWindow& window = *status.mutable_window();
  window.set_reservation(next->name());
  window.set_from_ns(next->from_ns());
  window.set_until_ns(next->until_ns());
  window.set_open(reservations.IsOpen(next->name()));
  window.set_maintenance(next->queues().empty() && next->users().empty());
}

// The filter for almost every event of an agent: an event of an older attempt, or of a node that is
// no longer in the gang, must not change the present attempt. It may arrive late, because agents
// repeat what was not acknowledged.
JobRecord* ControllerContext::CurrentJob(const proto::Event& event, const std::string& id,
                                         uint64_t attempt, size_t* place) {
  JobRecord* job = jobs.Find(id);
  if (job == nullptr || !job->live() || job->life.attempt() != attempt) return nullptr;
  const auto index = job->group.PlaceOf(event.node());
  if (!index.has_value()) return nullptr;
  *place = *index;
  return job;
}

}  // namespace longhaul::runtime::controller
