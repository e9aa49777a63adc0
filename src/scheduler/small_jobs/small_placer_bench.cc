// Decisions a CPU second on 5,000 nodes between 70 and 95 % full, and the time of each.
//
//   small_placer_bench [--nodes N] [--decisions N] [--seed S]
//
// A synthetic mixed cluster (three models, shares, whole GPUs, 8-GPU tasks, pins, CPU-only tasks;
// about 60 shapes) is filled to 70 %. Then tasks arrive until 95 % are allocated; then enough
// random ones end to come back to 70 %, and so on. Only arrivals are timed: a pick with all nodes
// considered, the placement and its commit. Prints the second half, after warm caches; and the CPU
// time of a cold start with 30 running tasks a node.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "io/clock.h"
#include "scheduler/small_jobs/small_placer.h"

namespace longhaul::scheduler {
namespace {

constexpr double kLow = 0.70;
constexpr double kHigh = 0.95;

spec::Topology Cluster(uint32_t nodes) {
  spec::ClusterDeclaration cluster;
  cluster.models = {{"A", 80 * 1'024}, {"B", 32 * 1'024}, {"C", 16 * 1'024}};
  cluster.kinds = {spec::UniformKind("a", 0, 8, 1, 128'000, 1'024 * 1'024),
                   spec::UniformKind("b", 1, 8, 2, 96'000, 512 * 1'024),
                   spec::UniformKind("c", 2, 4, 4, 104'000, 256 * 1'024)};
  for (uint32_t i = 0; i < nodes; ++i) {
    spec::DeclaredNode node;
    node.name = "node-" + std::to_string(i + 1);
    node.kind = i * 3 / nodes;
    node.domains = {"leaf-" + std::to_string(i / 100), "block-" + std::to_string(i / 1'000)};
    cluster.nodes.push_back(std::move(node));
  }
  return *spec::Topology::Create(std::move(cluster));
}

// Shapes with their weights, summing to the mix.
std::vector<MixEntry> Workload(State& state, Random& random) {
  std::vector<MixEntry> counts;
  const auto add = [&](int gpus, int share, int cpu, uint64_t models, int64_t weight) {
    Shape shape;
    shape.gpus = static_cast<uint8_t>(gpus);
    shape.share = static_cast<uint16_t>(share);
    shape.cpu_milli = cpu;
    shape.memory_mib = cpu * 4;
    shape.models = shape.needs_devices() ? models : kAnyModel;
    if (share > 0) shape.gpu_memory_mib = share * 8;
    const ShapeId id = state.Intern(shape);
    if (static_cast<uint32_t>(id) == counts.size()) counts.push_back({id, weight});
  };
  for (int i = 0; i < 24; ++i) {
    const auto cpu = 2'000 + 500 * static_cast<int>(random.Below(24));
    const auto share = 50 + 10 * static_cast<int>(random.Below(85));
    add(0, share, cpu, kAnyModel, 1 + static_cast<int64_t>(random.Below(60)));
  }
  for (int i = 0; i < 20; ++i) {
    const auto cpu = 4'000 + 1'000 * static_cast<int>(random.Below(12));
    const uint64_t models = i % 4 == 0 ? 1 + random.Below(6) : kAnyModel;
    add(1, 0, cpu, models, 1 + static_cast<int64_t>(random.Below(80)));
  }
  for (const int gpus : {2, 4, 8}) add(gpus, 0, gpus * 8'000, kAnyModel, 20);
  for (int i = 0; i < 12; ++i) {
    add(0, 0, 1'000 + 1'000 * static_cast<int>(random.Below(30)), kAnyModel, 10);
  }
  return counts;
}

class Driver {
 public:
  Driver(const spec::Topology& topology, uint64_t seed)
      : random_(seed), state_(topology), counts_(Workload(state_, random_)) {
    for (const MixEntry& entry : counts_) weight_ += static_cast<uint64_t>(entry.weight);
    placer_ = std::make_unique<SmallPlacer>(state_, MakeTaskMix(counts_));
    capacity_ = state_.cluster().free_milli;
  }

  ShapeId Draw() {
    auto at = random_.Below(weight_);
    for (const MixEntry& entry : counts_) {
      if (at < static_cast<uint64_t>(entry.weight)) return entry.shape;
      at -= static_cast<uint64_t>(entry.weight);
    }
    return counts_.back().shape;
  }

  bool Decide(ShapeId shape) {
    const auto choice = placer_->Pick(state_, shape);
    if (!choice) return false;
    tasks_.push_back(state_.Place(choice->node, shape, choice->gpus, 1));
    state_.Commit();
    return true;
  }

  double Full() const {
    return 1 - static_cast<double>(state_.cluster().free_milli) / static_cast<double>(capacity_);
  }

  void Drain(double to) {
    while (Full() > to && !tasks_.empty()) {
      std::swap(tasks_[random_.Below(tasks_.size())], tasks_.back());
      state_.Remove(tasks_.back());
      tasks_.pop_back();
      state_.Commit();
    }
  }

  size_t shapes() const { return counts_.size(); }
  size_t running() const { return tasks_.size(); }
  uint64_t scored() const { return placer_->scored(); }

 private:
  Random random_;
  State state_;
  std::vector<MixEntry> counts_;
  uint64_t weight_ = 0;
  std::unique_ptr<SmallPlacer> placer_;
  int64_t capacity_ = 0;
  std::vector<TaskSlot> tasks_;
};

struct Flags {
  uint32_t nodes = 5'000;
  uint64_t decisions = 400'000;
  uint64_t seed = 1;
};

void Run(const Flags& flags) {
  const spec::Topology topology = Cluster(flags.nodes);
  Driver driver(topology, flags.seed);
  while (driver.Full() < kLow) driver.Decide(driver.Draw());
  std::vector<double> times_us;
  times_us.reserve(flags.decisions);
  uint64_t refused = 0;
  double cpu_s = 0;
  uint64_t scored_before = 0;
  bool warm = false;
  for (uint64_t done = 0; done < flags.decisions;) {
    if (done >= flags.decisions / 2 && !warm) {
      warm = true;
      times_us.clear();
      cpu_s = 0;
      refused = 0;
      scored_before = driver.scored();
    }
    if (driver.Full() >= kHigh) driver.Drain(kLow);
    // The thread's CPU clock is a system call, so it is read once a batch.
    std::vector<ShapeId> batch;
    for (int i = 0; i < 64; ++i) batch.push_back(driver.Draw());
    const Instant cpu_begin = io::ThreadCpuTime();
    for (const ShapeId shape : batch) {
      const Instant begin = io::MonotonicNow();
      refused += driver.Decide(shape) ? 0 : 1;
      times_us.push_back(ToSeconds(io::MonotonicNow() - begin) * 1e6);
    }
    cpu_s += ToSeconds(io::ThreadCpuTime() - cpu_begin);
    done += batch.size();
  }
  std::sort(times_us.begin(), times_us.end());
  const auto at = [&](double part) {
    return times_us[static_cast<size_t>(part * static_cast<double>(times_us.size() - 1))];
  };
  const auto decisions = static_cast<double>(times_us.size());
  std::printf("nodes %u, shapes %zu, running %zu, refused %.1f %%, scores a decision %.1f\n",
              flags.nodes, driver.shapes(), driver.running(),
              100 * static_cast<double>(refused) / decisions,
              static_cast<double>(driver.scored() - scored_before) / decisions);
  std::printf("decisions/cpu-s %.0f   wall us p50 %.2f p99 %.2f p99.9 %.2f max %.2f\n",
              decisions / cpu_s, at(0.5), at(0.99), at(0.999), at(1));
}

// A restart: the cluster is declared, what runs is put back where it was, the first task decided.
void ColdStart(const Flags& flags, uint32_t tasks) {
  const Instant begin = io::ThreadCpuTime();
  const spec::Topology topology = Cluster(flags.nodes);
  State state(topology);
  Random random(flags.seed);
  const std::vector<MixEntry> counts = Workload(state, random);
  Shape small;
  small.share = 50;
  small.cpu_milli = 500;
  const ShapeId id = state.Intern(small);
  for (uint32_t i = 0; i < tasks; ++i) {
    const NodeIndex node = i % flags.nodes;
    if (state.Fits(node, id)) state.Place(node, id, state.ChooseGpus(node, id), i + 1);
  }
  state.Commit();
  SmallPlacer placer(state, MakeTaskMix(counts));
  const bool placed = placer.Pick(state, counts.front().shape).has_value();
  std::printf("cold start to the first decision: %.0f ms of CPU, %u nodes, %u running%s\n",
              ToSeconds(io::ThreadCpuTime() - begin) * 1e3, flags.nodes, state.task_count(),
              placed ? "" : ", nothing fits");
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    const auto number = ParseUint64(argv[i + 1]);
    if (!number.ok() || *number < 1 || *number > 100'000'000) return 2;
    if (word == "--nodes" && *number <= spec::kMaxTopologyNodes) {
      flags.nodes = static_cast<uint32_t>(*number);
    } else if (word == "--decisions") {
      flags.decisions = std::max<uint64_t>(*number, 1'000);
    } else if (word == "--seed") {
      flags.seed = *number;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", word.c_str());
      return 2;
    }
  }
  ColdStart(flags, 30 * flags.nodes);
  Run(flags);
  return 0;
}

}  // namespace
}  // namespace longhaul::scheduler

int main(int argc, char** argv) { return longhaul::scheduler::Main(argc, argv); }
