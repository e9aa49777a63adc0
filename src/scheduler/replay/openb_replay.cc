#include "scheduler/replay/openb_replay.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/text.h"
#include "scheduler/replay/rival_rules.h"
#include "scheduler/scheduler.h"
#include "scheduler/small_jobs/small_placer.h"
#include "scheduler/small_jobs/task_mix.h"
#include "scheduler/traces/csv_reader.h"

namespace longhaul::scheduler {

namespace {

constexpr uint64_t kRandomRuleSeed = 1;

int64_t GpuMilli(const TraceJob& job) {
  return job.task.gpus > 0 ? int64_t{job.task.gpus} * kWholeGpu : job.task.share_milli;
}

// The task's request on this cluster, or nothing when no model that it is pinned to is here.
std::optional<TaskRequest> OnCluster(const TraceJob& job, const spec::Topology& topology) {
  TaskRequest request = job.task;
  if (request.models.empty()) return request;
  std::erase_if(request.models,
                [&](const std::string& model) { return !topology.FindModel(model); });
  if (request.models.empty()) return std::nullopt;
  return request;
}

// The tasks as shapes, and their mix without host memory, which the protocol leaves out of it.
struct Workload {
  std::vector<std::optional<ShapeId>> shapes;  // by task
  TaskMix mix;
};

Result<Workload> MakeWorkload(State& state, std::span<const TraceJob> tasks) {
  Workload workload;
  std::vector<MixEntry> counts;
  std::map<ShapeId, size_t> entry_of_shape;
  for (const TraceJob& job : tasks) {
    const std::optional<TaskRequest> request = OnCluster(job, state.topology());
    if (!request) {
      workload.shapes.push_back(std::nullopt);
      continue;
    }
    auto shape = ResolveRequest(*request, state.topology());
    if (!shape.ok()) return shape.status().WithContext("task " + Printable(job.name, 60));
    workload.shapes.push_back(state.Intern(*shape));
    shape->memory_mib = 0;
    const ShapeId typical = state.Intern(*shape);
    const auto [it, fresh] = entry_of_shape.try_emplace(typical, counts.size());
    if (fresh) counts.push_back({typical, 0});
    ++counts[it->second].weight;
  }
  workload.mix = MakeTaskMix(std::move(counts));
  return workload;
}

// FGD counts no fragment for tasks without GPUs, which its published figures need to be repeated:
// the mix with all of them needing nothing, so that they run anywhere.
TaskMix MixOfPublishedFgd(State& state, const TaskMix& mix) {
  TaskMix published = mix;
  for (MixEntry& entry : published.entries) {
    if (!state.shape(entry.shape).needs_devices()) entry.shape = state.Intern({});
  }
  return published;
}

class Chooser {
 public:
  Chooser(State& state, const Workload& workload, ReplayRule rule, const SmallJobPolicy& policy)
      : state_(state), rule_(rule), random_(kRandomRuleSeed) {
    if (rule == ReplayRule::kLonghaul) {
      placer_ = std::make_unique<SmallPlacer>(state, workload.mix, policy);
    } else if (rule == ReplayRule::kPublishedFgd) {
      table_ = std::make_unique<FragmentationTable>(state, MixOfPublishedFgd(state, workload.mix));
    }
  }

  std::optional<SmallChoice> Choose(ShapeId shape) {
    switch (rule_) {
      case ReplayRule::kLonghaul:
      case ReplayRule::kScheduler:
        return placer_->Pick(state_, shape);
      case ReplayRule::kBestFit:
        return ChooseBestFit(state_, shape);
      case ReplayRule::kPublishedFgd:
        return ChoosePublishedFgd(state_, shape, *table_);
      case ReplayRule::kRandom:
        return ChooseRandom(state_, shape, random_);
    }
    return std::nullopt;
  }

 private:
  const State& state_;
  ReplayRule rule_;
  Random random_;
  std::unique_ptr<SmallPlacer> placer_;
  std::unique_ptr<FragmentationTable> table_;
};

// The same arrivals as jobs of a scheduler of their own; what doesn't start at once is withdrawn.
class ByScheduler {
 public:
  static Result<ByScheduler> Create(const spec::Topology& topology, const State& shapes,
                                    const Workload& workload, const SmallJobPolicy& small_jobs) {
    Policy policy;
    policy.small_jobs = small_jobs;
    policy.mix_period = 0;  // the protocol's mix, and no other
    policy.backfill = Backfill::kReservations;
    policy.reservations = 0;
    policy.preempt = false;
    ASSIGN_OR_RETURN(Scheduler scheduler, Scheduler::Create(topology, {}, policy));
    MixExpected expected;
    for (const MixEntry& entry : workload.mix.entries) {
      expected.tasks.emplace_back(shapes.shape(entry.shape), entry.weight);
    }
    scheduler.Apply(expected, InstantFromNanoseconds(1));
    return ByScheduler(std::move(scheduler));
  }

  bool Start(const Shape& shape) {
    JobRequest job;
    job.id = JobId("task-" + std::to_string(next_++));
    job.groups.emplace_back();
    job.groups[0].shape = shape;
    const Instant now = InstantFromNanoseconds(static_cast<int64_t>(next_) * 1'000'000);
    scheduler_.Apply(JobSubmitted{job}, now);
    for (const Decision& decision : scheduler_.Decide(now)) {
      if (decision.kind != DecisionKind::kStart) continue;
      scheduler_.Apply(TasksRunning{decision.job, decision.transaction, {}}, now);
      return true;
    }
    scheduler_.Apply(JobEnded{job.id}, now);
    return false;
  }

 private:
  explicit ByScheduler(Scheduler scheduler) : scheduler_(std::move(scheduler)) {}

  Scheduler scheduler_;
  uint64_t next_ = 1;
};

}  // namespace

// Tasks are removed or drawn again at random until their demand reaches the limit, and then
// shuffled. All randomness comes from the caller's generator, so a seed gives the same arrivals
// everywhere.
std::vector<uint32_t> InflatedArrivals(std::span<const TraceJob> tasks, int64_t capacity_milli,
                                       Random& random) {
  const int64_t limit = capacity_milli * kMaxArrivedPercent / 100;
  std::vector<uint32_t> order;
  int64_t demand = 0;
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    order.push_back(i);
    demand += GpuMilli(tasks[i]);
  }
  CHECK(demand > 0) << "no task asks for GPUs";
  while (demand > limit) {
    std::swap(order[random.Below(order.size())], order.back());
    demand -= GpuMilli(tasks[order.back()]);
    order.pop_back();
  }
  for (;;) {
    const auto next = static_cast<uint32_t>(random.Below(tasks.size()));
    if (demand + GpuMilli(tasks[next]) > limit) break;
    order.push_back(next);
    demand += GpuMilli(tasks[next]);
  }
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
  return order;
}

std::vector<TraceJob> Resampled(std::span<const TraceJob> tasks, Random& random) {
  std::vector<TraceJob> drawn;
  drawn.reserve(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) drawn.push_back(tasks[random.Below(tasks.size())]);
  return drawn;
}

int64_t CapacityMilli(const spec::Topology& topology) {
  int64_t capacity = 0;
  for (uint32_t n = 0; n < topology.size(); ++n) {
    capacity += static_cast<int64_t>(topology.kind_of(n).devices.size()) * kWholeGpu;
  }
  return capacity;
}

Result<ReplayResult> Replay(const spec::Topology& topology, std::span<const TraceJob> tasks,
                            std::span<const uint32_t> arrivals, ReplayRule rule,
                            const SmallJobPolicy& policy) {
  const int64_t capacity = CapacityMilli(topology);
  if (capacity == 0) return InvalidArgument("the cluster has no GPUs");
  State state(topology);
  ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(state, tasks));
  Chooser chooser(state, workload, rule, policy);
  std::optional<ByScheduler> by_scheduler;
  if (rule == ReplayRule::kScheduler) {
    ASSIGN_OR_RETURN(ByScheduler made, ByScheduler::Create(topology, state, workload, policy));
    by_scheduler.emplace(std::move(made));
  }
  ReplayResult result;
  int64_t arrived = 0;
  int64_t allocated = 0;
  int percent = 0;
  // The curve at p is what is allocated before the first task that takes the arrivals beyond p.
  const auto note_up_to = [&](int64_t arriving) {
    while (percent <= kMaxArrivedPercent && arriving * 100 > percent * capacity) {
      result.allocated[static_cast<size_t>(percent++)] =
          100 * static_cast<double>(allocated) / static_cast<double>(capacity);
    }
  };
  for (const uint32_t task : arrivals) {
    const int64_t milli = GpuMilli(tasks[task]);
    note_up_to(arrived + milli);
    arrived += milli;
    ++result.decisions;
    const std::optional<ShapeId> shape = workload.shapes[task];
    if (by_scheduler) {
      const bool starts = shape && by_scheduler->Start(state.shape(*shape));
      allocated += starts ? milli : 0;
      result.refused += starts ? 0 : 1;
      continue;
    }
    const std::optional<SmallChoice> choice = shape ? chooser.Choose(*shape) : std::nullopt;
    if (!choice) {
      ++result.refused;
      continue;
    }
    state.Place(choice->node, *shape, choice->gpus, 1);
    state.Commit();
    allocated += milli;
  }
  note_up_to(capacity * (kMaxArrivedPercent + 1));
  return result;
}

Result<std::map<std::pair<std::string, std::string>, PublishedCurve>> ReadPublishedCurves(
    std::string_view text, std::string_view source) {
  std::vector<std::string> names;
  for (int p = 0; p <= kMaxArrivedPercent; ++p) names.push_back(std::to_string(p));
  std::vector<std::string_view> columns = {"workload", "sc_policy", "seed"};
  columns.insert(columns.end(), names.begin(), names.end());
  ASSIGN_OR_RETURN(CsvReader row, CsvReader::Open(text, source, columns));
  std::map<std::pair<std::string, std::string>, PublishedCurve> curves;
  while (row.Next()) {
    PublishedCurve& curve = curves[{std::string(row.Field(0)), std::string(row.Field(1))}];
    ++curve.seeds;
    for (size_t p = 0; p < curve.mean.size(); ++p) {
      const Result<double> value = ParseDouble(row.Field(3 + p));
      if (!value.ok() || *value < 0 || *value > 100.5) {
        return row.Refuse(3 + p, "'" + Printable(row.Field(3 + p), 40) + "' is no percentage");
      }
      curve.mean[p] += *value;
    }
  }
  RETURN_IF_ERROR(row.status());
  for (auto& [key, curve] : curves) {
    for (double& value : curve.mean) value /= curve.seeds;
  }
  return curves;
}

}  // namespace longhaul::scheduler
