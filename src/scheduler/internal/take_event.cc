#include "scheduler/internal/take_event.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "scheduler/internal/changes.h"
#include "scheduler/internal/check_fits.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

namespace {

using spec::NodeCondition;

// Health is counted in per mille. It falls by Policy::fault_health with each fault and rises by
// kHealthAnHour in each whole hour without one. The trust threshold lies above the probation
// threshold of the policy's default, so a node on probation must heal well beyond it.
constexpr uint16_t kGoodHealth = 1'000;
constexpr uint16_t kTrustedHealth = 800;  // a suspect that healed so far is ready again
constexpr int64_t kHealthAnHour = 10;

JobRequest Scaled(JobRequest request, const JobScaled& event) {
  request.groups[0].desired = event.desired;
  request.groups[0].speed_milli = event.speed_milli;
  return request;
}

// Applies one event to the state. Events come from outside and may be late, repeated or about
// things that no longer exist: such an event changes nothing. Each handler commits what it changes
// in the resources.
class Taker {
 public:
  explicit Taker(SchedulerState& state) : state_(state) {}

  void operator()(const JobSubmitted& event) {
    // A repeated submission is ignored: the first one counts.
    const JobRequest& request = event.request;
    if (state_.Find(request.id) != nullptr) return;
    Status fits = CheckRequest(request, state_.tree->tiers());
    if (fits.ok()) fits = CheckFits(state_, request);
    if (!fits.ok()) {
      Decision& reject = state_.rejections.emplace_back();
      reject.kind = DecisionKind::kReject;
      reject.job = request.id;
      reject.reason = fits.message();
      return;
    }
    JobEntry& job = Insert(request);
    job.submitted = state_.now;
    CountArrival(job);
    state_.Enqueue(job);
  }

  // A request that is not valid, or that could never start, leaves the old one in place. A running
  // job keeps its request: what it holds was counted by it.
  void operator()(const JobChanged& event) {
    JobEntry* job = state_.Find(event.request.id);
    if (job == nullptr || job->placed) return;
    if (!CheckRequest(event.request, state_.tree->tiers()).ok()) return;
    if (!CheckFits(state_, event.request).ok()) return;
    state_.Dequeue(*job);
    job->request = std::make_shared<const JobRequest>(event.request);
    NoteRequest(*job);
    state_.Enqueue(*job);
  }

  void operator()(const JobScaled& event) {
    if (!CheckScale(state_, event).ok()) return;
    JobEntry* job = state_.Find(event.job);
    const auto desired = static_cast<size_t>(event.desired);
    if (job->tasks.size() > desired) {
      Decision& shrink = state_.rejections.emplace_back();
      shrink.kind = DecisionKind::kShrink;
      shrink.transaction = job->transaction;
      shrink.job = event.job;
      shrink.reason = "an operator asked for fewer tasks";
      shrink.tasks = state_.PlacementsOf(*job);
      shrink.tasks.erase(shrink.tasks.begin(),
                         shrink.tasks.begin() + static_cast<std::ptrdiff_t>(desired));
      // The highest ranks leave, so the ranks of the rest stay dense.
      while (job->tasks.size() > desired) state_.Drop(*job, job->tasks.size() - 1);
      LayRanks(state_, *job, job->tasks, false);
      shrink.ranks = GpusOfRanks(state_, *job);
    }
    job->request = std::make_shared<const JobRequest>(Scaled(*job->request, event));
    state_.NoteElastic(*job);
    state_.resources.Commit();
    // The next growth is not put off until a period after the last one.
    state_.grown_at = state_.now - state_.policy.elastic_period;
    state_.grown_seen = {};
  }

  // The place in the waiting order depends on the flag, so the job leaves the order before the
  // change and enters it again afterwards.
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
      if (event.observed) {
        state_.durations.Observe(state_.LikenessOf(*job), job->ran + state_.Elapsed(*job));
      }
      state_.Release(*job);
    } else {
      state_.Dequeue(*job);
    }
    state_.Erase(job->number);
  }

  // The decision is recorded before Requeue, which releases the places that it lists.
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
    if (state_.Find(request.id) != nullptr) return;
    if (!CheckRequest(request, state_.tree->tiers()).ok()) return;
    if (!request.queue.empty() && state_.queues.Find(request.queue) == share::kNoQueue) return;
    JobEntry& job = Insert(request);
    // Times of the adopted job may lie ahead of this clock; a time in the future would break the
    // orders by arrival.
    job.submitted = std::min(event.submitted, state_.now);
    job.expedited = event.expedited;
    state_.expedites = std::max(state_.expedites, event.expedited);
    job.ran = std::max(event.ran, Duration(0));
    job.evictions = event.evictions;
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

  // Whether a job is leaving is part of the key of its line, so a waiting job changes its line
  // here.
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

  // A refusal of an older transaction is about places that the job no longer holds, and a running
  // task can no longer be refused.
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

  // Only the tasks that hold the failed device are lost; other tasks of the node continue.
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

  // Amounts that no node has count as so much that nothing is free.
  void operator()(const NodeShared& event) {
    const auto node = state_.topology->Find(event.node);
    if (!node) return;
    static constexpr int64_t kMost = int64_t{1} << 30;
    const auto amount = [](int64_t of) {
      return static_cast<int32_t>(std::clamp<int64_t>(of, 0, kMost));
    };
    NodeUse use;
    use.cpu_milli = amount(event.cpu_milli);
    use.memory_mib = amount(event.memory_mib);
    for (size_t i = 0; i < use.counted.size(); ++i) use.counted[i] = amount(event.counted[i]);
    use.gpus = state_.resources.ChooseForOthers(*node, amount(event.devices),
                                                state_.resources.use(*node).gpus);
    state_.resources.SetUse(*node, use);
    state_.resources.Commit();
  }

  // The health recovers up to now first, so that the fault is subtracted from the current value.
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

  // A link that is up again is trusted at once: its entry is removed. A link that is down never
  // heals by time.
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

  // The empty copy of the queues gets the same limit, because CheckFits decides by it whether a job
  // could ever start. A limit with an entry out of range is ignored as a whole.
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

  // Adds a job with the next number.
  JobEntry& Insert(const JobRequest& request) {
    JobEntry& job = state_.jobs.Add(state_.next_job++, std::make_shared<const JobRequest>(request));
    NoteRequest(job);
    return job;
  }

  // Sets what follows from the job's request.
  void NoteRequest(JobEntry& job) {
    const std::string& queue = job.request->queue;
    job.queue = queue.empty() ? share::kRootQueue : state_.queues.Find(queue);
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

Status CheckScale(const SchedulerState& state, const JobScaled& event) {
  const std::string name = "job " + event.job.value();
  const JobEntry* job = state.Find(event.job);
  if (job == nullptr || !job->placed) {
    return FailedPrecondition(name + " waits for nodes or is leaving them; try again when it runs");
  }
  if (job->request->groups.size() != 1) {
    return FailedPrecondition(name + " has several groups of tasks, whose counts are fixed");
  }
  if (!job->lost.empty()) {
    return FailedPrecondition(name + " has lost a node and waits for another one; try again then");
  }
  if (job->bind_by || job->leaving) {
    return FailedPrecondition(name + " is changing its nodes; try again when it has them");
  }
  return CheckRequest(Scaled(*job->request, event), state.tree->tiers());
}

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

}  // namespace longhaul::scheduler::internal
