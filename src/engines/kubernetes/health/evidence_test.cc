#include "engines/kubernetes/health/evidence.h"

#include <gtest/gtest.h>

#include "engines/kubernetes/health/observed_node.h"

namespace longhaul::engines::kubernetes {
namespace {

JobJson Parsed(const char* text) { return JobJson::parse(text); }

TEST(ConditionRule, IsATypeAndAStatus) {
  const Result<ConditionRule> rule = ParseConditionRule("example.com/Ok=False");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->type, "example.com/Ok");
  EXPECT_EQ(rule->status, "False");
  for (const char* const text : {"", "Ready", "=True", "Ready=", "Ready=true", "A=B=True"}) {
    EXPECT_EQ(ParseConditionRule(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(EvidenceOfConditions, AreThoseWithTheTypeAndTheStatusOfARule) {
  const JobJson node = Parsed(R"({"status": {"conditions": [
      {"type": "KernelDeadlock", "status": "True", "message": "task blocked"},
      {"type": "ReadonlyFilesystem", "status": "False"},
      {"type": "XfsShutdown", "status": "Unknown"},
      {"type": "Ready", "status": "True"}]}})");
  EXPECT_EQ(EvidenceOfConditions(node, DefaultConditionRules()),
            (Evidence{{"KernelDeadlock=True", "task blocked"}}));
}

// The form of Kubernetes 1.37: k8s.io/api/core/v1, ResourceStatus and ResourceHealth.
TEST(EvidenceOfPod, AreItsUnhealthyDevices) {
  const JobJson pod = Parsed(R"({"spec": {"nodeName": "n1"}, "status": {"phase": "Running",
      "containerStatuses": [{"name": "a", "allocatedResourcesStatus": [
          {"name": "nvidia.com/gpu", "resources": [
              {"resourceID": "GPU-1", "health": "Healthy"},
              {"resourceID": "GPU-2", "health": "Unhealthy", "message": "ECC"},
              {"resourceID": "GPU-3", "health": "Unknown"}]},
          {"name": "claim:gpus/one", "resources": [
              {"resourceID": "gpu.nvidia.com/n1/gpu-4", "health": "Unhealthy"}]}]}]}})");
  EXPECT_EQ(EvidenceOfPod(pod), (EvidenceOfNodes{{"n1",
                                                  {{"device nvidia.com/gpu GPU-2", "ECC"},
                                                   {"device gpu.nvidia.com/n1/gpu-4", ""}}}}));
}

TEST(EvidenceOfPod, IsNoneOfAPodThatHasEndedOrIsNotBound) {
  const char* const kContainers = R"("containerStatuses": [{"allocatedResourcesStatus": [
      {"name": "a", "resources": [{"resourceID": "1", "health": "Unhealthy"}]}]}])";
  const auto pod = [&](const std::string& node, const std::string& phase) {
    return JobJson::parse(R"({"spec": {"nodeName": ")" + node + R"("}, "status": {"phase": ")" +
                          phase + "\", " + kContainers + "}}");
  };
  EXPECT_EQ(EvidenceOfPod(pod("n", "Running")).size(), 1U);
  EXPECT_TRUE(EvidenceOfPod(pod("n", "Failed")).empty());
  EXPECT_TRUE(EvidenceOfPod(pod("n", "Succeeded")).empty());
  EXPECT_TRUE(EvidenceOfPod(pod("", "Running")).empty());
}

const char* const kSlice = R"({"spec": {"driver": "gpu.example.com", "nodeName": "n1",
    "pool": {"name": "n1", "generation": 1}, "devices": [
        {"name": "gpu-0", "taints": [{"key": "ecc", "value": "bad", "effect": "NoExecute"},
                                     {"key": "old", "effect": "None"}]},
        {"name": "gpu-1"}]}})";

TEST(EvidenceOfDevices, AreTaintsThatKeepPodsAway) {
  EXPECT_EQ(
      EvidenceOfDevices(ReadDevices(Parsed(kSlice)), {}),
      (EvidenceOfNodes{{"n1", {{"device taint gpu.example.com/n1/gpu-0 ecc=bad:NoExecute", ""}}}}));
}

TEST(EvidenceOfDevices, HasTheTaintsOfRulesForTheDevicesThatTheySelect) {
  const struct {
    const char* selector;
    size_t items;
  } kRows[] = {
      {R"({"device": "gpu-1"})", 2},
      {R"({"driver": "gpu.example.com", "pool": "n1"})", 3},  // both devices
      {R"({"driver": "other.example.com"})", 1},
      {R"({"pool": "n2"})", 1},
      {"{}", 3},    // an empty selector matches all
      {"null", 1},  // no selector matches none
      {"\"all\"", 1},
  };
  for (const auto& row : kRows) {
    const JobJson rule =
        JobJson::parse(std::string(R"({"spec": {"deviceSelector": )") + row.selector +
                       R"(, "taint": {"key": "k", "effect": "NoSchedule"}}})");
    const EvidenceOfNodes evidence =
        EvidenceOfDevices(ReadDevices(Parsed(kSlice)), {{"rule", ReadDeviceTaintRule(rule)}});
    EXPECT_EQ(evidence.at("n1").size(), row.items) << row.selector;
  }
}

TEST(ReadDevices, LeavesOutDevicesOfNoSingleNode) {
  EXPECT_TRUE(
      ReadDevices(Parsed(R"({"spec": {"allNodes": true, "devices": [{"name": "a"}]}})")).empty());
  const auto devices = ReadDevices(Parsed(R"({"spec": {"perDeviceNodeSelection": true,
      "devices": [{"name": "a", "nodeName": "n1"}, {"name": "b", "allNodes": true}]}})"));
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].node, "n1");
}

TEST(Evidence, IsNoneInObjectsOfAnotherForm) {
  for (const char* const text :
       {"null", "[]", "7", R"({"spec": 1, "status": []})",
        R"({"spec": {"nodeName": {}, "devices": {"a": 1}}, "status": {"conditions": {"a": 1},
            "containerStatuses": "x"}})",
        R"({"spec": {"nodeName": "n", "devices": [1, null, {"name": 2, "taints": "t"}]},
            "status": {"conditions": [1, {"type": 3, "status": true}],
                       "containerStatuses": [null, {"allocatedResourcesStatus": {}},
                           {"allocatedResourcesStatus": [1, {"resources": 2},
                               {"resources": [null, {"health": ["Unhealthy"]}]}]}]}})"}) {
    const JobJson object = Parsed(text);
    EXPECT_TRUE(EvidenceOfConditions(object, DefaultConditionRules()).empty()) << text;
    EXPECT_TRUE(EvidenceOfPod(object).empty()) << text;
    EXPECT_TRUE(EvidenceOfDevices(ReadDevices(object), {}).empty()) << text;
    EXPECT_FALSE(ReadObservedNode(object, {}).ok()) << text;
  }
}

TEST(Evidence, IsBoundedForHugeObjects) {
  JobJson pod = {{"spec", {{"nodeName", "n"}}}};
  JobJson devices = JobJson::array();
  for (int i = 0; i < 10'000; ++i) {
    devices.push_back(
        {{"resourceID", std::string(1'000, 'x') + std::to_string(i)}, {"health", "Unhealthy"}});
    devices.push_back({{"resourceID", std::to_string(i)}, {"health", "Unhealthy"}});
  }
  const JobJson resource = {{"name", "r"}, {"resources", devices}};
  const JobJson container = {{"allocatedResourcesStatus", JobJson::array({resource})}};
  pod["status"]["containerStatuses"] = JobJson::array({container});
  EvidenceTable table;
  for (int i = 0; i < 3; ++i) table.Set(std::to_string(i), EvidenceOfPod(pod));
  const Evidence evidence = table.Of("n");
  EXPECT_EQ(evidence.size(), kMostEvidence);
  for (const auto& [key, detail] : evidence) EXPECT_LE(key.size(), 203U);
}

TEST(EvidenceTable, ForgetsWhatAnObjectNoLongerHas) {
  EvidenceTable table;
  EXPECT_EQ(table.Set("a", {{"n1", {{"x", ""}}}, {"n2", {{"y", ""}}}}),
            (std::set<std::string>{"n1", "n2"}));
  table.Set("b", {{"n1", {{"x", ""}, {"z", ""}}}});
  EXPECT_EQ(table.Of("n1").size(), 2U);
  EXPECT_EQ(table.Set("b", {}), std::set<std::string>{"n1"});
  EXPECT_EQ(table.Of("n1"), (Evidence{{"x", ""}}));
  EXPECT_EQ(table.Set("a", {{"n3", {{"x", ""}}}}), (std::set<std::string>{"n1", "n2", "n3"}));
  EXPECT_TRUE(table.Of("n1").empty());
  EXPECT_TRUE(table.Of("n2").empty());
}

TEST(CordonRecord, IsReadAsItWasWritten) {
  CordonRecord record;
  record.since = "2026-01-31T08:00:00Z";
  record.taint = "NoExecute";
  record.Add({{"b", "detail"}, {"a", ""}});
  const auto read = ReadCordonRecord(TextOf(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->evidence, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(read->since, record.since);
  EXPECT_EQ(read->taint, "NoExecute");
  EXPECT_TRUE(read->complete);
}

TEST(CordonRecord, CoversEverythingOnceItIsFull) {
  CordonRecord record;
  for (size_t i = 0; i < kMostEvidence; ++i) record.Add({{std::to_string(i), ""}});
  EXPECT_FALSE(record.Covers({{"new", ""}}));
  record.Add({{"new", ""}});
  EXPECT_EQ(record.evidence.size(), kMostEvidence);
  EXPECT_TRUE(ReadCordonRecord(TextOf(record))->Covers({{"other", ""}}));
}

TEST(CordonRecord, IsNothingThatAnotherWrote) {
  for (const char* const text : {"", "yes", "{}", "[]", R"({"owner": "somebody"})",
                                 R"({"owner": ["longhaul-node-health"]})"}) {
    EXPECT_FALSE(ReadCordonRecord(text)) << text;
  }
  EXPECT_FALSE(ReadCordonRecord(R"({"owner": "longhaul-node-health", "x": ")" +
                                std::string(100'000, 'x') + "\"}"));
  EXPECT_TRUE(ReadCordonRecord(R"({"owner": "longhaul-node-health", "evidence": 7})"));
}

TEST(ObservedNode, IsHeldOnlyIfNobodyElseHasWrittenTheCordon) {
  const auto node = [](const std::string& managers) {
    JobJson object = JobJson::parse(R"({"metadata": {"name": "n", "uid": "u",
        "resourceVersion": "1", "managedFields": )" +
                                    managers + R"(},
        "spec": {"unschedulable": true}})");
    object["metadata"]["annotations"][std::string(kCordonAnnotation)] = TextOf(CordonRecord());
    return *ReadObservedNode(object, {});
  };
  const std::string ours = R"({"manager": "longhaul-node-health",
      "fieldsV1": {"f:spec": {"f:unschedulable": {}}}})";
  const std::string theirs = R"({"manager": "kubectl",
      "fieldsV1": {"f:spec": {"f:unschedulable": {}}}})";
  const std::string labels = R"({"manager": "kubectl", "fieldsV1": {"f:metadata": {}}})";
  EXPECT_TRUE(node("[" + ours + "]").held());
  EXPECT_TRUE(node("[" + ours + "," + labels + "]").held());
  EXPECT_TRUE(node("null").held());
  EXPECT_FALSE(node("[" + theirs + "]").held());
  EXPECT_FALSE(node("[" + ours + "," + theirs + "]").held());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
