#include "engines/kubernetes/scheduling/pod_scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engines/kubernetes/scheduling/wait_message.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int32_t kMostLeastPods = 100'000;

// Priorities of pods reach two billion. Those above half a million are compressed, which keeps
// their order where they differ by 4,096 or more.
int32_t PriorityOf(int32_t pod_priority) {
  constexpr int32_t kLinear = scheduler::kMaxPriority / 2;
  constexpr int32_t kStep = 4'096;
  if (pod_priority > kLinear) {
    return std::min(scheduler::kMaxPriority, kLinear + (pod_priority - kLinear) / kStep);
  }
  if (pod_priority < -kLinear) {
    return std::max(-scheduler::kMaxPriority, -kLinear + (pod_priority + kLinear) / kStep);
  }
  return pod_priority;
}

// What Longhaul does not understand, in words for the pod's owner; empty: nothing.
std::string RefusalOf(const Pod& pod, const NodeRules& rules) {
  if (!pod.uninterpreted.empty()) {
    return "it has " + Join(pod.uninterpreted, ", ") + ", which Longhaul does not support";
  }
  if (pod.resource_claims > 0) {
    return "it has spec.resourceClaims (dynamic resource allocation), which Longhaul does not "
           "support";
  }
  const Status understood = CheckRules(rules);
  return understood.ok() ? std::string() : understood.message();
}

scheduler::Policy PolicyOf(const PodSchedulerSettings& settings) {
  scheduler::Policy policy;
  policy.moves = false;
  policy.growing_cluster = true;
  policy.repair_patience = settings.lost_patience;
  policy.bind_deadline = std::chrono::minutes(30);
  return policy;
}

std::string GroupKey(PodGroupApi api, const std::string& key) {
  return (api == PodGroupApi::kPlugins ? "group:" : "workload-group:") + key;
}

// The PodGroup that the pod names; empty: none.
std::string GroupKeyOf(const Pod& pod) {
  if (!pod.pod_group.empty()) {
    return GroupKey(PodGroupApi::kKubernetes, pod.meta.namespace_name + "/" + pod.pod_group);
  }
  const auto label = pod.meta.labels.find(kPodGroupLabel);
  if (label == pod.meta.labels.end() || label->second.empty()) return {};
  return GroupKey(PodGroupApi::kPlugins, pod.meta.namespace_name + "/" + label->second);
}

// How the pod uses its claims.
PodVolumes::Use UseOf(const PodRecord& record) {
  if (record.finished) return PodVolumes::Use::kNone;
  if (record.is_bound()) return PodVolumes::Use::kBound;
  const bool waits = record.ours && !record.gated && !record.deleting && record.refusal.empty();
  return waits ? PodVolumes::Use::kWaits : PodVolumes::Use::kNone;
}

int32_t LeastByAnnotation(const Pod& pod) {
  const auto text = pod.meta.annotations.find(kMinMemberAnnotation);
  if (text == pod.meta.annotations.end()) return 0;
  const Result<int64_t> number = ParseInt64(text->second);
  if (!number.ok()) return 0;
  return static_cast<int32_t>(std::clamp<int64_t>(*number, 0, kMostLeastPods));
}

}  // namespace

PodScheduler::PodScheduler(PodSchedulerSettings settings)
    : settings_(std::move(settings)),
      model_(settings_.cluster),
      requests_(model_, groups_),
      events_(settings_.report_period),
      binds_(settings_.binds, model_, pods_, volumes_) {}

PodScheduler::~PodScheduler() = default;

void PodScheduler::OnNode(Node node) {
  const std::string name = node.meta.name;
  switch (model_.SetNode(std::move(node))) {
    case ClusterModel::Change::kNothing:
      return;
    case ClusterModel::Change::kState:
      pods_.NoteChanged(name);
      return;
    case ClusterModel::Change::kFacts:
      broken_nodes_.insert(name);
      return;
  }
}

void PodScheduler::OnNodeGone(const std::string& name) {
  model_.RemoveNode(name);
  broken_nodes_.insert(name);
}

void PodScheduler::OnPod(const Pod& pod) { Observe(pod, false); }

void PodScheduler::OnRead(const Pod& pod) { Observe(pod, true); }

PodRecord& PodScheduler::Record(const Pod& pod) {
  const PodName name{pod.meta.namespace_name, pod.meta.name, pod.meta.uid};
  const std::string key = name.Key();
  PodRecord* known = pods_.FindKey(key);
  if (known != nullptr && known->name.uid == name.uid) return *known;
  if (known != nullptr) Forget(key);
  PodRecord& record = pods_.Add(name);
  record.ours = pod.scheduler_name == settings_.scheduler_name;
  record.needs = NeedsOf(pod.requests, model_.names());
  AddHostPorts(pod.host_ports, model_.names(), record.needs);
  record.created = pod.meta.created_at.value_or(Instant());
  if (!record.ours) return record;
  const NodeRules rules = RulesOf(pod);
  record.refusal = RefusalOf(pod, rules);
  record.priority = PriorityOf(pod.priority);
  record.preempts = !pod.preempts_never;
  if (record.refusal.empty()) {
    record.rules = KeyOf(rules);
    model_.UseRules(record.rules, rules);
    model_.UseResources(record.needs);
  }
  AssignUnit(record, pod);
  return record;
}

void PodScheduler::AssignUnit(PodRecord& record, const Pod& pod) {
  const std::string group = GroupKeyOf(pod);
  record.unit = group.empty() ? "pod:" + record.key : group;
  const auto [at, is_new] = units_.try_emplace(record.unit);
  PodUnit& unit = at->second;
  if (is_new) {
    unit.key = record.unit;
    unit.group = group;
    unit.created = record.created;
  }
  unit.least = std::max(unit.least, LeastByAnnotation(pod));
  unit.created = std::min(unit.created, record.created);
  unit.pods.insert(record.key);
  MarkDirty(unit);
}

// What is bound stays bound and what has finished stays finished: an event that says otherwise is
// older than what is known.
void PodScheduler::Observe(const Pod& pod, bool fresh) {
  PodRecord& record = Record(pod);
  const auto before = record.seen();
  if (!record.is_bound() && !pod.node_name.empty()) record.SetBound(pod.node_name);
  if (fresh && !record.is_bound() && record.sent && record.read_at) {
    OnBindReply(record, BindResult::kBusy, "an earlier bind was not carried out");
  }
  record.gated = !pod.scheduling_gates.empty();
  record.deleting = record.deleting || pod.meta.being_deleted;
  record.finished = record.finished || pod.finished();
  record.started = record.started || pod.phase == PodPhase::kRunning || pod.finished();
  if (PodVolumes::HasClaims(pod)) volumes_.SetPod(pod, UseOf(record));
  if (record.ours) {
    // Most events after a bind repeat what its reply has said.
    if (record.seen() != before) MarkDirty(record.unit);
    return;
  }
  const bool uses = record.is_bound() && !record.finished;
  pods_.SetAccount(record, uses ? PodRecord::Account::kOthers : PodRecord::Account::kNone);
}

void PodScheduler::OnPodGone(const PodName& pod) {
  if (pods_.Find(pod) != nullptr) Forget(pod.Key());
}

void PodScheduler::Forget(const std::string& key) {
  PodRecord* record = pods_.FindKey(key);
  if (record == nullptr) return;
  if (record->ours) LeaveUnit(*record);
  volumes_.RemovePod(key);
  pods_.Erase(key);
}

void PodScheduler::LeaveUnit(PodRecord& record) {
  if (record.refusal.empty()) {
    model_.ReleaseRules(record.rules);
    model_.ReleaseResources(record.needs);
  }
  const auto unit = units_.find(record.unit);
  if (unit == units_.end()) return;
  unit->second.pods.erase(record.key);
  events_.OnPodGone(record.unit, record.name);
  MarkDirty(record.unit);
}

void PodScheduler::OnPodGroup(PodGroupApi api, const PodGroup& group) {
  const std::string key = GroupKey(api, group.meta.Key());
  groups_[key] = group;
  if (units_.contains(key)) MarkDirty(key);
}

void PodScheduler::OnPodGroupGone(PodGroupApi api, const std::string& key) {
  groups_.erase(GroupKey(api, key));
}

void PodScheduler::OnBind(const PodName& pod, BindResult result, const std::string& why,
                          Instant now) {
  PodRecord* record = pods_.Find(pod);
  if (record == nullptr || !record->sent) return;
  now_ = std::max(now_, now);
  OnBindReply(*record, result, why);
}

void PodScheduler::OnBindReply(PodRecord& record, BindResult result, const std::string& why) {
  MarkDirty(record.unit);
  const bool placed = units_.at(record.unit).stage == Stage::kPlaced;
  binds_.OnReply(record, placed, result, why, now_);
}

void PodScheduler::OnSelectNode(const SelectNode& select, const Status& why, Instant now) {
  now_ = std::max(now_, now);
  if (!why.ok()) volumes_.OnNotAsked(select.Key(), why.message());
}

void PodScheduler::OnRemove(const PodName& pod, bool accepted, Instant now) {
  PodRecord* record = pods_.Find(pod);
  if (record == nullptr || !record->remove_at) return;
  if (accepted) {
    record->deleting = true;
    PodUnit& unit = units_.at(record->unit);
    const auto by = waiting_for_.find(unit.job.value());
    if (by != waiting_for_.end() && !by->second.empty()) {
      events_.OnPreempted(unit, pod, *by->second.begin());
    }
  }
  record->remove_at = now + settings_.remove_period;
  MarkDirty(record->unit);
}

void PodScheduler::Apply(const scheduler::Event& event) {
  scheduler_->Apply(event, now_);
  due_ = true;
}

// What the volumes of pods demand counts for those that have no node yet.
void PodScheduler::UpdateVolumes() {
  for (const PodVolumes::Failure& failure : volumes_.TakeFailures()) {
    for (const std::string& key : failure.pods) {
      PodRecord* record = pods_.FindKey(key);
      if (record == nullptr || !record->is_placed()) continue;
      binds_.Refuse(*record, failure.why, now_);
      MarkDirty(record->unit);
    }
  }
  for (const std::string& key : volumes_.TakeChanged()) {
    PodRecord* record = pods_.FindKey(key);
    if (record == nullptr || !record->ours || !record->refusal.empty()) continue;
    if (record->is_bound() || record->sent) continue;
    if (record->is_placed()) {
      MarkDirty(record->unit);  // its claims are looked at before it is bound
      continue;
    }
    PodVolumes::Answer answer = volumes_.AnswerFor(key);
    std::string rules = answer.wait.empty() ? KeyOf(answer.rules) : record->rules;
    if (answer.wait == record->volume_wait && rules == record->rules) continue;
    if (rules != record->rules) {
      model_.ReleaseRules(record->rules);
      model_.UseRules(rules, answer.rules);
    }
    record->volume_wait = std::move(answer.wait);
    record->rules = std::move(rules);
    PodUnit& unit = units_.at(record->unit);
    // Its job was described otherwise. Of one that is placed, this pod is a lost task.
    if (unit.stage == Stage::kWaiting || unit.stage == Stage::kPlaced) EndJob(unit, false);
    MarkDirty(unit);
  }
}

// The scheduler keeps the shapes of all pods that there ever were, until it is rebuilt. Not again
// before many more have come: all of them may be in use.
bool PodScheduler::HasManyShapes() {
  if (!scheduler_) return false;
  const uint32_t shapes = scheduler_->state().shape_count();
  if (shapes < settings_.many_shapes || shapes < shapes_kept_ + settings_.many_shapes / 4) {
    return false;
  }
  shapes_kept_ = shapes;
  return true;
}

// Jobs with tasks on nodes that have changed are ended before and adopted after, so that the
// scheduler never moves pods that run: it only learns again where they are.
void PodScheduler::RebuildCluster() {
  for (const std::string& node : broken_nodes_) {
    for (const std::string& pod : pods_.TasksOn(node)) {
      PodUnit& unit = units_.at(pods_.FindKey(pod)->unit);
      if (unit.stage == Stage::kPlaced) EndJob(unit, false);
      MarkDirty(unit);
    }
  }
  ++epoch_;
  ++counts_.rebuilds;
  if (model_.nodes() == 0) {
    for (auto& [key, unit] : units_) {
      if (unit.stage != Stage::kLeaving) EndJob(unit, false);
      MarkDirty(unit);
    }
    scheduler_.reset();
    due_ = false;
    broken_nodes_.clear();
    return;
  }
  Result<spec::Topology> topology = model_.MakeTopology();
  if (!topology.ok()) {
    trouble_ = "the cluster cannot be described: " + topology.status().message();
    return;
  }
  trouble_.clear();
  const scheduler::Policy policy = PolicyOf(settings_);
  // Where only nodes were added, requests mean the same as before.
  if (!scheduler_ || !scheduler_->Extend(*topology)) {
    Result<scheduler::Scheduler> next =
        scheduler_ ? scheduler::Scheduler::Rebuild(
                         *scheduler_, *topology, {}, policy,
                         [this](scheduler::JobRequest& request) {
                           const auto unit = unit_of_job_.find(request.id.value());
                           if (unit == unit_of_job_.end()) return;
                           requests_.Translate(units_.at(unit->second), request);
                         })
                   : scheduler::Scheduler::Create(*topology, {}, policy);
    if (!next.ok()) {
      trouble_ = "the cluster cannot be scheduled: " + next.status().message();
      return;
    }
    scheduler_.emplace(*std::move(next));
  }
  due_ = true;
  shapes_kept_ = scheduler_->state().shape_count();
  broken_nodes_.clear();
  for (const spec::TopologyNode& node : topology->nodes()) pods_.NoteChanged(node.name);
  for (auto& [key, unit] : units_) {
    const bool waits = unit.stage == Stage::kWaiting || unit.stage == Stage::kIdle;
    // A node that comes back may have pods of a gang that goes on elsewhere.
    if (waits || unit.misses_node) MarkDirty(unit);
  }
}

// Conditions and loads of the nodes that have changed.
void PodScheduler::ShareNodes() {
  for (const std::string& node : pods_.TakeChangedNodes()) {
    if (!scheduler_ || !model_.HasNode(node) || !scheduler_->topology().Find(node)) continue;
    Apply(scheduler::NodeChanged{node, model_.ConditionOf(node)});
    Apply(model_.SharedOf(node, pods_.LoadOf(node)));
  }
}

std::vector<PodAction> PodScheduler::Advance(Instant now, size_t most_reports) {
  now_ = std::max(now_, now);
  std::vector<PodAction> actions;
  UpdateVolumes();
  if (model_.is_behind() || !broken_nodes_.empty() || HasManyShapes()) RebuildCluster();
  while (const std::optional<std::string> unit = wakes_.Take(now_)) MarkDirty(*unit);
  // A decision may free what a unit waits for; a stop may let another one start.
  constexpr int kMostTurns = 16;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    SyncDirtyUnits(now_, actions);
    ShareNodes();
    if (!Decide(now_) && dirty_.empty()) break;
  }
  Report(now_, most_reports, actions);
  events_.Take(actions);
  return actions;
}

std::optional<Instant> PodScheduler::NextDeadline() const {
  std::optional<Instant> next;
  const auto consider = [&next](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  // What Advance left over at its last turn.
  if (due_ || !dirty_.empty() || pods_.has_changed_nodes() || volumes_.has_changed()) return now_;
  consider(wakes_.Next());
  consider(reports_.Next());
  if (scheduler_) consider(scheduler_->NextDeadline());
  return next;
}

// The messages of pods are written when they have changed, and not more often than once a period.
void PodScheduler::Report(Instant now, size_t most, std::vector<PodAction>& actions) {
  while (most > 0) {
    const std::optional<std::string> key = reports_.Take(now);
    if (!key) return;
    const PodUnit& unit = units_.at(*key);
    bool any = false;
    for (const std::string& pod : unit.pods) {
      PodRecord& record = *pods_.FindKey(pod);
      if (record.is_bound() || record.finished || record.deleting || record.gated) continue;
      any = true;
      // A bind on its way needs no report, and there may be thousands of them.
      if (record.is_placed() && unit.after.empty() && record.making.empty()) continue;
      std::string message = WhyNotBound(pod);
      if (message.empty()) continue;
      events_.OnWait(unit, record.name, message, now);
      if (message == record.told) continue;
      record.told = message;
      actions.emplace_back(ReportWait{record.name, std::move(message)});
      most -= most > 0 ? 1 : 0;
    }
    if (any) reports_.Set(unit.key, now + settings_.report_period);
  }
}

std::string PodScheduler::WhyNotBound(const std::string& pod_key) const {
  const PodRecord* pod = pods_.FindKey(pod_key);
  if (pod == nullptr || !pod->ours || pod->is_bound() || pod->finished || pod->deleting) return {};
  return WaitMessage(*pod, units_.at(pod->unit), pods_, requests_,
                     scheduler_ ? &*scheduler_ : nullptr);
}

PodScheduler::Counts PodScheduler::counts() const {
  Counts counts = counts_;
  for (const auto& [key, unit] : units_) {
    for (const std::string& pod : unit.pods) {
      const PodRecord& record = *pods_.FindKey(pod);
      if (record.finished) continue;
      ++counts.pods;
      counts.bound += record.is_bound() ? 1 : 0;
    }
  }
  return counts;
}

// Returns whether a decision was carried out, which may have changed what is due.
bool PodScheduler::Decide(Instant now) {
  if (!scheduler_) return false;
  const std::optional<Instant> deadline = scheduler_->NextDeadline();
  if (!due_ && !(deadline && *deadline <= now)) return false;
  due_ = false;
  const std::vector<scheduler::Decision> decisions = scheduler_->Decide(now);
  due_ = scheduler_->unfinished();
  bool any = false;
  for (const scheduler::Decision& decision : decisions) {
    if (decision.kind == scheduler::DecisionKind::kReserve) continue;
    any = true;
    Carry(decision, now);
  }
  return any;
}

void PodScheduler::Carry(const scheduler::Decision& decision, Instant now) {
  using Kind = scheduler::DecisionKind;
  const auto known = unit_of_job_.find(decision.job.value());
  // A job that was just ended by an operator's or this class's own event.
  if (known == unit_of_job_.end()) return;
  PodUnit& unit = units_.at(known->second);
  switch (decision.kind) {
    case Kind::kStart:
      unit.stage = Stage::kPlaced;
      unit.started = now;
      Place(unit, decision);
      return;
    case Kind::kRepair:
      Place(unit, decision);
      return;
    case Kind::kUndo:
      unit.retry_at = now + settings_.binds.Backoff(unit.failures++);
      [[fallthrough]];
    case Kind::kEvict:
    case Kind::kSuspend:
      if (unit.stage == Stage::kLeaving) return;
      counts_.evictions += decision.kind == Kind::kUndo ? 0 : 1;
      // A gang that was never whole is removed without regard to disruption budgets.
      BeginLeaving(unit, unit.complete && decision.kind != Kind::kUndo, now);
      return;
    case Kind::kReject:
      EndJob(unit, false);
      unit.refusal = decision.reason;
      return;
    // Elastic groups and moves are not asked for.
    case Kind::kGrow:
    case Kind::kShrink:
    case Kind::kMove:
    case Kind::kReserve:
      return;
  }
}

// Gives the pods their nodes. Their binds are sent after the whole round, in which the job may also
// lose its places again.
void PodScheduler::Place(PodUnit& unit, const scheduler::Decision& decision) {
  unit.transaction = decision.transaction;
  for (const scheduler::TaskPlacement& task : decision.tasks) {
    CHECK(task.rank >= 0 && static_cast<size_t>(task.rank) < unit.members.size())
        << unit.key << " has no rank " << task.rank;
    PodUnit::Member& member = unit.members[static_cast<size_t>(task.rank)];
    CHECK(member.group == task.group) << unit.key << ": rank " << task.rank;
    PodRecord& record = *pods_.FindKey(member.pod);
    member.placed = member.is_new = true;
    record.planned = scheduler_->topology().node(task.node).name;
    pods_.SetAccount(record, PodRecord::Account::kTask);
  }
  for (const JobId& job : decision.after) {
    // One that has left already is waited for no more.
    if (!unit_of_job_.contains(job.value())) continue;
    unit.after.insert(job.value());
    waiting_for_[job.value()].insert(unit.key);
  }
  MarkDirty(unit);
}

Status PodScheduler::CheckInvariants() const {
  RETURN_IF_ERROR(pods_.Check());
  for (const auto& [key, unit] : units_) {
    for (const std::string& pod : unit.pods) {
      const PodRecord* record = pods_.FindKey(pod);
      if (record == nullptr || record->unit != key) {
        return InternalError(key + " has the pod " + pod + ", which is not its own");
      }
    }
    if (scheduler_ && unit.stage == Stage::kPlaced &&
        scheduler_->StageOf(unit.job) <= scheduler::JobStage::kWaiting) {
      return InternalError(key + " is placed, and its job is not");
    }
  }
  return scheduler_ ? scheduler_->CheckInvariants() : Status();
}

}  // namespace longhaul::engines::kubernetes
