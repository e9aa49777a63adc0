// Gangs that lose a node and continue on other nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTwoLeaves = R"(
levels: [leaf]
models: {H100: {memory: 80GiB}}
kinds: {host: {model: H100, devices: 2, cpu: 8, memory: 64GiB}}
nodes:
  - {name: node-1, kind: host, at: {leaf: l1}}
  - {name: node-2, kind: host, at: {leaf: l1}}
  - {name: node-3, kind: host, at: {leaf: l2}}
  - {name: node-4, kind: host, at: {leaf: l2}}
)";

class LostNode : public testing::Test {
 protected:
  LostNode() : cluster_("cluster: cluster.yaml\n", kTwoLeaves) {
    for (const char* node : {"node-1", "node-2", "node-3", "node-4"}) cluster_.Join(node);
    proto::Job job = Gang("a", 2);
    job.mutable_scheduling()->set_topology("leaf");
    cluster_.Submit(job);
  }

  Cluster cluster_;
};

TEST_F(LostNode, AGangMovesWholeToTheFreeLeafAsSoonAsANodeOfItsLeafIsLost) {
  ASSERT_THAT(cluster_.GangOf("a"), ElementsAre("node-1", "node-2"));
  cluster_.Lose("node-1");
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("node-3", "node-4"));
  EXPECT_EQ(cluster_.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster_.Job("a").attempt(), 2u);
}

TEST_F(LostNode, AGangWaitsForTheLostNodeWhereNoLeafIsFree) {
  cluster_.Submit(Gang("b", 1));
  cluster_.Lose("node-1");
  EXPECT_NE(cluster_.StateOf("a"), proto::RUNNING);
  cluster_.Join("node-1", 2, 2);
  EXPECT_THAT(cluster_.GangOf("a"), ElementsAre("node-1", "node-2"));
  EXPECT_EQ(cluster_.StateOf("a"), proto::RUNNING);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
