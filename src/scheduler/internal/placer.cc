#include "scheduler/internal/placer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "scheduler/gang/spread.h"
#include "scheduler/internal/quota_check.h"
#include "scheduler/internal/rival_placement.h"

namespace longhaul::scheduler::internal {

namespace {

// The table without the closed hosts. Copies, so it is for the few attempts that avoid something.
SlotTable Without(const SlotTable& table, const SchedulerState& state,
                  std::span<const std::pair<int32_t, int32_t>> closed,
                  const std::set<NodeIndex>& refused) {
  SlotTable open = table;
  for (const auto& [first, last] : closed) {
    for (int32_t host = first; host < last; ++host) open.Set(host, 0);
  }
  for (const NodeIndex node : refused) {
    if (node < state.resources.size()) open.Set(static_cast<int32_t>(node), 0);
  }
  return open;
}

bool IsSpread(const JobRequest& request) {
  return std::any_of(request.groups.begin(), request.groups.end(),
                     [](const GroupRequest& group) { return group.is_spread(); });
}

// The hosts [first, last) of each domain of the required tier within the bounds; those of the
// bounds where these are no larger than a domain.
std::vector<std::pair<int32_t, int32_t>> AreasOf(const DomainTree& tree, Tier required,
                                                 const Bounds& bounds) {
  const int32_t first = tree.FirstHost(bounds.within_tier, bounds.within_domain);
  const int32_t last = tree.LastHost(bounds.within_tier, bounds.within_domain);
  if (required == kClusterTier || bounds.within_tier <= required) return {{first, last}};
  std::vector<std::pair<int32_t, int32_t>> areas;
  for (int32_t d = 0; d < tree.domains(required); ++d) {
    const int32_t from = tree.FirstHost(required, d);
    const int32_t to = tree.LastHost(required, d);
    if (from >= first && to <= last) areas.emplace_back(from, to);
  }
  return areas;
}

// One way to spread tasks.
struct SpreadChoice {
  std::vector<int32_t> loads;  // tasks of the domains that have any, the most first
  int32_t free = 0;            // slots of the area
  int32_t first_domain = 0;
  std::vector<int32_t> per_domain;  // new tasks, from first_domain on

  bool IsBetterThan(const SpreadChoice& other) const {
    return std::tie(loads, free) < std::tie(other.loads, other.free);
  }
};

// The stricter of two tiers.
Tier Stricter(Tier a, Tier b) { return std::min(a, b); }

}  // namespace

std::vector<size_t> DomainsOf(const SchedulerState& state, std::span<const HeldTask> placed) {
  const DomainTree& tree = *state.tree;
  std::vector<std::set<int32_t>> found(static_cast<size_t>(tree.tiers()) + 1);
  for (const HeldTask& task : placed) {
    const auto host = static_cast<int32_t>(state.resources.task(task.slot).node);
    for (Tier tier = kLeafTier; tier < tree.tiers(); ++tier) {
      found[static_cast<size_t>(tree.tiers() - 1 - tier)].insert(tree.DomainOf(tier, host));
    }
    found.back().insert(host);
  }
  std::vector<size_t> counts;
  for (const std::set<int32_t>& domains : found) counts.push_back(domains.size());
  return counts;
}

// A suspect node may fail at any time, so it serves only jobs that lose little: those that may be
// stopped and whose time limit is short.
Admit AdmitOf(const SchedulerState& state, const JobEntry& job) {
  const JobRequest& request = *job.request;
  const bool light = request.preemption != Preemption::kNever && request.limit &&
                     *request.limit <= state.policy.probation_job;
  return light ? Admit::kSuspectToo : Admit::kReady;
}

int32_t LargestFit(const SlotTable& slots, const GroupRequest& group, Tier required) {
  const SlotTable* table = &slots;
  std::optional<SlotTable> capped;
  if (group.max_per_host > 0) {
    capped.emplace(slots);
    CapHosts(*capped, group.max_per_host, {});
    table = &*capped;
  }
  if (group.is_spread()) {
    return LargestSpread(*table, required, group.spread_tier, group.max_per_domain);
  }
  return LargestGang(*table, required, group.slice, group.slice_tier);
}

void Placer::Restart() {
  random_ = Random(seed_);
  small_.reset();
  mix_ = 0;
}

// With quotas by device model a group must land on a model for which its queue has room. One group
// takes the best of all allowed models in one placement; several groups are tried choice by choice,
// as their models are decided together.
bool Placer::Place(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                   const Bounds& bounds, Admit admit, std::vector<HeldTask>& placed,
                   int32_t* failed_group) {
  const bool by_quota = bounds.models.empty() && !bounds.plan && state.counts_models() &&
                        !job.shapes_of_models.empty();
  if (!by_quota) return PlaceAnywhere(state, job, counts, bounds, admit, placed, failed_group);
  Bounds allowed = bounds;
  allowed.models.assign(counts.size(), 0);
  for (ModelChoice& choice : AllowedModelChoices(state, job, counts)) {
    if (counts.size() == 1) {  // the best of the models that are allowed
      allowed.models[0] |= choice.models.empty() ? kAnyModel : choice.models[0];
      continue;
    }
    if (!choice.models.empty()) allowed.models = std::move(choice.models);
    if (PlaceAnywhere(state, job, counts, allowed, admit, placed, failed_group)) return true;
  }
  return counts.size() == 1 && allowed.models[0] != 0 &&
         PlaceAnywhere(state, job, counts, allowed, admit, placed, failed_group);
}

// Links that a gang may not cross: inside one such domain, else outside all of them. What is spread
// tries the outside first, where it has more domains.
bool Placer::PlaceAnywhere(SchedulerState& state, const JobEntry& job,
                           std::span<const int32_t> counts, const Bounds& bounds, Admit admit,
                           std::vector<HeldTask>& placed, int32_t* failed_group) {
  if (state.links.empty() || std::accumulate(counts.begin(), counts.end(), 0) <= 1 ||
      bounds.within_tier == kHostTier) {
    return PlaceInside(state, job, counts, bounds, admit, placed, failed_group);
  }
  const DomainTree& tree = *state.tree;
  const int32_t first = tree.FirstHost(bounds.within_tier, bounds.within_domain);
  const int32_t last = tree.LastHost(bounds.within_tier, bounds.within_domain);
  struct Untrusted {
    Tier tier = kLeafTier;
    int32_t domain = 0;
    std::pair<int32_t, int32_t> hosts;  // [first, last)
  };
  std::vector<Untrusted> untrusted;
  for (const auto& [domain, health] : state.links) {
    const int32_t from = tree.FirstHost(domain.first, domain.second);
    const int32_t to = tree.LastHost(domain.first, domain.second);
    // Not all of the bounds are inside it, so some of it could be crossed.
    if (health.trusted || from < first || to > last || (from == first && to == last)) continue;
    untrusted.push_back({domain.first, domain.second, {from, to}});
  }
  std::vector<Bounds> ways;
  Bounds outside = bounds;
  for (const Untrusted& each : untrusted) {
    outside.closed_hosts.push_back(each.hosts);
    Bounds& inside = ways.emplace_back(bounds);
    inside.within_tier = each.tier;
    inside.within_domain = each.domain;
    // A domain inside of this one is a way of its own.
    for (const Untrusted& other : untrusted) {
      const bool is_inside = other.tier < each.tier && other.hosts.first >= each.hosts.first &&
                             other.hosts.second <= each.hosts.second;
      if (is_inside) inside.closed_hosts.push_back(other.hosts);
    }
  }
  ways.insert(IsSpread(*job.request) ? ways.begin() : ways.end(), std::move(outside));
  return std::any_of(ways.begin(), ways.end(), [&](const Bounds& way) {
    return PlaceInside(state, job, counts, way, admit, placed, failed_group);
  });
}

bool Placer::PlaceInside(SchedulerState& state, const JobEntry& job,
                         std::span<const int32_t> counts, const Bounds& bounds, Admit admit,
                         std::vector<HeldTask>& placed, int32_t* failed_group) {
  const JobRequest& request = *job.request;
  const size_t groups = request.groups.size();
  if (groups == 1 || request.required == kClusterTier || bounds.within_tier <= request.required) {
    return PlaceWithin(state, job, counts, bounds, admit, placed, failed_group);
  }
  // Several groups in one domain: the fullest domain in which all of them fit.
  const DomainTree& tree = *state.tree;
  const bool by_host = request.required == kHostTier;
  const int32_t domains = by_host ? tree.hosts() : tree.domains(request.required);
  std::vector<std::pair<int64_t, int32_t>> order;
  for (int32_t d = 0; d < domains; ++d) {
    const int32_t first = by_host ? d : tree.FirstHost(request.required, d);
    const int32_t last = by_host ? d + 1 : tree.LastHost(request.required, d);
    if (bounds.within_tier != kClusterTier &&
        (first < tree.FirstHost(bounds.within_tier, bounds.within_domain) ||
         last > tree.LastHost(bounds.within_tier, bounds.within_domain))) {
      continue;
    }
    int64_t free = 0;
    for (int32_t host = first; host < last; ++host) {
      free += state.resources.node(static_cast<NodeIndex>(host)).free_milli();
    }
    order.emplace_back(free, d);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [free, domain] : order) {
    Bounds inside = bounds;
    inside.within_tier = request.required;
    inside.within_domain = domain;
    if (PlaceWithin(state, job, counts, inside, admit, placed, failed_group)) return true;
  }
  return false;
}

// The ways from the most special to the most general; the first that applies decides. The general
// way places group by group, which is not exact for groups that compete for the same hosts: unlike
// whole-GPU groups have their own solver for that reason.
bool Placer::PlaceWithin(SchedulerState& state, const JobEntry& job,
                         std::span<const int32_t> counts, const Bounds& bounds, Admit admit,
                         std::vector<HeldTask>& placed, int32_t* failed_group) {
  if (const auto alone = PlaceAlone(state, job, counts, bounds, admit, placed)) {
    if (!*alone && failed_group != nullptr) *failed_group = 0;
    return *alone;
  }
  if (const auto unlike = PlaceUnlike(state, job, counts, bounds, admit, placed)) {
    if (!*unlike && failed_group != nullptr) *failed_group = LargestGroup(*job.request);
    return *unlike;
  }
  // Largest tasks first: the small ones fit into what is left.
  const auto& groups = job.request->groups;
  std::vector<int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return groups[static_cast<size_t>(a)].shape.gpu_milli() >
           groups[static_cast<size_t>(b)].shape.gpu_milli();
  });
  if (PutInOrder(state, job, counts, order, bounds, admit, placed, failed_group)) return true;
  if (groups.size() == 1 || !IsSpread(*job.request)) return false;
  // A large task may have taken the room of a domain that the bound of a spread group needs.
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto bound = [&](int32_t g) {
      const GroupRequest& group = groups[static_cast<size_t>(g)];
      return group.is_spread() ? group.max_per_domain : kMaxGangTasks;
    };
    return bound(a) < bound(b);
  });
  return PutInOrder(state, job, counts, order, bounds, admit, placed, failed_group);
}

// Places the groups in `order`, all or none. Ranks follow the order of the groups in the request
// and not the order of placement, so a group's ranks do not depend on the sizes of tasks. `near`
// collects the leaves of earlier groups, which cost the later ones nothing.
bool Placer::PutInOrder(SchedulerState& state, const JobEntry& job, std::span<const int32_t> counts,
                        std::span<const int32_t> order, const Bounds& bounds, Admit admit,
                        std::vector<HeldTask>& placed, int32_t* failed_group) {
  const Savepoint before = state.resources.Save();
  const size_t placed_before = placed.size();
  std::vector<uint8_t> near;
  int32_t rank = 0;
  std::vector<int32_t> first_rank(order.size());
  for (size_t g = 0; g < order.size(); ++g) {
    first_rank[g] = rank;
    rank += counts[g];
  }
  for (const int32_t g : order) {
    const auto group = static_cast<size_t>(g);
    if (counts[group] == 0) continue;
    Where where;
    where.group = &job.request->groups[group];
    where.shape = job.shapes[group];
    where.tasks = counts[group];
    where.required = Stricter(where.group->required, job.request->required);
    where.bounds = bounds;
    where.admit = admit;
    std::vector<int32_t> ranks(static_cast<size_t>(counts[group]));
    std::iota(ranks.begin(), ranks.end(), first_rank[group]);
    if (PutGroup(state, job, g, where, ranks, near, placed)) continue;
    state.resources.RollBack(before);
    placed.resize(placed_before);
    if (failed_group != nullptr) *failed_group = g;
    return false;
  }
  return true;
}

// A group that must be on one model is placed on each model in turn inside a savepoint, and the
// model with the fewest domains wins; of equals the first in the order of models. Tasks that the
// group holds already decide the model.
bool Placer::PutGroup(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                      std::span<const int32_t> ranks, std::vector<uint8_t>& near,
                      std::vector<HeldTask>& placed) {
  if (job.shapes_of_models.empty()) return PutEqual(state, job, group, where, ranks, near, placed);
  Where one = where;
  std::vector<ShapeId> shapes = job.shapes_of_models[static_cast<size_t>(group)];
  if (!shapes.empty()) {
    one.shape = state.ShapeBesideTasks(job, group);
    if (one.shape != where.shape) shapes.clear();
  }
  if (!shapes.empty()) {
    std::erase_if(shapes, [&](ShapeId shape) {
      return !where.bounds.models.empty() && (state.resources.shape(shape).models &
                                              where.bounds.models[static_cast<size_t>(group)]) == 0;
    });
    if (shapes.empty()) return false;
    if (shapes.size() == 1) one.shape = shapes[0];
  }
  if (shapes.size() < 2) return PutEqual(state, job, group, one, ranks, near, placed);
  std::optional<ShapeId> best;
  std::vector<size_t> fewest;
  for (const ShapeId shape : shapes) {
    const Savepoint before = state.resources.Save();
    one.shape = shape;
    // Copies, because a trial must not leave marks for the next one.
    std::vector<uint8_t> trial_near = near;
    std::vector<HeldTask> trial;
    const bool lands = PutEqual(state, job, group, one, ranks, trial_near, trial);
    std::vector<size_t> domains = DomainsOf(state, trial);
    state.resources.RollBack(before);
    if (!lands || (best && domains >= fewest)) continue;
    best = shape;
    fewest = std::move(domains);
  }
  if (!best) return false;
  one.shape = *best;
  return PutEqual(state, job, group, one, ranks, near, placed);
}

// Equal tasks of one shape. Nodes that refused a task of the job are closed, so that the job is not
// placed there again at once. Ranks are given out in the order of the hosts.
bool Placer::PutEqual(SchedulerState& state, const JobEntry& job, int32_t group, const Where& where,
                      std::span<const int32_t> ranks, std::vector<uint8_t>& near,
                      std::vector<HeldTask>& placed) {
  std::vector<HostTasks> hosts;
  Where bounded = where;
  for (const NodeIndex node : job.refused_by) {
    bounded.bounds.closed_hosts.emplace_back(static_cast<int32_t>(node),
                                             static_cast<int32_t>(node) + 1);
  }
  const bool first = std::none_of(job.tasks.begin(), job.tasks.end(),
                                  [&](const HeldTask& task) { return task.group == group; });
  // A task alone has nobody to be aligned with.
  if (where.group->rail_aligned && (where.tasks > 1 || !first)) {
    return PutOnRails(state, job, group, bounded, ranks, placed);
  }
  if (!ChooseHosts(state, bounded, near, hosts)) return false;
  if (near.empty()) near.resize(static_cast<size_t>(state.tree->leaves()));
  size_t next = 0;
  for (const HostTasks& host : hosts) {
    near[static_cast<size_t>(state.tree->LeafOf(host.host))] = 1;
    const auto node = static_cast<NodeIndex>(host.host);
    for (int32_t i = 0; i < host.tasks; ++i) {
      const GpuMask gpus = state.resources.ChooseGpus(node, where.shape);
      const TaskSlot slot = state.resources.Place(node, where.shape, gpus, job.number);
      placed.push_back({group, ranks[next++], slot, Stage::kAssumed});
    }
  }
  return true;
}

// The tables are shared by all placements of a shape, so a restriction of this placement alone
// needs a copy. The copy is made only where hosts are closed or bounded.
bool Placer::ChooseHosts(SchedulerState& state, const Where& where, std::vector<uint8_t>& near,
                         std::vector<HostTasks>& hosts) {
  const SlotTable* table = &state.tables.Of(state.resources, where.shape, where.admit);
  if (table->total() < where.tasks) return false;
  std::optional<SlotTable> open;
  if (!where.bounds.closed_hosts.empty()) {
    open.emplace(Without(*table, state, where.bounds.closed_hosts, {}));
    table = &*open;
  }
  const GroupRequest& group = *where.group;
  if (group.max_per_host > 0) {
    // A bound on each host leaves equal tasks on hosts of fewer slots: the exact way.
    if (!open) open.emplace(*table);
    CapHosts(*open, group.max_per_host, where.survivors);
    table = &*open;
  }
  if (where.bounds.within_tier == kHostTier) {
    const int32_t host = where.bounds.within_domain;
    const bool too_many = group.is_spread() && where.tasks > group.max_per_domain;
    if (table->OnHost(host) < where.tasks || too_many) return false;
    hosts = {{host, where.tasks}};
    return true;
  }
  if (group.is_spread()) return ChooseSpread(state, where, *table, near, hosts);
  EqualTasksRequest request;
  request.tasks = where.tasks;
  request.required_tier = where.required;
  request.slice = where.group->slice;
  request.slice_tier = where.group->slice_tier;
  // A required tier bounds all of the group already.
  if (where.required == kClusterTier) request.free_of_charge = near;
  request.within_tier = where.bounds.within_tier;
  request.within_domain = where.bounds.within_domain;
  if (state.policy.placement != PlacementRule::kExact) {
    return ChooseAsRival(state.policy.placement, *table, request, random_, hosts);
  }
  solver_.Solve(*table, request, answer_);
  if (!answer_.placed) return false;
  hosts = answer_.tasks;
  return true;
}

// Compares the areas by their loads in descending order: the lexicographic comparison of sorted
// loads finds the most even spread. Within the best area each domain is filled as an independent
// gang of equal tasks.
bool Placer::ChooseSpread(SchedulerState& state, const Where& where, const SlotTable& table,
                          std::span<const uint8_t> near, std::vector<HostTasks>& hosts) {
  const Tier tier = where.group->spread_tier;
  std::optional<SpreadChoice> best;
  for (const auto& [first, last] : AreasOf(*state.tree, where.required, where.bounds)) {
    const DomainTree& tree = *state.tree;
    SpreadChoice choice;
    choice.first_domain = tree.DomainOf(tier, first);
    const auto index = [&](int32_t host) {
      return static_cast<size_t>(tree.DomainOf(tier, host) - choice.first_domain);
    };
    std::vector<int32_t> free(index(last - 1) + 1);
    for (int32_t host = first; host < last; ++host) free[index(host)] += table.OnHost(host);
    std::vector<int32_t> load(free.size());
    // Survivors count against the bound of a domain, so that replacements do not pile up beside
    // them.
    for (const NodeIndex node : where.survivors) {
      const auto host = static_cast<int32_t>(node);
      if (host >= first && host < last) ++load[index(host)];
    }
    SpreadAnswer spread = SpreadTasks(free, load, where.tasks, where.group->max_per_domain);
    if (!spread.placed) continue;
    choice.free = std::accumulate(free.begin(), free.end(), 0);
    for (size_t d = 0; d < load.size(); ++d) load[d] += spread.per_domain[d];
    std::erase(load, 0);
    std::sort(load.rbegin(), load.rend());
    choice.loads = std::move(load);
    choice.per_domain = std::move(spread.per_domain);
    if (!best || choice.IsBetterThan(*best)) best = std::move(choice);
  }
  if (!best) return false;
  EqualTasksRequest request;
  request.free_of_charge = near;
  // The bounds may be a part of one domain of the spread.
  const bool part = where.bounds.within_tier < tier;
  request.within_tier = part ? where.bounds.within_tier : tier;
  for (size_t d = 0; d < best->per_domain.size(); ++d) {
    if (best->per_domain[d] == 0) continue;
    request.tasks = best->per_domain[d];
    request.within_domain =
        part ? where.bounds.within_domain : best->first_domain + static_cast<int32_t>(d);
    solver_.Solve(table, request, answer_);
    CHECK(answer_.placed) << "a domain without the slots that were counted";
    hosts.insert(hosts.end(), answer_.tasks.begin(), answer_.tasks.end());
  }
  return true;
}

// A replacement must respect the tiers that the job requires, which the survivors have already
// fixed: it stays in the smallest required domain that contains them. If no task of the group is
// left, the group's own requirement applies anew.
bool Placer::PlaceMore(SchedulerState& state, const JobEntry& job, int32_t group,
                       std::span<const int32_t> ranks, Admit admit, std::vector<HeldTask>& placed) {
  const DomainTree& tree = *state.tree;
  Where where;
  where.group = &job.request->groups[static_cast<size_t>(group)];
  where.shape = job.shapes[static_cast<size_t>(group)];
  where.tasks = static_cast<int32_t>(ranks.size());
  where.admit = admit;
  // The survivors say where the rest must be.
  where.required = kClusterTier;
  std::vector<uint8_t> near(static_cast<size_t>(tree.leaves()));
  const auto inside = [&](Tier tier, int32_t host) {
    if (tier == kClusterTier || where.bounds.within_tier <= tier) return;
    where.bounds.within_tier = tier;
    where.bounds.within_domain = tier == kHostTier ? host : tree.DomainOf(tier, host);
  };
  bool group_has_tasks = false;
  for (const HeldTask& task : job.tasks) {
    const auto host = static_cast<int32_t>(state.resources.task(task.slot).node);
    near[static_cast<size_t>(tree.LeafOf(host))] = 1;
    inside(job.request->required, host);
    if (task.group != group) continue;
    inside(where.group->required, host);
    where.survivors.push_back(static_cast<NodeIndex>(host));
    group_has_tasks = true;
  }
  if (!group_has_tasks) {
    where.required = where.group->required;
    std::vector<int32_t> counts(job.request->groups.size());
    counts[static_cast<size_t>(group)] = where.tasks;
    if (state.counts_models()) {
      where.bounds.models.assign(counts.size(), 0);
      uint64_t& models = where.bounds.models[static_cast<size_t>(group)];
      for (const ModelChoice& choice : AllowedModelChoices(state, job, counts)) {
        models |= choice.models.empty() ? kAnyModel : choice.models[static_cast<size_t>(group)];
      }
    }
  }
  if (job.tasks.empty()) where.required = Stricter(where.required, job.request->required);
  if (where.tasks % where.group->slice != 0) {
    // Part of a slice was lost: its rest can't be identified here, so the slice's domain rules only
    // where survivors lie in one.
    return false;
  }
  for (const auto& [domain, health] : state.links) {
    if (health.trusted) continue;
    // Inside with the survivors, or outside as they are.
    const int32_t from = tree.FirstHost(domain.first, domain.second);
    const int32_t to = tree.LastHost(domain.first, domain.second);
    const auto is_inside = [&](const HeldTask& task) {
      const auto host = static_cast<int32_t>(state.resources.task(task.slot).node);
      return host >= from && host < to;
    };
    const bool any = std::any_of(job.tasks.begin(), job.tasks.end(), is_inside);
    // What is spread may cross it already: then both sides are open, for its bound may close one.
    const bool all = std::all_of(job.tasks.begin(), job.tasks.end(), is_inside);
    if (where.group->is_spread() && any && !all) continue;
    if (any && is_inside(job.tasks[0])) {
      inside(domain.first, static_cast<int32_t>(state.resources.task(job.tasks[0].slot).node));
    } else {
      where.bounds.closed_hosts.emplace_back(from, to);
    }
  }
  return PutGroup(state, job, group, where, ranks, near, placed);
}

// An upper limit by the counts of slots alone. Under bounds the counts do not hold, so the desired
// number is returned and the placement decides.
int32_t Placer::MostTasks(SchedulerState& state, const JobEntry& job, int32_t group,
                          const Bounds& bounds, Admit admit) {
  const auto g = static_cast<size_t>(group);
  const GroupRequest& request = job.request->groups[g];
  if (bounds.within_tier != kClusterTier || !bounds.closed_hosts.empty()) return request.desired;
  std::vector<ShapeId> shapes;
  if (!job.shapes_of_models.empty()) shapes = job.shapes_of_models[g];
  if (shapes.empty()) shapes = {job.shapes[g]};
  int32_t most = 0;
  for (const ShapeId shape : shapes) {
    const SlotTable& table = state.tables.Of(state.resources, shape, admit);
    const Tier required = Stricter(request.required, job.request->required);
    most = std::max(most, LargestFit(table, request, required));
  }
  return std::min(request.desired, most);
}

}  // namespace longhaul::scheduler::internal
