#include "engines/kubernetes/jobs/longhaul_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace longhaul::engines::kubernetes::longhaul_job_test {
namespace {

using testing::HasSubstr;

JobJson Object() {
  return JobJson::parse(R"({
    "metadata": {"name": "tune", "namespace": "ns", "uid": "u1", "resourceVersion": "5",
                 "generation": 3, "finalizers": ["a", "longhaul.dev/pods"]},
    "spec": {"queue": "q", "workers": {"min": 2, "desired": 4, "max": 8},
             "devices": {"resource": "nvidia.com/gpu", "perWorker": 8},
             "job": {"command": ["train"]}}})");
}

LonghaulJob JobOf(const JobJson& object) {
  const Result<LonghaulJob> job = ReadLonghaulJob(object);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : LonghaulJob();
}

TEST(LonghaulJob, AllFieldsAreRead) {
  const LonghaulJob job = JobOf(Object());
  EXPECT_EQ(job.Key(), "ns/tune");
  EXPECT_EQ(job.version, "5");
  EXPECT_EQ(job.generation, 3);
  EXPECT_TRUE(job.HasFinalizer());
  EXPECT_EQ(job.queue, "q");
  EXPECT_EQ(job.minimum, 2u);
  EXPECT_EQ(job.desired, 4u);
  EXPECT_EQ(job.maximum, 8u);
  EXPECT_EQ(job.devices_per_worker, 8u);
  EXPECT_FALSE(job.suspend);
  EXPECT_FALSE(job.being_deleted);
}

TEST(LonghaulJob, TheBoundsOfWorkersAreDesiredWhereTheyAreAbsent) {
  JobJson object = Object();
  object["spec"]["workers"] = {{"desired", 3}};
  const LonghaulJob job = JobOf(object);
  EXPECT_EQ(job.minimum, 3u);
  EXPECT_EQ(job.maximum, 3u);
}

TEST(LonghaulJob, ARefusalNamesTheField) {
  const struct {
    const char* pointer;
    const char* value;
    const char* want;
  } kRows[] = {
      {"/metadata/name", "7", "metadata"},
      {"/metadata/uid", "\"\"", "metadata: expected a name and a uid"},
      {"/metadata/finalizers", "\"a\"", "metadata.finalizers"},
      {"/metadata/finalizers/0", "1", "metadata.finalizers"},
      {"/metadata/generation", "-1", "metadata.generation"},
      {"/spec", "[]", "spec"},
      {"/spec/suspend", "\"true\"", "spec.suspend"},
      {"/spec/workers/desired", "0", "spec.workers.desired"},
      {"/spec/workers/desired", "100001", "spec.workers.desired"},
      {"/spec/workers/desired", "18446744073709551615", "spec.workers.desired"},
      {"/spec/workers/min", "5", "spec.workers.min"},
      {"/spec/workers/max", "3", "spec.workers.max"},
      {"/spec/workers/step", "0", "spec.workers.step"},
      {"/spec/workers/step", "3", "spec.workers.step"},
      {"/spec/devices/perWorker", "1025", "spec.devices.perWorker"},
      {"/spec/devices/resource", "null", "spec.devices"},
      {"/spec/job", "null", "spec.job"},
      {"/spec/template", "[1]", "spec.template"},
      {"/status", "3", "status"},
  };
  for (const auto& row : kRows) {
    JobJson object = Object();
    object[JobJson::json_pointer(row.pointer)] = JobJson::parse(row.value);
    const Result<LonghaulJob> job = ReadLonghaulJob(object);
    ASSERT_FALSE(job.ok()) << row.pointer;
    EXPECT_THAT(job.status().message(), HasSubstr(row.want));
  }
}

TEST(LonghaulJob, HasAStepThatDividesItsBounds) {
  EXPECT_EQ(JobOf(Object()).step, 1u);
  JobJson object = Object();
  object["spec"]["workers"]["step"] = 2;
  EXPECT_EQ(JobOf(object).step, 2u);
}

TEST(LonghaulJob, TheJobFileHasWhatTheOtherFieldsState) {
  const Result<std::string> file = JobFileOf(JobOf(Object()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(JobJson::parse(*file), JobJson::parse(R"({
    "command": ["train"], "name": "tune",
    "resources": {"nodes": 4, "minimum_nodes": 2, "maximum_nodes": 8,
                  "processes_per_node": 8}})"));
}

TEST(LonghaulJob, ARigidJobHasNoBoundsInItsFile) {
  JobJson object = Object();
  object["spec"]["workers"] = {{"desired", 3}};
  object["spec"].erase("devices");
  object["spec"]["job"]["name"] = "own";
  const Result<std::string> file = JobFileOf(JobOf(object));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(JobJson::parse(*file), JobJson::parse(R"({
    "command": ["train"], "name": "own", "resources": {"nodes": 3, "processes_per_node": 1}})"));
}

TEST(LonghaulJob, AJobFileThatContradictsTheOtherFieldsIsRefused) {
  const struct {
    const char* resources;
    const char* want;  // empty: none
  } kRows[] = {
      {R"({"nodes": 4})", ""},
      {R"({"nodes": 5})", "spec.job.resources.nodes is 5, and spec.workers.desired is 4"},
      {R"({"nodes": "4"})", "spec.job.resources.nodes is \"4\""},
      {R"({"minimum_nodes": 1})", "spec.workers.min is 2"},
      {R"({"maximum_nodes": 9})", "spec.workers.max is 8"},
      {R"([])", "spec.job.resources: expected an object"},
      {R"(null)", ""},
      {R"({"processes_per_node": 2})", ""},
  };
  for (const auto& row : kRows) {
    JobJson object = Object();
    object["spec"]["job"]["resources"] = JobJson::parse(row.resources);
    const Result<std::string> file = JobFileOf(JobOf(object));
    const std::string message = file.ok() ? "" : file.status().message();
    EXPECT_EQ(message.empty(), std::string(row.want).empty()) << row.resources << message;
    EXPECT_THAT(message, HasSubstr(row.want));
  }
}

TEST(LonghaulJob, TheSlotsAreTheDevicesUnlessTheJobFileStatesThem) {
  const struct {
    const char* stated;
    uint32_t devices;
    uint32_t want;
  } kRows[] = {
      {"null", 0, 1}, {"null", 8, 8}, {"2", 8, 2}, {"0", 8, 8}, {"1025", 8, 8}, {"\"4\"", 4, 4},
  };
  for (const auto& row : kRows) {
    LonghaulJob job;
    job.job = JobJson::object();
    job.devices_per_worker = row.devices;
    job.job["resources"]["processes_per_node"] = JobJson::parse(row.stated);
    EXPECT_EQ(SlotsOf(job), row.want) << row.stated;
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::longhaul_job_test
