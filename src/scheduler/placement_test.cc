#include "scheduler/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/natural_order.h"

namespace longhaul::scheduler {
namespace {

using testing::HasSubstr;

NodeView Node(int number, uint32_t free, uint32_t slots = 4, const std::string& domain = "") {
  return {NodeId("node-" + std::to_string(number)), free, true, domain, slots};
}

void Disable(NodeView& node, const char* why) {
  node.usable = false;
  node.why_unusable = why;
}

std::string Names(const Result<std::vector<NodeId>>& gang) {
  if (!gang.ok()) return ToString(gang.status());
  std::string names;
  for (const NodeId& id : *gang) names += (names.empty() ? "" : " ") + id.value();
  return names;
}

TEST(NaturalLess, CountsAsPeopleDo) {
  const std::vector<std::string> kOrdered = {"",       "a",      "a1",     "a2",     "a02",
                                             "a10",    "a10b",   "b",      "node-2", "node-10",
                                             "r2-n10", "r10-n9", "r10-n10"};
  for (size_t i = 0; i < kOrdered.size(); ++i) {
    for (size_t j = 0; j < kOrdered.size(); ++j) {
      // a2 and a02 are the same number: then byte by byte.
      const bool swapped = (kOrdered[i] == "a2" && kOrdered[j] == "a02") ||
                           (kOrdered[i] == "a02" && kOrdered[j] == "a2");
      EXPECT_EQ(NaturalLess(kOrdered[i], kOrdered[j]), swapped ? i > j : i < j)
          << kOrdered[i] << " and " << kOrdered[j];
    }
  }
  EXPECT_TRUE(NaturalLess("n99999999999999999999998", "n99999999999999999999999"));
}

TEST(PlaceGang, ChoosesAsTheTableSays) {
  const struct {
    const char* fact;
    std::vector<NodeView> nodes;
    uint32_t count;
    uint32_t slots;
    const char* want;
  } kRows[] = {
      {"takes what there is", {Node(1, 2), Node(2, 2)}, 2, 2, "node-1 node-2"},
      {"prefers the fuller node", {Node(1, 4), Node(2, 2), Node(3, 3)}, 1, 2, "node-2"},
      {"breaks ties by natural name", {Node(10, 2), Node(2, 2), Node(1, 1)}, 1, 2, "node-2"},
      {"orders ranks by name, not by fit",
       {Node(1, 4), Node(2, 3), Node(3, 2)},
       2,
       2,
       "node-2 node-3"},
      {"keeps a gang in one domain",
       {Node(1, 2, 4, "a"), Node(2, 4, 4, "b"), Node(3, 4, 4, "b")},
       2,
       2,
       "node-2 node-3"},
      {"takes the domain with the fewest to spare",
       {Node(1, 4, 4, "a"), Node(2, 4, 4, "a"), Node(3, 4, 4, "a"), Node(4, 4, 4, "b"),
        Node(5, 4, 4, "b")},
       2,
       2,
       "node-4 node-5"},
      {"crosses domains when it must",
       {Node(1, 2, 4, "a"), Node(2, 2, 4, "b")},
       2,
       2,
       "node-1 node-2"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Names(PlaceGang(row.nodes, row.count, row.slots)), row.want) << row.fact;
  }
}

TEST(PlaceGang, SaysWhatIsMissingWhenItMayFitLater) {
  std::vector<NodeView> nodes = {Node(1, 2), Node(2, 4), Node(3, 4), Node(4, 1), Node(5, 4)};
  Disable(nodes[2], "disconnected");
  Disable(nodes[4], "cordoned");
  const auto gang = PlaceGang(nodes, 3, 2);
  ASSERT_FALSE(gang.ok());
  EXPECT_EQ(gang.status(),
            ResourceExhausted("needs 3 nodes with 2 free slots; 2 usable nodes qualify (node-3 is "
                              "disconnected, node-4 has 1 of 4 free, node-5 is cordoned)"));
}

TEST(PlaceGang, SaysWhenItNeverFits) {
  const std::vector<NodeView> nodes = {Node(1, 2, 2), Node(2, 2, 2), Node(3, 0, 4)};
  EXPECT_EQ(PlaceGang(nodes, 4, 1).status(),
            FailedPrecondition("needs 4 nodes with 1 free slot; even with nothing running the "
                               "cluster of 3 nodes has 3 that large"));
  EXPECT_EQ(PlaceGang(nodes, 1, 5).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(PlaceGang(nodes, 1, 4).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(PlaceGang({}, 1, 1).status().code(), Code::kFailedPrecondition);
}

TEST(PlaceGang, NeverSaysNeverOfANodeWhoseSlotsAreNotKnown) {
  const std::vector<NodeView> nodes = {{NodeId("node-1"), 0, true, ""}};
  EXPECT_EQ(PlaceGang(nodes, 1, 9).status(),
            ResourceExhausted("needs 1 node with 9 free slots; 0 usable nodes qualify (node-1 has "
                              "0 free)"));
}

TEST(PlaceGang, KeepsItsMessageShortOnALargeCluster) {
  std::vector<NodeView> nodes;
  for (int i = 1; i <= 2'048; ++i) nodes.push_back(Node(i, 1));
  const auto gang = PlaceGang(nodes, 2, 2);
  EXPECT_THAT(gang.status().message(), HasSubstr("0 usable nodes qualify (node-1 has 1 of 4 free"));
  EXPECT_THAT(gang.status().message(), HasSubstr("node-8 has 1 of 4 free and 2040 more)"));
}

// A gang has distinct, qualifying nodes, exists exactly when enough qualify, and does not depend on
// the order of the nodes.
TEST(PlaceGang, HoldsItsContractOnRandomClusters) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<NodeView> nodes;
    const int size = static_cast<int>(rng() % 12);
    for (int i = 1; i <= size; ++i) {
      nodes.push_back(Node(i, static_cast<uint32_t>(rng() % 5), 4, rng() % 2 ? "a" : "b"));
      nodes.back().usable = rng() % 4 != 0;
    }
    const auto count = static_cast<uint32_t>(1 + rng() % 4);
    const auto slots = static_cast<uint32_t>(1 + rng() % 4);
    const auto gang = PlaceGang(nodes, count, slots);
    const auto qualify = [&](const NodeView& n) { return n.usable && n.free_slots >= slots; };
    ASSERT_EQ(gang.ok(),
              std::count_if(nodes.begin(), nodes.end(), qualify) >= static_cast<int64_t>(count))
        << "round " << round;
    for (size_t i = 0; gang.ok() && i < gang->size(); ++i) {
      const auto node = std::find_if(nodes.begin(), nodes.end(),
                                     [&](const NodeView& n) { return n.name == (*gang)[i]; });
      ASSERT_TRUE(node != nodes.end() && qualify(*node)) << "round " << round;
      ASSERT_TRUE(i == 0 || NaturalLess((*gang)[i - 1].value(), (*gang)[i].value()));
    }
    std::shuffle(nodes.begin(), nodes.end(), rng);
    ASSERT_EQ(Names(PlaceGang(nodes, count, slots)), Names(gang)) << "round " << round;
  }
}

TEST(ReplaceNode, TakesASpareOutsideTheGang) {
  std::vector<NodeView> nodes = {Node(1, 4), Node(2, 0), Node(3, 4), Node(4, 2)};
  Disable(nodes[1], "disconnected");
  const std::vector<NodeId> gang = {NodeId("node-1"), NodeId("node-2")};
  EXPECT_EQ(*ReplaceNode(nodes, gang, NodeId("node-2"), 2), NodeId("node-4"));  // best fit
  EXPECT_EQ(*ReplaceNode(nodes, gang, NodeId("node-2"), 3), NodeId("node-3"));
}

TEST(ReplaceNode, StaysNearTheLostNode) {
  std::vector<NodeView> nodes = {Node(1, 0, 4, "a"), Node(2, 2, 4, "b"), Node(3, 4, 4, "a")};
  Disable(nodes[0], "disconnected");
  const std::vector<NodeId> gang = {NodeId("node-1")};
  EXPECT_EQ(*ReplaceNode(nodes, gang, NodeId("node-1"), 2), NodeId("node-3"));
}

TEST(ReplaceNode, TakesTheSameNodeOnceItIsBack) {
  const std::vector<NodeView> nodes = {Node(1, 4), Node(2, 4)};
  const std::vector<NodeId> gang = {NodeId("node-1"), NodeId("node-2")};
  EXPECT_EQ(*ReplaceNode(nodes, gang, NodeId("node-2"), 2), NodeId("node-2"));
}

TEST(ReplaceNode, SaysWhyThereIsNone) {
  std::vector<NodeView> nodes = {Node(1, 4), Node(2, 4)};
  Disable(nodes[1], "disconnected");
  const std::vector<NodeId> gang = {NodeId("node-1"), NodeId("node-2")};
  EXPECT_EQ(ReplaceNode(nodes, gang, NodeId("node-2"), 2).status(),
            ResourceExhausted("no replacement for node-2: needs 1 node with 2 free slots; 0 usable "
                              "nodes qualify (node-2 is disconnected)"));
  nodes.pop_back();
  EXPECT_EQ(ReplaceNode(nodes, gang, NodeId("node-2"), 2).status().code(),
            Code::kFailedPrecondition);
}

}  // namespace
}  // namespace longhaul::scheduler
