// Pods, nodes and other documents of the API, read from text.
#include <gtest/gtest.h>

#include "engines/kubernetes/protocol/objects/api_status.h"
#include "engines/kubernetes/protocol/objects/node.h"
#include "engines/kubernetes/protocol/objects/pod.h"
#include "engines/kubernetes/protocol/watch_event.h"

namespace longhaul::engines::kubernetes::objects_test {
namespace {

constexpr std::string_view kPod = R"({
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {
    "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {"f:b": {}}}}],
    "name": "rank-3", "namespace": "training", "uid": "u-1", "resourceVersion": "77",
    "generation": 4, "creationTimestamp": "2026-01-31T08:00:00Z",
    "deletionTimestamp": "2026-01-31T09:00:00Z",
    "labels": {"app": "a", "unicode": "\u00fc"},
    "annotations": {"longhaul.dev/rank": "3", "kubectl.kubernetes.io/last": "{}"},
    "finalizers": ["longhaul.dev/job"],
    "ownerReferences": [{"kind": "Other", "name": "o", "uid": "u-2"},
                        {"apiVersion": "longhaul.dev/v1", "kind": "LonghaulJob", "name": "job",
                         "uid": "u-3", "controller": true}]},
  "spec": {
    "schedulerName": "longhaul", "nodeName": "n1", "priority": -5, "preemptionPolicy": "Never",
    "terminationGracePeriodSeconds": 90,
    "schedulingGates": [{"name": "g1"}, {"name": "g2"}],
    "schedulingGroup": {"podGroupName": "gang"},
    "nodeSelector": {"rack": "r1"},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute",
                     "tolerationSeconds": 300}, {"key": "v", "value": "w"}],
    "affinity": {
      "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
          {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
      "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "resourceClaims": [{"name": "c"}],
    "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "e", "emptyDir": {}}],
    "overhead": {"memory": "1Mi"},
    "initContainers": [
      {"name": "i1", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
      {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
      {"name": "i2", "resources": {"requests": {"cpu": "2900m"}}}],
    "containers": [
      {"name": "main", "resources": {"limits": {"cpu": "9"},
                                     "requests": {"cpu": "1", "nvidia.com/gpu": 8}},
       "ports": [{"containerPort": 80}, {"hostPort": 2222, "protocol": "UDP"}]},
      {"name": "log", "resources": {"requests": {"cpu": "250m", "memory": "2Gi"}}}]},
  "status": {
    "phase": "Failed", "reason": "OutOfnvidia.com/gpu",
    "conditions": [{"type": "Ready", "status": "False"},
                   {"type": "PodScheduled", "status": "True", "reason": "r", "message": "m"}],
    "containerStatuses": [{"name": "main", "allocatedResourcesStatus": [
      {"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}]}]}
})";

Result<Pod> Read(std::string_view text) {
  JsonParser parser;
  const PaddedString padded(text);
  return ReadPod(parser, padded.view());
}

// The pod's text with one part replaced.
std::string With(std::string_view from, std::string_view to) {
  std::string text(kPod);
  const size_t at = text.find(from);
  CHECK(at != text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Pod, HasItsIdentity) {
  const Result<Pod> pod = Read(kPod);
  ASSERT_TRUE(pod.ok()) << pod.status();
  const ObjectMeta& meta = pod->meta;
  EXPECT_EQ(meta.Key(), "training/rank-3");
  EXPECT_EQ(meta.uid, "u-1");
  EXPECT_EQ(meta.resource_version, "77");
  EXPECT_EQ(meta.generation, 4);
  EXPECT_TRUE(meta.being_deleted);
  EXPECT_EQ(meta.created_at, InstantFromNanoseconds(1'769'846'400'000'000'000));
  EXPECT_EQ(meta.labels, (Labels{{"app", "a"}, {"unicode", "\u00fc"}}));
  EXPECT_EQ(meta.annotations, (Labels{{"longhaul.dev/rank", "3"}}));
  EXPECT_EQ(meta.finalizers, std::vector<std::string>{"longhaul.dev/job"});
  ASSERT_TRUE(meta.controller.has_value());
  EXPECT_EQ(meta.controller->kind, "LonghaulJob");
  EXPECT_EQ(meta.controller->uid, "u-3");
}

TEST(Pod, HasWhatASchedulerRequires) {
  const Pod pod = *Read(kPod);
  EXPECT_EQ(pod.scheduler_name, "longhaul");
  EXPECT_EQ(pod.node_name, "n1");
  EXPECT_EQ(pod.priority, -5);
  EXPECT_TRUE(pod.preempts_never);
  EXPECT_EQ(pod.scheduling_gates, (std::vector<std::string>{"g1", "g2"}));
  EXPECT_EQ(pod.pod_group, "gang");
  EXPECT_EQ(pod.node_selector, (Labels{{"rack", "r1"}}));
  ASSERT_EQ(pod.tolerations.size(), 2u);
  EXPECT_TRUE(pod.tolerations[0].exists);
  EXPECT_EQ(pod.tolerations[0].seconds, 300);
  EXPECT_EQ(pod.tolerations[1].value, "w");
  EXPECT_FALSE(pod.tolerations[1].seconds.has_value());
  ASSERT_EQ(pod.host_ports.size(), 1u);
  EXPECT_EQ(pod.host_ports[0].port, 2222);
  EXPECT_EQ(pod.volume_claims, std::vector<std::string>{"data"});
  EXPECT_EQ(pod.resource_claims, 1u);
  EXPECT_EQ(pod.termination_grace_seconds, 90);
  EXPECT_TRUE(pod.finished());
  EXPECT_EQ(pod.reason, "OutOfnvidia.com/gpu");
  ASSERT_EQ(pod.conditions.size(), 1u);
  EXPECT_TRUE(pod.conditions[0].is_true);
  ASSERT_EQ(pod.device_health.size(), 1u);
  EXPECT_EQ(pod.device_health[0].container, "main");
  EXPECT_EQ(pod.device_health[0].resource, "nvidia.com/gpu");
  EXPECT_EQ(pod.device_health[0].device_id, "GPU-1");
  EXPECT_EQ(pod.device_health[0].health, "Unhealthy");
}

TEST(Pod, NamesTheFieldsThatAreNotInterpreted) {
  const Pod pod = *Read(kPod);
  EXPECT_EQ(pod.uninterpreted,
            (std::vector<std::string>{
                "pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
                "pod.spec.affinity.podAntiAffinity", "pod.spec.topologySpreadConstraints"}));
  ASSERT_TRUE(pod.required_node_terms.has_value());
  ASSERT_EQ(pod.required_node_terms->size(), 2u);
  const NodeRequirement& zone = pod.required_node_terms->at(0).match_labels.at(0);
  EXPECT_EQ(zone.comparison, "In");
  EXPECT_EQ(zone.values, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(pod.required_node_terms->at(1).match_fields.at(0).key, "metadata.name");
}

// Worked by hand. CPU: containers 1.25 + sidecar 0.5 = 1.75; i1 alone 3; i2 with the sidecar 3.4.
// Memory: containers 2 Gi, more than i1's 1 Gi; the overhead comes on top.
TEST(Pod, OccupiesTheLargerOfItsPhases) {
  const Pod pod = *Read(kPod);
  EXPECT_EQ(pod.requests.at("cpu"), *Quantity::Parse("3400m"));
  EXPECT_EQ(pod.requests.at("memory"), *Quantity::Parse("2049Mi"));
  EXPECT_EQ(pod.requests.at("nvidia.com/gpu"), Quantity::FromUnits(8));
  EXPECT_EQ(pod.requests.size(), 3u);
}

TEST(Pod, TreatsANullAsAbsent) {
  const Pod pod = *Read(R"({"metadata": {"name": "a", "namespace": "b", "resourceVersion": "1",
    "labels": null, "deletionTimestamp": null}, "spec": {"containers": null, "nodeName": null,
    "tolerations": null, "affinity": null, "priority": null}, "status": null})");
  EXPECT_EQ(pod.meta.Key(), "b/a");
  EXPECT_FALSE(pod.meta.being_deleted);
  EXPECT_TRUE(pod.requests.empty());
  EXPECT_EQ(pod.phase, PodPhase::kPending);
}

TEST(Pod, RefusesAWrongTypeWithTheFieldsName) {
  const struct {
    const char* from;
    const char* to;
    const char* message;
  } kRows[] = {
      {R"("priority": -5)", R"("priority": "high")",
       "pod.spec.priority has the wrong type, expected a whole number of 64 bits"},
      {R"("priority": -5)", R"("priority": 2147483648)",
       "pod.spec.priority has the wrong type, expected a whole number of 32 bits"},
      {R"("priority": -5)", R"("priority": 99999999999999999999999)",
       "pod.spec.priority has the wrong type, expected a whole number of 64 bits"},
      {R"("nodeName": "n1")", R"("nodeName": 3)",
       "pod.spec.nodeName has the wrong type, expected a string"},
      {R"("claimName": "data")", R"("claimName": [])",
       "pod.spec.volumes[0].persistentVolumeClaim.claimName has the wrong type, expected a string"},
      {R"("cpu": "250m")", R"("cpu": "fast")",
       "pod.spec.containers[1].resources.requests.cpu: 'fast' is not a quantity, expected a number "
       "such as 500m, 2 or 1Gi"},
      {R"("controller": true)", R"("controller": "true")",
       "pod.metadata.ownerReferences[1].controller has the wrong type, expected true or false"},
      {R"("labels": {"app": "a", "unicode": "\u00fc"})", R"("labels": "app")",
       "pod.metadata.labels has the wrong type, expected an object"},
      {R"("schedulingGates": [{"name": "g1"}, {"name": "g2"}])", R"("schedulingGates": {})",
       "pod.spec.schedulingGates has the wrong type, expected a list"},
      {R"("resourceVersion": "77")", R"("resourceVersion": "")",
       "pod has no metadata.resourceVersion"},
      {R"("namespace": "training")", R"("x": "training")", "pod has no metadata.namespace"},
      {R"("namespace": "training")", R"("namespace": "/s")",
       "pod has the name '/s', expected a name without a slash"},
      {R"("name": "rank-3")", R"("name": "a/b")",
       "pod has the name 'a/b', expected a name without a slash"},
      {R"("creationTimestamp": "2026-01-31T08:00:00Z")", R"("creationTimestamp": "yesterday")",
       "pod.metadata.creationTimestamp: 'yesterday' is not a time in UTC: write 2026-01-31 or "
       "2026-01-31T08:00:00Z, from 1970 to 2200"},
  };
  for (const auto& row : kRows) {
    const Result<Pod> pod = Read(With(row.from, row.to));
    EXPECT_EQ(pod.status().code(), Code::kInvalidArgument) << row.to;
    EXPECT_EQ(pod.status().message(), row.message) << row.to;
  }
}

TEST(Pod, IsRefusedWhenItIsCutAnywhere) {
  for (size_t length = 0; length < kPod.size() - 2; ++length) {
    ASSERT_FALSE(Read(kPod.substr(0, length)).ok()) << "first " << length << " bytes";
  }
}

TEST(Node, HasWhatASchedulerRequires) {
  JsonParser parser;
  const PaddedString text(R"({"metadata": {"name": "n1", "resourceVersion": "9", "uid": "u"},
    "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {"images": [{"names": ["x"]}], "capacity": {"cpu": "64"},
      "allocatable": {"cpu": "63500m", "nvidia.com/gpu": "7"},
      "conditions": [{"type": "Ready", "status": "True"},
                     {"type": "KernelDeadlock", "status": "True", "reason": "hung"}]}})");
  const Result<Node> node = ReadNode(parser, text.view());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->meta.Key(), "n1");
  EXPECT_TRUE(node->unschedulable);
  EXPECT_TRUE(node->ready());
  EXPECT_EQ(node->taints.at(0).effect, "NoSchedule");
  EXPECT_EQ(node->allocatable.at("cpu").RoundedUpMilliUnits(), 63'500);
  EXPECT_EQ(node->capacity.at("cpu"), Quantity::FromUnits(64));
  EXPECT_EQ(node->conditions.at(1).reason, "hung");
}

TEST(WatchEvent, HoldsTheObjectAsItStands) {
  JsonParser parser;
  const PaddedString line(
      R"({"object":{"a":[1,{"b":"}"}],"metadata":{"name":"n","resourceVersion":"7"},"c":{}},)"
      R"("type":"MODIFIED"})");
  const Result<WatchEvent> event = ReadWatchEvent(parser, line.view());
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->type, WatchEventType::kModified);
  EXPECT_EQ(event->object.text,
            R"({"a":[1,{"b":"}"}],"metadata":{"name":"n","resourceVersion":"7"},"c":{}})");
  EXPECT_EQ(event->meta.name, "n");
  EXPECT_EQ(event->meta.resource_version, "7");
}

TEST(WatchEvent, RefusesWhatIsNoEvent) {
  JsonParser parser;
  for (const char* const line :
       {R"({"type":"ADDED"})", R"({"object":{}})", R"({"type":"NEW","object":{}})",
        R"({"type":"ADDED","object":[]})", R"({"type":"ADDED","object":null})",
        R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"n"}}})", R"([])", R"("ADDED")", "{", "",
        R"({"type":"ADDED","object":{"a":1})"}) {
    const PaddedString padded(line);
    EXPECT_FALSE(ReadWatchEvent(parser, padded.view()).ok()) << line;
  }
}

TEST(Bookmark, EndsTheInitialEventsWithItsAnnotation) {
  JsonParser parser;
  const PaddedString last(R"({"metadata":{"resourceVersion":"5",
    "annotations":{"k8s.io/initial-events-end":"true"}}})");
  EXPECT_TRUE(ReadBookmark(parser, last.view())->ends_initial_events);
  const PaddedString other(R"({"metadata":{"resourceVersion":"6"}})");
  EXPECT_FALSE(ReadBookmark(parser, other.view())->ends_initial_events);
  EXPECT_EQ(ReadBookmark(parser, other.view())->resource_version, "6");
  const PaddedString none(R"({"metadata":{}})");
  EXPECT_FALSE(ReadBookmark(parser, none.view()).ok());
}

TEST(ListPage, HasItsItemsInAnyOrderOfFields) {
  JsonParser parser;
  const PaddedString body(
      R"({"items":[{"a":1},{"b":[2]}],"metadata":{"continue":"t","resourceVersion":"8"}})");
  const Result<ListPage> page = ReadListPage(parser, body.view());
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->continue_token, "t");
  EXPECT_EQ(page->resource_version, "8");
  ASSERT_EQ(page->items.size(), 2u);
  EXPECT_EQ(page->items[1].text, R"({"b":[2]})");
}

TEST(ApiStatus, HasItsCauses) {
  JsonParser parser;
  const PaddedString body(R"({"kind":"Status","code":409,"reason":"Conflict","message":"m",
    "details":{"retryAfterSeconds":7,"causes":[{"reason":"FieldManagerConflict","field":".a"}]}})");
  const Result<ApiStatus> status = ReadApiStatus(parser, body.view());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->code, 409);
  EXPECT_EQ(status->retry_after_seconds, 7);
  EXPECT_TRUE(status->HasCause("FieldManagerConflict"));
  EXPECT_FALSE(status->HasCause("DisruptionBudget"));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::objects_test
