#include "scheduler/internal/take_event.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "scheduler/internal/changes.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

namespace {

using spec::NodeCondition;

constexpr uint16_t kGoodHealth = 1'000;
constexpr uint16_t kTrustedHealth = 800;  // a suspect that healed so far is ready again
constexpr int64_t kHealthAnHour = 10;

// The most tasks of the group that may lie on one host.
int32_t HostCap(const GroupRequest& group) {
  return group.max_per_host > 0 ? group.max_per_host : kMaxGangTasks;
}

// The most tasks of a shape that an empty cluster could take in one domain of the tier under the
// group's bounds and in its whole slices.
int64_t MostInOneDomain(const SchedulerState& state, const Shape& shape, Tier tier,
                        const GroupRequest& group) {
  const std::vector<uint32_t> slots =
      state.resources.SlotsWhenEmpty(shape, static_cast<uint32_t>(HostCap(group)));
  const DomainTree& tree = *state.tree;
  const bool by_host = tier == kHostTier;
  const int32_t domains = tier == kClusterTier ? 1 : by_host ? tree.hosts() : tree.domains(tier);
  // Slices, or the bound of the spread, are of domains of `inner`; else it does not matter which.
  const Tier inner = group.is_spread()  ? group.spread_tier
                     : group.slice == 1 ? kHostTier
                                        : std::min(group.slice_tier, tier);
  const auto inner_of = [&](int32_t host) {
    return inner == kHostTier ? host : inner == kClusterTier ? 0 : tree.DomainOf(inner, host);
  };
  int64_t most = 0;
  for (int32_t d = 0; d < domains; ++d) {
    int64_t sum = 0;
    int64_t here = 0;  // in the present inner domain
    for (int32_t host = tree.FirstHost(tier, d); host < tree.LastHost(tier, d); ++host) {
      here += slots[static_cast<size_t>(host)];
      if (host + 1 < tree.LastHost(tier, d) && inner_of(host + 1) == inner_of(host)) continue;
      sum += group.is_spread() ? std::min<int64_t>(here, group.max_per_domain)
                               : here - here % group.slice;
      here = 0;
    }
    most = std::max(most, sum);
  }
  return most;
}

// The same; remembered for groups without slices and spread.
int64_t MostWhenEmpty(SchedulerState& state, ShapeId id, Tier tier, const GroupRequest& group) {
  const Shape& shape = state.resources.shape(id);
  if (group.slice > 1 || group.is_spread()) return MostInOneDomain(state, shape, tier, group);
  const auto [known, fresh] = state.most_when_empty.try_emplace({id, tier, HostCap(group)}, 0);
  if (fresh) known->second = MostInOneDomain(state, shape, tier, group);
  return known->second;
}

// One task a host, on hosts whose islands are alike.
int64_t MostOnRails(SchedulerState& state, ShapeId id, Tier tier) {
  const std::vector<std::vector<uint8_t>> kinds = RailIslands(state, id);
  const DomainTree& tree = *state.tree;
  const bool by_host = tier == kHostTier;
  const int32_t domains = tier == kClusterTier ? 1 : by_host ? tree.hosts() : tree.domains(tier);
  int64_t most = 0;
  for (const std::vector<uint8_t>& islands : kinds) {
    for (int32_t d = 0; d < domains; ++d) {
      int64_t hosts = 0;
      for (int32_t host = tree.FirstHost(tier, d); host < tree.LastHost(tier, d); ++host) {
        const auto node = static_cast<NodeIndex>(host);
        const bool serves =
            HasIslands(state, node, islands) && state.resources.SlotsWhenEmpty(node, id, 1) > 0;
        hosts += serves ? 1 : 0;
      }
      most = std::max(most, hosts);
    }
  }
  return most;
}

// The most tasks of a group that an empty cluster could take, whatever other groups need. The state
// learns of its shapes.
int64_t MostOfGroup(SchedulerState& state, const GroupRequest& group, Tier tier) {
  const auto most_of = [&](ShapeId shape) {
    const int64_t most = MostWhenEmpty(state, shape, tier, group);
    return group.rail_aligned ? std::min(most, MostOnRails(state, shape, tier)) : most;
  };
  const std::vector<ShapeId> shapes = state.ShapesOfModels(group);
  if (shapes.empty()) return most_of(state.resources.Intern(group.shape));
  int64_t most = 0;
  for (const ShapeId shape : shapes) most = std::max(most, most_of(shape));
  return most;
}

// The same for a group that is not aligned to rails. The state stays as it is.
int64_t MostOfPlainGroup(const SchedulerState& state, const GroupRequest& group, Tier tier) {
  std::vector<Shape> shapes = state.RestrictedToModels(group);
  if (shapes.empty()) shapes.push_back(group.shape);
  int64_t most = 0;
  for (const Shape& shape : shapes) {
    most = std::max(most, MostInOneDomain(state, shape, tier, group));
  }
  return most;
}

// Whether groups that compete for the same GPUs could all be placed with nothing else there. Tried
// on the state itself, in a transaction that is undone. `models`: as Bounds::models; empty: any.
bool FitsWhenEmpty(SchedulerState& state, const JobRequest& request,
                   const std::vector<uint64_t>& models) {
  const Savepoint before = state.resources.Save();
  for (const JobNumber number : state.placed) {
    for (const HeldTask& task : state.at(number).tasks) state.resources.Remove(task.slot);
  }
  for (NodeIndex node = 0; node < state.resources.size(); ++node) {
    for (uint32_t device = 0; device < state.resources.node(node).devices; ++device) {
      if (state.resources.node(node).free_share[device] < kWholeGpu) {
        state.resources.SetDeviceHealthy(node, device, true);
      }
    }
    if (!state.resources.node(node).ready())
      state.resources.SetCondition(node, NodeCondition::kReady);
  }
  JobEntry job;
  job.number = state.next_job;
  job.request = std::make_shared<const JobRequest>(request);
  std::vector<int32_t> counts;
  state.InternShapes(job);
  for (const GroupRequest& group : request.groups) counts.push_back(group.minimum);
  Placer placer(state.policy.seed);
  std::vector<HeldTask> placed;
  Bounds bounds;
  bounds.models = models;
  // Whatever the quotas leave now.
  if (models.empty()) bounds.models.assign(request.groups.size(), kAnyModel);
  const bool fits = placer.Place(state, job, counts, bounds, Admit::kReady, placed);
  state.resources.RollBack(before);
  return fits;
}

class Taker {
 public:
  explicit Taker(SchedulerState& state) : state_(state) {}

  void operator()(const JobSubmitted& event) {
    const JobRequest& request = event.request;
    if (state_.by_name.contains(request.id.value())) return;
    Status fits = CheckRequest(request, state_.tree->tiers());
    if (fits.ok()) fits = CheckFits(state_, request);
    if (!fits.ok()) {
      Decision& reject = state_.rejections.emplace_back();
      reject.kind = DecisionKind::kReject;
      reject.job = request.id;
      reject.reason = fits.message();
      return;
    }
    JobEntry job;
    job.number = state_.next_job++;
    job.submitted = state_.now;
    Adopt(job, request);
    state_.by_name[request.id.value()] = job.number;
    JobEntry& kept = state_.jobs.emplace(job.number, std::move(job)).first->second;
    CountArrival(kept);
    state_.Enqueue(kept);
  }

  void operator()(const JobChanged& event) {
    JobEntry* job = state_.Find(event.request.id);
    if (job == nullptr || job->placed) return;
    if (!CheckRequest(event.request, state_.tree->tiers()).ok()) return;
    if (!CheckFits(state_, event.request).ok()) return;
    state_.Dequeue(*job);
    Adopt(*job, event.request);
    state_.Enqueue(*job);
  }

  void operator()(const JobExpedited& event) {
    JobEntry* job = state_.Find(event.job);
    if (job == nullptr || job->placed) return;
    state_.Dequeue(*job);
    job->expedited = ++state_.expedites;
    state_.Enqueue(*job);
  }

  void operator()(const JobEnded& event) {
    JobEntry* job = state_.Find(event.job);
    if (job == nullptr) return;
    if (job->placed) {
      state_.durations.Observe(state_.LikenessOf(*job), job->ran + state_.Elapsed(*job));
      state_.Release(*job);
    } else {
      state_.Dequeue(*job);
    }
    state_.Erase(job->number);
  }

  void operator()(const JobEvictionAsked& event) {
    JobEntry* job = state_.Find(event.job);
    if (job == nullptr || !job->placed) return;
    Decision& evict = state_.rejections.emplace_back();
    evict.kind = DecisionKind::kEvict;
    evict.transaction = state_.next_transaction++;
    evict.job = event.job;
    evict.tasks = state_.PlacementsOf(*job);
    evict.reason = "an operator asked for it";
    state_.Requeue(*job, true);
  }

  void operator()(const JobAdopted& event) {
    const JobRequest& request = event.request;
    if (state_.by_name.contains(request.id.value())) return;
    if (!CheckRequest(request, state_.tree->tiers()).ok()) return;
    if (!request.queue.empty() && state_.queues.Find(request.queue) == share::kNoQueue) return;
    JobEntry fresh;
    fresh.number = state_.next_job++;
    fresh.submitted = std::min(event.submitted, state_.now);
    fresh.expedited = event.expedited;
    state_.expedites = std::max(state_.expedites, event.expedited);
    fresh.ran = std::max(event.ran, Duration(0));
    fresh.evictions = event.evictions;
    Adopt(fresh, request);
    state_.by_name[request.id.value()] = fresh.number;
    JobEntry& job = state_.jobs.emplace(fresh.number, std::move(fresh)).first->second;
    CountArrival(job);
    for (const NodeIndex node : event.leaving) {
      if (node >= state_.resources.size()) continue;
      job.leaving = true;
      job.leaving_nodes.push_back(node);
      state_.leaving_on[node].insert(job.number);
    }
    state_.Enqueue(job);
    if (!event.tasks.empty() || !event.lost.empty()) TakeOver(job, event);
  }

  void operator()(const JobStopped& event) {
    JobEntry* job = state_.Find(event.job);
    if (job == nullptr || !job->leaving) return;
    for (const NodeIndex node : job->leaving_nodes) state_.leaving_on[node].erase(job->number);
    job->leaving_nodes.clear();
    if (!job->placed) state_.Dequeue(*job);
    job->leaving = false;
    if (!job->placed) state_.Enqueue(*job);
  }

  void operator()(const SnapshotTaken& event) {
    JobEntry* job = state_.Find(event.job);
    if (job != nullptr && job->placed) job->last_snapshot = state_.now;
  }

  void operator()(const TasksBound& event) {
    Raise(event.job, event.transaction, event.ranks, Stage::kBound);
  }
  void operator()(const TasksRunning& event) {
    Raise(event.job, event.transaction, event.ranks, Stage::kRunning);
  }

  void operator()(const TaskRefused& event) {
    JobEntry* job = state_.Find(event.job);
    if (job == nullptr || !job->placed || job->transaction != event.transaction) return;
    const auto task = std::find_if(job->tasks.begin(), job->tasks.end(),
                                   [&](const HeldTask& held) { return held.rank == event.rank; });
    if (task == job->tasks.end() || task->stage == Stage::kRunning) return;
    job->refused_by.insert(state_.resources.task(task->slot).node);
    ++job->refusals;
    Lose(*job, static_cast<size_t>(task - job->tasks.begin()));
    state_.resources.Commit();
  }

  void operator()(const NodeChanged& event) {
    const auto node = state_.topology->Find(event.node);
    if (!node) return;
    const NodeCondition before = state_.resources.node(*node).condition;
    if (before == event.condition) return;
    state_.resources.SetCondition(*node, event.condition);
    if (event.condition == NodeCondition::kDown || event.condition == NodeCondition::kDraining) {
      Evacuate(*node, event.condition == NodeCondition::kDown);
    }
    if (event.condition == NodeCondition::kDown) NoteLoss(*node);
    state_.resources.Commit();
    SetCapacity();
  }

  void operator()(const DeviceChanged& event) {
    const auto node = state_.topology->Find(event.node);
    if (!node || event.device >= state_.resources.node(*node).devices) return;
    if (!event.healthy) {
      const auto gpu = static_cast<GpuMask>(1u << event.device);
      for (const auto& [number, task] : TasksOn(*node)) {
        JobEntry& job = state_.at(number);
        for (size_t i = 0; i < job.tasks.size(); ++i) {
          if (job.tasks[i].slot != task) continue;
          if ((state_.resources.task(task).gpus & gpu) != 0) Lose(job, i);
          break;
        }
      }
    }
    state_.resources.SetDeviceHealthy(*node, event.device, event.healthy);
    state_.resources.Commit();
  }

  void operator()(const NodeFaulted& event) {
    const auto node = state_.topology->Find(event.node);
    if (!node) return;
    HealNodes(state_);
    const int32_t left = std::max(0, state_.resources.health(*node) - state_.policy.fault_health);
    state_.resources.SetHealth(*node, static_cast<uint16_t>(left));
    state_.faulted_at[*node] = state_.now;
    state_.unhealthy.insert(*node);
    if (left < state_.policy.probation_health && state_.resources.node(*node).ready()) {
      state_.resources.SetCondition(*node, NodeCondition::kSuspect);
    }
    state_.resources.Commit();
  }

  void operator()(const LinkFaulted& event) {
    if (!IsDomain(event.tier, event.domain)) return;
    HealNodes(state_);
    LinkHealth& link = state_.links[{event.tier, event.domain}];
    link.health =
        static_cast<uint16_t>(std::max(0, int32_t{link.health} - state_.policy.fault_health));
    link.faulted_at = state_.now;
    if (link.health < state_.policy.probation_health) link.trusted = false;
    ++state_.quota_version;  // what waits is looked at anew
  }

  void operator()(const LinkChanged& event) {
    if (!IsDomain(event.tier, event.domain)) return;
    if (event.up) {
      state_.links.erase({event.tier, event.domain});
    } else {
      LinkHealth& link = state_.links[{event.tier, event.domain}];
      link.up = link.trusted = false;
      link.faulted_at = state_.now;
    }
    ++state_.quota_version;
  }

  void operator()(const MixExpected& event) {
    for (const auto& [shape, weight] : event.tasks) {
      if (weight < 1 || !state_.resources.has_room_for_shapes()) continue;
      state_.arrivals.Count(state_.resources.Intern(shape), weight);
    }
    state_.mix = state_.arrivals.Mix();
    state_.mix_arrivals = state_.arrivals.arrivals();
    ++state_.mix_version;
  }

  void operator()(const QueueLimitSet& event) {
    const share::QueueIndex queue = state_.queues.Find(event.queue);
    if (queue == share::kNoQueue || queue == share::kRootQueue) return;
    for (size_t r = 0; r < state_.queues.dimensions(); ++r) {
      if (event.limit[r] < 0 || event.limit[r] > spec::kUnlimited) return;
    }
    state_.queues.SetLimit(queue, event.limit);
    state_.idle_queues.SetLimit(queue, event.limit);
    ++state_.quota_version;
  }

 private:
  bool IsDomain(Tier tier, int32_t domain) const {
    return tier >= kLeafTier && tier < state_.tree->tiers() && domain >= 0 &&
           domain < state_.tree->domains(tier);
  }

  void CountArrival(const JobEntry& job) {
    for (size_t g = 0; g < job.shapes.size(); ++g) {
      state_.arrivals.Count(job.shapes[g], job.request->groups[g].minimum);
    }
  }

  void Adopt(JobEntry& job, const JobRequest& request) {
    job.request = std::make_shared<const JobRequest>(request);
    job.queue = request.queue.empty() ? share::kRootQueue : state_.queues.Find(request.queue);
    state_.InternShapes(job);
  }

  // What an adopted job holds. What can't be had is lost.
  void TakeOver(JobEntry& job, const JobAdopted& event) {
    std::vector<HeldTask> held;
    std::vector<std::pair<int32_t, int32_t>> lost;
    const auto groups = static_cast<int32_t>(job.shapes.size());
    for (const auto& [group, rank] : event.lost) {
      if (group >= 0 && group < groups) lost.emplace_back(group, rank);
    }
    for (const TaskPlacement& task : event.tasks) {
      if (task.group < 0 || task.group >= groups) continue;
      const ShapeId shape = job.shapes[static_cast<size_t>(task.group)];
      GpuMask gpus = task.gpus;
      if (!MayHold(task, shape)) {
        // GPUs that are counted otherwise now: as many as it needs, where it is.
        const bool there = task.node < state_.resources.size() &&
                           state_.resources.node(task.node).condition != NodeCondition::kDown &&
                           state_.resources.Fits(task.node, shape);
        if (!there) {
          lost.emplace_back(task.group, task.rank);
          continue;
        }
        gpus = state_.resources.ChooseGpus(task.node, shape);
      }
      const TaskSlot slot = state_.resources.Place(task.node, shape, gpus, job.number);
      held.push_back({task.group, task.rank, slot, Stage::kRunning});
    }
    state_.Begin(job, held, state_.now);
    job.mixes_models = state_.counts_models() && state_.MixesModels(job);
    state_.bind_deadlines.erase({*job.bind_by, job.number});
    job.bind_by.reset();
    job.started = std::min(event.started, state_.now);
    job.last_snapshot = std::min(event.last_snapshot, state_.now);
    auto& priorities = state_.placed_priorities[static_cast<size_t>(job.queue)];
    const auto found = priorities.find(job.held_priority);
    if (--found->second == 0) priorities.erase(found);
    job.held_priority = std::clamp<int64_t>(event.held_priority, -kMaxPriority, kMaxPriority + 1);
    ++priorities[job.held_priority];
    state_.Protect(job, event.protected_until);
    if (lost.empty()) LayRanks(state_, job, job.tasks, false);
    state_.NoteEnd(job);
    if (!lost.empty()) {
      job.lost = std::move(lost);
      job.lost_since = state_.now;
      state_.damaged.insert(job.number);
    }
    for (share::QueueIndex up = job.queue; up != share::kNoQueue; up = state_.queues.parent(up)) {
      for (size_t r = 0; r < state_.queues.dimensions(); ++r) {
        if (state_.queues.usage(up)[r] > state_.queues.limit(up)[r]) state_.over_limit.insert(up);
      }
      if (state_.queues.PassesUserLimits(up, job.request->owner)) {
        state_.users_over_limit.insert({up, job.request->owner});
      }
    }
  }

  // Whether the node has just these GPUs to give.
  bool MayHold(const TaskPlacement& task, ShapeId id) const {
    if (task.node >= state_.resources.size()) return false;
    const NodeState& node = state_.resources.node(task.node);
    const Shape& shape = state_.resources.shape(id);
    if (node.condition == NodeCondition::kDown || !state_.resources.Allows(id, node.group)) {
      return false;
    }
    if (!FitsHost(node, shape)) return false;
    if (!shape.needs_devices()) return task.gpus == 0;
    const int wanted = shape.gpus > 0 ? shape.gpus : 1;
    return CountGpus(task.gpus) == wanted && (EligibleGpus(node, shape) & task.gpus) == task.gpus;
  }

  // By job and rank: numbers of slots depend on what was placed before, and by whom.
  std::vector<std::pair<JobNumber, TaskSlot>> TasksOn(NodeIndex node) const {
    std::set<JobNumber> owners;
    for (TaskSlot slot = state_.resources.newest_task(node); slot != kNoTask;
         slot = state_.resources.task(slot).older) {
      owners.insert(state_.resources.task(slot).owner);
    }
    std::vector<std::pair<JobNumber, TaskSlot>> tasks;
    for (const JobNumber owner : owners) {
      for (const HeldTask& task : state_.at(owner).tasks) {
        if (state_.resources.task(task.slot).node == node) tasks.emplace_back(owner, task.slot);
      }
    }
    return tasks;
  }

  void Lose(JobEntry& job, size_t task) {
    if (job.lost.empty()) job.lost_since = state_.now;
    job.lost.emplace_back(job.tasks[task].group, job.tasks[task].rank);
    state_.Drop(job, task);
    state_.damaged.insert(job.number);
  }

  // Down: all tasks are lost. Draining: those of jobs that may be stopped are placed elsewhere.
  void Evacuate(NodeIndex node, bool down) {
    for (const auto& [number, slot] : TasksOn(node)) {
      JobEntry& job = state_.at(number);
      if (!down && (job.request->preemption == Preemption::kNever ||
                    job.request->preemption == Preemption::kShrink)) {
        continue;
      }
      for (size_t i = 0; i < job.tasks.size(); ++i) {
        if (job.tasks[i].slot == slot) {
          Lose(job, i);
          break;
        }
      }
    }
    if (!down) return;
    for (const JobNumber number : state_.leaving_on[node]) {
      std::erase(state_.at(number).leaving_nodes, node);
    }
    state_.leaving_on[node].clear();
  }

  // Several nodes of one leaf within a short time: it is the switch, and its other nodes are not to
  // be burnt one by one.
  void NoteLoss(NodeIndex node) {
    const int32_t leaf = state_.tree->LeafOf(static_cast<int32_t>(node));
    std::vector<Instant>& losses = state_.leaf_losses[leaf];
    losses.push_back(state_.now);
    std::erase_if(losses, [&](Instant at) { return at + state_.policy.leaf_window < state_.now; });
    if (losses.size() < state_.policy.leaf_faults) return;
    for (int32_t host = state_.tree->FirstHost(kLeafTier, leaf);
         host < state_.tree->LastHost(kLeafTier, leaf); ++host) {
      const auto other = static_cast<NodeIndex>(host);
      if (!state_.resources.node(other).ready()) continue;
      state_.resources.SetCondition(other, NodeCondition::kSuspect);
      state_.resources.SetHealth(other, std::min<uint16_t>(state_.resources.health(other),
                                                           state_.policy.probation_health));
      state_.faulted_at[other] = state_.now;
      state_.unhealthy.insert(other);
    }
  }

  void SetCapacity() {
    spec::SharedAmounts capacity;
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      if (state_.resources.node(node).condition == NodeCondition::kDown) continue;
      capacity += state_.model_dimensions.CapacityOf(state_.topology->kind_of(node));
    }
    state_.queues.SetCapacity(capacity);
    ++state_.quota_version;
  }

  void Raise(const JobId& id, uint64_t transaction, const std::vector<int32_t>& ranks,
             Stage stage) {
    JobEntry* job = state_.Find(id);
    if (job == nullptr || !job->placed || job->transaction != transaction) return;
    bool all_bound = true;
    for (HeldTask& task : job->tasks) {
      const bool meant =
          ranks.empty() || std::find(ranks.begin(), ranks.end(), task.rank) != ranks.end();
      if (meant && task.stage < stage) task.stage = stage;
      all_bound &= task.stage != Stage::kAssumed;
    }
    if (!all_bound || !job->bind_by || !job->lost.empty()) return;
    state_.bind_deadlines.erase({*job->bind_by, job->number});
    job->bind_by.reset();
    job->refused_by.clear();
    job->refusals = 0;
  }

  SchedulerState& state_;
};

}  // namespace

void TakeEvent(SchedulerState& state, const Event& event) { std::visit(Taker(state), event); }

namespace {

void HealLinks(SchedulerState& state) {
  for (auto at = state.links.begin(); at != state.links.end();) {
    LinkHealth& link = at->second;
    const int64_t hours = (state.now - link.faulted_at) / std::chrono::hours(1);
    if (link.up && hours > 0) {
      link.health = static_cast<uint16_t>(
          std::min<int64_t>(kGoodHealth, link.health + hours * kHealthAnHour));
      link.faulted_at += std::chrono::hours(hours);
      const bool trusted = link.trusted || link.health >= kTrustedHealth;
      if (trusted != link.trusted) ++state.quota_version;
      link.trusted = trusted;
    }
    at = link.up && link.health == kGoodHealth ? state.links.erase(at) : std::next(at);
  }
}

}  // namespace

void HealNodes(SchedulerState& state) {
  HealLinks(state);
  if (state.unhealthy.empty()) return;
  const std::vector<NodeIndex> nodes(state.unhealthy.begin(), state.unhealthy.end());
  for (const NodeIndex node : nodes) {
    const int64_t hours = (state.now - state.faulted_at[node]) / std::chrono::hours(1);
    if (hours <= 0) continue;
    const int64_t healed =
        std::min<int64_t>(kGoodHealth, state.resources.health(node) + hours * kHealthAnHour);
    state.resources.SetHealth(node, static_cast<uint16_t>(healed));
    state.faulted_at[node] += std::chrono::hours(hours);
    if (healed >= kTrustedHealth &&
        state.resources.node(node).condition == NodeCondition::kSuspect) {
      state.resources.SetCondition(node, NodeCondition::kReady);
    }
    if (healed == kGoodHealth) state.unhealthy.erase(node);
  }
  state.resources.Commit();
}

namespace {

// Whether each group could be placed alone on the models of `choice`.
template <typename MostOf>
bool FitsOn(const ModelChoice& choice, const JobRequest& request, const MostOf& most_of) {
  for (size_t g = 0; g < choice.models.size(); ++g) {
    GroupRequest on_model = request.groups[g];
    on_model.shape.models &= choice.models[g];
    const Tier tier = std::min(on_model.required, request.required);
    if (most_of(on_model, tier) < on_model.minimum) return false;
  }
  return true;
}

// The quota that forbids the job whatever runs, on all device models that could hold its groups.
template <typename MostOf, typename Together>
std::optional<share::QuotaBlock> NeverAllowed(const SchedulerState& state, share::QueueIndex queue,
                                              const JobRequest& request, const MostOf& most_of,
                                              const Together& together) {
  std::vector<int32_t> counts;
  for (const GroupRequest& group : request.groups) counts.push_back(group.minimum);
  const std::vector<ModelChoice> choices = ModelChoicesOf(state, request, counts);
  std::optional<share::QuotaBlock> first;
  for (const ModelChoice& choice : choices) {
    const bool fits =
        choices.size() == 1 || (FitsOn(choice, request, most_of) &&
                                (request.groups.size() == 1 || together(choice.models)));
    if (!fits) continue;
    auto block = state.idle_queues.Check({queue, choice.amounts, request.owner, 1});
    if (!block) return std::nullopt;
    if (!first) first = std::move(block);
  }
  return first;
}

// `most_of` returns the most tasks of a group in one domain of a tier, `together` whether several
// groups fit at once.
template <typename MostOf, typename Together>
Status CheckFitsBy(const SchedulerState& state, const JobRequest& request, const MostOf& most_of,
                   const Together& together) {
  const auto refuse = [&](const std::string& why) {
    return FailedPrecondition("job '" + request.id.value() + "' " + why);
  };
  const share::QueueIndex queue =
      request.queue.empty() ? share::kRootQueue : state.queues.Find(request.queue);
  if (queue == share::kNoQueue) {
    return refuse("names queue '" + Printable(request.queue, 63) + "', which does not exist");
  }
  if (state.resources.shape_count() + request.groups.size() * (1 + spec::kMaxDeviceModels) >
      kMaxShapes) {
    return refuse("would be one of more than " + WithThousands(kMaxShapes) +
                  " different requests, the scheduler's limit");
  }
  for (const GroupRequest& group : request.groups) {
    const Tier tier = std::min(group.required, request.required);
    const int64_t most = most_of(group, tier);
    if (most >= group.minimum) continue;
    const bool bounded = group.is_spread() && group.max_per_domain < group.minimum;
    return refuse("needs " + std::to_string(group.minimum) + " tasks of " + ToString(group.shape) +
                  "; the largest size that fits" +
                  (tier == kClusterTier ? " this cluster" : " one of its domains") +
                  (bounded ? " with " + SpreadText(group) : "") + " is " + std::to_string(most));
  }
  if (request.groups.size() > 1 && !together({})) {
    return refuse("has " + std::to_string(request.groups.size()) +
                  " groups that do not fit the cluster together, even with nothing else running");
  }
  if (const auto block = NeverAllowed(state, queue, request, most_of, together)) {
    if (block->of_user()) return refuse(share::TooMuchForUserText(state.queues, *block));
    const bool limit = block->kind == share::QuotaBlock::Kind::kLimit;
    const auto text = [&](int64_t amount) {
      return state.queues.AmountText(block->resource, amount);
    };
    const std::string asked = "needs " + text(block->asked) + ", but ";
    return refuse(asked +
                  (limit ? "queue '" + state.queues.name(block->queue) + "' is limited to " +
                               text(block->bound)
                         : "the cluster has " + text(block->bound) +
                               ", of which the queues lend no more than their lending limits"));
  }
  return {};
}

}  // namespace

Status CheckFits(SchedulerState& state, const JobRequest& request) {
  return CheckFitsBy(
      state, request,
      [&state](const GroupRequest& group, Tier tier) { return MostOfGroup(state, group, tier); },
      [&](const std::vector<uint64_t>& models) { return FitsWhenEmpty(state, request, models); });
}

Status WouldFit(const SchedulerState& state, const JobRequest& request) {
  // Several groups at once and alignment to rails are tried on the state itself.
  const bool plain = request.groups.size() == 1 && !request.groups[0].rail_aligned;
  if (!plain) {
    SchedulerState scratch = state;
    return CheckFits(scratch, request);
  }
  return CheckFitsBy(
      state, request,
      [&state](const GroupRequest& group, Tier tier) {
        return MostOfPlainGroup(state, group, tier);
      },
      [](const std::vector<uint64_t>&) { return true; });
}

}  // namespace longhaul::scheduler::internal
