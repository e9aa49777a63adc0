// Tasks alone, groups of unlike tasks, and gangs on rails.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "scheduler/gang/rails.h"
#include "scheduler/gang/unlike_tasks.h"
#include "scheduler/internal/placer.h"

namespace longhaul::scheduler::internal {

namespace {

// Of the exact tables for groups of unlike tasks; about a nanosecond each.
constexpr int64_t kUnlikeSteps = 5'000'000;

bool Closed(const Bounds& bounds, int32_t host) {
  return std::any_of(bounds.closed_hosts.begin(), bounds.closed_hosts.end(),
                     [&](const auto& range) { return host >= range.first && host < range.second; });
}

// Resources of a host as PlaceUnlikeTasks counts them: GPUs, cpu, memory and three counted ones.
constexpr size_t kFirstCounted = 3;
constexpr size_t kCounted = kMaxResources - kFirstCounted;

ResourceVector FreeOf(const NodeState& node) {
  ResourceVector free{};
  free[0] = CountGpus(node.free_gpus);
  free[1] = std::max(0, node.free_cpu_milli);
  free[2] = std::max(0, node.free_memory_mib);
  for (size_t i = 0; i < kCounted; ++i) {
    free[kFirstCounted + i] = std::max(0, node.free_counted[i]);
  }
  return free;
}

ResourceVector DemandOf(const Shape& shape) {
  ResourceVector demand{};
  demand[0] = shape.gpus;
  demand[1] = shape.cpu_milli;
  demand[2] = shape.memory_mib;
  for (size_t i = 0; i < kCounted; ++i) demand[kFirstCounted + i] = shape.counted[i];
  return demand;
}

// Whether whole-GPU vectors say all there is to say of the job's groups.
// Rules that a vector of demands cannot express, such as fractions of GPUs, bounds for each host or
// slices of other tiers, exclude a job from the exact tables.
bool SuitsVectors(const JobRequest& request, std::span<const int32_t> counts) {
  if (request.groups.size() < 2 || request.groups.size() > kMaxGangShapes) return false;
  if (request.required == kHostTier) return false;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const GroupRequest& group = request.groups[g];
    const bool plain = group.shape.share == 0 && group.shape.gpu_memory_mib == 0 &&
                       group.shape.counted[kCounted] == 0 && group.max_per_host == 0 &&
                       !group.is_spread() && !group.rail_aligned && !group.one_model &&
                       group.required >= request.required &&
                       (group.required == kClusterTier || group.required == request.required) &&
                       (group.slice == 1 || group.slice_tier == kLeafTier);
    if (!plain || counts[g] < 1) return false;
  }
  return true;
}

}  // namespace

std::optional<bool> Placer::PlaceAlone(SchedulerState& state, const JobEntry& job,
                                       std::span<const int32_t> counts, const Bounds& bounds,
                                       Admit admit, std::vector<HeldTask>& placed) {
  if (counts.size() != 1 || counts[0] != 1 || bounds.plan || !job.refused_by.empty() ||
      bounds.within_tier != kClusterTier || !bounds.closed_hosts.empty() ||
      state.policy.placement != PlacementRule::kExact) {
    return std::nullopt;
  }
  if (!small_) {
    // The index follows one state. It is created with the first task and renewed with each mix.
    small_.emplace(state.resources, state.mix, state.policy.small_jobs);
  } else if (mix_ != state.mix_version) {
    small_->SetMix(state.resources, state.mix);
  }
  mix_ = state.mix_version;
  ShapeId shape = job.shapes[0];
  if (!job.shapes_of_models.empty()) {
    // A single task is on one model anyway, so that the models of the bounds may be one shape.
    Shape restricted = state.resources.shape(shape);
    if (!bounds.models.empty()) restricted.models &= bounds.models[0];
    if ((restricted.models & state.device_models) == 0) return false;
    if (!state.resources.has_room_for_shapes()) return std::nullopt;
    shape = state.resources.Intern(restricted);
  }
  const auto choice = small_->Pick(state.resources, shape);
  if (!choice) {
    // It looks at ready nodes alone.
    if (admit == Admit::kReady) return false;
    return std::nullopt;
  }
  const TaskSlot slot = state.resources.Place(choice->node, shape, choice->gpus, job.number);
  placed.push_back({0, 0, slot, Stage::kAssumed});
  return true;
}

std::optional<bool> Placer::PlaceUnlike(SchedulerState& state, const JobEntry& job,
                                        std::span<const int32_t> counts, const Bounds& bounds,
                                        Admit admit, std::vector<HeldTask>& placed) {
  const JobRequest& request = *job.request;
  if (!job.shapes_of_models.empty() || !SuitsVectors(request, counts) ||
      state.policy.placement != PlacementRule::kExact) {
    return std::nullopt;
  }
  std::vector<TaskGroup> groups;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    TaskGroup& group = groups.emplace_back();
    group.demand = DemandOf(request.groups[g].shape);
    group.tasks = counts[g];
    group.slice = request.groups[g].slice;
    // A host's class is the set of groups that it may serve.
    group.host_classes = 0;
    for (uint32_t c = 0; c < (1u << request.groups.size()); ++c) {
      if ((c >> g & 1) != 0) group.host_classes |= 1u << c;
    }
  }
  const DomainTree& tree = *state.tree;
  std::vector<FreeHost> hosts(static_cast<size_t>(tree.hosts()));
  const int32_t first = tree.FirstHost(bounds.within_tier, bounds.within_domain);
  const int32_t last = tree.LastHost(bounds.within_tier, bounds.within_domain);
  for (int32_t host = first; host < last; ++host) {
    const auto node = static_cast<NodeIndex>(host);
    if (!Admitted(state.resources, node, admit) || Closed(bounds, host) ||
        job.refused_by.contains(node)) {
      continue;
    }
    FreeHost& free = hosts[static_cast<size_t>(host)];
    free.free = FreeOf(state.resources.node(node));
    for (size_t g = 0; g < groups.size(); ++g) {
      if (!state.resources.Allows(job.shapes[g], state.resources.node(node).group)) continue;
      free.host_class = static_cast<uint8_t>(free.host_class | 1u << g);
    }
  }
  UnlikeTasksRequest asked;
  asked.groups = groups;
  asked.required_tier = request.required;
  asked.max_steps = kUnlikeSteps;
  const UnlikeTasksAnswer answer = PlaceUnlikeTasks(tree, hosts, asked);
  // Not placed and not proven: group by group may still find a place.
  if (!answer.placed) return answer.proven ? std::optional<bool>(false) : std::nullopt;
  std::vector<int32_t> rank(groups.size());
  for (size_t g = 1; g < groups.size(); ++g) rank[g] = rank[g - 1] + counts[g - 1];
  for (const GroupTasks& entry : answer.tasks) {
    const auto node = static_cast<NodeIndex>(entry.host);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int32_t i = 0; i < entry.tasks[g]; ++i) {
        const GpuMask gpus = state.resources.ChooseGpus(node, job.shapes[g]);
        const TaskSlot slot = state.resources.Place(node, job.shapes[g], gpus, job.number);
        placed.push_back({static_cast<int32_t>(g), rank[g]++, slot, Stage::kAssumed});
      }
    }
  }
  return true;
}

std::vector<std::vector<uint8_t>> RailIslands(const SchedulerState& state, ShapeId shape) {
  std::vector<std::vector<uint8_t>> found;
  std::vector<uint8_t> seen(state.topology->kinds().size());
  for (NodeIndex node = 0; node < state.resources.size(); ++node) {
    uint8_t& known = seen[state.topology->node(node).kind];
    if (known != 0 || !state.resources.Allows(shape, state.resources.node(node).group)) continue;
    known = 1;
    const spec::NodeKind& kind = state.topology->kind_of(node);
    const auto devices = static_cast<int32_t>(kind.devices.size());
    if (devices > kMaxRails || devices < state.resources.shape(shape).gpus) continue;
    std::array<uint8_t, 256> by_island{};
    for (size_t gpu = 0; gpu < kind.devices.size(); ++gpu) {
      uint8_t& island = by_island[kind.devices[gpu].island];
      island = static_cast<uint8_t>(island | 1u << gpu);
    }
    std::vector<uint8_t> islands;
    for (const uint8_t island : by_island) {
      if (island != 0) islands.push_back(island);
    }
    if (std::find(found.begin(), found.end(), islands) == found.end()) {
      found.push_back(std::move(islands));
    }
  }
  return found;
}

bool HasIslands(const SchedulerState& state, NodeIndex node, std::span<const uint8_t> islands) {
  const spec::NodeKind& kind = state.topology->kind_of(node);
  size_t gpus = 0;
  for (const uint8_t island : islands) {
    gpus += static_cast<size_t>(CountGpus(island));
    int32_t of_island = -1;
    for (size_t gpu = 0; gpu < kind.devices.size() && gpu < 8; ++gpu) {
      if ((island >> gpu & 1) == 0) continue;
      if (of_island >= 0 && kind.devices[gpu].island != of_island) return false;
      of_island = kind.devices[gpu].island;
    }
  }
  return gpus == kind.devices.size();
}

bool Placer::PutOnRails(SchedulerState& state, const JobEntry& job, int32_t group,
                        const Where& where, std::span<const int32_t> ranks,
                        std::vector<HeldTask>& placed) {
  const std::vector<std::vector<uint8_t>> kinds = RailIslands(state, where.shape);
  const std::vector<uint8_t>* best = nullptr;
  std::vector<size_t> fewest;
  // A gang lies on hosts of one kind. Each kind is tried in a savepoint; with a single kind the
  // trial is saved.
  for (size_t i = 0; i < kinds.size() && kinds.size() > 1; ++i) {
    const Savepoint before = state.resources.Save();
    std::vector<HeldTask> trial;
    const bool lands = PutOnRailsOf(state, job, group, where, kinds[i], ranks, trial);
    std::vector<size_t> domains = DomainsOf(state, trial);
    state.resources.RollBack(before);
    if (!lands || (best != nullptr && domains >= fewest)) continue;
    best = &kinds[i];
    fewest = std::move(domains);
  }
  if (kinds.size() == 1) best = &kinds[0];
  return best != nullptr && PutOnRailsOf(state, job, group, where, *best, ranks, placed);
}

bool Placer::PutOnRailsOf(SchedulerState& state, const JobEntry& job, int32_t group,
                          const Where& where, std::span<const uint8_t> islands,
                          std::span<const int32_t> ranks, std::vector<HeldTask>& placed) {
  const Shape& shape = state.resources.shape(where.shape);
  std::vector<uint8_t> masks = LegalMasks(islands, shape.gpus);
  // Tasks that the group has already say which GPUs it is.
  std::vector<NodeIndex> taken;
  for (const HeldTask& task : job.tasks) {
    if (task.group != group) continue;
    masks = {static_cast<uint8_t>(state.resources.task(task.slot).gpus)};
    taken.push_back(state.resources.task(task.slot).node);
  }
  int32_t rails = 0;
  for (const uint8_t island : islands) rails += CountGpus(island);
  // GPUs that this kind of host doesn't have.
  std::erase_if(masks, [rails](uint8_t mask) { return mask >> rails != 0; });
  if (masks.empty()) return false;
  RailTable table(*state.tree, rails);
  const DomainTree& tree = *state.tree;
  const int32_t first = tree.FirstHost(where.bounds.within_tier, where.bounds.within_domain);
  const int32_t last = tree.LastHost(where.bounds.within_tier, where.bounds.within_domain);
  for (int32_t host = first; host < last; ++host) {
    const auto node = static_cast<NodeIndex>(host);
    if (Closed(where.bounds, host) || !HasIslands(state, node, islands) ||
        std::find(taken.begin(), taken.end(), node) != taken.end() ||
        SlotsFor(state.resources, node, where.shape, where.admit, 1) == 0) {
      continue;
    }
    table.Set(host, static_cast<uint8_t>(EligibleGpus(state.resources.node(node), shape)));
  }
  EqualTasksRequest request;
  request.tasks = where.tasks;
  // On rails every task has a host of its own.
  if (where.required == kHostTier && where.tasks > 1) return false;
  request.required_tier = where.required;
  const RailAnswer answer = PlaceOnRails(table, masks, request, solver_);
  if (!answer.placement.placed) return false;
  size_t next = 0;
  for (const HostTasks& entry : answer.placement.tasks) {
    const TaskSlot slot = state.resources.Place(static_cast<NodeIndex>(entry.host), where.shape,
                                                answer.mask, job.number);
    placed.push_back({group, ranks[next++], slot, Stage::kAssumed});
  }
  return true;
}

}  // namespace longhaul::scheduler::internal
