#include "scheduler/internal/check_fits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "scheduler/internal/changes.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/quota_check.h"

namespace longhaul::scheduler::internal {

namespace {

using spec::NodeCondition;

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
// Groups that compete are placed for real, because no count shows whether they fit together. A
// placer of its own, so that this check does not advance the random numbers of the scheduler's.
bool FitsWhenEmpty(SchedulerState& state, const JobRequest& request,
                   const std::vector<uint64_t>& models) {
  const Savepoint before = state.resources.Save();
  for (const JobNumber number : state.placed) {
    for (const HeldTask& task : state.at(number).tasks) state.resources.Remove(task.slot);
  }
  for (NodeIndex node = 0; node < state.resources.size(); ++node) {
    for (uint32_t device = 0; device < state.resources.node(node).devices; ++device) {
      state.resources.SetDeviceHealthy(node, device, true);
    }
    state.resources.SetUse(node, {});
    if (!state.resources.node(node).ready())
      state.resources.SetCondition(node, NodeCondition::kReady);
  }
  const auto links = std::exchange(state.links, {});  // that failed may work again, too
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
  state.links = links;
  state.resources.RollBack(before);
  return fits;
}

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
  // Refuses only if the quotas forbid every choice of models that could be placed; of several
  // refusals the first one is reported.
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
  // The number of shapes is limited, and a group may need one for each device model beside its own.
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
    return refuse("needs " + std::to_string(group.minimum) + " tasks of " +
                  ToString(group.shape, *state.topology) + "; the largest size that fits" +
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
