#include "scheduler/internal/changes.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "base/text.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/room/make_room.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr size_t kMostReturned = 4;  // nodes that a fix brings back

// The strictest tier of the job and its groups.
Tier RequiredOf(const JobRequest& request) {
  Tier tier = request.required;
  for (const GroupRequest& group : request.groups) tier = std::min(tier, group.required);
  return tier;
}

// Works on a state to which the changes so far have been applied to.
class Fixer {
 public:
  Fixer(SchedulerState& state, Placer& placer, const JobEntry& job)
      : state_(state), placer_(placer), job_(job) {}

  std::vector<Change> Alternatives(Relaxation relaxation) {
    switch (relaxation) {
      case Relaxation::kExpedite:
        return Expedite();
      case Relaxation::kOtherModels:
        return OtherModels();
      case Relaxation::kTopology:
        return LooserTopology();
      case Relaxation::kSpread:
        return LooserSpread();
      case Relaxation::kLinks:
        return RestoreLinks();
      case Relaxation::kLimit:
        return RaiseLimits();
      case Relaxation::kReturnNodes:
        return ReturnNodes();
      case Relaxation::kFewer:
        return FewerTasks();
      case Relaxation::kEvict:
        return EvictOthers();
    }
    return {};
  }

 private:
  std::vector<Change> Expedite() {
    if (job_.expedited > 0 && job_.expedited == state_.expedites) return {};
    return {{"put it before all other jobs", {JobExpedited{job_.request->id}}}};
  }

  std::vector<Change> OtherModels() {
    JobRequest request = *job_.request;
    bool changed = false;
    for (GroupRequest& group : request.groups) {
      if (!group.shape.needs_devices() || group.shape.models == kAnyModel) continue;
      group.shape.models = kAnyModel;
      changed = true;
    }
    std::vector<Change> changes;
    if (changed) changes.push_back({"let it use any device model", {JobChanged{request}}});
    if (!job_.shapes_of_models.empty() || changed) {
      bool mixed = false;
      for (GroupRequest& group : request.groups) mixed |= std::exchange(group.one_model, false);
      if (mixed) changes.push_back({"let it mix device models", {JobChanged{request}}});
    }
    return changes;
  }

  std::vector<Change> LooserTopology() {
    std::vector<Change> changes;
    const Tier now = RequiredOf(*job_.request);
    // From the next looser tier upwards: the first alternative that holds changes least.
    for (Tier tier = now + 1; now != kClusterTier && tier <= state_.tree->tiers(); ++tier) {
      const Tier looser = tier == state_.tree->tiers() ? kClusterTier : tier;
      JobRequest request = *job_.request;
      request.required = std::max(request.required, looser);
      for (GroupRequest& group : request.groups) group.required = std::max(group.required, looser);
      changes.push_back(
          {"require " + TierText(looser) + " instead of " + TierText(now), {JobChanged{request}}});
    }
    JobRequest request = *job_.request;
    bool aligned = false;
    for (GroupRequest& group : request.groups) aligned |= std::exchange(group.rail_aligned, false);
    if (aligned) changes.push_back({"give up its alignment to rails", {JobChanged{request}}});
    return changes;
  }

  // The least bound on a domain of the spread with which the group's minimum fits now; its desired
  // count if there is none below.
  int32_t LeastBound(size_t g) {
    JobEntry trial = job_;
    JobRequest request = *job_.request;
    GroupRequest& group = request.groups[g];
    int32_t least = group.max_per_domain + 1;
    // Bisection: a looser bound never fits fewer tasks.
    for (int32_t most = group.desired; least < most;) {
      group.max_per_domain = least + (most - least) / 2;
      trial.request = std::make_shared<const JobRequest>(request);
      const int32_t fits =
          placer_.MostTasks(state_, trial, static_cast<int32_t>(g), {}, AdmitOf(state_, job_));
      if (fits >= group.minimum) {
        most = group.max_per_domain;
      } else {
        least = group.max_per_domain + 1;
      }
    }
    return least;
  }

  // The least bound of a domain with which enough tasks fit now, then none: what other changes
  // free may need any of those between.
  std::vector<Change> LooserSpread() {
    std::vector<Change> changes;
    const auto& groups = job_.request->groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      const GroupRequest& group = groups[g];
      if (!group.is_spread() || group.max_per_domain >= group.desired) continue;
      JobRequest request = *job_.request;
      int32_t& bound = request.groups[g].max_per_domain;
      bound = LeastBound(g);
      if (bound < group.desired) {
        changes.push_back({"allow " + SpreadText(request.groups[g]) + " instead of " +
                               WithThousands(group.max_per_domain),
                           {JobChanged{request}}});
      }
      bound = kMaxGangTasks;
      changes.push_back({"allow any number of its tasks in " + TierText(group.spread_tier),
                         {JobChanged{request}}});
    }
    return changes;
  }

  // Links that gangs may not cross: each alone, then all.
  std::vector<Change> RestoreLinks() {
    std::vector<Change> changes;
    Change all;
    for (const auto& [domain, health] : state_.links) {
      if (health.trusted) continue;
      const auto& level = state_.topology->levels()[static_cast<size_t>(domain.first)];
      const std::string text =
          "bring back the links of " + level.domains[static_cast<size_t>(domain.second)].name;
      const LinkChanged up{domain.first, domain.second, true};
      if (changes.size() < kMostReturned) changes.push_back({text, {up}});
      all.text += (all.text.empty() ? "" : " and ") + text;
      all.events.push_back(up);
    }
    if (all.events.size() > 1) changes.push_back(std::move(all));
    return changes;
  }

  // With the limits of all queues above raised; of each device model that could serve the job.
  std::vector<Change> RaiseLimits() {
    std::vector<Change> changes;
    for (const ModelChoice& choice : ModelChoicesOf(state_, job_)) {
      Change change = RaiseLimitsFor(choice.amounts);
      if (!change.events.empty()) changes.push_back(std::move(change));
    }
    return changes;
  }

  Change RaiseLimitsFor(const spec::SharedAmounts& asked) const {
    Change change;
    std::vector<std::string> texts;
    for (share::QueueIndex up = job_.queue; up > share::kRootQueue; up = state_.queues.parent(up)) {
      // The new limit is exactly what usage and request need, in the dimensions that lack it; the
      // root has no limit that could be raised.
      spec::SharedAmounts limit = state_.queues.limit(up);
      bool raised = false;
      for (size_t r = 0; r < state_.queues.dimensions(); ++r) {
        const int64_t needed = state_.queues.usage(up)[r] + asked[r];
        if (asked[r] == 0 || needed <= limit[r]) continue;
        texts.push_back("raise the limit of queue '" + state_.queues.name(up) + "' from " +
                        state_.queues.AmountText(r, limit[r]) + " to " +
                        state_.queues.AmountText(r, needed));
        limit[r] = needed;
        raised = true;
      }
      if (raised) change.events.push_back(QueueLimitSet{state_.queues.name(up), limit});
    }
    change.text = Join(texts, " and ");
    return change;
  }

  std::vector<uint32_t> BrokenDevices(NodeIndex node) const {
    std::vector<uint32_t> broken;
    for (uint32_t d = 0; d < state_.resources.node(node).devices; ++d) {
      if ((state_.resources.node(node).unhealthy >> d & 1) != 0) broken.push_back(d);
    }
    return broken;
  }

  // Whether the queues would not lend the job so much of the nodes that are up if nothing ran. Then
  // any node that comes back helps, whether or not its tasks fit there.
  bool CapacityIsMissing() const {
    share::QueueTree idle = state_.queues;
    for (const JobNumber number : state_.placed) {
      const JobEntry& other = state_.at(number);
      idle.Remove(HeldBy(other));
    }
    const std::vector<ModelChoice> choices = ModelChoicesOf(state_, job_);
    return std::any_of(choices.begin(), choices.end(), [&](const ModelChoice& choice) {
      const auto block = idle.Check(WholeOf(job_, choice.amounts));
      return block && block->kind == share::QuotaBlock::Kind::kLending;
    });
  }

  // What brings a node back whole, if anything is amiss and the job could use it, or the capacity
  // that it would be.
  Change ReturnNode(NodeIndex node, bool capacity) const {
    Change change;
    bool useful = capacity && state_.resources.node(node).condition == spec::NodeCondition::kDown;
    for (const ShapeId shape : job_.shapes) {
      useful |= state_.resources.SlotsWhenEmpty(node, shape, 1) > 0;
    }
    if (!useful) return change;
    const std::string& name = state_.topology->node(node).name;
    const spec::NodeCondition condition = state_.resources.node(node).condition;
    if (condition != spec::NodeCondition::kReady) {
      change.text = "bring back " + name + ", which is " + std::string(spec::ToString(condition));
      change.events.push_back(NodeChanged{name, spec::NodeCondition::kReady});
    }
    for (const uint32_t device : BrokenDevices(node)) {
      change.text += (change.text.empty() ? "" : " and ") + std::string("repair device ") +
                     std::to_string(device) + " of " + name;
      change.events.push_back(DeviceChanged{name, device, true});
    }
    return change;
  }

  // Nodes that are not whole, the best condition first: single ones, then more and more of them.
  std::vector<Change> ReturnNodes() {
    const bool capacity = CapacityIsMissing();
    std::vector<std::pair<int, Change>> away;
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      Change change = ReturnNode(node, capacity);
      if (change.events.empty()) continue;
      static constexpr int kOrder[] = {4, 1, 3, 2, 5, 0};  // by NodeCondition, spares first
      away.emplace_back(kOrder[static_cast<size_t>(state_.resources.node(node).condition)],
                        std::move(change));
    }
    std::stable_sort(away.begin(), away.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Change> changes;
    for (size_t i = 0; i < away.size() && i < kMostReturned; ++i) changes.push_back(away[i].second);
    // Doubling sizes: logarithmically many alternatives, of which one has at most twice as many
    // nodes as are needed.
    for (size_t size = 2; away.size() >= 2; size *= 2) {
      const size_t many = std::min(size, away.size());
      Change all;
      for (size_t i = 0; i < many; ++i) {
        const Change& one = away[i].second;
        all.text += (i == 0 ? "" : " and ") + one.text;
        all.events.insert(all.events.end(), one.events.begin(), one.events.end());
      }
      changes.push_back(std::move(all));
      if (many == away.size()) break;
    }
    return changes;
  }

  // The most tasks that room and quota leave now, fewer than its minimum.
  std::vector<Change> FewerTasks() {
    if (job_.request->groups.size() != 1) return {};
    JobRequest request = *job_.request;
    GroupRequest& group = request.groups[0];
    const int32_t unit = std::max(group.slice, 1);
    int32_t most =
        std::min(placer_.MostTasks(state_, job_, 0, {}, AdmitOf(state_, job_)), group.minimum - 1);
    most -= most % unit;
    while (most > 0 && CheckQuotas(state_, job_, std::array{most})) {
      most -= unit;
    }
    std::vector<Change> changes;
    // Reservations may forbid the most; a few smaller sizes are tried too.
    for (int32_t count = most; count > 0 && changes.size() < 3; count = count / 2 / unit * unit) {
      JobRequest fewer = request;
      fewer.groups[0].minimum = fewer.groups[0].desired = count;
      fewer.groups[0].step = std::max(1, unit);
      changes.push_back(
          {"run it with " + TasksText(count) + " instead of " + TasksText(group.minimum),
           {JobChanged{fewer}}});
    }
    return changes;
  }

  // For each choice of models: who holds its room there, who holds its quota, and both.
  std::vector<Change> EvictOthers() {
    std::vector<Change> changes;
    for (const ModelChoice& choice : ModelChoicesOf(state_, job_)) {
      std::vector<JobNumber> stopped;
      if (Change change = EvictHolders(choice, stopped); !change.events.empty()) {
        changes.push_back(std::move(change));
      }
      if (Change change = EvictBorrowers({}, choice.amounts); !change.events.empty()) {
        changes.push_back(std::move(change));
      }
      if (Change change = EvictBorrowers(stopped, choice.amounts);
          !stopped.empty() && change.events.size() > stopped.size()) {
        changes.push_back(std::move(change));
      }
    }
    return changes;
  }

  // The cheapest jobs that hold its room. Adds them to `stopped`.
  Change EvictHolders(const ModelChoice& choice, std::vector<JobNumber>& stopped) {
    Change change;
    const Room room = FindRoomOn(state_, job_, choice, Rights::kOperator, placer_);
    std::vector<std::string> names;
    for (const ChosenVictim& victim : room.victims) {
      const JobId& name = state_.at(victim.job).request->id;
      names.push_back(name.value());
      change.events.push_back(JobEvictionAsked{name});
      stopped.push_back(victim.job);
    }
    change.text = "stop " + Join(names, ", ");
    return change;
  }

  // Whether `other` counts as what blocks this job by the limits of its user.
  bool CountsIn(const share::QuotaBlock& block, const JobEntry& other) const {
    if (!block.of_user() || other.request->owner != block.user) return false;
    share::QueueIndex up = other.queue;
    while (up != share::kNoQueue && up != block.queue) up = state_.queues.parent(up);
    return up == block.queue;
  }

  // After these, jobs until quotas admit this one with these amounts: of its user, where the limits
  // of the user block it, and then of those that hold most beyond their guarantee.
  Change EvictBorrowers(const std::vector<JobNumber>& first, const spec::SharedAmounts& amounts) {
    const share::Holding asked = WholeOf(job_, amounts);
    share::QueueTree left = state_.queues;
    Change change;
    std::vector<std::string> names;
    // Jobs of the queues that exceed their guarantees most come first, then the cheapest, then the
    // oldest number.
    std::vector<std::tuple<int64_t, int64_t, JobNumber>> order;
    for (const JobNumber number : state_.placed) {
      const JobEntry& other = state_.at(number);
      order.emplace_back(-state_.queues.ExcessShare(other.queue), LossOfStopping(state_, other),
                         number);
    }
    std::sort(order.begin(), order.end());
    std::set<JobNumber> stopped;
    const auto stop = [&](JobNumber number) {
      const JobEntry& other = state_.at(number);
      stopped.insert(number);
      left.Remove(HeldBy(other));
      names.push_back(other.request->id.value());
      change.events.push_back(JobEvictionAsked{other.request->id});
    };
    for (const JobNumber number : first) stop(number);
    // Where several limits block, a job may count in one that is met only after others have
    // stopped.
    for (size_t before = names.size() + 1; before != names.size();) {
      before = names.size();
      for (const auto& [excess, cost, number] : order) {
        const auto block = left.CheckUser(asked);
        if (!block) break;
        if (!stopped.contains(number) && CountsIn(*block, state_.at(number))) stop(number);
      }
    }
    // Jobs of other users free nothing of this one's.
    if (left.CheckUser(asked)) return {};
    for (const auto& [excess, cost, number] : order) {
      if (!left.Check(asked)) break;
      if (!stopped.contains(number)) stop(number);
    }
    if (left.Check(asked)) return {};
    change.text = "stop " + Join(names, ", ");
    return change;
  }

  SchedulerState& state_;
  Placer& placer_;
  const JobEntry& job_;
};

}  // namespace

std::string TierText(Tier tier) {
  switch (tier) {
    case kHostTier:
      return "one host";
    case kLeafTier:
      return "one leaf";
    case kBlockTier:
      return "one block";
    case kClusterTier:
      return "anywhere";
    default:
      return "one domain of tier " + std::to_string(tier);
  }
}

std::string TasksText(int64_t count) {
  return WithThousands(count) + (count == 1 ? " task" : " tasks");
}

std::string SpreadText(const GroupRequest& group) {
  return "at most " + WithThousands(group.max_per_domain) + " in " + TierText(group.spread_tier);
}

std::vector<Change> AlternativesOf(Relaxation relaxation, SchedulerState& state, Placer& placer,
                                   const JobEntry& job) {
  return Fixer(state, placer, job).Alternatives(relaxation);
}

bool CouldStart(SchedulerState& state, Placer& placer, const JobEntry& job) {
  if (job.leaving) return false;
  std::vector<int32_t> counts;
  for (const GroupRequest& group : job.request->groups) counts.push_back(group.minimum);
  // Room without victims first, which costs one placement.
  if (!CheckQuotasOfMinimum(state, job)) {
    const Savepoint before = state.resources.Save();
    std::vector<HeldTask> placed;
    const bool fits = placer.Place(state, job, counts, {}, AdmitOf(state, job), placed);
    state.resources.RollBack(before);
    if (fits) return true;
  }
  return state.policy.preempt && MayClaim(state, job) &&
         FindRoom(state, job, Rights::kOwn, placer).found;
}

}  // namespace longhaul::scheduler::internal
