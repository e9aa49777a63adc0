// Devices of the workers: whole ones and shares, and which of them each job gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing::devices_test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kController = "cluster: cluster.yaml\nqueues: [{name: lab}]\n";

// Two nodes of two devices, one of a single device, and one whose devices are MIG slices.
const std::string kDevices = R"(
levels: [leaf]
models:
  H100: {memory: 80GiB}
  A100: {memory: 40GiB}
  H100-1g.10gb: {memory: 10GiB}
kinds:
  pair: {model: H100, devices: 2, cpu: 16, memory: 8GiB}
  single: {model: A100, devices: 1, cpu: 16, memory: 8GiB}
  sliced: {model: H100-1g.10gb, devices: 7, cpu: 16, memory: 8GiB}
nodes:
  - {kind: pair, name: pair-1, at: {leaf: a}, labels: {node: one}}
  - {kind: pair, name: pair-2, at: {leaf: a}, labels: {node: two}}
  - {kind: single, name: single, at: {leaf: a}, labels: {node: single}}
  - {kind: sliced, name: sliced, at: {leaf: a}, labels: {node: sliced}}
)";

class Devices : public testing::Test {
 protected:
  Devices() : cluster_(kController, kDevices) {
    cluster_.Join("pair-1", 2);
    cluster_.Join("pair-2", 2);
    cluster_.Join("single", 1);
    cluster_.Join("sliced", 7);
  }

  static proto::Job Whole(const std::string& id, const std::string& node, uint32_t devices = 1) {
    proto::Job job = Gang(id, 1, devices);
    job.mutable_scheduling()->set_assigns_devices(true);
    (*job.mutable_scheduling()->mutable_selector())["node"] = node;
    return job;
  }
  static proto::Job Share(const std::string& id, const std::string& node, uint32_t milli,
                          uint64_t memory_gib = 0) {
    proto::Job job = Whole(id, node);
    job.mutable_scheduling()->set_share_milli(milli);
    job.mutable_scheduling()->set_device_memory_bytes(memory_gib << 30);
    return job;
  }
  // The devices on the job's only node, or on the one with this place.
  std::vector<uint32_t> DevicesOf(const std::string& id, int place = 0) {
    const proto::JobStatus job = cluster_.Job(id);
    if (place >= job.devices_size()) return {};
    const proto::NodeDevices& node = job.devices(place);
    const auto start = cluster_.LastStart(id, node.node());
    EXPECT_TRUE(std::equal(start.devices().begin(), start.devices().end(), node.devices().begin(),
                           node.devices().end()))
        << id << " was started with other devices";
    return {node.devices().begin(), node.devices().end()};
  }
  std::string Refusal(const proto::Job& job) {
    return std::string(cluster_.controller.CheckSubmission(job).message());
  }
  uint64_t Replayed() {
    Controller again{Cluster::Patient()};
    for (const auto& [at, event] : cluster_.log) again.Step(event, at);
    return again.StateHash();
  }

  Cluster cluster_;
};

TEST_F(Devices, OfTwoJobsOnOneNodeAreNeverTheSame) {
  cluster_.Submit(Whole("a", "one"));
  cluster_.Submit(Whole("b", "one"));
  EXPECT_THAT(DevicesOf("a"), ElementsAre(AnyOf(0, 1)));
  EXPECT_THAT(DevicesOf("b"), ElementsAre(AnyOf(0, 1)));
  EXPECT_NE(DevicesOf("a"), DevicesOf("b"));
  cluster_.Submit(Whole("c", "two", 2));
  EXPECT_THAT(DevicesOf("c"), ElementsAre(0, 1));
  EXPECT_EQ(Replayed(), cluster_.controller.StateHash());
}

TEST_F(Devices, AreNotAssignedToJobsOfOlderVersionsNorWhereNoneAreDeclared) {
  proto::Job older = Whole("a", "one");
  older.mutable_scheduling()->clear_assigns_devices();
  cluster_.Submit(older);
  EXPECT_THAT(cluster_.LastStart("a", "pair-1").devices(), IsEmpty());
  EXPECT_THAT(cluster_.Job("a").devices(), IsEmpty());
  Cluster undeclared;
  undeclared.Join("node-1", 4);
  proto::Job job = Gang("b", 1);
  job.mutable_scheduling()->set_assigns_devices(true);
  undeclared.Submit(job);
  EXPECT_THAT(undeclared.LastStart("b", "node-1").devices(), IsEmpty());
  // More slots than devices: a slot is not a device.
  cluster_.Cut("pair-2", 4);
  cluster_.Submit(Whole("c", "two"));
  EXPECT_EQ(cluster_.StateOf("c"), proto::RUNNING);
  EXPECT_THAT(cluster_.LastStart("c", "pair-2").devices(), IsEmpty());
}

// The hard case: by the number of free slots the third job could start, but its device is still in
// use by a job that leaves it.
TEST_F(Devices, AreTakenOnlyOnceTheirLastUserHasEnded) {
  cluster_.Submit(Whole("a", "one"));
  cluster_.Submit(Whole("b", "one"));
  cluster_.Step("a");
  cluster_.Step("b");
  cluster_.Submit(WithPriority(Whole("c", "one"), 10));
  const std::string leaving = cluster_.StateOf("a") == proto::LEAVING ? "a" : "b";
  ASSERT_EQ(cluster_.StateOf(leaving), proto::LEAVING);
  const std::vector<uint32_t> device = DevicesOf(leaving);
  cluster_.Stop(leaving == "a" ? "b" : "a");
  ASSERT_EQ(cluster_.Node("pair-1").used_slots(), 1u) << "a slot is free";
  EXPECT_EQ(cluster_.StateOf("c"), proto::QUEUED);
  cluster_.Step(leaving);
  EXPECT_EQ(cluster_.StateOf("c"), proto::RUNNING);
  EXPECT_EQ(DevicesOf("c"), device);
}

TEST_F(Devices, AShareLeavesTheRestOfItsDeviceToOthers) {
  cluster_.Submit(Share("a", "single", 500));
  cluster_.Submit(Share("b", "single", 500));
  cluster_.Submit(Share("c", "single", 500));
  EXPECT_THAT(DevicesOf("a"), ElementsAre(0));
  EXPECT_THAT(DevicesOf("b"), ElementsAre(0));
  EXPECT_EQ(cluster_.StateOf("b"), proto::RUNNING);
  EXPECT_EQ(cluster_.StateOf("c"), proto::QUEUED);
  EXPECT_EQ(cluster_.Node("single").used_accelerators(), 1.0);
  cluster_.Stop("a");
  EXPECT_EQ(cluster_.StateOf("c"), proto::RUNNING);
  EXPECT_EQ(Replayed(), cluster_.controller.StateHash());
}

TEST_F(Devices, AWholeDeviceIsNotShared) {
  cluster_.Submit(Share("a", "one", 250));
  cluster_.Submit(Whole("b", "one"));
  EXPECT_NE(DevicesOf("a"), DevicesOf("b"));
  cluster_.Submit(Whole("c", "one"));
  EXPECT_EQ(cluster_.StateOf("c"), proto::QUEUED);
  cluster_.Submit(Share("d", "one", 750));
  EXPECT_EQ(DevicesOf("d"), DevicesOf("a"));
  EXPECT_EQ(cluster_.Node("pair-1").used_slots(), 2u);
}

TEST_F(Devices, TheMemoryOfADeviceIsReservedToo) {
  cluster_.Submit(Share("a", "single", 250, 30));
  cluster_.Submit(Share("b", "single", 250, 20));
  EXPECT_EQ(cluster_.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster_.StateOf("b"), proto::QUEUED) << "30 of 40 GiB are reserved";
  cluster_.Submit(Share("c", "single", 250, 10));
  EXPECT_EQ(cluster_.StateOf("c"), proto::RUNNING);
}

TEST_F(Devices, AShareIsAccountedAsThatPartOfAnAccelerator) {
  proto::Job job = Share("a", "single", 250);
  job.mutable_scheduling()->set_queue("lab");
  cluster_.Submit(job);
  EXPECT_EQ(cluster_.controller.Queues()[1].usage().accelerators(), 0.25);
  const Instant from = cluster_.now;
  cluster_.TickUntil(from + std::chrono::minutes(4));
  const UsageReport report =
      cluster_.controller.Usage({{UsageKey::kKind}, from, cluster_.now}, cluster_.now);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].keys, std::vector<std::string>{"A100"});
  EXPECT_EQ(ToHours(report.rows[0].time.held), 1.0 / 60);
}

TEST_F(Devices, ALimitOfAQueueCountsShares) {
  Cluster limited("cluster: c.yaml\nqueues: [{name: lab, limit: {accelerators: 1}}]\n", kDevices);
  limited.Join("pair-1", 2);
  for (const char* id : {"a", "b", "c"}) {
    proto::Job job = Share(id, "one", 400);
    job.mutable_scheduling()->set_queue("lab");
    limited.Submit(job);
  }
  EXPECT_EQ(limited.StateOf("b"), proto::RUNNING);
  EXPECT_EQ(limited.StateOf("c"), proto::QUEUED) << "1.2 accelerators would be above the limit";
}

TEST_F(Devices, AreTheSameOnEveryNodeOfAnAlignedGang) {
  for (const char* node : {"one", "two"}) {
    cluster_.Submit(Whole(std::string("first-") + node, node));
    cluster_.Submit(Whole(std::string("second-") + node, node));
  }
  // Device 0 of one node and device 1 of the other are free.
  const auto at = [&](const std::string& node, uint32_t device) {
    return DevicesOf("first-" + node) == std::vector<uint32_t>{device} ? "first-" + node
                                                                       : "second-" + node;
  };
  for (const auto& id : {at("one", 0), at("two", 1)}) cluster_.Stop(id);
  for (const auto& id : {at("one", 1), at("two", 0)})
    ASSERT_EQ(cluster_.StateOf(id), proto::RUNNING);
  proto::Job gang = Gang("gang", 2, 1);
  gang.mutable_scheduling()->set_assigns_devices(true);
  gang.mutable_scheduling()->add_devices("H100");
  gang.mutable_scheduling()->set_rail_aligned(true);
  cluster_.Submit(gang);
  ASSERT_EQ(cluster_.StateOf("gang"), proto::QUEUED);
  const auto question = cluster_.controller.AskWhy(JobId("gang"));
  const auto why = question.scheduler->Explain(JobId("gang"), cluster_.now, question.means);
  ASSERT_TRUE(why.ok()) << why.status();
  EXPECT_THAT(why->sentence, HasSubstr("on the same GPUs of every host"));
  EXPECT_THAT(why->fix_texts, ElementsAre("give up its alignment to rails"));
  cluster_.Ask(cluster_.controller.RemedyOf(JobId("gang"), why->fix).changes);
  EXPECT_EQ(cluster_.StateOf("gang"), proto::RUNNING);
  EXPECT_NE(DevicesOf("gang", 0), DevicesOf("gang", 1));
  cluster_.Stop("gang");
  gang.set_id("aligned");
  cluster_.Submit(gang);
  cluster_.Stop(at("one", 1));
  ASSERT_EQ(cluster_.StateOf("aligned"), proto::RUNNING);
  EXPECT_EQ(DevicesOf("aligned", 0), DevicesOf("aligned", 1));
}

// The agent comes back with fewer slots, so the device of a job is gone.
TEST_F(Devices, ThatAreChosenAnewMakeTheJobStartAgain) {
  cluster_.Submit(Whole("a", "one"));
  cluster_.Submit(Whole("b", "one"));
  const std::string second = DevicesOf("a") == std::vector<uint32_t>{1} ? "a" : "b";
  cluster_.Stop(second == "a" ? "b" : "a");
  cluster_.Step(second);
  cluster_.Cut("pair-1", 1);
  cluster_.Step(second);
  cluster_.Persist(second, "pair-1", 1, 2);
  EXPECT_EQ(cluster_.StateOf(second), proto::RUNNING);
  EXPECT_THAT(DevicesOf(second), ElementsAre(0));
  EXPECT_EQ(cluster_.Job(second).attempt(), 2u);
  EXPECT_EQ(Replayed(), cluster_.controller.StateHash());
}

TEST_F(Devices, OfAMigModelAreDevicesOfTheirOwn) {
  proto::Job job = Gang("a", 1, 1);
  job.mutable_scheduling()->set_assigns_devices(true);
  job.mutable_scheduling()->add_devices("H100-1g.10gb");
  cluster_.Submit(job);
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("sliced"));
  EXPECT_THAT(DevicesOf("a"), testing::SizeIs(1));
  job.set_id("b");
  cluster_.Submit(job);
  EXPECT_NE(DevicesOf("a"), DevicesOf("b"));
}

TEST_F(Devices, SharesThatNoDeviceCanGiveAreRefused) {
  EXPECT_EQ(Refusal(Share("a", "single", 999, 40)), "");
  EXPECT_THAT(Refusal(Share("a", "single", 1'000)), HasSubstr("are not a part of one"));
  proto::Job two = Share("a", "single", 500);
  two.set_processes_per_node(2);
  EXPECT_THAT(Refusal(two), HasSubstr("share: is for one worker on each node, not 2"));
  EXPECT_THAT(
      Refusal(Share("a", "one", 500, 90)),
      HasSubstr("no device that may run the job has 90.00 GiB; the largest, H100, has 80.00 GiB"));
  proto::Job small = Share("a", "sliced", 500, 20);
  small.mutable_scheduling()->add_devices("H100-1g.10gb");
  EXPECT_THAT(Refusal(small), HasSubstr("the largest, H100-1g.10gb, has 10.00 GiB"));
  Cluster undeclared;
  undeclared.Join("node-1");
  proto::Job job = Gang("a", 1, 1);
  job.mutable_scheduling()->set_share_milli(500);
  EXPECT_THAT(
      std::string(undeclared.controller.CheckSubmission(job).message()),
      HasSubstr("share, devices, device_memory, selector and tolerates need a cluster file"));
  cluster_.Join("guest", 17);
  EXPECT_THAT(Refusal(Share("a", "one", 500)), HasSubstr("a node has more than 16 slots"));
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing::devices_test
