#include "scheduler/internal/scheduler_invariants.h"

#include <bit>
#include <map>
#include <set>
#include <string>

#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

namespace {

Status Broken(const std::string& what) { return InternalError(what); }

struct Used {
  std::map<uint32_t, int64_t> share;  // by device
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
};

// No device and no host holds more than it has.
Status CheckNoOvercommit(const SchedulerState& state) {
  std::map<NodeIndex, Used> used;
  size_t tasks = 0;
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& job = *each;
    for (const HeldTask& task : job.tasks) {
      ++tasks;
      const TaskRecord& record = state.resources.task(task.slot);
      if (record.owner != job.number) return Broken("a task of another job is counted");
      const Shape& shape = job.request->groups[static_cast<size_t>(task.group)].shape;
      Used& node = used[record.node];
      for (uint32_t device = 0; device < spec::kMaxDevices; ++device) {
        if ((record.gpus >> device & 1) == 0) continue;
        node.share[device] += shape.gpus > 0 ? kWholeGpu : shape.share;
      }
      const int want = shape.share > 0 ? 1 : shape.gpus;
      if (std::popcount(record.gpus) != want) {
        return Broken(job.request->id.value() + " holds another number of GPUs than it asked");
      }
      node.cpu_milli += shape.cpu_milli;
      node.memory_mib += shape.memory_mib;
    }
  }
  if (tasks != state.resources.task_count()) return Broken("tasks are placed that no job holds");
  for (const auto& [index, node] : used) {
    const spec::NodeKind& kind = state.topology->kind_of(index);
    for (const auto& [device, share] : node.share) {
      if (share > kWholeGpu || device >= kind.devices.size()) {
        return Broken("device " + std::to_string(device) + " of node " + std::to_string(index) +
                      " is over its capacity");
      }
    }
    if (node.cpu_milli > kind.cpu_milli || node.memory_mib > kind.memory_mib) {
      return Broken("node " + std::to_string(index) + " is over its capacity");
    }
  }
  return {};
}

// Aligned to rails: the same GPUs on hosts of their own.
Status CheckRails(const SchedulerState& state, const JobEntry& job) {
  for (size_t g = 0; g < job.request->groups.size(); ++g) {
    if (!job.request->groups[g].rail_aligned) continue;
    std::set<NodeIndex> nodes;
    std::set<GpuMask> masks;
    size_t tasks = 0;
    for (const HeldTask& task : job.tasks) {
      if (task.group != static_cast<int32_t>(g)) continue;
      ++tasks;
      nodes.insert(state.resources.task(task.slot).node);
      masks.insert(state.resources.task(task.slot).gpus);
    }
    if (tasks > 0 && (nodes.size() != tasks || masks.size() != 1)) {
      return Broken(job.request->id.value() + " is not aligned to rails");
    }
  }
  return {};
}

// The tasks of a group of one model are on devices of one model.
Status CheckModels(const SchedulerState& state, const JobEntry& job) {
  for (size_t g = 0; g < job.request->groups.size(); ++g) {
    const GroupRequest& group = job.request->groups[g];
    if (!group.one_model || !group.shape.needs_devices()) continue;
    std::set<uint16_t> models;
    for (const HeldTask& task : job.tasks) {
      if (task.group != static_cast<int32_t>(g)) continue;
      models.insert(state.topology->kind_of(state.resources.task(task.slot).node).model);
    }
    if (models.size() > 1) {
      return Broken(job.request->id.value() + " lies on devices of several models");
    }
  }
  return {};
}

// Each GPU that the job holds has one rank, and each rank a GPU.
Status CheckRanks(const SchedulerState& state, const JobEntry& job) {
  const auto ranks = GpusOfRanks(state, job);
  if (ranks.empty()) return {};
  std::set<std::pair<NodeIndex, int>> gpus;
  size_t held = 0;
  for (const HeldTask& task : job.tasks) {
    const TaskRecord& record = state.resources.task(task.slot);
    held += static_cast<size_t>(CountGpus(record.gpus));
  }
  for (const GpuOfRank& rank : ranks) gpus.insert({rank.node, rank.gpu});
  if (gpus.size() == held && ranks.size() == held) return {};
  return Broken(job.request->id.value() + " has " + std::to_string(ranks.size()) + " ranks on " +
                std::to_string(held) + " GPUs");
}

// No gang runs below its minimum, and required topology holds.
Status CheckGang(const SchedulerState& state, const JobEntry& job) {
  const std::string name = job.request->id.value();
  if (!job.placed) {
    return job.tasks.empty() ? Status() : Broken(name + " waits and holds tasks");
  }
  std::map<int32_t, int32_t> counts;
  for (const HeldTask& task : job.tasks) ++counts[task.group];
  for (const auto& [group, rank] : job.lost) ++counts[group];
  for (size_t g = 0; g < job.request->groups.size(); ++g) {
    const GroupRequest& group = job.request->groups[g];
    const int32_t count = counts[static_cast<int32_t>(g)];
    if (count < group.minimum || count > group.desired) {
      return Broken(name + " runs with " + std::to_string(count) + " tasks of " +
                    std::to_string(group.minimum) + " to " + std::to_string(group.desired));
    }
  }
  const auto domain_of = [&](Tier tier, const HeldTask& task) {
    const auto host = static_cast<int32_t>(state.resources.task(task.slot).node);
    return tier == kHostTier ? host : state.tree->DomainOf(tier, host);
  };
  std::set<int32_t> of_job;
  std::map<int32_t, std::set<int32_t>> of_group;
  std::map<std::pair<int32_t, NodeIndex>, int32_t> on_host;
  std::map<std::pair<int32_t, int32_t>, int32_t> spread;
  for (const HeldTask& task : job.tasks) {
    const GroupRequest& group = job.request->groups[static_cast<size_t>(task.group)];
    if (job.request->required != kClusterTier) {
      of_job.insert(domain_of(job.request->required, task));
    }
    if (group.required != kClusterTier) {
      of_group[task.group].insert(domain_of(group.required, task));
    }
    const int32_t here = ++on_host[{task.group, state.resources.task(task.slot).node}];
    if (group.max_per_host > 0 && here > group.max_per_host) {
      return Broken(name + " has more tasks on one host than its rule allows");
    }
    if (!group.is_spread()) continue;
    if (++spread[{task.group, domain_of(group.spread_tier, task)}] > group.max_per_domain) {
      return Broken(name + " is not spread as its rule says");
    }
  }
  if (of_job.size() > 1) return Broken(name + " lies in several domains");
  RETURN_IF_ERROR(CheckRails(state, job));
  RETURN_IF_ERROR(CheckModels(state, job));
  RETURN_IF_ERROR(CheckRanks(state, job));
  for (const auto& [group, domains] : of_group) {
    if (domains.size() > 1) return Broken("a group of " + name + " lies in several domains");
  }
  return {};
}

Status CheckQueues(const SchedulerState& state) {
  std::vector<spec::SharedAmounts> sums(state.queues.size());
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& job = *each;
    spec::SharedAmounts held;
    for (const HeldTask& task : job.tasks) {
      held += state.AmountsOf(job, task);
    }
    if (!(held == job.held)) return Broken(job.request->id.value() + ": its amounts are wrong");
    for (share::QueueIndex up = job.queue; up != share::kNoQueue; up = state.queues.parent(up)) {
      sums[static_cast<size_t>(up)] += held;
    }
  }
  for (size_t q = 0; q < sums.size(); ++q) {
    const auto queue = static_cast<share::QueueIndex>(q);
    if (!(sums[q] == state.queues.usage(queue))) {
      return Broken("queue " + state.queues.name(queue) + " does not use what its jobs hold");
    }
    for (size_t r = 0; r < state.queues.dimensions(); ++r) {
      if (sums[q][r] > state.queues.limit(queue)[r] && !state.over_limit.contains(queue)) {
        return Broken("queue " + state.queues.name(queue) + " is over its limit");
      }
    }
  }
  return state.queues.CheckInvariants();
}

// What users hold is what their jobs hold, and nobody is above a limit except with jobs that were
// taken over.
Status CheckUsers(const SchedulerState& state) {
  std::map<std::pair<share::QueueIndex, std::string>, share::UserUsage> sums;
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& job = *each;
    if (!job.placed) continue;
    for (share::QueueIndex up = job.queue; up != share::kNoQueue; up = state.queues.parent(up)) {
      if (!state.queues.per_user(up).limits_holdings()) continue;
      share::UserUsage& usage = sums[{up, job.request->owner}];
      usage.amounts += job.held;
      ++usage.running;
    }
  }
  size_t counted = 0;
  for (size_t q = 0; q < state.queues.size(); ++q) {
    counted += state.queues.users(static_cast<share::QueueIndex>(q)).size();
  }
  if (counted != sums.size()) return Broken("a user is counted who has no job there");
  for (const auto& [key, usage] : sums) {
    const auto& [queue, user] = key;
    const std::string text = share::UserText(user) + " in queue " + state.queues.name(queue);
    const auto found = state.queues.users(queue).find(user);
    if (found == state.queues.users(queue).end() || !(found->second == usage)) {
      return Broken(text + " does not use what the user's jobs hold");
    }
    if (state.queues.PassesUserLimits(queue, user) && !state.users_over_limit.contains(key)) {
      return Broken(text + " is over the limit of a user");
    }
  }
  for (const auto& [number, reservation] : state.reservations) {
    if (!state.queues.CheckUser(state.MinimumOf(state.at(number)))) continue;
    return Broken("a reservation of a job that the limits of its user block");
  }
  return {};
}

Status CheckLines(const SchedulerState& state) {
  std::set<JobNumber> waiting;
  for (const Line& line : state.lines) {
    for (const auto& [place, number] : line.jobs) {
      if (!waiting.insert(number).second) return Broken("a job waits in two lines");
    }
  }
  for (const JobEntry* each : state.jobs.InOrder()) {
    const JobEntry& job = *each;
    if (job.placed == waiting.contains(job.number)) {
      return Broken(job.request->id.value() + " both waits and runs, or neither");
    }
    if (job.placed != state.placed.contains(job.number)) return Broken("the list of placed jobs");
  }
  if (waiting.size() + state.placed.size() != state.jobs.size()) return Broken("jobs are lost");
  if (waiting.size() != state.waiting.size()) return Broken("the order of submissions");
  std::map<share::QueueIndex, uint32_t> held;
  for (const auto& [number, reservation] : state.reservations) {
    if (!waiting.contains(number)) return Broken("a reservation of a job that doesn't wait");
    if (++held[reservation.queue] > state.policy.reservations) {
      return Broken("more reservations in a queue than its policy allows");
    }
  }
  return {};
}

}  // namespace

Status CheckInvariants(const SchedulerState& state) {
  const std::string recount = state.resources.Recount();
  if (!recount.empty()) return Broken("counters: " + recount);
  RETURN_IF_ERROR(CheckNoOvercommit(state));
  for (const JobEntry* job : state.jobs.InOrder()) RETURN_IF_ERROR(CheckGang(state, *job));
  RETURN_IF_ERROR(CheckQueues(state));
  RETURN_IF_ERROR(CheckUsers(state));
  return CheckLines(state);
}

}  // namespace longhaul::scheduler::internal
