// Nodes that join between rounds: the scheduler is extended by them, and decides as if it had taken
// all over.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/scheduling/cluster_scheduler.h"

namespace longhaul::runtime::scheduling::joining_test {
namespace {

using scheduler::DecisionKind;
using spec::NodeCondition;

constexpr const char* kQueues = R"(
queues:
  - {name: red, guarantee: {accelerators: 8}}
  - {name: blue, guarantee: {accelerators: 8}, limit: {accelerators: 40}}
scheduling: {evictions_a_day: 1000, repair_patience: 5min}
)";
constexpr const char* kCluster = R"(
levels: [leaf, block]
models: {H100: {memory: 80GiB}}
kinds: {box: {devices: 8, model: H100, cpu: 96, memory: 1024GiB}}
nodes: [{kind: box, each: {block: 2, leaf: 2}, hosts: 3}]
)";
constexpr NodeFacts kFacts = {8, 96, uint64_t{1024} << 30};

// Two schedulers with the same history, one of which takes all over before each round.
class Pair {
 public:
  Pair(uint64_t seed, bool declared) : rng_(seed) {
    proto::SchedulingConfiguration configuration;
    configuration.set_text(std::string(declared ? "cluster: cluster.yaml" : "") + kQueues);
    if (declared) configuration.set_cluster_text(kCluster);
    EXPECT_TRUE(extended_.Configure(configuration, now_).ok());
    EXPECT_TRUE(taken_over_.Configure(configuration, now_).ok());
    Join();
  }

  void Step() {
    now_ += std::chrono::seconds(1 + rng_.Below(rng_.Below(6) == 0 ? 2'000 : 30));
    Act();
    const uint64_t before = extended_.rebuilds();
    const std::vector<Verdict> verdicts = extended_.Decide(now_);
    if (extended_.rebuilds() != before) {
      EXPECT_TRUE(
          taken_over_.Reconfigure(extended_.configuration(), extended_.cluster().declaration())
              .ok());
    }
    const std::vector<Verdict> expected = taken_over_.Decide(now_);
    ASSERT_EQ(verdicts.size(), expected.size());
    for (size_t i = 0; i < verdicts.size(); ++i) {
      ASSERT_EQ(verdicts[i].kind, expected[i].kind);
      ASSERT_EQ(verdicts[i].job, expected[i].job);
      ASSERT_EQ(verdicts[i].transaction, expected[i].transaction);
    }
    for (const std::string& job : jobs_) {
      ASSERT_EQ(extended_.PlacesOf(JobId(job)), taken_over_.PlacesOf(JobId(job))) << job;
      ASSERT_EQ(extended_.WaitText(JobId(job)), taken_over_.WaitText(JobId(job))) << job;
    }
    for (const std::string& node : nodes_) {
      ASSERT_EQ(extended_.ConditionOf(node), taken_over_.ConditionOf(node)) << node;
    }
    ASSERT_EQ(extended_.NextDeadline(), taken_over_.NextDeadline());
    ASSERT_TRUE(extended_.CheckInvariants().ok()) << extended_.CheckInvariants();
    Obey(verdicts);
  }

  int joins() const { return joins_; }

 private:
  template <typename Change>
  void Both(const Change& change) {
    change(extended_);
    change(taken_over_);
  }

  std::string Any(const std::set<std::string>& names) {
    auto at = names.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(rng_.Below(names.size())));
    return *at;
  }

  void Join() {
    const std::string name = "node-" + std::to_string(1 + rng_.Below(16));
    NodeFacts facts = kFacts;
    if (rng_.Below(6) == 0) facts.cores = 64;
    if (rng_.Below(30) == 0) facts.slots = 24;  // requests count two slots an accelerator then
    joins_ += nodes_.insert(name).second ? 1 : 0;
    Both([&](ClusterScheduler& each) { each.SetNode(name, facts, NodeCondition::kReady, now_); });
  }

  void Submit() {
    proto::Job job;
    job.set_id("job-" + std::to_string(next_++));
    const auto nodes = static_cast<uint32_t>(1 + rng_.Below(3));
    job.set_nodes(nodes);
    job.set_processes_per_node(nodes > 1 ? 8 : static_cast<uint32_t>(1 + rng_.Below(8)));
    if (rng_.Below(4) == 0) {
      job.set_minimum_nodes(1);
      job.set_maximum_nodes(nodes + 1);
    }
    auto& scheduling = *job.mutable_scheduling();
    scheduling.set_queue(rng_.Below(2) == 0 ? "red" : "blue");
    scheduling.set_priority(static_cast<int32_t>(rng_.Below(3)));
    if (rng_.Below(2) == 0) scheduling.set_expected_ns(int64_t{600} * 1'000'000'000);
    jobs_.insert(job.id());
    Both([&](ClusterScheduler& each) { each.Submit(job, now_); });
  }

  void Act() {
    switch (rng_.Below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Submit();
      case 4:
      case 5:
        return Join();
      case 6:
      case 7: {
        if (jobs_.empty()) return;
        const std::string job = Any(jobs_);
        jobs_.erase(job);
        return Both([&](ClusterScheduler& each) { each.End(JobId(job), now_); });
      }
      case 8: {
        const std::string node = Any(nodes_);
        const auto condition = static_cast<NodeCondition>(rng_.Below(6));
        return Both([&](ClusterScheduler& each) { each.SetCondition(node, condition, now_); });
      }
      case 9: {
        const std::string node = Any(nodes_);
        return Both([&](ClusterScheduler& each) { each.Fault(node, "a fault", now_); });
      }
      case 10: {
        if (jobs_.empty()) return;
        const JobId job(Any(jobs_));
        return Both([&](ClusterScheduler& each) { each.Evict(job, now_); });
      }
      default:
        return;
    }
  }

  void Obey(const std::vector<Verdict>& verdicts) {
    for (const Verdict& verdict : verdicts) {
      const bool stops =
          verdict.kind == DecisionKind::kMove || verdict.kind == DecisionKind::kEvict ||
          verdict.kind == DecisionKind::kSuspend || verdict.kind == DecisionKind::kUndo;
      Both([&](ClusterScheduler& each) {
        if (stops) each.Stopped(verdict.job, now_);
        each.Confirm(verdict.job, verdict.transaction, true, now_);
      });
    }
  }

  Random rng_;
  Instant now_ = InstantFromNanoseconds(1'700'000'000'000'000'000);
  ClusterScheduler extended_;
  ClusterScheduler taken_over_;
  std::set<std::string> jobs_;
  std::set<std::string> nodes_;
  int next_ = 1;
  int joins_ = 0;
};

TEST(JoiningNode, IsDecidedWithAsAfterATakeover) {
  int joins = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair pair(seed, seed % 2 == 0);
    for (int step = 0; step < 60; ++step) {
      pair.Step();
      if (testing::Test::HasFatalFailure()) return;
    }
    joins += pair.joins();
  }
  EXPECT_GT(joins, 100);
}

TEST(JoiningNode, StartsAJobThatWaitsForIt) {
  for (const bool declared : {false, true}) {
    ClusterScheduler scheduler;
    proto::SchedulingConfiguration configuration;
    configuration.set_text(std::string(declared ? "cluster: cluster.yaml" : "") + kQueues);
    if (declared) configuration.set_cluster_text(kCluster);
    const Instant now = InstantFromNanoseconds(1'700'000'000'000'000'000);
    ASSERT_TRUE(scheduler.Configure(configuration, now).ok());
    for (const char* node : {"node-1", "node-3"}) {
      scheduler.SetNode(node, kFacts, NodeCondition::kReady, now);
    }
    for (const char* id : {"job-1", "job-2", "job-3"}) {
      proto::Job job;
      job.set_id(id);
      job.set_nodes(1);
      job.set_processes_per_node(8);
      job.mutable_scheduling()->set_queue("red");
      scheduler.Submit(job, now);
    }
    scheduler.Decide(now);
    ASSERT_TRUE(scheduler.Waits(JobId("job-3")));
    EXPECT_EQ(scheduler.NodesOf(JobId("job-2")), std::vector<std::string>{"node-3"});
    scheduler.SetNode("node-2", kFacts, NodeCondition::kReady, now);
    scheduler.Decide(now);
    EXPECT_EQ(scheduler.NodesOf(JobId("job-3")), std::vector<std::string>{"node-2"});
    EXPECT_EQ(scheduler.NodesOf(JobId("job-2")), std::vector<std::string>{"node-3"});
  }
}

}  // namespace
}  // namespace longhaul::runtime::scheduling::joining_test
