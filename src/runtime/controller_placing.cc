// Places: what the scheduler decides becomes gangs, and gangs leave their nodes in good order.
#include <algorithm>
#include <utility>

#include "runtime/cluster/elastic.h"
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
// Changes of size that are kept for people to read.
constexpr size_t kMostSizes = 1000;

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
      if (job->closing.has_value()) return;
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
    Follow(*job);
  }
}

void Controller::State::Follow(Job& job) {
  const std::set<NodeId> wanted(job.target.begin(), job.target.end());
  std::string leaves;
  bool same = job.gang.size() == job.target.size();
  for (size_t i = 0; i < job.gang.size(); ++i) {
    same = same && job.gang[i].node == job.target[i];
    if (wanted.contains(job.gang[i].node)) continue;
    leaves += (leaves.empty() ? "" : ", ") + job.gang[i].node.value();
  }
  if (same || job.target.empty()) {
    pending_.erase(job.spec.id());
    return;
  }
  // Who only grows goes on until the new nodes are free.
  for (const NodeId& id : job.target) {
    if (!leaves.empty() || MemberOf(job, id.value()).has_value() || CanTake(job, id)) continue;
    pending_.insert(job.spec.id());
    return;
  }
  pending_.erase(job.spec.id());
  std::string reason;
  if (job.gang.size() != job.target.size()) {
    reason = "it goes on with " + std::to_string(job.target.size()) + " nodes in place of " +
             std::to_string(job.gang.size());
  }
  if (!leaves.empty()) reason += (reason.empty() ? "it leaves " : ", without ") + leaves;
  BeginRetreat(job, Retreat::Then::kGoOn, reason.empty() ? "its ranks change places" : reason);
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
  RememberSpreads(job);
  const std::vector<Member> before = std::move(job.gang);
  const auto places = std::move(job.places);
  job.gang.clear();
  job.places.clear();
  job.gang.resize(job.target.size());
  for (size_t i = 0; i < job.gang.size(); ++i) FillPlace(job, i, before, places);
  const uint32_t slots = job.spec.processes_per_node();
  for (const Member& member : before) {
    if (job.places.contains(member.node.value())) continue;
    Node& node = nodes_.at(member.node);
    node.used_slots -= std::min(node.used_slots, slots);
    if (!node.lost) {
      job.left[member.node] = {node.incarnation, member.sealed, member.arena_first_rank,
                               places.at(member.node.value()), before.size()};
    }
  }
  NoteSize(job, before.size());
  for (const Member& member : job.gang) {
    if (!places.contains(member.node.value())) FreeLeftOn(member.node);
  }
  return true;
}

// A place of the new gang, and what its node has in memory that still serves there.
void Controller::State::FillPlace(Job& job, size_t place, const std::vector<Member>& before,
                                  const std::unordered_map<std::string, size_t>& places) {
  const NodeId& id = job.target[place];
  const uint32_t slots = job.spec.processes_per_node();
  const bool same_size = before.size() == job.gang.size();
  const bool alike = NodesAreAlike(job.spec);
  Node& node = nodes_.at(id);
  Member& member = job.gang[place];
  job.places[id.value()] = place;
  member.node = id;
  // Copies belong to a place, whoever takes it now, as long as places mean the same ranks.
  if (same_size) {
    member.holder = before[place].holder;
    member.holder_incarnation = before[place].holder_incarnation;
    member.copied = before[place].copied;
  }
  const auto found = places.find(id.value());
  const auto left = job.left.find(id);
  member.arena_first_rank = static_cast<uint32_t>(place) * slots;
  if (found != places.end()) {
    const Member& was = before[found->second];
    member.arena_first_rank = was.arena_first_rank;
    if (alike || (same_size && found->second == place)) member.sealed = was.sealed;
  } else {
    node.used_slots += slots;
    if (left != job.left.end() && left->second.incarnation == node.incarnation) {
      const internal::LeftMemory& memory = left->second;
      const bool same = memory.place == place && memory.nodes == job.gang.size();
      member.arena_first_rank = memory.arena_first_rank;
      if (alike || same) member.sealed = memory.sealed;
    }
  }
  if (left != job.left.end()) job.left.erase(left);
  const bool takes_over = found == places.end() && same_size && before[place].node != id;
  if (takes_over) {
    Say(job.spec.id(), wire::MessageNotice::INFO,
        id.value() + " takes the place of " + before[place].node.value());
  }
}

// The gang is there: what its size means to the ledger and to whoever looks.
void Controller::State::NoteSize(Job& job, size_t before) {
  if (job.gang.size() != before) job.placed_epoch = job.epoch + 1;
  job.ledger.Resize(job.gang.size(), wire::REPAIR, now_);
  const auto nodes = static_cast<uint32_t>(job.gang.size());
  if (!job.sizes.empty() && job.sizes.back().nodes() == nodes) return;
  if (!job.sizes.empty()) ++job.resizes;
  if (job.sizes.size() >= kMostSizes) job.sizes.erase(job.sizes.begin());
  wire::SizeChange& change = job.sizes.emplace_back();
  change.set_at_ns(ToNanoseconds(now_));
  change.set_nodes(nodes);
  change.set_epoch(job.epoch + 1);
  change.set_reason(job.retreat ? job.retreat->reason : before > 0 ? job.reason : "it starts");
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
  const bool alike = NodesAreAlike(job.spec);
  // Those that it leaves keep what they hold until a newer state is complete.
  if (!alike && IsWhole(job, SpreadOf(job, job.memory_step))) return false;
  if (!alike && job.target.size() != job.gang.size()) return true;
  const auto holds = [&](size_t place) {
    const auto& sealed = job.gang[place].sealed;
    return sealed[0] == job.memory_step || sealed[1] == job.memory_step;
  };
  bool all = true;
  bool gives = false;  // one that stays has it for the others
  for (size_t i = 0; i < job.target.size(); ++i) {
    const auto place = MemberOf(job, job.target[i].value());
    const bool has = place.has_value() && (alike || *place == i) && holds(*place);
    all = all && has;
    const Node* node = FindNode(job.target[i]);
    gives = gives ||
            (has && alike && node != nullptr && node->connected && node->facts.peer_port() != 0);
  }
  return !all && !gives;
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
    const bool waits = retreat.then == Retreat::Then::kGoOn && NeedsDisk(job) && !SaveFailed(job);
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
  const size_t before = job.gang.size();
  if (!TakeTarget(job)) return;
  if (job.gang.size() == before) ++job.moves;
  OpenEpoch(job);
}

// It waits again, with its state where it was: in the memories of the nodes it had, and on disk
// once it is there.
void Controller::State::FinishRetreat(Job& job) {
  const std::string reason = job.retreat->reason;
  RememberSpreads(job);
  Release(job);
  for (const Member& member : job.gang) {
    const Node& node = nodes_.at(member.node);
    if (!node.lost) {
      job.left[member.node] = {node.incarnation, member.sealed, member.arena_first_rank,
                               job.places.at(member.node.value()), job.gang.size()};
    }
  }
  job.gang.clear();
  job.places.clear();
  job.ledger.Resize(job.spec.nodes(), wire::QUEUE, now_);
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
  // Nodes that it has left may hold pieces that it goes on from.
  const bool reads =
      !job.gang.empty() && !job.reports_steps && job.restore.tier() == wire::Restore::TIER_PIECES;
  if (!job.live() || reads) return;
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
    DropOrderOf(job, left->first);
    DropPiecesOn(job, left->first);
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
      Follow(*job);
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
  if (pending_.contains(job.spec.id())) return {};  // it goes on until its new nodes are free
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
