#include "scheduler/internal/rank_places.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "scheduler/gang/rank_order.h"

namespace longhaul::scheduler::internal {

namespace {

// Of swaps that improve a folded order; a gang of 1,000 hosts is laid in milliseconds.
constexpr int64_t kMostSteps = 50'000;

// The GPU of a mask's n-th bit.
uint8_t NthGpu(GpuMask gpus, int32_t n) {
  uint8_t gpu = 0;
  for (;; ++gpu) {
    if ((gpus >> gpu & 1) != 0 && n-- == 0) return gpu;
  }
}

}  // namespace

void LayRanks(const SchedulerState& state, JobEntry& job, std::vector<HeldTask>& tasks,
              bool renumber) {
  job.gpu_of_rank.clear();
  if (!job.request->layout || tasks.empty()) return;
  const RankLayout& layout = *job.request->layout;
  const int32_t gpus = job.request->groups[0].shape.gpus;
  const auto ranks = static_cast<int32_t>(tasks.size()) * gpus;
  const int32_t part = layout.tensor * layout.pipeline;
  if (ranks % part != 0) return;  // an odd number survived: the job says again how it talks
  std::map<int32_t, std::vector<size_t>> on_host;
  for (size_t i = 0; i < tasks.size(); ++i) {
    on_host[static_cast<int32_t>(state.resources.task(tasks[i].slot).node)].push_back(i);
  }
  std::vector<HostTasks> slots;
  for (auto& [host, here] : on_host) {
    std::sort(here.begin(), here.end(),
              [&](size_t a, size_t b) { return tasks[a].rank < tasks[b].rank; });
    slots.push_back({host, static_cast<int32_t>(here.size()) * gpus});
  }
  GroupLayout groups;
  groups.tensor = layout.tensor;
  groups.data = ranks / part;
  groups.pipeline = layout.pipeline;
  groups.tensor_volume = layout.tensor_volume;
  groups.data_volume = layout.data_volume;
  groups.pipeline_volume = layout.pipeline_volume;
  // The slots are hosts in ascending order with the GPUs that the job has there; a task's own
  // number of GPUs divides them.
  const RankOrder order = OrderRanks(*state.tree, slots, groups, kMostSteps);
  // A host's ranks, ascending, fill its tasks one after another.
  std::map<int32_t, int32_t> filled;
  std::vector<int32_t> task_of_rank;
  for (const int32_t host : order.host_of_rank) {
    const int32_t at = filled[host]++;
    task_of_rank.push_back(static_cast<int32_t>(on_host.at(host)[static_cast<size_t>(at / gpus)]));
    job.gpu_of_rank.emplace_back(0, static_cast<uint8_t>(at % gpus));
  }
  std::vector<int32_t> rank_of_task(tasks.size(), -1);
  int32_t next = 0;
  for (const int32_t task : task_of_rank) {
    int32_t& rank = rank_of_task[static_cast<size_t>(task)];
    if (rank < 0) rank = next++;
  }
  for (size_t r = 0; r < task_of_rank.size(); ++r) {
    const auto task = static_cast<size_t>(task_of_rank[r]);
    job.gpu_of_rank[r].first = renumber ? rank_of_task[task] : tasks[task].rank;
  }
  if (!renumber) return;
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i].rank = rank_of_task[i];
}

std::vector<GpuOfRank> GpusOfRanks(const SchedulerState& state, const JobEntry& job) {
  std::vector<GpuOfRank> ranks;
  if (job.gpu_of_rank.empty() || !job.lost.empty()) return ranks;
  for (const auto& [task, ordinal] : job.gpu_of_rank) {
    const auto held =
        std::lower_bound(job.tasks.begin(), job.tasks.end(), task,
                         [](const HeldTask& each, int32_t rank) { return each.rank < rank; });
    CHECK(held != job.tasks.end() && held->rank == task) << "rank " << task << " has no task";
    const TaskRecord& record = state.resources.task(held->slot);
    ranks.push_back({task, record.node, NthGpu(record.gpus, ordinal)});
  }
  return ranks;
}

}  // namespace longhaul::scheduler::internal
