#include "service/controller/submission/usable_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::service::usable_nodes_test {
namespace {

using testing::ElementsAre;

proto::NodeStatus Node(const std::string& name, bool connected, bool cordoned) {
  proto::NodeStatus node;
  node.set_name(name);
  node.set_slots(2);
  node.set_connected(connected);
  node.set_cordoned(cordoned);
  return node;
}

std::vector<std::string> Names(const std::vector<proto::NodeStatus>& nodes, bool may_wait) {
  planner::MachineFacts facts;
  facts.cores = 8;
  const std::map<std::string, uint32_t> absent = {{"absent", 4}, {"without-devices", 0}};
  std::vector<std::string> names;
  for (const auto& node : UsableNodes(nodes, absent, may_wait, facts).nodes) {
    names.push_back(node.name + " " + std::to_string(node.slots) + " " +
                    std::to_string(node.cores));
  }
  return names;
}

TEST(UsableNodes, AJobThatMayWaitIsPlannedForCordonedAndAbsentOnes) {
  const std::vector<proto::NodeStatus> nodes = {
      Node("ready", true, false), Node("cordoned", true, true), Node("lost", false, false)};
  EXPECT_THAT(Names(nodes, false), ElementsAre("ready 2 8"));
  EXPECT_THAT(Names(nodes, true), ElementsAre("ready 2 4", "cordoned 2 4", "absent 4 4"));
}

TEST(UsableNodes, AreNoneWhereNoneIsConnected) {
  EXPECT_THAT(Names({Node("lost", false, false)}, true), ElementsAre());
}

}  // namespace
}  // namespace longhaul::service::usable_nodes_test
