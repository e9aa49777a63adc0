#include "scheduler/state/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::scheduler {
namespace {

using ::testing::HasSubstr;

spec::Topology TwoModels() {
  spec::ClusterDeclaration cluster;
  cluster.counted = {"rdma"};
  cluster.models = {{"A100", 80 * 1'024}, {"T4", 16 * 1'024}};
  cluster.kinds = {spec::UniformKind("a", 0, 8, 1, 96'000, 1'024),
                   spec::UniformKind("t", 1, 4, 4, 48'000, 512)};
  for (uint32_t i = 0; i < 3; ++i) {
    spec::DeclaredNode node;
    node.name = "n" + std::to_string(i);
    node.kind = i % 2;
    node.domains = {"", ""};
    node.labels["pool"] = i == 2 ? "dev" : "prod";
    if (i == 1) node.taints = {"old"};
    cluster.nodes.push_back(node);
  }
  return *spec::Topology::Create(cluster);
}

TEST(ResolveRequest, TurnsNamesIntoMasks) {
  const spec::Topology topology = TwoModels();
  TaskRequest request;
  request.share_milli = 250;
  request.gpu_memory_mib = 4'096;
  request.cpu_milli = 2'000;
  request.counted["rdma"] = 5;
  request.models = {"T4"};
  request.selector["pool"] = "prod";
  request.tolerates = {"old"};
  const Shape shape = *ResolveRequest(request, topology);
  EXPECT_EQ(shape.share, 250);
  EXPECT_EQ(shape.models, 2u);
  EXPECT_EQ(shape.counted[0], 5);
  EXPECT_TRUE(shape.classes.contains(0));
  EXPECT_TRUE(shape.classes.contains(1));
  EXPECT_FALSE(shape.classes.contains(2));
}

TEST(ResolveRequest, KeepsTaskWithoutTolerationOffTaintedNodes) {
  const Shape shape = *ResolveRequest({}, TwoModels());
  EXPECT_TRUE(shape.classes.contains(0));
  EXPECT_FALSE(shape.classes.contains(1));
  EXPECT_TRUE(shape.classes.contains(2));
}

TEST(ResolveRequest, TakesAShareOfAThousandAsAWholeGpu) {
  TaskRequest request;
  request.share_milli = 1'000;
  const Shape shape = *ResolveRequest(request, TwoModels());
  EXPECT_EQ(shape.gpus, 1);
  EXPECT_EQ(shape.share, 0);
}

TEST(ResolveRequest, NamesWhatIsWrong) {
  const struct {
    void (*change)(TaskRequest&);
    const char* message;
  } kRows[] = {
      {[](TaskRequest& r) { r.gpus = 1, r.share_milli = 10; }, "not both"},
      {[](TaskRequest& r) { r.gpus = 17; }, "at most 16"},
      {[](TaskRequest& r) { r.share_milli = 1'001; }, "1001 thousandths"},
      {[](TaskRequest& r) { r.cpu_milli = -1; }, "cpu"},
      {[](TaskRequest& r) { r.memory_mib = 1ll << 31; }, "2,147,483,648"},
      {[](TaskRequest& r) { r.gpu_memory_mib = 1; }, "for no device"},
      {[](TaskRequest& r) { r.models = {"A10"}; }, "did you mean 'A100'"},
      {[](TaskRequest& r) { r.counted["rmda"] = 1; }, "did you mean 'rdma'"},
      {[](TaskRequest& r) { r.selector["pool"] = "test"; }, "labels"},
  };
  for (const auto& row : kRows) {
    TaskRequest request;
    row.change(request);
    const auto shape = ResolveRequest(request, TwoModels());
    ASSERT_FALSE(shape.ok()) << row.message;
    EXPECT_THAT(shape.status().message(), HasSubstr(row.message));
  }
}

TEST(ShapeTable, GivesEqualShapesOneNumber) {
  ShapeTable table;
  Shape a;
  a.gpus = 2;
  Shape b = a;
  b.cpu_milli = 1;
  const ShapeId first = table.Intern(a);
  EXPECT_NE(table.Intern(b), first);
  EXPECT_EQ(table.Intern(a), first);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table[first], a);
}

TEST(Shape, ReadsAsASentence) {
  Shape shape;
  EXPECT_EQ(ToString(shape), "nothing");
  shape.share = 250;
  shape.gpu_memory_mib = 4'096;
  shape.cpu_milli = 1'500;
  EXPECT_EQ(ToString(shape), "0.25 of a GPU with 4.00 GiB, 1.5 cpu");
  shape = Shape{};
  shape.gpus = 8;
  EXPECT_EQ(ToString(shape), "8 GPUs");
  spec::ClusterDeclaration cluster;
  cluster.levels = {"leaf"};
  cluster.nodes.resize(1);
  cluster.nodes[0].name = "n0";
  cluster.nodes[0].domains = {"leaf-0"};
  cluster.kinds.push_back(spec::UniformKind("kind", 0, 8, 1, 0, 0));
  cluster.models.push_back({"H100", 0});
  cluster.counted = {"pods", "rdma"};
  const Result<spec::Topology> topology = spec::Topology::Create(std::move(cluster));
  ASSERT_TRUE(topology.ok()) << topology.status();
  shape.counted = {1, 2};
  EXPECT_EQ(ToString(shape, *topology), "8 GPUs, 2 rdma");
}

}  // namespace
}  // namespace longhaul::scheduler
