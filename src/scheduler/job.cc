#include "scheduler/job.h"

#include <algorithm>

#include "base/text.h"
#include "scheduler/gang/rails.h"

namespace longhaul::scheduler {

namespace {

bool IsTier(Tier tier, Tier tiers, bool host) {
  return tier == kClusterTier || (tier == kHostTier ? host : tier >= 0 && tier < tiers);
}

Status CheckSpeeds(const GroupRequest& group) {
  if (group.speed_milli.empty()) return {};
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("group '" + group.name + "': its speeds " + why);
  };
  const auto counts = static_cast<size_t>((group.desired - group.minimum) / group.step) + 1;
  if (group.speed_milli.size() != counts) {
    return refuse("are " + std::to_string(group.speed_milli.size()) + " for " +
                  std::to_string(counts) + " counts");
  }
  constexpr int32_t kMost = 1'000'000'000;
  int32_t last = 1;
  for (const int32_t speed : group.speed_milli) {
    if (speed < last || speed > kMost) {
      return refuse("must not fall, and lie in 1 to " + WithThousands(kMost) + " thousandths");
    }
    last = speed;
  }
  return {};
}

// `required` is the stricter of the group's and the job's.
Status CheckSpread(const GroupRequest& group, Tier required, Tier tiers) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("group '" + group.name + "' " + why);
  };
  if (group.max_per_host < 0 || group.max_per_domain < 0) {
    return refuse("has a bound of tasks below zero");
  }
  if (!group.is_spread()) return {};
  if (group.spread_tier < kLeafTier || group.spread_tier >= tiers) {
    return refuse("is spread over a tier of the network that the cluster does not have");
  }
  if (group.spread_tier >= required) {
    return refuse("is spread over domains that are not below the one that it must lie in");
  }
  if (group.slice != 1) return refuse("is spread, which is for groups without slices");
  return {};
}

Status CheckGroup(const GroupRequest& group, Tier required, Tier tiers) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("group '" + group.name + "': " + why);
  };
  if (group.minimum < 1 || group.desired < group.minimum || group.desired > kMaxGangTasks) {
    return refuse("wants " + std::to_string(group.minimum) + " to " +
                  std::to_string(group.desired) + " tasks; 1 to " + WithThousands(kMaxGangTasks) +
                  ", the minimum first");
  }
  if (group.step < 1 || (group.desired - group.minimum) % group.step != 0) {
    return refuse("cannot get from " + std::to_string(group.minimum) + " to " +
                  std::to_string(group.desired) + " tasks in steps of " +
                  std::to_string(group.step));
  }
  if (group.slice < 1 || group.minimum % group.slice != 0 ||
      (group.desired > group.minimum && group.step % group.slice != 0)) {
    return refuse("slices of " + std::to_string(group.slice) + " tasks do not divide its counts");
  }
  if (!IsTier(group.required, tiers, true) || !IsTier(group.slice_tier, tiers, true)) {
    return refuse("names a tier of the network that the cluster does not have");
  }
  RETURN_IF_ERROR(CheckSpread(group, required, tiers));
  // A bound of tasks on a host has no effect on aligned ones: each has a host of its own.
  if (group.rail_aligned && (group.shape.gpus < 1 || group.shape.gpus > kMaxRails ||
                             group.slice != 1 || group.is_spread())) {
    return refuse("is aligned to rails, which is for tasks of 1 to " + std::to_string(kMaxRails) +
                  " whole GPUs without slices and spread");
  }
  return CheckSpeeds(group);
}

Status CheckLayout(const JobRequest& request) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("job '" + request.id.value() + "' has a layout " + why);
  };
  const RankLayout& layout = *request.layout;
  const GroupRequest& group = request.groups[0];
  if (request.groups.size() != 1 || group.shape.gpus < 1) {
    return refuse("of ranks, which is for one group of whole GPUs");
  }
  const int64_t gpus = int64_t{kMaxGangTasks} * spec::kMaxDevices;
  if (layout.tensor < 1 || layout.pipeline < 1 || layout.tensor > gpus || layout.pipeline > gpus) {
    return refuse("of " + std::to_string(layout.tensor) + " x " + std::to_string(layout.pipeline) +
                  " GPUs; 1 x 1 at least");
  }
  const int64_t part = int64_t{layout.tensor} * layout.pipeline;
  const bool elastic = group.desired > group.minimum;
  if (int64_t{group.minimum} * group.shape.gpus % part != 0 ||
      (elastic && int64_t{group.step} * group.shape.gpus % part != 0)) {
    return refuse("whose parts of " + std::to_string(part) + " GPUs do not divide its counts");
  }
  for (const int64_t volume : {layout.tensor_volume, layout.data_volume, layout.pipeline_volume}) {
    if (volume < 0 || volume > kMaxVolume) {
      return refuse("with a volume of " + std::to_string(volume) + " bytes; 0 to " +
                    WithThousands(kMaxVolume));
    }
  }
  return {};
}

}  // namespace

spec::SharedAmounts AmountsOf(const Shape& shape, int64_t tasks) {
  return {{shape.gpu_milli() * tasks, shape.cpu_milli * tasks, shape.memory_mib * tasks}};
}

spec::SharedAmounts MinimumAmounts(const JobRequest& request) {
  spec::SharedAmounts sum;
  for (const GroupRequest& group : request.groups) sum += AmountsOf(group.shape, group.minimum);
  return sum;
}

int64_t DesiredGpuMilli(const JobRequest& request) {
  int64_t sum = 0;
  for (const GroupRequest& group : request.groups) {
    sum += int64_t{group.shape.gpu_milli()} * group.desired;
  }
  return sum;
}

int32_t LargestGroup(const JobRequest& request) {
  const auto gpus = [](const GroupRequest& group) {
    return int64_t{group.shape.gpu_milli()} * group.minimum;
  };
  size_t best = 0;
  for (size_t g = 1; g < request.groups.size(); ++g) {
    if (gpus(request.groups[g]) > gpus(request.groups[best])) best = g;
  }
  return static_cast<int32_t>(best);
}

Status CheckRequest(const JobRequest& request, Tier tiers) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("job '" + request.id.value() + "' " + why);
  };
  if (request.id.empty()) return InvalidArgument("a job needs a name");
  if (request.groups.empty() || request.groups.size() > kMaxGroups) {
    return refuse("has " + std::to_string(request.groups.size()) + " groups; 1 to " +
                  std::to_string(kMaxGroups));
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return refuse("has priority " + std::to_string(request.priority) + "; at most " +
                  WithThousands(kMaxPriority));
  }
  if (request.limit && *request.limit <= Duration(0)) return refuse("has a limit of no time");
  if (request.restart_cost < Duration(0)) return refuse("has a restart cost below zero");
  if (!IsTier(request.required, tiers, true)) {
    return refuse("names a tier of the network that the cluster does not have");
  }
  for (const GroupRequest& group : request.groups) {
    const Status sound = CheckGroup(group, std::min(group.required, request.required), tiers);
    if (!sound.ok()) return sound.WithContext("job '" + request.id.value() + "'");
  }
  return request.layout ? CheckLayout(request) : Status();
}

}  // namespace longhaul::scheduler
