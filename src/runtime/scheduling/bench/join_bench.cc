// What a joining node costs the controller: CPU time until the scheduler has decided with it.
//
//   scheduler_join_bench [undeclared|declared]...     (both without arguments)
//
//   undeclared  the node has a new name; the cluster has no file
//   declared    the cluster file declares the node, which has not joined before
//
// 4,980 nodes of 8 accelerators are there. About 2,000 jobs fill them, and 500 wait, of 1 to 64
// workers in 20 queues, a third of the larger ones in one leaf where leaves are declared. Prints
// the median and the worst of 20 nodes, and what a round with nothing new costs. Durations of jobs
// are unknown, as the controller mostly has them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "io/clock.h"
#include "runtime/scheduling/cluster_scheduler.h"

namespace longhaul::runtime::scheduling {
namespace {

using scheduler::DecisionKind;

constexpr int kNodes = 5'000;
constexpr int kJoining = 20;
constexpr int kQueues = 20;
constexpr size_t kWaiting = 500;

std::string NodeName(int node) { return "node-" + std::to_string(node + 1); }

std::string ControllerFile(bool declared) {
  std::string text = declared ? "cluster: cluster.yaml\nqueues:\n" : "queues:\n";
  for (int q = 0; q < kQueues; ++q) {
    text += "  - {name: q" + std::to_string(q) + ", guarantee: {accelerators: 1500}}\n";
  }
  return text;
}

// 5 blocks of 10 leaves of 100 nodes: node-1 to node-5000.
constexpr char kClusterFile[] =
    "levels: [leaf, block]\n"
    "models: {H100: {memory: 80GiB}}\n"
    "kinds: {box: {devices: 8, model: H100, cpu: 96, memory: 1024GiB}}\n"
    "nodes: [{kind: box, each: {block: 5, leaf: 10}, hosts: 100}]\n";

proto::Job RandomJob(int number, bool declared, Random& random) {
  static constexpr uint32_t kSizes[] = {1, 2, 4, 8, 8, 16, 16, 32, 48, 64};
  const uint32_t size = kSizes[random.Below(std::size(kSizes))];
  proto::Job job;
  job.set_id("job-" + std::to_string(number));
  job.set_nodes(std::max<uint32_t>(1, size / 8));
  job.set_processes_per_node(std::min<uint32_t>(size, 8));
  job.set_max_restarts(10);
  job.mutable_scheduling()->set_queue("q" + std::to_string(random.Below(kQueues)));
  if (declared && size > 8 && random.Below(3) == 0) {
    job.mutable_scheduling()->set_topology("leaf");
  }
  return job;
}

// Carries out what was decided; jobs that have to stop have stopped.
void Obey(ClusterScheduler& scheduler, const std::vector<Verdict>& verdicts, Instant now) {
  for (const Verdict& verdict : verdicts) {
    switch (verdict.kind) {
      case DecisionKind::kSuspend:
      case DecisionKind::kEvict:
      case DecisionKind::kUndo:
        scheduler.Stopped(verdict.job, now);
        break;
      case DecisionKind::kMove:
        scheduler.Stopped(verdict.job, now);
        scheduler.Confirm(verdict.job, verdict.transaction, true, now);
        break;
      default:
        scheduler.Confirm(verdict.job, verdict.transaction, true, now);
    }
  }
}

void Run(bool declared) {
  Instant now = InstantFromNanoseconds(1'700'000'000'000'000'000);
  proto::SchedulingConfiguration configuration;
  configuration.set_text(ControllerFile(declared));
  if (declared) configuration.set_cluster_text(kClusterFile);
  ClusterScheduler scheduler;
  const Status configured = scheduler.Configure(configuration, now);
  CHECK(configured.ok()) << configured.message();
  const NodeFacts facts = {8, 96, uint64_t{1024} << 30};
  const auto join = [&](int node) {
    scheduler.SetNode(NodeName(node), facts, spec::NodeCondition::kReady, now);
  };
  for (int node = 0; node < kNodes - kJoining; ++node) join(node);
  Random random(7);
  int jobs = 0;
  size_t waiting = 0;
  while (waiting < kWaiting) {
    const int batch = waiting == 0 ? 50 : 10;
    for (int i = 0; i < batch; ++i) scheduler.Submit(RandomJob(jobs++, declared, random), now);
    const std::vector<Verdict> verdicts = scheduler.Decide(now);
    Obey(scheduler, verdicts, now);
    waiting = 0;
    for (int i = 0; i < jobs; ++i) {
      waiting += scheduler.Waits(JobId("job-" + std::to_string(i))) ? 1 : 0;
    }
    now += std::chrono::seconds(10);
  }
  std::vector<double> joins, rounds;
  for (int node = kNodes - kJoining; node < kNodes; ++node) {
    now += std::chrono::seconds(10);
    Obey(scheduler, scheduler.Decide(now), now);
    now += std::chrono::seconds(10);
    const Instant idle = io::ThreadCpuTime();
    Obey(scheduler, scheduler.Decide(now), now);
    const Instant begin = io::ThreadCpuTime();
    join(node);
    const std::vector<Verdict> verdicts = scheduler.Decide(now);
    const Instant end = io::ThreadCpuTime();
    joins.push_back(ToSeconds(end - begin) * 1e3);
    rounds.push_back(ToSeconds(begin - idle) * 1e3);
    Obey(scheduler, verdicts, now);
  }
  std::sort(joins.begin(), joins.end());
  std::sort(rounds.begin(), rounds.end());
  std::printf(
      "%-10s %zu running, %zu waiting: joining node p50 %.1f ms, worst %.1f ms of CPU; "
      "a round with nothing new p50 %.1f ms\n",
      declared ? "declared" : "undeclared", static_cast<size_t>(jobs) - waiting, waiting,
      joins[joins.size() / 2], joins.back(), rounds[rounds.size() / 2]);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling

int main(int argc, char** argv) {
  using longhaul::runtime::scheduling::Run;
  bool declared = argc == 1, undeclared = argc == 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "declared") == 0) {
      declared = true;
    } else if (std::strcmp(argv[i], "undeclared") == 0) {
      undeclared = true;
    } else {
      return std::fprintf(stderr, "usage: scheduler_join_bench [undeclared|declared]...\n"), 2;
    }
  }
  if (undeclared) Run(false);
  if (declared) Run(true);
  return 0;
}
