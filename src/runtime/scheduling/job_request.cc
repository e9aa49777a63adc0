#include "runtime/scheduling/job_request.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "runtime/scheduling/elastic.h"
#include "runtime/scheduling/reservations/node_reservations.h"
#include "scheduler/gang/rails.h"

namespace longhaul::runtime::scheduling {
namespace {

using scheduler::GroupRequest;
using scheduler::JobRequest;

// What a restart costs beside the work since the last snapshot: processes and a read from memory.
constexpr Duration kRestartCost = std::chrono::seconds(10);

// The state of a preempted job is kept unless the job says otherwise.
std::optional<scheduler::Preemption> PreemptionFrom(const std::string& word) {
  if (word.empty() || word == "suspend") return scheduler::Preemption::kSuspend;
  if (word == "never") return scheduler::Preemption::kNever;
  if (word == "shrink") return scheduler::Preemption::kShrink;
  if (word == "requeue") return scheduler::Preemption::kRequeue;
  return std::nullopt;
}

// What each number of nodes makes of the speed at the fewest, in thousandths, by the planner's
// figures for the number it has planned for: what is computed is shared, the update of the weights
// is not, and a ring's sum moves 2 (n - 1) / n of the gradients. Nothing without a prediction: then
// speed grows as nodes do.
std::vector<int32_t> SpeedsOf(const proto::Job& job, const NodeBounds& bounds) {
  const proto::Prediction& known = job.prediction();
  const double planned = job.nodes();
  const auto positive = [](double seconds) { return seconds > 0 && seconds < 1e9; };
  if (!positive(known.step_seconds()) || !positive(known.compute_seconds())) return {};
  const double rest =
      std::max(0.0, known.step_seconds() - known.compute_seconds() - known.all_reduce_seconds());
  const double one_way =
      job.nodes() > 1 ? std::max(0.0, known.all_reduce_seconds()) / (1 - 1 / planned) : 0;
  const auto step = [&](uint32_t nodes) {
    return known.compute_seconds() * planned / nodes + rest + one_way * (1 - 1.0 / nodes);
  };
  std::vector<int32_t> speeds;
  for (uint32_t nodes = bounds.minimum; nodes <= bounds.maximum; nodes += bounds.step) {
    const double speed = 1000 * step(bounds.minimum) / step(nodes);
    const auto least = speeds.empty() ? 1 : speeds.back();
    speeds.push_back(std::max(least, static_cast<int32_t>(std::min(speed, 1e9))));
  }
  return speeds;
}

Status ReadQueue(const proto::Scheduling& asked, const spec::ControllerSpec& configuration,
                 JobRequest& request) {
  request.queue = asked.queue().empty() ? configuration.default_queue : asked.queue();
  const bool known = request.queue.empty() ||
                     std::any_of(configuration.queues.begin(), configuration.queues.end(),
                                 [&](const auto& queue) { return queue.name == request.queue; });
  if (known) return {};
  return InvalidArgument("there is no queue '" + Printable(request.queue, 63) +
                         "' (longhaul queues shows those there are)");
}

Status ReadPriority(const proto::Scheduling& asked, const spec::ControllerSpec& configuration,
                    JobRequest& request) {
  request.priority = asked.priority();
  if (asked.priority_name().empty()) return {};
  const auto named = configuration.priorities.find(asked.priority_name());
  if (named == configuration.priorities.end()) {
    return InvalidArgument("there is no priority named '" + Printable(asked.priority_name(), 63) +
                           "' in the controller's file; use a number, or one of its names");
  }
  request.priority = named->second;
  return {};
}

Status ReadPreemption(const proto::Scheduling& asked, JobRequest& request) {
  const auto preemption = PreemptionFrom(asked.preemption());
  if (!preemption) {
    return InvalidArgument("preemption: '" + Printable(asked.preemption(), 40) +
                           "' is not never, shrink, suspend or requeue");
  }
  request.preemption = *preemption;
  return {};
}

void ReadNodes(const NodeBounds& bounds, GroupRequest& group) {
  group.name = "nodes";
  group.minimum = static_cast<int32_t>(std::min<uint32_t>(bounds.minimum, INT32_MAX));
  group.step = static_cast<int32_t>(bounds.step);
  if (bounds.maximum > 1) group.max_per_host = 1;
}

// The one worker of each node has a share of a device. The shares of a device are at most its whole
// together, so they need no slots beside it.
Status ReadShare(const proto::Job& job, GroupRequest& group) {
  const uint32_t share = job.scheduling().share_milli();
  if (share >= scheduler::kWholeGpu) {
    return InvalidArgument("share: " + std::to_string(share) +
                           " thousandths of a device are not a part of one; use whole devices");
  }
  if (job.processes_per_node() != 1) {
    return InvalidArgument("share: is for one worker on each node, not " +
                           std::to_string(job.processes_per_node()));
  }
  group.shape.share = static_cast<uint16_t>(share);
  return {};
}

// Workers of a node are rounded up to whole accelerators, or are a share of one. The exact number
// of slots is counted beside it, so rounding never lets a node have more workers than slots.
Status ReadWorkers(uint32_t workers, uint32_t slots_per_accelerator, GroupRequest& group) {
  const uint32_t accelerators = (workers + slots_per_accelerator - 1) / slots_per_accelerator;
  if (accelerators > spec::kMaxDevices) {
    return FailedPrecondition("no node takes " + std::to_string(workers) +
                              " workers; the most is " +
                              std::to_string(slots_per_accelerator * spec::kMaxDevices));
  }
  if (workers < slots_per_accelerator) {
    group.shape.share =
        static_cast<uint16_t>((workers * 1000 + slots_per_accelerator - 1) / slots_per_accelerator);
  } else {
    group.shape.gpus = static_cast<uint8_t>(accelerators);
  }
  group.shape.counted[kSlots] = static_cast<int32_t>(workers);
  return {};
}

// Device models, labels and taints are known from a cluster file alone.
bool NamesProperties(const proto::Scheduling& asked) {
  return asked.share_milli() > 0 || !asked.devices().empty() || asked.device_memory_bytes() > 0 ||
         !asked.selector().empty() || !asked.tolerates().empty();
}

// Without a topology the request is only checked for its form; names are resolved once there is
// one.
Status ReadProperties(const proto::Scheduling& asked, const RequestContext& context,
                      GroupRequest& group) {
  constexpr int64_t kMaxMib = std::numeric_limits<int32_t>::max();
  if (NamesProperties(asked) && !context.declared) {
    return InvalidArgument(
        "share, devices, device_memory, selector and tolerates need a cluster file, which names "
        "the "
        "devices, labels and taints of the nodes (key 'cluster' of the controller's file)");
  }
  scheduler::TaskRequest task;
  task.gpus = group.shape.gpus;
  task.share_milli = group.shape.share;
  const auto mib = [](uint64_t bytes) {
    return static_cast<int64_t>(std::min<uint64_t>(bytes >> 20, uint64_t{kMaxMib} + 1));
  };
  task.gpu_memory_mib = mib(asked.device_memory_bytes());
  task.memory_mib = mib(asked.memory_bytes());
  task.cpu_milli = asked.cpu_milli();
  task.models.insert(asked.devices().begin(), asked.devices().end());
  for (const auto& [label, value] : asked.selector()) task.selector[label] = value;
  task.tolerates.insert(asked.tolerates().begin(), asked.tolerates().end());
  if (context.topology == nullptr) {
    group.shape.cpu_milli = static_cast<int32_t>(std::min(task.cpu_milli, kMaxMib));
    group.shape.memory_mib = static_cast<int32_t>(std::min(task.memory_mib, kMaxMib));
    return {};
  }
  TolerateAll(*context.topology, task.tolerates);
  ASSIGN_OR_RETURN(scheduler::Shape shape, scheduler::ResolveRequest(task, *context.topology));
  if (context.tolerated != nullptr) RestrictTo(*context.tolerated, *context.topology, shape);
  shape.counted = group.shape.counted;
  group.shape = shape;
  return {};
}

// The tier of a level that the job names; `key` is where it does.
Result<scheduler::Tier> TierOf(const std::string& key, const std::string& level,
                               const std::vector<std::string>& levels) {
  const auto found = std::find(levels.begin(), levels.end(), level);
  if (found != levels.end()) return static_cast<scheduler::Tier>(found - levels.begin());
  const std::vector<std::string_view> known(levels.begin(), levels.end());
  const auto nearest = Nearest(level, known);
  return InvalidArgument(key + ": the cluster has no level '" + Printable(level, 63) + "'; " +
                         (nearest ? "did you mean '" + std::string(*nearest) + "'; " : "") +
                         (levels.empty()
                              ? "none is declared (key 'cluster' of the controller's file)"
                              : "there is " + Join(levels, ", ")));
}

Status ReadRequired(const std::string& level, const std::vector<std::string>& levels,
                    const NodeBounds& bounds, GroupRequest& group) {
  if (level.empty() || level == "cluster") return {};
  if (level == "host") {
    if (bounds.maximum == 1) return {};
    return InvalidArgument("topology: '" + level + "' is for jobs of one node");
  }
  ASSIGN_OR_RETURN(group.required, TierOf("topology", level, levels));
  return {};
}

// Whether `level` lies below the one that all nodes share anyway.
Status CheckBelow(const std::string& key, const std::string& level, scheduler::Tier tier,
                  const proto::Scheduling& asked, const GroupRequest& group) {
  if (tier < group.required) return {};
  return InvalidArgument(key + ": '" + Printable(level, 63) +
                         "' is not below the required level '" + Printable(asked.topology(), 63) +
                         "', whose domains hold all nodes of the job; name a lower level");
}

// The levels that the job names beside the required one. The scheduler places every job in as few
// domains of each level as it can, so a preferred level is only checked here.
Status ReadTopology(const proto::Scheduling& asked, const RequestContext& context,
                    const NodeBounds& bounds, GroupRequest& group) {
  RETURN_IF_ERROR(ReadRequired(asked.topology(), context.levels, bounds, group));
  if (const std::string& level = asked.preferred_topology(); !level.empty()) {
    constexpr const char* kKey = "topology: preferred";
    ASSIGN_OR_RETURN(const scheduler::Tier tier, TierOf(kKey, level, context.levels));
    RETURN_IF_ERROR(CheckBelow(kKey, level, tier, asked, group));
  }
  if (asked.slice_nodes() > 0) {
    constexpr const char* kKey = "topology: slice";
    ASSIGN_OR_RETURN(group.slice_tier, TierOf(kKey, asked.slice_level(), context.levels));
    RETURN_IF_ERROR(CheckBelow(kKey, asked.slice_level(), group.slice_tier, asked, group));
    group.slice = static_cast<int32_t>(std::min<uint32_t>(asked.slice_nodes(), INT32_MAX));
    for (const uint32_t nodes : {bounds.minimum, bounds.maximum}) {
      if (nodes % asked.slice_nodes() == 0) continue;
      return InvalidArgument(std::string(kKey) + ": " + std::to_string(asked.slice_nodes()) +
                             " nodes do not divide the " + std::to_string(nodes) +
                             " nodes of the job");
    }
  }
  return {};
}

Status ReadSpread(const proto::Scheduling& asked, const RequestContext& context,
                  const NodeBounds& bounds, GroupRequest& group) {
  const std::string& level = asked.spread_level();
  if (level.empty()) return {};
  constexpr const char* kKey = "topology: spread";
  ASSIGN_OR_RETURN(const scheduler::Tier tier, TierOf(kKey, level, context.levels));
  RETURN_IF_ERROR(CheckBelow(kKey, level, tier, asked, group));
  // Nodes that share a domain contradict it.
  const std::pair<const char*, bool> others[] = {{"preferred", !asked.preferred_topology().empty()},
                                                 {"slice", asked.slice_nodes() > 0},
                                                 {"rail_aligned", asked.rail_aligned()}};
  for (const auto& [key, given] : others) {
    if (!given) continue;
    return InvalidArgument(std::string(kKey) + " cannot be combined with " + key +
                           "; leave one of them out");
  }
  if (bounds.maximum == 1) return {};  // one node is spread already
  constexpr auto kUnbounded = static_cast<uint32_t>(scheduler::kMaxGangTasks);
  const uint32_t most = asked.spread_at_most() > 0 ? asked.spread_at_most() : kUnbounded;
  group.max_per_domain = static_cast<int32_t>(std::min(most, kUnbounded));
  group.spread_tier = tier;
  return {};
}

Status ReadRails(const proto::Scheduling& asked, const RequestContext& context,
                 const NodeBounds& bounds, GroupRequest& group) {
  if (!asked.rail_aligned()) return {};
  const auto refuse = [](const std::string& why) {
    return InvalidArgument("topology: rail_aligned " + why);
  };
  if (!context.declared) {
    return refuse(
        "needs a cluster file, which names the devices of the nodes (key 'cluster' of "
        "the controller's file)");
  }
  if (group.slice > 1) return refuse("cannot be combined with slice");
  if (group.shape.gpus < 1 || group.shape.gpus > scheduler::kMaxRails) {
    return refuse("is for 1 to " + std::to_string(scheduler::kMaxRails) +
                  " whole devices on each node");
  }
  if (bounds.maximum == 1) return {};  // there is no other node to be aligned with
  group.rail_aligned = true;
  return {};
}

}  // namespace

// The order matters: later parts read what earlier ones have set, such as the required level and
// the number of devices.
Result<JobRequest> ReadRequest(const proto::Job& job, const RequestContext& context) {
  const proto::Scheduling& asked = job.scheduling();
  JobRequest request;
  request.id = JobId(job.id());
  RETURN_IF_ERROR(ReadQueue(asked, context.configuration, request));
  request.owner = asked.owner();
  RETURN_IF_ERROR(ReadPriority(asked, context.configuration, request));
  RETURN_IF_ERROR(ReadPreemption(asked, request));
  if (asked.expected_ns() > 0) request.limit = Duration(asked.expected_ns());
  if (asked.deadline_at_ns() > 0) request.deadline = InstantFromNanoseconds(asked.deadline_at_ns());
  request.restart_cost = kRestartCost;

  GroupRequest& group = request.groups.emplace_back();
  const NodeBounds bounds = BoundsAsSubmitted(job);
  ReadNodes(bounds, group);
  if (asked.share_milli() > 0) {
    RETURN_IF_ERROR(ReadShare(job, group));
  } else {
    RETURN_IF_ERROR(ReadWorkers(job.processes_per_node(), context.slots_per_accelerator, group));
  }
  RETURN_IF_ERROR(ReadProperties(asked, context, group));
  group.one_model = bounds.maximum > 1 && !asked.mixed_devices();
  RETURN_IF_ERROR(ReadTopology(asked, context, bounds, group));
  RETURN_IF_ERROR(ReadSpread(asked, context, bounds, group));
  RETURN_IF_ERROR(ReadRails(asked, context, bounds, group));
  scheduler::JobScaled scale = ScaleOf(job);
  group.desired = scale.desired;
  group.speed_milli = std::move(scale.speed_milli);
  return request;
}

void WriteRequest(const JobRequest& request, const spec::Topology* cluster, proto::Job& job) {
  const GroupRequest& group = request.groups[0];
  job.set_nodes(static_cast<uint32_t>(group.minimum));
  const scheduler::Tier tier = std::min(group.required, request.required);
  if (group.shape.models == scheduler::kAnyModel) job.mutable_scheduling()->clear_devices();
  if (group.desired > 1) job.mutable_scheduling()->set_mixed_devices(!group.one_model);
  if (!group.rail_aligned) job.mutable_scheduling()->clear_rail_aligned();
  if (group.is_spread()) {
    const bool bounded = group.max_per_domain < scheduler::kMaxGangTasks;
    job.mutable_scheduling()->set_spread_at_most(
        bounded ? static_cast<uint32_t>(group.max_per_domain) : 0);
  }
  std::string& topology = *job.mutable_scheduling()->mutable_topology();
  if (tier == scheduler::kClusterTier) {
    topology.clear();
  } else if (tier == scheduler::kHostTier) {
    topology = "host";
  } else if (cluster != nullptr) {
    topology = cluster->levels()[static_cast<size_t>(tier)].name;
  }
}

scheduler::JobScaled ScaleOf(const proto::Job& job) {
  const NodeBounds bounds = BoundsOf(job);
  scheduler::JobScaled scale;
  scale.job = JobId(job.id());
  scale.desired = static_cast<int32_t>(std::min<uint32_t>(bounds.maximum, INT32_MAX));
  if (bounds.elastic()) scale.speed_milli = SpeedsOf(job, bounds);
  return scale;
}

Status CheckDevices(const proto::Job& job, const spec::Topology* topology,
                    uint32_t slots_per_accelerator) {
  const proto::Scheduling& asked = job.scheduling();
  if (asked.share_milli() > 0 && slots_per_accelerator > 1) {
    return FailedPrecondition(
        "share: a node has more than " + std::to_string(spec::kMaxDevices) +
        " slots, so that slots are not devices; start its agent with --slots " +
        std::to_string(spec::kMaxDevices) + " at most");
  }
  const auto wanted = static_cast<int64_t>(asked.device_memory_bytes() >> 20);
  if (wanted == 0 || topology == nullptr) return {};
  const spec::DeviceModel* largest = nullptr;
  for (const spec::DeviceModel& model : topology->models()) {
    const auto& named = asked.devices();
    if (!named.empty() && std::find(named.begin(), named.end(), model.name) == named.end()) {
      continue;
    }
    if (largest == nullptr || model.memory_mib > largest->memory_mib) largest = &model;
  }
  if (largest == nullptr || largest->memory_mib >= wanted) return {};
  return FailedPrecondition("device_memory: no device that may run the job has " +
                            ToString(Bytes(wanted << 20)) + "; the largest, " + largest->name +
                            ", has " + ToString(Bytes(largest->memory_mib << 20)));
}

}  // namespace longhaul::runtime::scheduling
