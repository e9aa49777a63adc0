// How Kueue's objects are read, right and wrong ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engines/kubernetes/jobs/kueue/queue_objects.h"
#include "engines/kubernetes/jobs/kueue/workload.h"

namespace longhaul::engines::kubernetes {
namespace {

using testing::HasSubstr;

JobJson WorkloadObject() {
  return JobJson::parse(R"({
    "metadata": {"name": "longhaul-tune", "namespace": "ns", "uid": "w1", "resourceVersion": "7",
                 "annotations": {"longhaul.dev/request": "abc"},
                 "ownerReferences": [{"uid": "u0"}, {"uid": "u1", "controller": true}]},
    "spec": {"priorityClassRef": {"name": "urgent"}},
    "status": {
      "admission": {"podSetAssignments": [
        {"name": "workers", "count": 3, "flavors": {"cpu": "a"}, "topologyAssignment": {
           "levels": ["rack", "host"], "slices": [
             {"domainCount": 2, "valuesPerLevel": [{"universal": "r1"},
               {"individual": {"prefix": "n", "suffix": ".a", "roots": ["1", "2"]}}],
              "podCounts": {"individual": [2, 1]}}]}}]},
      "conditions": [
        {"type": "QuotaReserved", "status": "True", "message": ""},
        {"type": "Admitted", "status": "True", "message": ""},
        {"type": "PodsReady", "status": "True"},
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "why"}]}})");
}

TEST(ReadWorkload, TakesWhatKueueDecided) {
  const Result<Workload> workload = ReadWorkload(WorkloadObject());
  ASSERT_TRUE(workload.ok()) << workload.status();
  EXPECT_EQ(workload->Key(), "ns/longhaul-tune");
  EXPECT_EQ(workload->uid, "w1");
  EXPECT_EQ(workload->version, "7");
  EXPECT_EQ(workload->owner_uid, "u1");
  EXPECT_EQ(workload->request, "abc");
  EXPECT_EQ(workload->priority_class, "urgent");
  EXPECT_TRUE(workload->reserved && workload->admitted && workload->evicted);
  EXPECT_TRUE(workload->pods_ready);
  EXPECT_FALSE(workload->finished || workload->being_deleted);
  EXPECT_EQ(workload->eviction_reason, "Preempted");
  EXPECT_EQ(workload->eviction_message, "why");
  ASSERT_EQ(workload->assignments.size(), 1u);
  EXPECT_EQ(workload->assignments[0].count, 3u);
  EXPECT_EQ(workload->assignments[0].flavors.at("cpu"), "a");
  const std::vector<NodeLabels> nodes = {{{"rack", "r1"}, {"host", "n1.a"}},
                                         {{"rack", "r1"}, {"host", "n1.a"}},
                                         {{"rack", "r1"}, {"host", "n2.a"}}};
  EXPECT_EQ(workload->assignments[0].nodes, nodes);
}

TEST(ReadWorkload, IsActiveUnlessItSaysOtherwise) {
  JobJson object = WorkloadObject();
  EXPECT_TRUE(ReadWorkload(object)->active);
  object["spec"]["active"] = true;
  EXPECT_TRUE(ReadWorkload(object)->active);
  object["spec"]["active"] = false;
  EXPECT_FALSE(ReadWorkload(object)->active);
}

TEST(ReadWorkload, AdmittedIsOnlyWhatHasQuotaAndAnAdmission) {
  JobJson object = WorkloadObject();
  object["status"]["conditions"][0]["status"] = "False";
  EXPECT_FALSE(ReadWorkload(object)->admitted);
  EXPECT_TRUE(ReadWorkload(object)->reserved);
  object = WorkloadObject();
  object["status"].erase("admission");
  EXPECT_FALSE(ReadWorkload(object)->admitted);
  EXPECT_TRUE(ReadWorkload(object)->reserved);
  object["status"]["conditions"][0]["status"] = "False";
  EXPECT_FALSE(ReadWorkload(object)->reserved);
  // A new one has no status.
  object.erase("status");
  EXPECT_TRUE(ReadWorkload(object).ok());
}

TEST(ReadWorkload, NamesTheFieldThatIsWrong) {
  for (const auto& [patch, field] : {
           std::pair{R"({"metadata": null})", "metadata"},
           {R"({"status": {"admission": 5}})", "status.admission"},
           {R"({"status": {"admission": {"podSetAssignments": {}}}})", "podSetAssignments"},
           {R"({"status": {"admission": {"podSetAssignments": [1,2,3,4,5,6,7,8,9]}}})",
            "podSetAssignments"},
           {R"({"status": {"admission": {"podSetAssignments": [{}]}}})", "name"},
           {R"({"status": {"admission": {"podSetAssignments": [{"name": "a", "count": -1}]}}})",
            "count"},
           {R"({"status": {"admission": {"podSetAssignments": [{"name": "a", "count": 9e9}]}}})",
            "count"},
           {R"({"status": {"admission": {"podSetAssignments": [{"name": "a", "flavors": 1}]}}})",
            "flavors"},
           {R"({"status": {"admission": {"podSetAssignments":
              [{"name": "a", "flavors": {"cpu": 1}}]}}})",
            "flavors.cpu"},
           {R"({"status": {"conditions": "none"}})", "status.conditions"},
       }) {
    JobJson object = WorkloadObject();
    object.merge_patch(JobJson::parse(patch));
    const Result<Workload> workload = ReadWorkload(object);
    ASSERT_FALSE(workload.ok()) << patch;
    EXPECT_THAT(workload.status().message(), HasSubstr(field)) << patch;
  }
  EXPECT_FALSE(ReadWorkload(JobJson::array()).ok());
}

TEST(ReadTopologyAssignment, AcceptsEveryFormOfASlice) {
  const auto read = [](const std::string& slices, uint32_t count) {
    return ReadTopologyAssignment(
        JobJson::parse(R"({"levels": ["host"], "slices": )" + slices + "}"), count);
  };
  const auto same = read(R"([{"domainCount": 1, "valuesPerLevel": [{"universal": "a"}],
                             "podCounts": {"universal": 2}},
                            {"domainCount": 1, "valuesPerLevel": [{"individual": {"roots": ["b"]}}],
                             "podCounts": {"universal": 1}}])",
                         3);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, (std::vector<NodeLabels>{{{"host", "a"}}, {{"host", "a"}}, {{"host", "b"}}}));
  EXPECT_TRUE(read("[]", 0).ok());
  const std::string one = R"({"domainCount": 1, "valuesPerLevel": [{"universal": "a"}],
                              "podCounts": {"universal": 1}})";
  EXPECT_FALSE(read("[" + one + "]", 2).ok()) << "too few";
  EXPECT_FALSE(read("[" + one + "," + one + "]", 1).ok()) << "too many";
}

TEST(ReadTopologyAssignment, NamesTheFieldThatIsWrong) {
  const auto message = [](const char* patch) {
    JobJson object = JobJson::parse(R"({"levels": ["host"], "slices": [{"domainCount": 2,
        "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}],
        "podCounts": {"individual": [1, 1]}}]})");
    const JobJson change = JobJson::parse(patch);
    for (const auto& [key, value] : change.items()) {
      if (key == "levels" || key == "slices") {
        object[key] = value;
      } else {
        object["slices"][0][key] = value;
      }
    }
    return ReadTopologyAssignment(object, 2).status().message();
  };
  EXPECT_EQ(message("{}"), "");
  for (const auto& [patch, field] : {
           std::pair{R"({"levels": []})", "levels"},
           {R"({"levels": [1]})", "levels"},
           {R"({"levels": ["a", "b"]})", "slices"},
           {R"({"slices": {}})", "slices"},
           {R"({"slices": [3]})", "slices"},
           {R"({"domainCount": 0})", "slices"},
           {R"({"domainCount": 3})", "slices"},
           {R"({"domainCount": 18446744073709551615})", "slices"},
           {R"({"domainCount": 1})", "slices"},
           {R"({"valuesPerLevel": [{}]})", "slices"},
           {R"({"valuesPerLevel": [{"universal": 4}]})", "valuesPerLevel"},
           {R"({"valuesPerLevel": [{"individual": {"roots": ["a", 1]}}]})", "valuesPerLevel"},
           {R"({"podCounts": {}})", "slices"},
           {R"({"podCounts": {"universal": "1"}})", "podCounts"},
           {R"({"podCounts": {"universal": 4294967297}})", "podCounts"},
           {R"({"podCounts": {"individual": [1, 0]}})", "podCounts"},
           {R"({"podCounts": {"individual": [2, 1]}})", "podCounts"},
       }) {
    EXPECT_THAT(message(patch), HasSubstr(field)) << patch;
  }
}

TEST(ReadResourceFlavor, TakesLabelsAndTolerations) {
  const auto flavor = ReadResourceFlavor(JobJson::parse(
      R"({"metadata": {"name": "a"}, "spec": {"nodeLabels": {"k": "v"}, "tolerations": [{}]}})"));
  ASSERT_TRUE(flavor.ok()) << flavor.status();
  EXPECT_EQ(flavor->placement.labels.at("k"), "v");
  EXPECT_EQ(flavor->placement.tolerations.size(), 1u);
  EXPECT_TRUE(ReadResourceFlavor(JobJson::parse(R"({"metadata": {"name": "a"}})")).ok());
  for (const char* wrong : {R"({"metadata": {}})", R"({"metadata": {"name": "a"},
         "spec": {"nodeLabels": []}})",
                            R"({"metadata": {"name": "a"},
         "spec": {"nodeLabels": {"k": 1}}})",
                            R"({"metadata": {"name": "a"},
         "spec": {"tolerations": {}}})"}) {
    EXPECT_FALSE(ReadResourceFlavor(JobJson::parse(wrong)).ok()) << wrong;
  }
}

TEST(ReadPriorityClass, TakesNumbersOf32Bits) {
  const auto priority = ReadPriorityClass(
      PriorityKind::kPod,
      JobJson::parse(R"({"metadata": {"name": "a"}, "value": -5, "globalDefault": true})"));
  ASSERT_TRUE(priority.ok()) << priority.status();
  EXPECT_EQ(priority->value, -5);
  EXPECT_TRUE(priority->is_default);
  for (const char* wrong : {R"({"value": 5})", R"({"metadata": {"name": "a"}})",
                            R"({"metadata": {"name": "a"}, "value": 2147483648})",
                            R"({"metadata": {"name": "a"}, "value": 18446744073709551615})",
                            R"({"metadata": {"name": "a"}, "value": "5"})"}) {
    EXPECT_FALSE(ReadPriorityClass(PriorityKind::kWorkload, JobJson::parse(wrong)).ok()) << wrong;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
