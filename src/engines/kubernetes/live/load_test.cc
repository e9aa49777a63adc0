#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engines/kubernetes/live/bind_record.h"
#include "engines/kubernetes/live/load_objects.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

Instant At(int milliseconds) { return InstantFromNanoseconds(milliseconds * 1'000'000LL); }

// What the API server would add to an object that is created.
std::string Created(const std::string& body, const std::string& patch = "{}") {
  Json object = Json::parse(body);
  object["metadata"]["resourceVersion"] = "1";
  object["metadata"]["namespace"] = "default";
  object.merge_patch(Json::parse(patch));
  return object.dump();
}

TEST(LoadObjects, DescribeNodesThatASchedulerCanUse) {
  JsonParser parser;
  const PaddedString text(Created(NodeBody(130), NodeStatusPatch()));
  const Result<Node> node = ReadNode(parser, text.view());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->meta.name, "n130");
  // 16 nodes on a leaf: node 130 is on leaf 8, the first one of the second spine.
  EXPECT_EQ(node->meta.labels.at("network.topology.nvidia.com/leaf"), "leaf8");
  EXPECT_EQ(node->meta.labels.at("network.topology.nvidia.com/spine"), "spine1");
  EXPECT_EQ(ToString(node->allocatable.at("nvidia.com/gpu")), "8");
}

TEST(LoadObjects, DescribePodsOfOneGpu) {
  LoadSettings settings;
  settings.pods = 20;
  settings.scheduler_name = "other";
  JsonParser parser;
  const PaddedString text(Created(LoadPodBody(settings, 17)));
  const Result<Pod> pod = ReadPod(parser, text.view());
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(pod->meta.name, "load-17");
  EXPECT_EQ(pod->scheduler_name, "other");
  EXPECT_EQ(ToString(pod->requests.at("nvidia.com/gpu")), "1");
  EXPECT_EQ(pod->pod_group, "");
  EXPECT_TRUE(pod->meta.labels.empty());
}

TEST(LoadObjects, FindTheIndexInAPodsName) {
  LoadSettings settings;
  settings.pods = 20;
  EXPECT_EQ(LoadPodIndex(settings, LoadPodName(settings, 19)), 19);
  for (const char* other : {"load-20", "load-", "load--1", "load-x", "p17", "load17", ""}) {
    EXPECT_EQ(LoadPodIndex(settings, other), std::nullopt) << other;
  }
}

TEST(LoadObjects, GroupThePodsOfAGang) {
  LoadSettings settings;
  settings.pods = 20;  // gangs of 8, 8 and 4
  EXPECT_EQ(settings.gang_count(), 0);

  settings.gangs = GangKind::kCoscheduling;
  EXPECT_EQ(settings.gang_count(), 3);
  Json pod = Json::parse(LoadPodBody(settings, 8));
  EXPECT_EQ(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], GangName(settings, 1));
  EXPECT_EQ(Json::parse(GangBody(settings, 1))["spec"], R"({"minMember": 8})"_json);
  EXPECT_EQ(Json::parse(GangBody(settings, 2))["spec"], R"({"minMember": 4})"_json);

  settings.gangs = GangKind::kKubernetes;
  pod = Json::parse(LoadPodBody(settings, 7));
  EXPECT_EQ(pod["spec"]["schedulingGroup"]["podGroupName"], GangName(settings, 0));
  EXPECT_FALSE(pod["metadata"].contains("labels"));
  EXPECT_EQ(Json::parse(GangBody(settings, 0))["spec"],
            R"({"schedulingPolicy": {"gang": {"minCount": 8}}})"_json);
}

TEST(GangKind, RefusesAnUnknownWord) {
  EXPECT_EQ(*ParseGangKind("kubernetes"), GangKind::kKubernetes);
  EXPECT_EQ(ParseGangKind("volcano").status().code(), Code::kInvalidArgument);
}

TEST(BindRecord, MeasuresFromTheFirstBindToTheLast) {
  BindRecord record(4);
  for (int i = 0; i < 4; ++i) record.OnPod(i, "uid", "", At(10 * i));
  EXPECT_EQ(record.existing(), 4);
  EXPECT_EQ(record.appeared_within(), 30ms);
  EXPECT_EQ(record.Figures(0).first_bind_at, std::nullopt);

  record.OnPod(2, "uid", "n1", At(100));
  record.OnPod(2, "uid", "n1", At(500));  // a later change of the pod, such as its status
  record.OnPod(0, "uid", "n1", At(140));
  record.OnPod(3, "uid", "n0", At(150));
  const BindFigures figures = record.Figures(0);
  EXPECT_EQ(figures.bound, 3);
  EXPECT_EQ(figures.first_bind_at, At(100));
  EXPECT_EQ(figures.last_bind_at, At(150));
  EXPECT_EQ(figures.most_pods_on_a_node, 2);
  // 80, 120 and 140 ms after they appeared.
  EXPECT_EQ(figures.latency_p50, 120ms);
  EXPECT_EQ(figures.latency_p99, 140ms);
  EXPECT_EQ(figures.latency_max, 140ms);
}

TEST(BindRecord, CountsGangsThatArePartlyBound) {
  BindRecord record(10);  // gangs of 4, 4 and 2
  for (const int index : {0, 1, 2, 3, 4, 9}) record.OnPod(index, "uid", "n0", At(index));
  EXPECT_EQ(record.Figures(4).partly_bound_gangs, 2);
  record.OnPod(8, "uid", "n0", At(20));
  EXPECT_EQ(record.Figures(4).partly_bound_gangs, 1);
  EXPECT_EQ(record.Figures(0).partly_bound_gangs, 0);
}

TEST(BindRecord, KeepsTheFiguresOfDeletedPods) {
  BindRecord record(2);
  record.OnPod(0, "a", "", At(0));
  record.OnPod(1, "b", "n0", At(1));
  EXPECT_EQ(record.uid(1), "b");
  record.OnDeleted(1);
  record.OnDeleted(1);
  EXPECT_EQ(record.existing(), 1);
  EXPECT_EQ(record.uid(1), "");
  EXPECT_EQ(record.Figures(0).bound, 1);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
