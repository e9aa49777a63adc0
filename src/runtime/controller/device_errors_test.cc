// What follows when a driver reports an error of a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/cluster_fixture.h"

namespace longhaul::runtime::controller_testing {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The job of two nodes after ten steps, with these nodes in the cluster.
Cluster Training(const std::vector<std::string>& nodes, const proto::Job& job = TwoByTwo()) {
  Cluster cluster;
  for (const std::string& node : nodes) cluster.Join(node);
  cluster.Submit(job);
  cluster.Start();
  for (uint64_t step = 1; step <= 10; ++step) cluster.Step(step);
  return cluster;
}

// Returns what the job's messages say.
std::vector<std::string> ReportDevice(Cluster& cluster, const std::string& node, bool needs_reset) {
  proto::Event event;
  proto::DeviceError& error = *event.mutable_device_error();
  error.set_device("PCI:0000:3b:00");
  error.set_code(needs_reset ? 79 : 31);
  error.set_text(needs_reset ? "GPU has fallen off the bus." : "MMU Fault");
  error.set_needs_reset(needs_reset);
  std::vector<std::string> messages;
  for (const auto& notification : cluster.Feed(event, true, node).notifications) {
    if (notification.has_message()) messages.push_back(notification.message().text());
  }
  return messages;
}

std::vector<std::string> Cordoned(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const auto& node : cluster.controller.AllNodes()) {
    if (node.cordoned()) names.push_back(node.name());
  }
  return names;
}

TEST(DeviceErrors, TheGangLeavesANodeWhoseDeviceMustBeReset) {
  Cluster cluster = Training({"node-1", "node-2", "node-3"});
  ReportDevice(cluster, "node-2", /*needs_reset=*/true);
  ASSERT_EQ(cluster.Job().faults_size(), 1);
  EXPECT_EQ(cluster.Job().faults(0).class_name(), "device");
  EXPECT_EQ(cluster.Job().faults(0).node(), "node-2");
  EXPECT_THAT(cluster.Job().faults(0).what(),
              HasSubstr("PCI:0000:3b:00 of node-2 reports Xid 79: GPU has fallen off the bus."));
  EXPECT_THAT(Cordoned(cluster), testing::ElementsAre("node-2"));
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), Not(Contains("node-2")));
}

TEST(DeviceErrors, WithoutAnIdleNodeTheGangStaysAndNothingElseIsPlacedThere) {
  Cluster cluster = Training({"node-1", "node-2"});
  ReportDevice(cluster, "node-2", /*needs_reset=*/true);
  EXPECT_THAT(Cordoned(cluster), testing::ElementsAre("node-2"));
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), Contains("node-2"));
}

TEST(DeviceErrors, AnElasticJobGoesOnWithoutTheNode) {
  proto::Job job = TwoByTwo();
  job.set_minimum_nodes(1);
  Cluster cluster = Training({"node-1", "node-2"}, job);
  ReportDevice(cluster, "node-2", /*needs_reset=*/true);
  cluster.TickUntil(cluster.now + seconds(1));
  EXPECT_EQ(cluster.Job().attempt(), 2u);
  EXPECT_THAT(cluster.Job().gang(), testing::ElementsAre("node-1"));
}

TEST(DeviceErrors, AnotherErrorIsReportedAndTheJobGoesOn) {
  Cluster cluster = Training({"node-1", "node-2", "node-3"});
  EXPECT_THAT(ReportDevice(cluster, "node-2", /*needs_reset=*/false),
              Contains(HasSubstr("node-2 reports Xid 31: MMU Fault")));
  EXPECT_EQ(cluster.Job().faults_size(), 0);
  EXPECT_EQ(cluster.Job().attempt(), 1u);
  EXPECT_THAT(Cordoned(cluster), testing::IsEmpty());
}

TEST(DeviceErrors, AnIdleNodeIsCordoned) {
  Cluster cluster = Training({"node-1", "node-2", "node-3"});
  ReportDevice(cluster, "node-3", /*needs_reset=*/true);
  EXPECT_THAT(Cordoned(cluster), testing::ElementsAre("node-3"));
  EXPECT_EQ(cluster.Job().faults_size(), 0);
}

// The workers of the node end by the same failure; whichever report comes first, it is one fault.
TEST(DeviceErrors, AWorkerThatEndsWithItsDeviceIsNoOtherFault) {
  for (const auto& [exit_first, signal] :
       {std::pair(true, 0), std::pair(true, SIGABRT), std::pair(false, 0),
        std::pair(false, SIGABRT), std::pair(false, SIGKILL)}) {
    SCOPED_TRACE(std::to_string(exit_first) + ", signal " + std::to_string(signal));
    const int exit_code = signal == 0 ? 1 : -1;
    Cluster cluster = Training({"node-1", "node-2", "node-3"});
    if (exit_first) cluster.Exit("node-2", 2, exit_code, signal, 1);
    ReportDevice(cluster, "node-2", /*needs_reset=*/true);
    if (!exit_first) cluster.Exit("node-2", 2, exit_code, signal, 1);
    ASSERT_EQ(cluster.Job().faults_size(), 1);
    EXPECT_EQ(cluster.Job().faults(0).class_name(), "device");
    cluster.TickUntil(cluster.now + seconds(1));
    EXPECT_THAT(cluster.Job().gang(), Not(Contains("node-2")));
  }
}

}  // namespace
}  // namespace longhaul::runtime::controller_testing
