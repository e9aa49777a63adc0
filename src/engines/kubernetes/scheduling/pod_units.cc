// What each unit of pods needs: its stage follows what is observed of its pods.
#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engines/kubernetes/scheduling/pod_scheduler.h"
#include "scheduler/natural_order.h"

namespace longhaul::engines::kubernetes {

// In the natural order of names, which is the order of ranks.
struct PodScheduler::Lists {
  std::vector<PodRecord*> bound;    // to a node that exists
  std::vector<PodRecord*> planned;  // with a node, and a bind that is not answered or not sent
  std::vector<PodRecord*> pending;
  size_t finished = 0;
  size_t held_back = 0;      // gated, refused, or not to be tried yet
  bool started = false;      // one of them has run
  bool misses_node = false;  // one is bound to a node that does not exist

  size_t present() const { return bound.size() + planned.size() + pending.size(); }
};

void PodScheduler::MarkDirty(PodUnit& unit) {
  if (!std::exchange(unit.dirty, true)) dirty_.push_back(&unit);
}

void PodScheduler::MarkDirty(const std::string& unit) {
  const auto known = units_.find(unit);
  if (known != units_.end()) MarkDirty(known->second);
}

std::vector<PodUnit*> PodScheduler::TakeDirtyUnits() {
  std::vector<PodUnit*> units = std::exchange(dirty_, {});
  for (PodUnit* unit : units) unit->dirty = false;
  std::sort(units.begin(), units.end(), [](const PodUnit* a, const PodUnit* b) {
    return std::tie(a->created, a->key) < std::tie(b->created, b->key);
  });
  return units;
}

void PodScheduler::SyncDirtyUnits(Instant now, std::vector<PodAction>& actions) {
  // The oldest first, so that after a restart the order of waiting is that of creation.
  while (!dirty_.empty()) {
    const std::vector<PodUnit*> order = TakeDirtyUnits();
    for (PodUnit* unit : order) Sync(*unit, now, actions);
  }
}

PodScheduler::Lists PodScheduler::ListsOf(const PodUnit& unit, Instant now) {
  Lists lists;
  for (const std::string& pod : unit.pods) {
    PodRecord& record = *pods_.FindKey(pod);
    lists.started = lists.started || record.started;
    if (record.finished) {
      ++lists.finished;
    } else if (unit.leaving.contains(pod) || record.deleting) {
      continue;
    } else if (record.is_bound()) {
      const bool there = model_.HasNode(record.node);
      if (there) lists.bound.push_back(&record);
      lists.misses_node = lists.misses_node || !there;
    } else if (!record.planned.empty()) {
      if (model_.HasNode(record.planned)) lists.planned.push_back(&record);
    } else if (record.gated || !record.refusal.empty() || !record.volume_wait.empty() ||
               (record.retry_at && *record.retry_at > now)) {
      ++lists.held_back;
    } else {
      lists.pending.push_back(&record);
    }
  }
  const auto by_name = [](const PodRecord* a, const PodRecord* b) {
    return scheduler::NaturalLess(a->name.name, b->name.name);
  };
  for (auto* list : {&lists.bound, &lists.planned, &lists.pending}) {
    std::sort(list->begin(), list->end(), by_name);
  }
  return lists;
}

// The actions of single pods: reading one whose bind was not answered, removing those that leave.
void PodScheduler::SyncPods(PodUnit& unit, Instant now, std::vector<PodAction>& actions) {
  for (const std::string& pod : unit.pods) {
    PodRecord& record = *pods_.FindKey(pod);
    if (record.sent && record.read_at && *record.read_at <= now) {
      actions.emplace_back(ReadPodAgain{record.name});
      record.read_at = now + settings_.read_period;
    }
    // Finished pods use nothing. One that ends takes its room until it has ended.
    if (record.finished) {
      pods_.SetAccount(record, PodRecord::Account::kNone);
    } else if (record.deleting && record.is_bound() && !unit.leaving.contains(pod)) {
      pods_.SetAccount(record, PodRecord::Account::kOthers);
    } else if (record.deleting && !record.is_bound()) {
      record.ClearPlan();
      pods_.SetAccount(record, PodRecord::Account::kNone);
    }
    if (record.held && !model_.HasNode(record.planned)) binds_.Refuse(record, "", now);
  }
}

void PodScheduler::Sync(PodUnit& unit, Instant now, std::vector<PodAction>& actions) {
  SyncPods(unit, now, actions);
  if (unit.stage == Stage::kLeaving && !SyncLeaving(unit, now, actions)) {
    return SetWake(unit, now);
  }
  const Lists lists = ListsOf(unit, now);
  unit.misses_node = lists.misses_node;
  switch (unit.stage) {
    case Stage::kIdle:
      SyncIdle(unit, lists, now);
      break;
    case Stage::kWaiting:
      SyncWaiting(unit, lists, now);
      break;
    case Stage::kPlaced:
      SyncPlaced(unit, lists, now, actions);
      break;
    case Stage::kLeaving:
      break;
  }
  if (unit.stage == Stage::kPlaced && !unit.group.empty()) {
    UndoIncomplete(unit, ListsOf(unit, now), now, actions);
  }
  if (!unit.pods.empty()) return SetWake(unit, now);
  EndJob(unit, false);
  wakes_.Set(unit.key, std::nullopt);
  reports_.Set(unit.key, std::nullopt);
  if (unit.dirty) std::erase(dirty_, &unit);
  units_.erase(std::string(unit.key));
}

// When the unit is looked at again, whatever is observed by then.
void PodScheduler::SetWake(PodUnit& unit, Instant now) {
  std::optional<Instant> next;
  const auto consider = [&next, now](const std::optional<Instant>& at) {
    if (at && *at > now && (!next || *at < *next)) next = at;
  };
  for (const std::string& pod : unit.pods) {
    const PodRecord& record = *pods_.FindKey(pod);
    if (record.sent) consider(record.read_at);
    if (!record.is_bound()) consider(record.retry_at);
    consider(binds_.NextDeadline(record));
    if (unit.leaving.contains(pod) && !record.deleting) consider(record.remove_at);
  }
  if (unit.stage == Stage::kIdle) consider(unit.retry_at);
  consider(unit.rollback_at);
  if (unit.unmanaged_since) consider(now + settings_.remove_period);
  wakes_.Set(unit.key, next);
}

// Returns whether all pods have left: the unit is idle then.
bool PodScheduler::SyncLeaving(PodUnit& unit, Instant now, std::vector<PodAction>& actions) {
  for (const std::string& pod : std::set<std::string>(unit.leaving)) {
    PodRecord* record = unit.pods.contains(pod) ? pods_.FindKey(pod) : nullptr;
    const bool bound = record != nullptr && record->is_bound() && !record->finished;
    if (!bound && (record == nullptr || !record->sent)) {
      unit.leaving.erase(pod);
      continue;
    }
    // One that is ending already is waited for.
    if (!bound || record->deleting || !record->remove_at || *record->remove_at > now) continue;
    actions.emplace_back(RemovePod{record->name, record->evict,
                                   record->evict ? "preempted" : "its gang could not start"});
    record->remove_at = now + settings_.remove_period;
  }
  if (!unit.leaving.empty()) return false;
  Stopped(unit);
  return true;
}

// The job has left its nodes. Those that were to start there start now.
void PodScheduler::Stopped(PodUnit& unit) {
  const std::string job = unit.job.value();
  if (scheduler_) Apply(scheduler::JobStopped{unit.job});
  unit.stage = Stage::kWaiting;
  EndJob(unit, false);
  const auto waiting = waiting_for_.find(job);
  if (waiting == waiting_for_.end()) return;
  for (const std::string& key : waiting->second) {
    const auto other = units_.find(key);
    if (other == units_.end()) continue;
    other->second.after.erase(job);
    MarkDirty(key);
  }
  waiting_for_.erase(waiting);
}

void PodScheduler::EndJob(PodUnit& unit, bool observed) {
  if (unit.stage != Stage::kIdle) {
    if (scheduler_) Apply(scheduler::JobEnded{unit.job, observed});
    unit_of_job_.erase(unit.job.value());
  }
  for (const PodUnit::Member& member : unit.members) {
    PodRecord* record = pods_.FindKey(member.pod);
    if (record == nullptr || record->unit != unit.key) continue;
    // A bind that was sent may be carried out: the pod keeps its plan until that is known.
    const bool uses = record->is_bound() || record->sent || record->held;
    if (!uses) binds_.Drop(*record);
    if (record->account == PodRecord::Account::kTask) {
      pods_.SetAccount(*record, uses && !record->finished ? PodRecord::Account::kOthers
                                                          : PodRecord::Account::kNone);
    }
  }
  for (const std::string& job : unit.after) {
    const auto waiting = waiting_for_.find(job);
    if (waiting != waiting_for_.end()) waiting->second.erase(unit.key);
  }
  unit.after.clear();
  unit.members.clear();
  unit.stage = Stage::kIdle;
  unit.confirmed = false;
  unit.rollback_at.reset();
}

void PodScheduler::SyncIdle(PodUnit& unit, const Lists& lists, Instant now) {
  unit.refusal.clear();
  if (!lists.bound.empty() || !lists.planned.empty()) {
    if (scheduler_) return Adopt(unit, lists, now);
    for (PodRecord* record : lists.bound) pods_.SetAccount(*record, PodRecord::Account::kOthers);
    return;
  }
  unit.unmanaged_since.reset();
  if (lists.pending.empty() && lists.held_back == 0) return;
  if (!unit.since) unit.since = now;
  if (!reports_.Has(unit.key)) reports_.Set(unit.key, now + settings_.report_after);
  if (unit.retry_at && *unit.retry_at > now) return;
  const bool enough = !lists.pending.empty() && lists.pending.size() + lists.finished >=
                                                    static_cast<size_t>(requests_.LeastOf(unit));
  if (enough && requests_.GroupIsKnown(unit) && scheduler_) Submit(unit, lists, now);
}

void PodScheduler::Submit(PodUnit& unit, const Lists& lists, Instant) {
  unit.job = JobId(unit.key + "#" + std::to_string(++last_job_));
  Result<scheduler::JobRequest> request = requests_.RequestFor(unit, lists.pending);
  Status fits =
      request.ok() ? requests_.CheckFits(unit, *request, *scheduler_, epoch_) : request.status();
  if (fits.ok()) {
    scheduler::JobAdopted waiting;
    waiting.request = *std::move(request);
    waiting.submitted = *unit.since;
    Apply(waiting);
    if (scheduler_->StageOf(unit.job) == scheduler::JobStage::kWaiting) {
      unit.stage = Stage::kWaiting;
      unit.epoch = epoch_;
      unit_of_job_[unit.job.value()] = unit.key;
      return;
    }
    fits = InternalError("the scheduler does not accept it");
  }
  unit.members.clear();
  unit.refusal = fits.message();
}

// Bound pods, and those whose bind is on its way, are tasks where they are; the others are lost
// tasks, for which the scheduler looks for nodes near these.
void PodScheduler::Adopt(PodUnit& unit, const Lists& lists, Instant now) {
  std::vector<PodRecord*> pods = lists.bound;
  pods.insert(pods.end(), lists.planned.begin(), lists.planned.end());
  const size_t with_node = pods.size();
  const bool gang = !unit.group.empty();
  if (gang) pods.insert(pods.end(), lists.pending.begin(), lists.pending.end());
  unit.job = JobId(unit.key + "#" + std::to_string(++last_job_));
  const auto everywhere = [&](PodRecord::Account account) {
    for (size_t i = 0; i < with_node; ++i) pods_.SetAccount(*pods[i], account);
  };
  everywhere(PodRecord::Account::kNone);
  unit.complete = unit.complete || lists.started || IsComplete(unit, lists);
  Result<scheduler::JobRequest> request = requests_.RequestFor(unit, pods);
  if (request.ok() &&
      scheduler_->state().shape_count() + request->groups.size() >= scheduler::kMaxShapes) {
    request = ResourceExhausted("the pods of the cluster differ in too many ways");
  }
  if (request.ok()) {
    // What others use of these nodes may be known too high: these pods were among them.
    ShareNodes();
    scheduler::JobAdopted adopted;
    adopted.request = *request;
    adopted.submitted = unit.since.value_or(now);
    adopted.started = unit.started == Instant() ? now : unit.started;
    adopted.last_snapshot = adopted.started;
    adopted.held_priority = request->priority;
    for (PodUnit::Member& member : unit.members) {
      const PodRecord& record = *pods_.FindKey(member.pod);
      const std::string& node = record.is_bound() ? record.node : record.planned;
      const auto at = node.empty() ? std::nullopt : scheduler_->topology().Find(node);
      if (at) {
        adopted.tasks.push_back({member.group, member.rank, *at, 0});
        member.placed = true;
      } else {
        adopted.lost.emplace_back(member.group, member.rank);
      }
    }
    Apply(adopted);
    if (scheduler_->TasksOf(unit.job).size() == with_node) {
      unit.stage = Stage::kPlaced;
      unit.epoch = epoch_;
      unit.started = adopted.started;
      unit.confirmed = false;
      unit.unmanaged_since.reset();
      unit_of_job_[unit.job.value()] = unit.key;
      everywhere(PodRecord::Account::kTask);
      // Those whose bind is to be sent again may be due.
      if (!lists.planned.empty()) MarkDirty(unit);
      return;
    }
    Apply(scheduler::JobEnded{unit.job, false});
    unit.refusal = "its pods are bound where the scheduler would not have put them";
  } else {
    unit.refusal = request.status().message();
  }
  unit.members.clear();
  everywhere(PodRecord::Account::kOthers);
  // Nothing sends their binds again.
  for (PodRecord* record : lists.planned) {
    if (record->held) binds_.Refuse(*record, "", now);
  }
  StayUnmanaged(unit, lists, now);
}

// The pods count as pods of others, and it is tried again to adopt them. A gang that misses pods
// is removed after a while, like one whose lost pods find no node.
void PodScheduler::StayUnmanaged(PodUnit& unit, const Lists& lists, Instant now) {
  if (!unit.unmanaged_since) unit.unmanaged_since = now;
  if (lists.pending.empty()) return;
  if (!reports_.Has(unit.key)) reports_.Set(unit.key, now + settings_.report_after);
  if (unit.group.empty() || *unit.unmanaged_since + settings_.lost_patience > now) return;
  for (const auto* list : {&lists.bound, &lists.planned}) {
    for (PodRecord* record : *list) {
      record->remove_at = now;
      record->evict = unit.complete;
      unit.leaving.insert(record->key);
      pods_.SetAccount(*record, PodRecord::Account::kNone);
    }
  }
  unit.unmanaged_since.reset();
  unit.complete = false;
  unit.stage = Stage::kLeaving;
  MarkDirty(unit);
}

bool PodScheduler::IsComplete(const PodUnit& unit, const Lists& lists) const {
  return lists.bound.size() + lists.finished >= static_cast<size_t>(requests_.LeastOf(unit));
}

void PodScheduler::SyncWaiting(PodUnit& unit, const Lists& lists, Instant now) {
  if (!reports_.Has(unit.key)) reports_.Set(unit.key, now + settings_.report_after);
  bool same = unit.epoch == epoch_ && lists.bound.empty() && lists.planned.empty() &&
              lists.pending.size() == unit.members.size();
  if (same) {
    std::set<std::string_view> members;
    for (const PodUnit::Member& member : unit.members) members.insert(member.pod);
    for (const PodRecord* pod : lists.pending) same = same && members.contains(pod->key);
  }
  if (same) return;
  EndJob(unit, false);
  SyncIdle(unit, lists, now);
}

bool PodScheduler::MembersAreAsPlanned(const PodUnit& unit, const Lists& lists) {
  std::map<std::string_view, const PodUnit::Member*> members;
  for (const PodUnit::Member& member : unit.members) members[member.pod] = &member;
  const bool gang = !unit.group.empty();
  const size_t wanted =
      lists.bound.size() + lists.planned.size() + (gang ? lists.pending.size() : 0);
  if (members.size() != wanted) return false;
  const auto placed = [&members](const PodRecord* pod) {
    const auto member = members.find(pod->key);
    if (member == members.end() || !member->second->placed) return false;
    return !pod->is_bound() || pod->counted_on == pod->node;
  };
  const auto lost = [&members](const PodRecord* pod) {
    const auto member = members.find(pod->key);
    return member != members.end() && !member->second->placed;
  };
  return std::all_of(lists.bound.begin(), lists.bound.end(), placed) &&
         std::all_of(lists.planned.begin(), lists.planned.end(), placed) &&
         (!gang || std::all_of(lists.pending.begin(), lists.pending.end(), lost));
}

void PodScheduler::SyncPlaced(PodUnit& unit, const Lists& lists, Instant now,
                              std::vector<PodAction>& actions) {
  if (!MembersAreAsPlanned(unit, lists)) {
    const bool over = lists.bound.empty() && lists.planned.empty();
    EndJob(unit, over && lists.finished > 0);
    if (over && lists.finished == 0) {
      unit.complete = false;
      unit.since.reset();  // pods that are made anew begin to wait anew
    }
    return SyncIdle(unit, ListsOf(unit, now), now);
  }
  if (unit.after.empty() && binds_.Send(unit, now, actions)) MarkDirty(unit);
  unit.complete = unit.complete || IsComplete(unit, lists);
  const bool all_bound = lists.bound.size() == unit.members.size();
  if (all_bound && !unit.confirmed) {
    unit.confirmed = true;
    unit.failures = 0;
    Apply(scheduler::TasksRunning{unit.job, unit.transaction, {}});
    events_.OnBound(unit, pods_);
  }
}

// A gang that has begun to start, and of which too few pods exist to complete it, is undone after a
// while. One that was complete and has lost pods for good is its owner's affair.
void PodScheduler::UndoIncomplete(PodUnit& unit, const Lists& lists, Instant now,
                                  std::vector<PodAction>& actions) {
  const auto least = static_cast<size_t>(requests_.LeastOf(unit));
  unit.complete = unit.complete || IsComplete(unit, lists);
  const bool missing = !unit.complete && lists.present() + lists.finished < least;
  if (!missing) {
    unit.rollback_at.reset();
    return;
  }
  if (!unit.rollback_at) unit.rollback_at = now + settings_.incomplete_patience;
  if (*unit.rollback_at > now) return;
  BeginLeaving(unit, false, now);
  Apply(scheduler::JobEvictionAsked{unit.job});
  if (SyncLeaving(unit, now, actions)) MarkDirty(unit);
}

void PodScheduler::BeginLeaving(PodUnit& unit, bool evict, Instant now) {
  for (const PodUnit::Member& member : unit.members) {
    PodRecord* record = pods_.FindKey(member.pod);
    if (record == nullptr || record->unit != unit.key || record->finished) continue;
    if (record->is_bound() || record->sent) {
      record->remove_at = now;
      record->evict = evict;
      unit.leaving.insert(member.pod);
    } else {
      binds_.Drop(*record);
    }
    pods_.SetAccount(*record, PodRecord::Account::kNone);
  }
  for (const std::string& job : unit.after) {
    const auto waiting = waiting_for_.find(job);
    if (waiting != waiting_for_.end()) waiting->second.erase(unit.key);
  }
  unit.after.clear();
  unit.members.clear();
  unit.stage = Stage::kLeaving;
  unit.preemption_reported = false;
  unit.confirmed = false;
  unit.complete = false;
  unit.rollback_at.reset();
  MarkDirty(unit);
}

}  // namespace longhaul::engines::kubernetes
