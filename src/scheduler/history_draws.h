// For tests: random clusters, queues and jobs, for histories of the scheduler.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {

// Two device models, in any order over the nodes, some of them with a label or a taint.
inline spec::Topology ControllerCluster(Random& rng) {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, static_cast<uint32_t>(1 + rng.Below(3)),
                                                       static_cast<uint32_t>(1 + rng.Below(5)));
  cluster.models.push_back({"small", 16 * 1024});
  cluster.kinds.push_back(spec::UniformKind(
      "small", static_cast<uint16_t>(cluster.models.size() - 1), 4, 1, 64'000, 256 * 1024));
  for (spec::DeclaredNode& node : cluster.nodes) {
    if (rng.Below(2) == 0) node.kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
    if (rng.Below(4) == 0) node.labels["pool"] = "a";
    if (rng.Below(6) == 0) node.taints.insert("reserved");
  }
  auto topology = spec::Topology::Create(cluster);
  CHECK(topology.ok()) << topology.status();
  return *topology;
}

inline spec::Topology RandomCluster(Random& rng) {
  const auto blocks = static_cast<uint32_t>(1 + rng.Below(2));
  const auto leaves = static_cast<uint32_t>(1 + rng.Below(3));
  const auto hosts = static_cast<uint32_t>(1 + rng.Below(4));
  spec::ClusterDeclaration cluster = spec::ClosCluster(blocks, leaves, hosts);
  if (rng.Below(3) == 0) {  // a second kind, with another model
    cluster.models.push_back({"small", 16 * 1024});
    cluster.kinds.push_back(spec::UniformKind(
        "small", static_cast<uint16_t>(cluster.models.size() - 1), 4, 1, 64'000, 256 * 1024));
    for (size_t i = 0; i < cluster.nodes.size(); i += 2) {
      cluster.nodes[i].kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
    }
  }
  if (rng.Below(4) == 0) cluster.nodes.back().condition = spec::NodeCondition::kSpare;
  auto topology = spec::Topology::Create(cluster);
  CHECK(topology.ok()) << topology.status();
  return *topology;
}

// What Topology::Create makes the topology of again.
inline spec::ClusterDeclaration DeclarationOf(const spec::Topology& topology) {
  spec::ClusterDeclaration cluster;
  cluster.name = topology.name();
  cluster.levels.clear();
  for (const spec::Level& level : topology.levels()) cluster.levels.push_back(level.name);
  cluster.levels.pop_back();  // the cluster
  cluster.models.assign(topology.models().begin(), topology.models().end());
  cluster.kinds.assign(topology.kinds().begin(), topology.kinds().end());
  for (uint32_t i = 0; i < topology.size(); ++i) {
    spec::DeclaredNode& node = cluster.nodes.emplace_back();
    node.name = topology.node(i).name;
    node.kind = topology.node(i).kind;
    node.condition = topology.node(i).condition;
    node.labels = topology.classes()[topology.node(i).node_class].labels;
    node.taints = topology.classes()[topology.node(i).node_class].taints;
    for (size_t level = 0; level < cluster.levels.size(); ++level) {
      const spec::Level& of = topology.levels()[level];
      node.domains.push_back(of.domains[of.domain_of_node[i]].name);
    }
  }
  return cluster;
}

// The cluster with a further node, the twin of a node and before or after it or in a new leaf, or
// with an idle node that has more cpu.
inline spec::Topology WithJoinedNode(Random& rng, const Scheduler& scheduler) {
  spec::ClusterDeclaration cluster = DeclarationOf(scheduler.topology());
  const size_t at = rng.Below(cluster.nodes.size());
  spec::DeclaredNode& node = cluster.nodes[at];
  const bool idle = scheduler.state().newest_task(static_cast<NodeIndex>(at)) == kNoTask;
  if (idle && rng.Below(3) == 0) {
    cluster.kinds.push_back(cluster.kinds[node.kind]);
    cluster.kinds.back().name = "kind-" + std::to_string(cluster.kinds.size());
    cluster.kinds.back().cpu_milli += 1'000;
    node.kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
  } else {
    spec::DeclaredNode twin = node;
    twin.name += "-" + std::to_string(cluster.nodes.size());
    twin.condition = spec::NodeCondition::kReady;
    if (rng.Below(3) == 0) twin.domains[0] += "-" + std::to_string(cluster.nodes.size());
    cluster.nodes.insert(cluster.nodes.begin() + static_cast<std::ptrdiff_t>(at + rng.Below(2)),
                         std::move(twin));
  }
  auto topology = spec::Topology::Create(std::move(cluster));
  CHECK(topology.ok()) << topology.status();
  return *std::move(topology);
}

inline int64_t GpusOf(const spec::Topology& topology) {
  int64_t gpus = 0;
  for (uint32_t i = 0; i < topology.size(); ++i) {
    gpus += static_cast<int64_t>(topology.kind_of(i).devices.size());
  }
  return gpus;
}

inline std::vector<spec::QueueSpec> RandomQueues(Random& rng, int64_t gpus) {
  std::vector<spec::QueueSpec> queues;
  const size_t count = 1 + rng.Below(5);
  std::vector<int64_t> left(count + 1);
  left[count] = gpus * 1000;
  for (size_t i = 0; i < count; ++i) {
    spec::QueueSpec& queue = queues.emplace_back();
    queue.name = "q" + std::to_string(i);
    const size_t parent = rng.Below(3) == 0 && i > 0 ? rng.Below(i) : count;
    if (parent != count) queue.parent = "q" + std::to_string(parent);
    const int64_t most = left[parent] / 1000;
    const int64_t guarantee =
        most == 0 ? 0 : static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most) / 2 + 1));
    queue.guarantee[0] = guarantee * 1000;
    left[parent] -= guarantee * 1000;
    left[i] = guarantee * 1000;
    if (rng.Below(3) == 0) queue.limit[0] = queue.guarantee[0] + 1000 * (1 + gpus / 3);
    if (rng.Below(4) == 0) queue.lend[0] = queue.guarantee[0] / 2;
    queue.weight = static_cast<uint32_t>(1 + rng.Below(3));
    if (rng.Below(4) == 0) queue.order = spec::QueueOrder::kFirstCome;
  }
  return queues;
}

inline Shape RandomShape(Random& rng) {
  Shape shape;
  switch (rng.Below(5)) {
    case 0:
      shape.share = static_cast<uint16_t>(100 * (1 + rng.Below(9)));
      shape.gpu_memory_mib = static_cast<int32_t>(rng.Below(12'000));
      break;
    case 1:
      break;  // cpu only
    case 2:
      shape.gpus = 8;
      break;
    default:
      shape.gpus = static_cast<uint8_t>(1 << rng.Below(3));
  }
  shape.cpu_milli = static_cast<int32_t>(500 * (1 + rng.Below(8)));
  shape.memory_mib = static_cast<int32_t>(512 * (1 + rng.Below(8)));
  return shape;
}

inline JobRequest RandomJob(Random& rng, int number, size_t queues, Tier tiers) {
  JobRequest job;
  job.id = JobId("job-" + std::to_string(number));
  job.queue = "q" + std::to_string(rng.Below(queues));
  job.owner = "u" + std::to_string(rng.Below(3));
  job.priority = static_cast<int32_t>(rng.Below(3));
  job.preemption = static_cast<Preemption>(rng.Below(4));
  if (rng.Below(2) == 0) job.limit = std::chrono::minutes(1 + rng.Below(300));
  const size_t groups = rng.Below(6) == 0 ? 2 : 1;
  const auto tier = [&] {
    const uint64_t pick = rng.Below(6);
    return pick == 0   ? kHostTier
           : pick <= 2 ? static_cast<Tier>(rng.Below(static_cast<uint64_t>(tiers)))
                       : kClusterTier;
  };
  if (groups == 2) job.required = std::max(kLeafTier, tier());
  for (size_t g = 0; g < groups; ++g) {
    GroupRequest group;
    group.name = "g" + std::to_string(g);
    group.shape = RandomShape(rng);
    group.minimum = static_cast<int32_t>(1 + rng.Below(rng.Below(2) == 0 ? 1 : 6));
    group.desired = group.minimum;
    if (groups == 1 && rng.Below(4) == 0) {
      group.step = static_cast<int32_t>(1 + rng.Below(2));
      group.desired += group.step * static_cast<int32_t>(rng.Below(4));
    }
    if (groups == 1) group.required = tier();
    if (group.desired > group.minimum && rng.Below(2) == 0) {
      int32_t speed = 1'000;
      for (int32_t n = group.minimum; n <= group.desired; n += group.step) {
        group.speed_milli.push_back(speed);
        speed += static_cast<int32_t>(rng.Below(1'000));
      }
    }
    if (group.shape.gpus > 0 && rng.Below(6) == 0) group.rail_aligned = true;
    if (group.required == kClusterTier && job.required == kClusterTier && rng.Below(10) == 0 &&
        !group.rail_aligned && group.speed_milli.empty()) {
      group.max_per_domain = static_cast<int32_t>(1 + rng.Below(3));
      group.desired = group.minimum;
    }
    job.groups.push_back(group);
  }
  const GroupRequest& first = job.groups[0];
  if (groups == 1 && first.shape.gpus > 0 && rng.Below(4) == 0) {
    job.layout.emplace();
    if (rng.Below(2) == 0) job.layout->tensor = first.shape.gpus;
    const bool even = first.minimum % 2 == 0 && (first.desired == first.minimum || first.step == 2);
    if (even && rng.Below(2) == 0) job.layout->pipeline = 2;
    job.layout->tensor_volume = static_cast<int64_t>(rng.Below(1'000));
    job.layout->data_volume = static_cast<int64_t>(rng.Below(1'000));
    job.layout->pipeline_volume = static_cast<int64_t>(rng.Below(1'000));
  }
  return job;
}

inline JobRequest ControllerJob(Random& rng, int number, size_t queues,
                                const spec::Topology& topology) {
  JobRequest job;
  job.id = JobId("job-" + std::to_string(number));
  job.queue = "q" + std::to_string(rng.Below(queues));
  job.owner = "u" + std::to_string(rng.Below(3));
  job.priority = static_cast<int32_t>(rng.Below(3));
  job.preemption = rng.Below(4) == 0 ? static_cast<Preemption>(rng.Below(4)) : Preemption::kSuspend;
  if (rng.Below(5) == 0) job.limit = std::chrono::minutes(1 + rng.Below(300));
  job.restart_cost = std::chrono::seconds(10);
  TaskRequest task;
  task.gpus = uint32_t{1} << rng.Below(4);
  if (rng.Below(4) == 0) task.models.insert(topology.models()[rng.Below(2)].name);
  if (rng.Below(6) == 0) task.gpu_memory_mib = 32 * 1024;
  if (rng.Below(4) == 0) task.memory_mib = static_cast<int64_t>(1 + rng.Below(128)) * 1024;
  if (rng.Below(6) == 0) task.selector["pool"] = "a";
  if (rng.Below(4) == 0) task.tolerates.insert("reserved");
  Result<Shape> shape = ResolveRequest(task, topology);
  if (!shape.ok()) {  // no node has the label, or every node is tainted
    task.selector.clear();
    task.tolerates.insert("reserved");
    shape = ResolveRequest(task, topology);
  }
  CHECK(shape.ok()) << shape.status();
  GroupRequest group;
  group.name = "nodes";
  group.shape = *shape;
  group.minimum = static_cast<int32_t>(1 + rng.Below(rng.Below(2) == 0 ? 1 : 4));
  group.desired = group.minimum;
  if (rng.Below(5) == 0) group.desired += static_cast<int32_t>(rng.Below(3));
  if (group.desired > 1) {
    group.max_per_host = 1;
    group.one_model = rng.Below(4) != 0;
  }
  if (rng.Below(3) == 0) group.required = kLeafTier;
  job.groups.push_back(group);
  return job;
}

// Spreads some of the job's groups, inside of a required domain too, and bounds their tasks on a
// host.
inline void DrawSpread(Random& rng, Tier tiers, JobRequest& job) {
  for (GroupRequest& group : job.groups) {
    const bool bounded = rng.Below(8) == 0;
    if (bounded && group.max_per_host == 0) {
      group.max_per_host = static_cast<int32_t>(1 + rng.Below(3));
    }
    if (group.rail_aligned || rng.Below(3) != 0) continue;
    // The highest required domain is a part of the cluster too.
    if (job.groups.size() == 1 && tiers > 1 && rng.Below(3) == 0) group.required = tiers - 1;
    const Tier below = std::min({group.required, job.required, tiers});
    if (below <= kLeafTier) continue;
    group.spread_tier = static_cast<Tier>(rng.Below(static_cast<uint64_t>(below)));
    group.max_per_domain =
        rng.Below(4) == 0 ? kMaxGangTasks : static_cast<int32_t>(1 + rng.Below(3));
  }
}

inline void DrawUserLimits(Random& rng, std::vector<spec::QueueSpec>& queues) {
  for (spec::QueueSpec& queue : queues) {
    queue.per_user = {};
    queue.max_run_time = {};
    if (rng.Below(2) == 0) queue.per_user.running = static_cast<uint32_t>(1 + rng.Below(3));
    if (rng.Below(2) == 0) {
      queue.per_user.amounts[0] = static_cast<int64_t>(1'000 * (1 + rng.Below(24)));
    }
    if (rng.Below(4) == 0) {
      queue.per_user.amounts[1] = static_cast<int64_t>(1'000 * (2 + rng.Below(20)));
    }
    if (rng.Below(3) == 0) queue.max_run_time = std::chrono::minutes(10 + rng.Below(300));
  }
}

// Guarantees, limits and lending limits of each model, and limits of users. A queue divides what
// the queue above has left.
inline void DrawModelQuotas(Random& rng, const spec::Topology& topology,
                            std::vector<spec::QueueSpec>& queues) {
  std::map<std::pair<std::string, std::string>, int64_t> left;  // by queue and model
  for (uint32_t i = 0; i < topology.size(); ++i) {
    const spec::NodeKind& kind = topology.kind_of(i);
    left[{"", topology.models()[kind.model].name}] +=
        1'000 * static_cast<int64_t>(kind.devices.size());
  }
  const auto below = [&](int64_t most) {
    return 1'000 * static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most / 1'000) + 1));
  };
  for (spec::QueueSpec& queue : queues) {
    queue.models.clear();
    int64_t undivided = queue.guarantee[0];
    for (const spec::DeviceModel& model : topology.models()) {
      if (rng.Below(3) == 0) continue;
      spec::ModelQuota quota;
      quota.model = model.name;
      int64_t& above = left[{queue.parent, model.name}];
      quota.guarantee = below(std::min(above, undivided));
      above -= quota.guarantee;
      undivided -= quota.guarantee;
      left[{queue.name, model.name}] = quota.guarantee;
      if (rng.Below(2) == 0) quota.limit = quota.guarantee + 1'000 + below(12'000);
      if (rng.Below(4) == 0) quota.lend = quota.guarantee / 2;
      if (rng.Below(4) == 0) quota.per_user = 1'000 + below(12'000);
      queue.models.push_back(quota);
    }
    std::sort(queue.models.begin(), queue.models.end(),
              [](const auto& a, const auto& b) { return a.model < b.model; });
  }
}

}  // namespace longhaul::scheduler
