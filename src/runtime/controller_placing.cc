// Places: what the scheduler decides becomes gangs, and gangs leave their nodes in good order.
#include <algorithm>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

using internal::DeadlineKind;
using internal::Retreat;
using scheduler::DecisionKind;

namespace {

// Rounds in one step: what one leads to may free what another waits for.
constexpr int kMostRounds = 16;
// So long may agents take to say that killed workers are gone.
constexpr Duration kStopLimit = std::chrono::seconds(5);
// So long may a snapshot take to reach the disk before its job moves without it.
constexpr Duration kSaveLimit = std::chrono::seconds(60);

std::vector<NodeId> IdsOf(const std::vector<std::string>& names) {
  std::vector<NodeId> ids;
  ids.reserve(names.size());
  for (const std::string& name : names) ids.emplace_back(name);
  return ids;
}

}  // namespace

void Controller::State::Schedule() {
  if (scheduling_) return;  // the round under way goes on
  scheduling_ = true;
  for (int round = 0; round < kMostRounds && (round == 0 || scheduler_.Due(now_)); ++round) {
    if (scheduler_.Due(now_)) {
      for (const cluster::Verdict& verdict : scheduler_.Decide(now_)) Carry(verdict);
    }
    TryPending();
  }
  scheduling_ = false;
  const auto next = scheduler_.NextDeadline();
  if (next.has_value()) {
    deadlines_.Set(DeadlineKind::kSchedule, "", *next);
  } else {
    deadlines_.Clear(DeadlineKind::kSchedule, "");
  }
}

void Controller::State::Carry(const cluster::Verdict& verdict) {
  Job* job = FindJob(verdict.job.value());
  if (job == nullptr || !job->live()) return;
  switch (verdict.kind) {
    case DecisionKind::kStart:
    case DecisionKind::kRepair:
    case DecisionKind::kGrow:
    case DecisionKind::kMove:
      // From here on the job is this controller's care: its faults are seen, not timed out.
      scheduler_.Confirm(verdict.job, verdict.transaction, false, now_);
      job->transaction = verdict.transaction;
      break;
    case DecisionKind::kShrink:
      break;
    case DecisionKind::kSuspend:
    case DecisionKind::kEvict:
    case DecisionKind::kUndo:
      job->target.clear();
      if (!job->gang.empty()) return BeginRetreat(*job, Retreat::Then::kQueue, verdict.reason);
      pending_.erase(verdict.job.value());
      scheduler_.Stopped(verdict.job, now_);
      return SetState(*job, wire::QUEUED, verdict.reason);
    case DecisionKind::kReserve:
    case DecisionKind::kReject:
      return;
  }
  job->target = IdsOf(scheduler_.NodesOf(verdict.job));
  if (job->closing.has_value() || job->state == wire::STOPPING) return;
  if (job->gang.empty()) {
    if (verdict.kind == DecisionKind::kMove) scheduler_.Stopped(verdict.job, now_);
    TryBegin(*job);
  } else if (job->retreat.has_value()) {
    AdvanceRetreat(*job);
  } else if (job->undecided) {
    TryDecide(*job);
  } else {
    std::string moves;
    for (size_t i = 0; i < job->gang.size(); ++i) {
      if (i < job->target.size() && job->target[i] == job->gang[i].node) continue;
      moves += (moves.empty() ? "" : ", ") + job->gang[i].node.value();
    }
    if (!moves.empty()) BeginRetreat(*job, Retreat::Then::kGoOn, "it leaves " + moves);
  }
}

// Whether the node takes the job's workers now.
bool Controller::State::CanTake(const Job& job, const NodeId& id) const {
  const Node* node = FindNode(id);
  return node != nullptr && node->connected && !node->lost &&
         node->used_slots + job.spec.processes_per_node() <= node->facts.slots();
}

bool Controller::State::TryBegin(Job& job) {
  if (job.state != wire::QUEUED || job.closing.has_value() || !job.gang.empty()) return false;
  if (job.target.empty()) return false;
  for (const NodeId& id : job.target) {
    if (CanTake(job, id)) continue;
    pending_.insert(job.spec.id());
    SetState(job, wire::QUEUED,
             id.empty() ? "waits for another node in place of one that was lost"
                        : "has its nodes; starts once " + id.value() + " is free");
    return false;
  }
  if (!TakeTarget(job)) return false;
  OpenEpoch(job);
  return true;
}

bool Controller::State::TakeTarget(Job& job) {
  const std::string& name = job.spec.id();
  // A node that was lost and is back is the job's again only if the scheduler says so.
  const auto given = scheduler_.NodesOf(JobId(name));
  if (!given.empty()) job.target = IdsOf(given);
  std::string missing;
  bool lacks = job.target.empty();
  for (size_t i = 0; i < job.target.size() && !lacks; ++i) {
    const NodeId& id = job.target[i];
    const auto place = MemberOf(job, id.value());
    const Node* node = id.empty() ? nullptr : FindNode(id);
    const bool held = place.has_value() && node != nullptr && node->connected && !node->lost;
    if (held || (!place.has_value() && !id.empty() && CanTake(job, id))) continue;
    job.awaited = i < job.gang.size() ? job.gang[i].node : id;
    missing = job.awaited.value();
    lacks = true;
  }
  if (lacks) {
    pending_.insert(name);
    if (job.undecided) {
      SetState(job, wire::RECOVERING,
               "waiting for a node in place of " + (missing.empty() ? "all it had" : missing));
    }
    return false;
  }
  pending_.erase(name);
  std::vector<Member> before = std::move(job.gang);
  const auto places = std::move(job.places);
  job.gang.clear();
  job.places.clear();
  const uint32_t slots = job.spec.processes_per_node();
  for (size_t i = 0; i < job.target.size(); ++i) {
    const NodeId& id = job.target[i];
    Node& node = nodes_.at(id);
    Member& member = job.gang.emplace_back();
    job.places[id.value()] = i;
    member.node = id;
    // Copies belong to a place, whoever takes it now; its own memory to a node.
    if (i < before.size()) {
      member.holder = before[i].holder;
      member.holder_incarnation = before[i].holder_incarnation;
      member.copied = before[i].copied;
    }
    const auto place = places.find(id.value());
    const auto left = job.left.find(id);
    if (place != places.end()) {
      member.sealed = before[place->second].sealed;
    } else {
      node.used_slots += slots;
      if (left != job.left.end() && left->second.incarnation == node.incarnation) {
        member.sealed = left->second.sealed;
      }
    }
    if (left != job.left.end()) job.left.erase(left);
    if (place == places.end() && i < before.size() && before[i].node != id) {
      Say(name, wire::MessageNotice::INFO,
          id.value() + " takes the place of " + before[i].node.value());
    }
  }
  for (const Member& member : before) {
    if (job.places.contains(member.node.value())) continue;
    Node& node = nodes_.at(member.node);
    node.used_slots -= std::min(node.used_slots, slots);
    if (!node.lost) job.left[member.node] = {node.incarnation, member.sealed};
  }
  for (const Member& member : job.gang) {
    if (!places.contains(member.node.value())) FreeLeftOn(member.node);
  }
  return true;
}

void Controller::State::Release(Job& job) {
  for (const Member& member : job.gang) {
    Node& node = nodes_.at(member.node);
    node.used_slots -= std::min(node.used_slots, job.spec.processes_per_node());
  }
}

// ------------------------------------------------------------------------- leaving nodes in order

void Controller::State::BeginRetreat(Job& job, Retreat::Then then, const std::string& reason) {
  if (job.closing.has_value() || job.state == wire::STOPPING) return;  // it leaves anyway
  if (job.retreat.has_value()) {
    // Once it has to wait, it waits: the scheduler has given its cards away.
    if (then == Retreat::Then::kQueue) {
      job.retreat->then = then;
      job.retreat->reason = reason;
    }
    return AdvanceRetreat(job);
  }
  job.retreat = Retreat{then, Retreat::Stage::kSnapshot, reason, job.memory_step};
  job.save_failure.clear();
  const bool takes_snapshots =
      job.state == wire::RUNNING && (job.spec.workload().built_in() || job.snapshots > 0);
  if (!takes_snapshots) return StopForRetreat(job);
  SetState(job, wire::LEAVING, "takes a snapshot: " + reason);
  for (const Member& member : job.gang) SayRetreat(job, member.node);
  deadlines_.Set(
      DeadlineKind::kRetreat, job.spec.id(),
      now_ + std::max(scheduler_.configuration().snapshot_patience, job.slowest_report * 4));
}

// What a node of a gang that leaves is to do; told again when it comes back.
void Controller::State::SayRetreat(const Job& job, const NodeId& node) {
  wire::Command command;
  if (job.retreat->stage == Retreat::Stage::kSnapshot) {
    auto* set = command.mutable_set_snapshot_interval();
    set->set_job_id(job.spec.id());
    set->set_epoch(job.epoch);
    set->set_steps(1);  // after the very next step
  } else {
    auto* kill = command.mutable_kill_workers();
    kill->set_job_id(job.spec.id());
    kill->set_epoch(job.epoch);
    kill->set_grace_ns(job.never_reported() ? options_.stop_grace.count() : 0);
    kill->set_reason(job.retreat->reason);
  }
  Send(node, std::move(command));
}

void Controller::State::StopForRetreat(Job& job) {
  const std::string& id = job.spec.id();
  Retreat& retreat = *job.retreat;
  retreat.stage = Retreat::Stage::kStopping;
  if (job.undecided) {
    // It spares the job the snapshot, no more.
    wire::Fault& fault = job.faults.back();
    fault.set_decided_at_ns(ToNanoseconds(now_));
    fault.set_action(retreat.then == Retreat::Then::kQueue ? "stop and wait in the queue"
                                                           : "go on with other nodes");
    NoticeFault(job, fault);
  }
  job.undecided = false;
  job.data.Close(job.epoch);
  job.ledger.EnterAll(retreat.then == Retreat::Then::kQueue ? wire::QUEUE : wire::REPAIR, now_);
  for (const auto kind : {DeadlineKind::kDecide, DeadlineKind::kStart, DeadlineKind::kProgress}) {
    deadlines_.Clear(kind, id);
  }
  const Duration grace = job.never_reported() ? options_.stop_grace : Duration(0);
  deadlines_.Set(DeadlineKind::kRetreat, id, now_ + grace + kStopLimit);
  SetState(job, wire::LEAVING, retreat.reason);
  for (Member& member : job.gang) {
    const Node* node = FindNode(member.node);
    member.closed = member.closed || node == nullptr || node->lost;
    if (!member.closed) SayRetreat(job, member.node);
  }
  AdvanceRetreat(job);
}

// Whether a node that it goes on with could have the newest state only from disk.
bool Controller::State::NeedsDisk(const Job& job) const {
  if (job.memory_step <= job.committed_step) return false;
  return std::any_of(job.target.begin(), job.target.end(), [&](const NodeId& id) {
    const auto place = MemberOf(job, id.value());
    if (!place.has_value()) return true;
    const auto& sealed = job.gang[*place].sealed;
    return sealed[0] != job.memory_step && sealed[1] != job.memory_step;
  });
}

void Controller::State::AdvanceRetreat(Job& job) {
  if (!job.retreat.has_value() || !job.live() || job.closing.has_value()) return;
  Retreat& retreat = *job.retreat;
  const std::string& id = job.spec.id();
  if (retreat.stage == Retreat::Stage::kStopping) {
    const bool all = std::all_of(job.gang.begin(), job.gang.end(),
                                 [](const Member& member) { return member.closed; });
    if (!all) return;
    retreat.stage = Retreat::Stage::kSaving;
    // A job that is moved to make room has left it now.
    if (retreat.then == Retreat::Then::kGoOn) scheduler_.Stopped(JobId(id), now_);
    deadlines_.Set(DeadlineKind::kRetreat, id, now_ + kSaveLimit);
  }
  if (retreat.stage == Retreat::Stage::kSaving) {
    const bool waits =
        retreat.then == Retreat::Then::kGoOn && NeedsDisk(job) && job.save_failure.empty();
    const bool reachable = std::any_of(job.gang.begin(), job.gang.end(), [&](const Member& member) {
      const Node* node = FindNode(member.node);
      return node != nullptr && !node->lost;
    });
    if (waits && reachable) return;
    retreat.stage = Retreat::Stage::kReady;
    deadlines_.Clear(DeadlineKind::kRetreat, id);
  }
  if (retreat.stage != Retreat::Stage::kReady) return;
  if (retreat.then == Retreat::Then::kQueue) return FinishRetreat(job);
  if (!TakeTarget(job)) return;
  ++job.moves;
  OpenEpoch(job);
}

// It waits again, with its state where it was: in the memories of the nodes it had, and on disk
// once it is there.
void Controller::State::FinishRetreat(Job& job) {
  const std::string reason = job.retreat->reason;
  Release(job);
  for (const Member& member : job.gang) {
    const Node& node = nodes_.at(member.node);
    if (!node.lost) job.left[member.node] = {node.incarnation, member.sealed};
  }
  job.gang.clear();
  job.places.clear();
  job.pids.clear();
  job.retreat.reset();
  job.transaction = 0;
  job.store_port = 0;
  ++job.preemptions;
  SetState(job, wire::QUEUED, "stopped: " + reason);
  FreeLeft(job);
  scheduler_.Stopped(JobId(job.spec.id()), now_);
}

void Controller::State::OnRetreatOverdue(Job& job) {
  if (!job.retreat.has_value()) return;
  const std::string& id = job.spec.id();
  switch (job.retreat->stage) {
    case Retreat::Stage::kSnapshot:
      Say(id, wire::MessageNotice::WARNING, "no snapshot in time; it leaves without a new one");
      return StopForRetreat(job);
    case Retreat::Stage::kStopping:
      for (Member& member : job.gang) {
        const Node* node = FindNode(member.node);
        if (node != nullptr && !node->connected && !node->lost && !member.closed) {
          // It comes back or is given up.
          return deadlines_.Set(DeadlineKind::kRetreat, id, now_ + kStopLimit);
        }
      }
      for (Member& member : job.gang) member.closed = true;
      return AdvanceRetreat(job);
    case Retreat::Stage::kSaving:
      Say(id, wire::MessageNotice::WARNING,
          "the newest snapshot did not reach the disk in time; it goes on from an older one");
      job.retreat->stage = Retreat::Stage::kReady;
      return AdvanceRetreat(job);
    case Retreat::Stage::kReady:
      return;
  }
}

void Controller::State::FreeLeft(Job& job) {
  if (!job.live()) return;
  for (auto left = job.left.begin(); left != job.left.end();) {
    const Node* node = FindNode(left->first);
    const uint64_t newest = std::max(left->second.sealed[0], left->second.sealed[1]);
    const bool saved = newest > 0 && job.committed_step >= newest;
    const bool wanted = node != nullptr && node->used_slots > 0;
    const bool stale = !job.gang.empty() && job.state == wire::RUNNING && job.memory_step > newest;
    // One that is away is told once it is back.
    if (node == nullptr || !node->connected || !((saved && wanted) || stale)) {
      ++left;
      continue;
    }
    wire::Command command;
    command.mutable_forget_job()->set_job_id(job.spec.id());
    command.mutable_forget_job()->set_epoch(job.epoch);
    Send(left->first, std::move(command));
    left = job.left.erase(left);
  }
}

void Controller::State::FreeLeftOn(const NodeId& node) {
  for (auto& [id, job] : jobs_) {
    if (job.left.contains(node)) FreeLeft(job);
  }
}

// Jobs whose nodes were not free, or not there.
void Controller::State::TryPending() {
  if (pending_.empty()) return;
  const std::vector<std::string> waiting(pending_.begin(), pending_.end());
  for (const std::string& id : waiting) {
    Job* job = FindJob(id);
    if (job == nullptr || !job->live() || job->closing.has_value()) {
      pending_.erase(id);
    } else if (job->gang.empty()) {
      TryBegin(*job);
    } else if (job->retreat.has_value()) {
      AdvanceRetreat(*job);
    } else if (job->undecided) {
      TryDecide(*job);
    } else {
      pending_.erase(id);
    }
  }
}

// What the scheduler has placed is what runs.
Status Controller::State::CheckPlace(const Job& job) const {
  if (!job.live() || job.closing.has_value() || job.state == wire::STOPPING) return {};
  const auto given = scheduler_.NodesOf(JobId(job.spec.id()));
  if (given.empty() != job.target.empty()) {
    return InternalError(job.target.empty() ? "the scheduler has placed it and nobody was told"
                                            : "it has nodes that the scheduler has given away");
  }
  if (given.size() > job.target.size())
    return InternalError("it has fewer nodes than it was given");
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].empty() && given[i] != job.target[i].value()) {
      return InternalError("node " + std::to_string(i) + " is " + job.target[i].value() +
                           ", but the scheduler gave " + given[i]);
    }
  }
  if (job.retreat.has_value() || job.undecided || job.gang.empty()) return {};
  if (job.gang.size() != job.target.size()) return InternalError("part of a gang runs");
  for (size_t i = 0; i < job.gang.size(); ++i) {
    if (job.gang[i].node != job.target[i]) {
      return InternalError("it runs on " + job.gang[i].node.value() + " in place of " +
                           job.target[i].value());
    }
  }
  return {};
}

Status Controller::State::CheckPlaces() const {
  if (const Status sound = scheduler_.CheckInvariants(); !sound.ok()) {
    return sound.WithContext("scheduler");
  }
  std::map<NodeId, uint32_t> used;
  for (const auto& [id, job] : jobs_) {
    if (const Status same = CheckPlace(job); !same.ok()) return same.WithContext("job " + id);
    if (!job.live()) continue;
    for (const Member& member : job.gang) used[member.node] += job.spec.processes_per_node();
  }
  for (const auto& [id, node] : nodes_) {
    const auto found = used.find(id);
    if (node.used_slots != (found == used.end() ? 0 : found->second)) {
      return InternalError("node " + id.value() + " counts " + std::to_string(node.used_slots) +
                           " used slots, its gangs another number");
    }
  }
  return {};
}

}  // namespace longhaul::runtime
