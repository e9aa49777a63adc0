#include "runtime/controller/placement.h"

#include <algorithm>
#include <utility>

#include "runtime/controller/handlers/attempt_starter.h"
#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/run_time_limits.h"

namespace longhaul::runtime::controller {

using scheduler::DecisionKind;

namespace {

// Rounds in one step: what one leads to may free what another waits for.
constexpr int kMostRounds = 16;

// Devices that are not assigned differ from no others.
bool Differ(scheduler::GpuMask a, scheduler::GpuMask b) { return a != 0 && b != 0 && a != b; }

}  // namespace

void Placement::Schedule() {
  // A verdict can end a job, and the end of a job calls Schedule again.
  if (scheduling_) return;  // the round under way continues
  scheduling_ = true;
  auto& scheduler = context_.scheduler;
  for (int round = 0; round < kMostRounds && (round == 0 || scheduler.Due(context_.now)); ++round) {
    if (scheduler.Due(context_.now)) {
      const uint64_t rebuilds = scheduler.rebuilds();
      for (const scheduling::Verdict& verdict : scheduler.Decide(context_.now)) Carry(verdict);
      // Decide() may have made the scheduler anew. Then no verdict names the devices that it chose
      // for jobs that keep their nodes.
      if (scheduler.rebuilds() != rebuilds) NoteNewDevices();
    }
    // Jobs whose nodes were not free, or not there.
    const std::vector<std::string> waiting(pending_.begin(), pending_.end());
    // The list is a copy, because Proceed changes pending_. The set is ordered, so the jobs proceed
    // in the same order in each replay.
    for (const std::string& id : waiting) {
      JobRecord* job = context_.jobs.Find(id);
      if (job == nullptr || !job->live() || job->closing()) {
        pending_.erase(id);
      } else {
        Proceed(*job);
      }
    }
  }
  scheduling_ = false;
  const auto next = scheduler.NextDeadline();
  if (next.has_value()) {
    context_.deadlines.Set(DeadlineKind::kSchedule, "", *next);
  } else {
    context_.deadlines.Clear(DeadlineKind::kSchedule, "");
  }
}

void Placement::TakePlaces(JobRecord& job) {
  std::vector<NodeId> nodes;
  std::vector<scheduler::GpuMask> devices;
  for (const scheduling::Place& place : context_.scheduler.PlacesOf(JobId(job.id()))) {
    nodes.emplace_back(place.node);
    devices.push_back(place.devices);
  }
  job.placement.SetTarget(std::move(nodes), std::move(devices));
}

// All targets are set before the first job proceeds, because a job that leaves frees devices that
// the target of another one may name.
void Placement::NoteNewDevices() {
  std::vector<JobRecord*> changed;
  for (auto& [id, job] : context_.jobs.all()) {
    const std::vector<NodeId> target = job.placement.target();
    if (!job.live() || job.closing() || target.empty()) continue;
    const auto places = context_.scheduler.PlacesOf(JobId(id));
    // Other nodes follow from a decision.
    std::vector<scheduler::GpuMask> devices = job.placement.target_devices();
    for (size_t i = 0; i < places.size() && i < target.size(); ++i) {
      if (places[i].node == target[i].value()) devices[i] = places[i].devices;
    }
    if (devices == job.placement.target_devices()) continue;
    job.placement.SetTarget(target, std::move(devices));
    changed.push_back(&job);
  }
  for (JobRecord* job : changed) {
    if (job->life.state() != proto::STOPPING) Proceed(*job);
  }
}

// Requires that the group still has the devices with which it took its slots. ForgetDevices makes
// the later FreeSlots symmetric: it then returns slots without devices.
void Placement::FreeDevices(JobRecord& job) {
  for (const Member& member : job.group.members()) {
    context_.nodes.FreeSlots(member.node, job.ClaimOf(member.devices));
    context_.nodes.TakeSlots(member.node, job.ClaimOf(0));
  }
  job.group.ForgetDevices();
}

// The order of the cases is a priority. A gang that leaves finishes that first, even with a fault;
// an open fault is decided before a new target is followed, because its restart takes the target
// anyway.
void Placement::Proceed(JobRecord& job) {
  if (job.group.empty()) {
    TryBegin(job);
  } else if (job.placement.leaving()) {
    AdvanceVacate(job);
  } else if (job.faults.undecided()) {
    faults_.TryDecide(job);
  } else {
    Follow(job);
  }
}

void Placement::Carry(const scheduling::Verdict& verdict) {
  JobRecord* job = context_.jobs.Find(verdict.job.value());
  if (job == nullptr || !job->live()) return;
  switch (verdict.kind) {
    case DecisionKind::kStart:
      context_.releases.NoteStarted(verdict.job.value());
      [[fallthrough]];
    case DecisionKind::kRepair:
    case DecisionKind::kGrow:
    case DecisionKind::kMove:
      // From here on the controller looks after the job: its faults are seen, not timed out.
      context_.scheduler.Confirm(verdict.job, verdict.transaction, false, context_.now);
      job->placement.BeginTransaction(verdict.transaction);
      break;
    case DecisionKind::kShrink:
      break;
    case DecisionKind::kSuspend:
    case DecisionKind::kEvict:
    case DecisionKind::kUndo:
      return SendAway(*job, verdict.reason);
    // These verdicts change no placement.
    case DecisionKind::kReserve:
    case DecisionKind::kReject:
      return;
  }
  TakePlaces(*job);
  if (job->closing() || job->life.state() == proto::STOPPING) return;
  // The job has not taken its earlier nodes, so nothing has to end before the move.
  if (job->group.empty() && verdict.kind == DecisionKind::kMove) {
    context_.scheduler.Stopped(verdict.job, context_.now);
  }
  Proceed(*job);
}

// Without a target, neither Follow nor TryBegin takes nodes that the scheduler has given away.
void Placement::SendAway(JobRecord& job, const std::string& reason) {
  job.placement.ClearTarget();
  if (!job.group.empty()) return BeginVacate(job, Vacate::Then::kQueue, reason);
  pending_.erase(job.id());
  if (job.closing()) return;
  context_.scheduler.Stopped(JobId(job.id()), context_.now);
  context_.SetState(job, proto::QUEUED, reason);
}

void Placement::Follow(JobRecord& job) {
  const std::vector<NodeId>& target = job.placement.target();
  const std::set<NodeId> wanted(target.begin(), target.end());
  std::string leaves;
  std::string devices;  // where it gets others
  // The order counts too: the place of a node decides which ranks it has.
  bool same = job.group.size() == target.size();
  for (size_t i = 0; i < job.group.size(); ++i) {
    const NodeId& node = job.group.member(i).node;
    same = same && node == target[i];
    if (!wanted.contains(node)) leaves += (leaves.empty() ? "" : ", ") + node.value();
    const size_t place =
        static_cast<size_t>(std::find(target.begin(), target.end(), node) - target.begin());
    if (place == target.size()) continue;
    if (!Differ(job.group.member(i).devices, job.placement.target_devices()[place])) continue;
    devices += (devices.empty() ? "" : ", ") + node.value();
  }
  same = same && devices.empty();
  if (same || target.empty()) {
    pending_.erase(job.id());
    return;
  }
  // A job that only grows continues until the new nodes are free.
  for (size_t place = 0; place < target.size(); ++place) {
    if (!leaves.empty() || !devices.empty()) break;
    if (job.group.contains(target[place].value()) || CanTake(job, place)) continue;
    pending_.insert(job.id());
    return;
  }
  pending_.erase(job.id());
  std::string reason;
  if (job.group.size() != target.size()) {
    reason = "it continues with " + std::to_string(target.size()) + " nodes in place of " +
             std::to_string(job.group.size());
  }
  if (!leaves.empty()) reason += (reason.empty() ? "it leaves " : ", without ") + leaves;
  if (reason.empty() && !devices.empty()) reason = "it uses other devices of " + devices;
  BeginVacate(job, Vacate::Then::kGoOn, reason.empty() ? "its ranks change places" : reason);
}

// For a node outside the gang: the slots and devices of the job itself count as occupied here. For
// a member, OwnDevicesFree leaves out the job's own devices.
bool Placement::CanTake(const JobRecord& job, size_t place) const {
  const NodeId& id = job.placement.target()[place];
  return context_.nodes.CanTake(id, job.ClaimOf(job.placement.target_devices()[place]),
                                context_.scheduler.cluster().DeviceMemoryOf(id.value()));
}

void Placement::TryBegin(JobRecord& job) {
  if (job.life.state() != proto::QUEUED || job.closing() || !job.group.empty()) return;
  for (size_t place = 0; place < job.placement.target().size(); ++place) {
    if (CanTake(job, place)) continue;
    const NodeId& id = job.placement.target()[place];
    pending_.insert(job.id());
    return context_.SetState(job, proto::QUEUED,
                             id.empty() ? "waits for another node in place of one that was lost"
                                        : "has its nodes; starts once " + id.value() + " is free");
  }
  if (!job.placement.target().empty() && TakeTarget(job)) starter_.OpenAttempt(job);
}

// Whether the devices of the target's place are free on a node that the job has, apart from those
// that it has itself.
bool Placement::OwnDevicesFree(const JobRecord& job, size_t place) const {
  const NodeId& id = job.placement.target()[place];
  const auto member = job.group.PlaceOf(id.value());
  return context_.nodes.DevicesFree(id, job.ClaimOf(job.placement.target_devices()[place]),
                                    job.ClaimOf(job.group.member(*member).devices),
                                    context_.scheduler.cluster().DeviceMemoryOf(id.value()));
}

// A member is available if it is reachable; its slots are the job's already. The result names the
// node that has to be replaced, so that a user sees the lost node and not its unknown successor.
std::optional<NodeId> Placement::MissingNode(const JobRecord& job) const {
  const std::vector<NodeId>& target = job.placement.target();
  for (size_t i = 0; i < target.size(); ++i) {
    const NodeId& id = target[i];
    const bool member = job.group.contains(id.value());
    const Node* node = id.empty() ? nullptr : context_.nodes.Find(id);
    const bool held = member && node != nullptr && node->reachable() && OwnDevicesFree(job, i);
    if (held || (!member && !id.empty() && CanTake(job, i))) continue;
    return i < job.group.size() ? job.group.member(i).node : id;
  }
  return std::nullopt;
}

bool Placement::TakeTarget(JobRecord& job) {
  // A node that was lost and has returned belongs to the job again only by the scheduler's
  // decision.
  if (!context_.scheduler.PlacesOf(JobId(job.id())).empty()) TakePlaces(job);
  const auto missing = MissingNode(job);
  // A decision that is due without a deadline needs an awaited node or a pending placement
  // (Invariants::CheckDecision).
  if (missing.has_value()) job.faults.Await(*missing);
  if (missing.has_value() || job.placement.target().empty()) {
    pending_.insert(job.id());
    if (job.faults.undecided()) {
      const std::string node = missing.has_value() ? missing->value() : "";
      context_.SetState(job, proto::RECOVERING,
                        "waiting for a node in place of " + (node.empty() ? "all it had" : node));
    }
    return false;
  }
  pending_.erase(job.id());
  ReplaceGang(job);
  return true;
}

void Placement::ReplaceGang(JobRecord& job) {
  const std::vector<NodeId>& target = job.placement.target();
  // The order is necessary. Spreads describe the gang that sealed them, and ChangeGang maps
  // memories from the earlier gang to the target, so both read the group before Replace.
  job.snapshots.RememberSpreads(context_.ViewOf(job));
  job.snapshots.ChangeGang(context_.ViewOf(job), target);
  const WorkerGroup before = job.group;
  job.group.Replace(target, job.placement.target_devices());
  // Slots are freed with the claims of the earlier gang: a node that stays may have other devices
  // in the new one.
  for (const Member& member : before.members()) {
    context_.nodes.FreeSlots(member.node, job.ClaimOf(member.devices));
  }
  for (const Member& member : job.group.members()) {
    context_.nodes.TakeSlots(member.node, job.ClaimOf(member.devices));
  }
  if (before.empty()) {
    job.placement.BeginHolding(context_.now);
    run_times_.Watch(job);
  }
  for (size_t i = 0; i < target.size(); ++i) {
    if (before.contains(target[i].value()) || before.size() != target.size()) continue;
    context_.AddMessage(job.id(), proto::MessageNotification::INFO,
                        target[i].value() + " takes the place of " + before.member(i).node.value());
  }
  NoteSize(job, before.size());
  for (const NodeId& id : target) {
    if (!before.contains(id.value())) FreeLeftOn(id);
  }
}

// The gang is there: what its size means to the ledger and to people.
void Placement::NoteSize(JobRecord& job, size_t before) {
  // OpenAttempt follows and increments the number. Snapshots of earlier attempts belong to other
  // ranks if the size has changed.
  const uint64_t next = job.life.attempt() + 1;
  if (job.group.size() != before) job.snapshots.ChangeRanks(next);
  job.ledger.Resize(job.group.size(), proto::REPAIR, context_.now);
  const auto& vacate = job.placement.vacate();
  const std::string reason = vacate ? vacate->reason : before > 0 ? job.life.reason() : "it starts";
  job.placement.NoteSize(job.nodes(), next, reason, context_.now);
  NoteUsage(job);
}

void Placement::NoteUsage(const JobRecord& job) {
  const proto::Scheduling& scheduling = job.spec().scheduling();
  const std::string& standard = context_.scheduler.configuration().default_queue;
  // The accounting groups by these texts, so a missing one has a fixed name and not an empty line.
  const auto named = [](const std::string& name, const char* none) {
    return name.empty() ? std::string(none) : name;
  };
  const UsageOwner owner = {
      named(scheduling.owner(), "unknown"), named(scheduling.project(), "none"),
      named(scheduling.queue().empty() ? standard : scheduling.queue(), "none")};
  UsageLedger::Accelerators accelerators;
  for (const Member& member : job.group.members()) {
    accelerators[context_.scheduler.cluster().ModelOf(member.node.value())] +=
        job.accelerators_milli();
  }
  context_.usage.Hold(job.id(), owner, accelerators, job.ledger, context_.now);
}

void Placement::FreeSlots(const JobRecord& job) {
  for (const Member& member : job.group.members()) {
    context_.nodes.FreeSlots(member.node, job.ClaimOf(member.devices));
  }
}

void Placement::Release(JobRecord& job) {
  FreeSlots(job);
  context_.usage.End(job.id(), job.ledger, context_.now);
  job.placement.ClearTarget();
  pending_.erase(job.id());
}

void Placement::FreeLeft(JobRecord& job) {
  // Nodes that it has left may hold pieces that it continues from.
  const bool reads = !job.group.empty() && !job.progress.reports_steps() &&
                     job.snapshots.restore().tier() == proto::Restore::TIER_PIECES;
  if (!job.live() || reads) return;
  std::vector<NodeId> released;
  for (const auto& [id, memory] : job.snapshots.left()) {
    const Node* node = context_.nodes.Find(id);
    const uint64_t newest = memory.sealed.newest();
    // A node releases memory for two reasons only: its state is on disk and another job works
    // there, or the running job has complete newer state in the memories of its present gang. Until
    // one of them holds, the memory may be the only copy.
    const bool saved = newest > 0 && job.snapshots.committed_step() >= newest;
    const bool wanted = node != nullptr && node->used_milli > 0;
    const bool stale = !job.group.empty() && job.life.state() == proto::RUNNING &&
                       job.snapshots.memory_step() > newest;
    // A disconnected node receives the command once it has returned.
    if (node == nullptr || !node->connected || !((saved && wanted) || stale)) continue;
    released.push_back(id);
  }
  for (const NodeId& id : released) {
    proto::Command command;
    command.mutable_forget_job()->set_job_id(job.id());
    command.mutable_forget_job()->set_attempt(job.life.attempt());
    context_.Send(id, std::move(command));
    job.writer.DropNode(id);
    job.snapshots.ForgetLeft(id);
  }
}

void Placement::FreeLeftOn(const NodeId& node) {
  for (auto& [id, job] : context_.jobs.all()) {
    if (job.snapshots.HasLeft(node)) FreeLeft(job);
  }
}

}  // namespace longhaul::runtime::controller
