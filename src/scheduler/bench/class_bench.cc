// The class Scheduler as the controller calls it: events in, a round, decisions out. No engine and
// no API in the loop; times are CPU seconds of this thread.
//
//   scheduler_class_bench [mixed|gangs|reclaim|cold|kueue|explain]...     (all without arguments)
//
//   mixed    5,000 nodes of three models, about 60 shapes (fractions, whole GPUs, pins, CPU-only),
//            20 queues, between 70 and 95 % full, a round for each job
//   gangs    5,000 nodes in 50 leaves: gangs of 4 in one leaf; gangs of 1,000
//   reclaim  500 nodes of 8: 4,000 one-GPU jobs that borrow, 4,000 entitled ones come
//   cold     5,000 nodes, 150,000 running tasks of 90,000 jobs adopted, one new job decided
//   kueue    three shapes of Kueue's performance tests (kueue_shapes.cc)
//   explain  5,000 nodes and 2,000 waiting jobs: the time to explain one
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "scheduler/bench/rows.h"

namespace longhaul::scheduler::bench {

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Times::Sum() const {
  double sum = 0;
  for (const double each : seconds) sum += each;
  return sum;
}

double Times::Quantile(double q) const {
  if (seconds.empty()) return 0;
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

void PrintRow(const std::string& name, const std::string& text) {
  double load = 0;
  (void)getloadavg(&load, 1);
  std::printf("%-22s %s  (load %.1f)\n", name.c_str(), text.c_str(), load);
  std::fflush(stdout);
}

JobRequest Job(const std::string& name, const std::string& queue, int32_t tasks, int32_t gpus,
               int32_t cpu_milli) {
  JobRequest job;
  job.id = JobId(name);
  job.queue = queue;
  job.limit = std::chrono::hours(1);
  job.groups.emplace_back();
  job.groups[0].shape.gpus = static_cast<uint8_t>(gpus);
  job.groups[0].shape.cpu_milli = cpu_milli;
  job.groups[0].minimum = job.groups[0].desired = tasks;
  return job;
}

size_t Confirm(Scheduler& scheduler, const std::vector<Decision>& decisions, Instant now) {
  size_t starts = 0;
  for (const Decision& decision : decisions) {
    if (decision.kind == DecisionKind::kMove || decision.kind == DecisionKind::kEvict ||
        decision.kind == DecisionKind::kSuspend) {
      scheduler.Apply(JobStopped{decision.job}, now);
    }
    if (decision.kind == DecisionKind::kStart || decision.kind == DecisionKind::kMove) {
      scheduler.Apply(TasksRunning{decision.job, decision.transaction, {}}, now);
    }
    starts += decision.kind == DecisionKind::kStart ? 1 : 0;
  }
  return starts;
}

namespace {

constexpr uint32_t kNodes = 5'000;

Scheduler Make(const spec::ClusterDeclaration& cluster,
               const std::vector<spec::QueueSpec>& queues) {
  auto topology = spec::Topology::Create(cluster);
  CHECK(topology.ok()) << topology.status().message();
  auto made = Scheduler::Create(std::move(topology).value(), queues, {});
  CHECK(made.ok()) << made.status().message();
  return std::move(made).value();
}

std::vector<spec::QueueSpec> Queues(size_t count, int64_t gpus_each) {
  std::vector<spec::QueueSpec> queues(count);
  for (size_t i = 0; i < count; ++i) {
    queues[i].name = "q" + std::to_string(i);
    queues[i].guarantee[0] = gpus_each * 1'000;
  }
  return queues;
}

spec::ClusterDeclaration MixedCluster() {
  spec::ClusterDeclaration cluster;
  cluster.models = {{"A", 80 * 1'024}, {"B", 32 * 1'024}, {"C", 16 * 1'024}};
  cluster.kinds = {spec::UniformKind("a", 0, 8, 1, 128'000, 1'024 * 1'024),
                   spec::UniformKind("b", 1, 8, 2, 96'000, 512 * 1'024),
                   spec::UniformKind("c", 2, 4, 4, 104'000, 256 * 1'024)};
  for (uint32_t i = 0; i < kNodes; ++i) {
    spec::DeclaredNode node;
    node.name = "node-" + std::to_string(i + 1);
    node.kind = i * 3 / kNodes;
    node.domains = {"leaf-" + std::to_string(i / 100), "block-" + std::to_string(i / 1'000)};
    cluster.nodes.push_back(std::move(node));
  }
  return cluster;
}

// Shapes, and how often each comes.
std::vector<std::pair<Shape, int64_t>> MixedShapes(Random& random) {
  std::vector<std::pair<Shape, int64_t>> shapes;
  const auto add = [&](int gpus, int share, int cpu, uint64_t models, int64_t weight) {
    Shape shape;
    shape.gpus = static_cast<uint8_t>(gpus);
    shape.share = static_cast<uint16_t>(share);
    shape.cpu_milli = cpu;
    shape.memory_mib = cpu * 4;
    shape.models = shape.needs_devices() ? models : kAnyModel;
    if (share > 0) shape.gpu_memory_mib = share * 8;
    shapes.emplace_back(shape, weight);
  };
  for (int i = 0; i < 24; ++i) {
    const auto cpu = 2'000 + 500 * static_cast<int>(random.Below(24));
    const auto share = 50 + 10 * static_cast<int>(random.Below(85));
    add(0, share, cpu, kAnyModel, 1 + static_cast<int64_t>(random.Below(60)));
  }
  for (int i = 0; i < 12; ++i) {
    const auto cpu = 4'000 + 1'000 * static_cast<int>(random.Below(12));
    add(1, 0, cpu, i % 3 == 0 ? uint64_t{1} << (i % 2) : kAnyModel,
        1 + static_cast<int64_t>(random.Below(60)));
  }
  for (const int gpus : {2, 4, 8}) {
    for (int i = 0; i < 3; ++i) {
      add(gpus, 0, gpus * (4'000 + 1'000 * i), kAnyModel,
          1 + static_cast<int64_t>(random.Below(8)));
    }
  }
  for (int i = 0; i < 14; ++i) {
    add(0, 0, 1'000 + 500 * i, kAnyModel, 1 + static_cast<int64_t>(random.Below(10)));
  }
  return shapes;
}

void Mixed() {
  Random random(1);
  const auto shapes = MixedShapes(random);
  int64_t weights = 0;
  for (const auto& [shape, weight] : shapes) weights += weight;
  Scheduler scheduler = Make(MixedCluster(), Queues(20, 1'000));
  int64_t capacity = 0;
  for (uint32_t node = 0; node < kNodes; ++node) {
    capacity += static_cast<int64_t>(scheduler.topology().kind_of(node).devices.size()) * 1'000;
  }
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<std::pair<JobId, int64_t>> running;
  int64_t used = 0;
  uint64_t name = 0;
  Times times;
  const auto arrive = [&](bool timed) {
    auto pick = static_cast<int64_t>(random.Below(static_cast<uint64_t>(weights)));
    size_t s = 0;
    while (pick >= shapes[s].second) pick -= shapes[s++].second;
    JobRequest job = Job("j" + std::to_string(name), "q" + std::to_string(name % 20), 1, 0);
    ++name;
    job.groups[0].shape = shapes[s].first;
    now += std::chrono::milliseconds(1);
    const Event event = JobSubmitted{job};
    const double before = CpuSeconds();
    scheduler.Apply(event, now);
    const std::vector<Decision> decisions = scheduler.Decide(now);
    if (timed) times.seconds.push_back(CpuSeconds() - before);
    if (Confirm(scheduler, decisions, now) == 0) {
      scheduler.Apply(JobEnded{job.id}, now);  // it fits nowhere: gone
      return;
    }
    running.emplace_back(job.id, shapes[s].first.gpu_milli());
    used += shapes[s].first.gpu_milli();
  };
  const auto fill = [&](double share, bool timed) {
    while (static_cast<double>(used) < share * static_cast<double>(capacity)) arrive(timed);
  };
  const auto empty = [&](double share) {
    while (static_cast<double>(used) > share * static_cast<double>(capacity)) {
      std::swap(running[random.Below(running.size())], running.back());
      used -= running.back().second;
      scheduler.Apply(JobEnded{running.back().first}, now);
      running.pop_back();
    }
  };
  fill(0.95, false);
  for (int i = 0; i < 6; ++i) {
    empty(0.70);
    fill(0.95, true);
  }
  char text[200];
  std::snprintf(
      text, sizeof text, "%s decisions/s over %zu, p50 %.1f us, p99 %.1f us, max %.0f us",
      WithThousands(static_cast<int64_t>(static_cast<double>(times.seconds.size()) / times.Sum()))
          .c_str(),
      times.seconds.size(), times.Quantile(0.5) * 1e6, times.Quantile(0.99) * 1e6,
      times.Quantile(1) * 1e6);
  PrintRow("mixed-5000", text);
}

void Gangs() {
  // 50 leaves of 100 hosts.
  Scheduler scheduler = Make(spec::ClosCluster(5, 10, 100), Queues(4, 100));
  Random random(1);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<JobId> running;
  Times four;
  uint64_t name = 0;
  size_t refused = 0;
  const auto start = [&](int32_t tasks, int32_t gpus, Tier required, Times* times) {
    JobRequest job = Job("g" + std::to_string(name), "q" + std::to_string(name % 4), tasks, gpus);
    ++name;
    job.groups[0].required = required;
    now += std::chrono::milliseconds(1);
    const Event event = JobSubmitted{job};
    const double before = CpuSeconds();
    scheduler.Apply(event, now);
    const auto decisions = scheduler.Decide(now);
    if (times != nullptr) times->seconds.push_back(CpuSeconds() - before);
    if (Confirm(scheduler, decisions, now) > 0) {
      running.push_back(job.id);
      return true;
    }
    ++refused;
    scheduler.Apply(JobEnded{job.id}, now);
    return false;
  };
  const auto end_one = [&] {
    std::swap(running[random.Below(running.size())], running.back());
    scheduler.Apply(JobEnded{running.back()}, now);
    running.pop_back();
  };
  // To 80 %: 40,000 GPUs, 8 a gang.
  for (int i = 0; i < 4'000; ++i) start(4, 2, kLeafTier, nullptr);
  for (int i = 0; i < 20'000; ++i) {
    end_one();
    start(4, 2, kLeafTier, &four);
  }
  char text[240];
  std::snprintf(
      text, sizeof text, "%s pods/s over %zu gangs, p99 %.1f us, %zu refused",
      WithThousands(static_cast<int64_t>(4 * static_cast<double>(four.seconds.size()) / four.Sum()))
          .c_str(),
      four.seconds.size(), four.Quantile(0.99) * 1e6, refused);
  PrintRow("gangs-of-4", text);
  while (running.size() > 1'500) end_one();
  for (const int32_t gpus : {1, 8}) {
    for (const bool layout : {false, true}) {
      Times thousand;
      size_t started = 0;
      for (int i = 0; i < 200; ++i) {
        JobRequest job = Job("l" + std::to_string(name++), "q0", 1'000, gpus);
        if (layout) job.layout = RankLayout{gpus, 8, 1 << 20, 1 << 16, 1 << 12};
        now += std::chrono::milliseconds(1);
        const Event event = JobSubmitted{job};
        const double before = CpuSeconds();
        scheduler.Apply(event, now);
        const auto decisions = scheduler.Decide(now);
        thousand.seconds.push_back(CpuSeconds() - before);
        started += Confirm(scheduler, decisions, now);
        scheduler.Apply(JobEnded{job.id}, now);
        end_one();
        start(4, 2, kLeafTier, nullptr);
      }
      std::snprintf(text, sizeof text, "p50 %.3f ms, p99 %.3f ms, max %.3f ms, started %zu of 200",
                    thousand.Quantile(0.5) * 1e3, thousand.Quantile(0.99) * 1e3,
                    thousand.Quantile(1) * 1e3, started);
      PrintRow("gang-of-1000 x " + std::to_string(gpus) + (layout ? " ranks" : ""), text);
    }
  }
}

void Reclaim() {
  Times times;
  for (int run = 0; run < 5; ++run) {
    auto queues = Queues(2, 0);
    queues[1].guarantee[0] = 4'000'000;
    Scheduler scheduler = Make(spec::ClosCluster(1, 25, 20), queues);
    Instant now = InstantFromNanoseconds(1'000'000'000'000);
    for (int i = 0; i < 4'000; ++i) {
      scheduler.Apply(JobSubmitted{Job("b" + std::to_string(i), "q0", 1, 1)}, now);
    }
    CHECK(Confirm(scheduler, scheduler.Decide(now), now) == 4'000);
    now += std::chrono::minutes(10);
    const double before = CpuSeconds();
    for (int i = 0; i < 4'000; ++i) {
      scheduler.Apply(JobSubmitted{Job("e" + std::to_string(i), "q1", 1, 1)}, now);
    }
    const auto decisions = scheduler.Decide(now);
    times.seconds.push_back(CpuSeconds() - before);
    CHECK(Confirm(scheduler, decisions, now) == 4'000);
  }
  char text[120];
  std::snprintf(text, sizeof text, "%.0f ms median of 5, worst %.0f ms", times.Quantile(0.5) * 1e3,
                times.Quantile(1) * 1e3);
  PrintRow("reclaim-4000+4000", text);
}

void Cold() {
  const Instant now = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<Event> events;
  uint64_t name = 0;
  const auto adopt = [&](uint32_t node, int32_t tasks, uint32_t first_gpu, bool gpus) {
    JobAdopted job;
    job.request = Job("r" + std::to_string(name++), "q0", tasks, gpus ? 1 : 0, 500);
    job.submitted = job.started = job.last_snapshot = now - std::chrono::hours(1);
    for (int32_t t = 0; t < tasks; ++t) {
      const auto mask = static_cast<GpuMask>(gpus ? 1u << (first_gpu + uint32_t(t)) : 0);
      job.tasks.push_back({0, t, node, mask});
    }
    events.push_back(std::move(job));
  };
  for (uint32_t node = 0; node < kNodes; ++node) {
    for (uint32_t gpu = 0; gpu < 6; ++gpu) adopt(node, 1, gpu, true);
    adopt(node, 2, 6, true);
    for (int i = 0; i < 10; ++i) adopt(node, 1, 0, false);
    adopt(node, 12, 0, false);
  }
  const double before = CpuSeconds();
  Scheduler scheduler = Make(spec::ClosCluster(5, 10, 100), Queues(2, 0));
  for (const Event& event : events) scheduler.Apply(event, now);
  scheduler.Apply(JobSubmitted{Job("new", "q1", 1, 0)}, now);
  const size_t started = Confirm(scheduler, scheduler.Decide(now), now);
  const double spent = CpuSeconds() - before;
  CHECK(started == 1 && scheduler.state().task_count() == 150'001);
  char text[120];
  std::snprintf(text, sizeof text, "%.2f s for %zu jobs with 150,000 tasks, first decision made",
                spent, events.size());
  PrintRow("cold-start-5000", text);
  // All is taken over into another topology, as after a change of the cluster file. A node that
  // joins extends the scheduler in place instead (scheduler_join_bench).
  spec::ClusterDeclaration larger = spec::ClosCluster(5, 10, 100);
  larger.nodes.push_back(larger.nodes.back());
  larger.nodes.back().name = "node-new";
  Times times;
  for (int i = 0; i < 3; ++i) {
    auto topology = spec::Topology::Create(larger);
    CHECK(topology.ok()) << topology.status().message();
    const double from = CpuSeconds();
    const auto rebuilt =
        Scheduler::Rebuild(scheduler, std::move(topology).value(), Queues(2, 0), Policy{});
    times.seconds.push_back(CpuSeconds() - from);
    CHECK(rebuilt.ok() && rebuilt->state().task_count() == 150'001);
  }
  std::snprintf(text, sizeof text, "%.0f ms median of 3 to take all over into another topology",
                times.Quantile(0.5) * 1e3);
  PrintRow("rebuild-5000", text);
}

void Explain() {
  Scheduler scheduler = Make(spec::ClosCluster(5, 10, 100), Queues(20, 1'500));
  Random random(3);
  Instant now = InstantFromNanoseconds(1'000'000'000'000);
  static constexpr int kSizes[] = {1, 1, 1, 2, 4, 8, 16, 32, 64, 128};
  for (int i = 0; i < 12'000; ++i) {
    const int size = kSizes[random.Below(std::size(kSizes))];
    JobRequest job = Job("j" + std::to_string(i), "q" + std::to_string(random.Below(20)),
                         std::max(1, size / 8), std::min(size, 8));
    job.limit = std::chrono::minutes(30 + random.Below(3'000));
    job.owner = job.queue;
    if (size > 8 && random.Below(3) == 0) job.groups[0].required = kLeafTier;
    now += std::chrono::milliseconds(100);
    scheduler.Apply(JobSubmitted{job}, now);
    if (i % 50 == 49) Confirm(scheduler, scheduler.Decide(now), now);
  }
  Confirm(scheduler, scheduler.Decide(now), now);
  now += std::chrono::minutes(10);
  Confirm(scheduler, scheduler.Decide(now), now);
  const std::vector<JobId> waiting = scheduler.Waiting();
  Times times;
  size_t fixed = 0;
  for (size_t i = 0; i < 40 && !waiting.empty(); ++i) {
    const JobId& job = waiting[i * waiting.size() / 40];
    const double before = CpuSeconds();
    const auto why = scheduler.Explain(job, now);
    times.seconds.push_back(CpuSeconds() - before);
    CHECK(why.ok());
    fixed += why->fix.empty() ? 0 : 1;
  }
  char text[200];
  std::snprintf(text, sizeof text,
                "%zu waiting; of 40 explained p50 %.0f ms, p99 %.0f ms; %zu with a fix",
                waiting.size(), times.Quantile(0.5) * 1e3, times.Quantile(0.99) * 1e3, fixed);
  PrintRow("explain-5000", text);
}

}  // namespace
}  // namespace longhaul::scheduler::bench

int main(int argc, char** argv) {
  using namespace longhaul::scheduler::bench;  // NOLINT: this file is its program
  const struct {
    const char* name;
    void (*run)();
  } kRows[] = {{"mixed", Mixed}, {"gangs", Gangs},       {"reclaim", Reclaim},
               {"cold", Cold},   {"kueue", KueueShapes}, {"explain", Explain}};
  for (const auto& row : kRows) {
    bool asked = argc == 1;
    for (int i = 1; i < argc; ++i) asked |= std::strcmp(argv[i], row.name) == 0;
    if (asked) row.run();
  }
  return 0;
}
