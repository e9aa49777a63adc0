#include "service/controller/view/cluster_view.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

proto::NodeStatus NodeOf(const std::string& name, const std::string& condition, uint32_t slots) {
  proto::NodeStatus node;
  node.set_name(name);
  node.set_condition(condition);
  node.set_slots(slots);
  return node;
}

// Two racks of two nodes, one of which has not joined, and a node that no file declares.
ClusterViewInput SmallCluster() {
  ClusterViewInput input;
  input.declaration.emplace();
  for (int i = 0; i < 4; ++i) {
    spec::DeclaredNode node;
    node.name = "gpu-" + std::to_string(4 - i);
    node.domains = {i < 2 ? "leaf-1" : "leaf-2", "block-1"};
    input.declaration->nodes.push_back(node);
  }
  input.nodes = {NodeOf("extra", "ready", 1), NodeOf("gpu-1", "suspect", 8),
                 NodeOf("gpu-2", "ready", 8), NodeOf("gpu-4", "ready", 8)};
  input.nodes[2].set_used_accelerators(2.5);
  input.nodes[2].add_jobs("gpt-1");
  input.absent = {{"gpu-3", 8}};
  return input;
}

TEST(ClusterView, ListsNodesByThePlacesOfTheClusterFileAndThenOthers) {
  const Json nodes = ClusterViewJson(SmallCluster())["nodes"];
  EXPECT_EQ(nodes["name"], Json({"gpu-4", "gpu-3", "gpu-2", "gpu-1", "extra"}));
  EXPECT_EQ(nodes["places"], Json({"block-1 leaf-1", "block-1 leaf-2", ""}));
  EXPECT_EQ(nodes["place"], Json({0, 0, 1, 1, 2}));
  EXPECT_EQ(nodes["conditions"], Json({"ready", "absent", "suspect"}));
  EXPECT_EQ(nodes["condition"], Json({0, 1, 0, 2, 0}));
  EXPECT_EQ(nodes["slots"], Json({8, 8, 8, 8, 1}));
  EXPECT_EQ(nodes["used"], Json({0.0, 0, 2.5, 0.0, 0.0}));
  EXPECT_EQ(nodes["jobs"], Json({"gpt-1"}));
  EXPECT_EQ(nodes["job"], Json({-1, -1, 0, -1, -1}));
}

TEST(ClusterView, NamesTheReservationThatHoldsANodeNow) {
  ClusterViewInput input = SmallCluster();
  input.nodes[1].mutable_window()->set_reservation("later");
  input.nodes[2].mutable_window()->set_reservation("fans");
  input.nodes[2].mutable_window()->set_open(true);
  const Json nodes = ClusterViewJson(input)["nodes"];
  EXPECT_EQ(nodes["reservations"], Json({"fans"}));
  EXPECT_EQ(nodes["reservation"], Json({-1, -1, 0, -1, -1}));
}

TEST(ClusterView, ShowsAnUnlimitedQueueAsNull) {
  ClusterViewInput input;
  proto::QueueStatus& queue = input.queues.emplace_back();
  queue.mutable_limit()->set_accelerators(-1);
  queue.mutable_guarantee()->set_accelerators(4);
  const Json shown = ClusterViewJson(input)["queues"][0];
  EXPECT_TRUE(shown["limit"].is_null());
  EXPECT_EQ(shown["guarantee"], 4.0);
}

TEST(ClusterView, LeavesOutAStartThatIsUnknown) {
  ClusterViewInput input;
  input.waiting.emplace_back().id = "a";
  input.waiting.emplace_back().expected_start = InstantFromNanoseconds(5'000'000'000);
  const Json waiting = ClusterViewJson(input)["waiting"];
  EXPECT_TRUE(waiting[0]["expected_start_ms"].is_null());
  EXPECT_EQ(waiting[1]["expected_start_ms"], 5'000);
}

TEST(ClusterView, IsSmallForFiveThousandNodes) {
  ClusterViewInput input;
  input.declaration = spec::ClosCluster(25, 20, 10);
  for (const spec::DeclaredNode& node : input.declaration->nodes) {
    input.nodes.push_back(NodeOf(node.name, "ready", 8));
  }
  ASSERT_EQ(input.nodes.size(), 5'000u);
  EXPECT_LT(ClusterViewJson(input).dump().size(), 200'000u);
}

TEST(ClusterView, HasTheJobsThatRun) {
  ClusterViewInput input = SmallCluster();
  RunningJob job;
  job.id = "gpt-1";
  job.state = "recovering";
  job.workers = 16;
  input.running = {job};
  input.running_total = 101;
  const Json view = ClusterViewJson(input);
  EXPECT_EQ(view["running"][0]["id"], "gpt-1");
  EXPECT_EQ(view["running"][0]["state"], "recovering");
  EXPECT_EQ(view["running"][0]["workers"], 16);
  EXPECT_EQ(view["running"][0]["eta_seconds"], -1.0) << "unknown";
  EXPECT_EQ(view["running_total"], 101);
}

}  // namespace
}  // namespace longhaul::service
