#include "engines/kubernetes/jobs/job_status.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longhaul::engines::kubernetes::job_status_test {
namespace {

const Instant kWall = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z

LonghaulJob Job() {
  LonghaulJob job;
  job.name = "tune";
  job.namespace_name = "ns";
  job.uid = "u1";
  job.generation = 4;
  job.desired = job.maximum = 2;
  return job;
}

JobFacts Facts(JobPhase phase) {
  JobFacts facts;
  facts.phase = phase;
  facts.reason = "Because";
  facts.message = "of this";
  facts.ready = 1;
  facts.desired = 2;
  return facts;
}

std::map<std::string, JobJson> Conditions(const JobJson& status) {
  std::map<std::string, JobJson> conditions;
  for (const JobJson& each : status["conditions"]) conditions[each["type"]] = each;
  return conditions;
}

TEST(JobStatus, OnePhaseIsTrueAndThoseThatWereTrueAreFalse) {
  LonghaulJob job = Job();
  job.status = StatusOf(job, Facts(JobPhase::kQueued), kWall);
  job.status = StatusOf(job, Facts(JobPhase::kRunning), kWall + std::chrono::minutes(1));
  const auto conditions = Conditions(job.status);
  EXPECT_EQ(conditions.size(), 3u) << "Created, Queued, Running; no others";
  EXPECT_EQ(conditions.at("Created")["lastTransitionTime"], "2026-01-31T08:00:00Z");
  EXPECT_EQ(conditions.at("Queued")["status"], "False");
  EXPECT_EQ(conditions.at("Queued")["lastTransitionTime"], "2026-01-31T08:01:00Z");
  EXPECT_EQ(conditions.at("Queued")["reason"], "Running");
  EXPECT_EQ(conditions.at("Running")["status"], "True");
  EXPECT_EQ(conditions.at("Running")["message"], "of this");
  EXPECT_EQ(conditions.at("Running")["observedGeneration"], 4);
  EXPECT_EQ(job.status["selector"], "longhaul.dev/job=tune,longhaul.dev/role=worker");
  EXPECT_EQ(StoredPhase(job), JobPhase::kRunning);
}

TEST(JobStatus, AConditionWhoseStatusStaysKeepsItsTime) {
  LonghaulJob job = Job();
  job.status = StatusOf(job, Facts(JobPhase::kQueued), kWall);
  JobFacts facts = Facts(JobPhase::kQueued);
  facts.message = "of that";
  job.status = StatusOf(job, facts, kWall + std::chrono::minutes(1));
  EXPECT_EQ(Conditions(job.status).at("Queued")["lastTransitionTime"], "2026-01-31T08:00:00Z");
  EXPECT_EQ(Conditions(job.status).at("Queued")["message"], "of that");
}

TEST(JobStatus, GoodputIsBoundedAndRounded) {
  JobFacts facts = Facts(JobPhase::kRunning);
  for (const auto& [given, want] : {std::pair{0.12345, 0.123}, {1.5, 1.0}, {-1.0, 0.0}}) {
    facts.goodput = given;
    EXPECT_EQ(StatusOf(Job(), facts, kWall)["goodput"], want);
  }
}

TEST(JobStatus, GoodputAloneAndTheOrderOfKeysAreNoNews) {
  const JobJson before = JobJson::parse(R"({"phase": "Running", "ready": 1, "goodput": 0.5})");
  EXPECT_TRUE(IsNews(JobJson(), before));
  EXPECT_FALSE(IsNews(before, JobJson::parse(R"({"ready":1,"goodput":0.6,"phase":"Running"})")));
  EXPECT_TRUE(IsNews(before, JobJson::parse(R"({"ready":2,"goodput":0.5,"phase":"Running"})")));
}

TEST(JobStatus, AJobHasFinishedOnlyByAConditionThatIsTrue) {
  const struct {
    const char* conditions;
    bool want;
  } kRows[] = {
      {R"([])", false},
      {R"([{"type": "Succeeded", "status": "True", "reason": "Finished"}])", true},
      {R"([{"type": "Failed", "status": "True", "reason": "JobFailed"}])", true},
      {R"([{"type": "Failed", "status": "False", "reason": "Queued"}])", false},
      {R"([{"type": "Failed", "status": "True", "reason": "InvalidSpec"}])", false},
      {R"([{"type": "Running", "status": "True"}])", false},
      {R"([1, {"type": 2}])", false},
      {R"("x")", false},
  };
  for (const auto& row : kRows) {
    LonghaulJob job = Job();
    job.status = {{"phase", "Succeeded"}, {"conditions", JobJson::parse(row.conditions)}};
    EXPECT_EQ(IsFinished(job), row.want) << row.conditions;
  }
  EXPECT_FALSE(IsFinished(Job()));
}

TEST(JobStatus, WhatIsStoredIsReadWhateverItsType) {
  LonghaulJob job = Job();
  EXPECT_EQ(StoredPhase(job), JobPhase::kQueued);
  job.status =
      JobJson::parse(R"({"phase": "Restarting", "restarts": 3, "ready": 2, "goodput": 0.5})");
  EXPECT_EQ(StoredPhase(job), JobPhase::kRestarting);
  EXPECT_EQ(StoredRestarts(job), 3u);
  EXPECT_EQ(StoredReady(job), 2u);
  EXPECT_EQ(StoredGoodput(job), 0.5);
  job.status = JobJson::parse(R"({"phase": 1, "restarts": -3, "ready": 9, "goodput": "x"})");
  EXPECT_EQ(StoredPhase(job), JobPhase::kQueued);
  EXPECT_EQ(StoredRestarts(job), 0u);
  EXPECT_EQ(StoredReady(job), 2u) << "at most as many as the job may have";
  EXPECT_EQ(StoredGoodput(job), 0);
}

TEST(JobEvent, IsAboutTheJobAndFitsTheApi) {
  const JobJson event = EventOf(Job(), "Warning", "Restarted", std::string(5'000, 'a'), kWall);
  EXPECT_EQ(event["regarding"]["uid"], "u1");
  EXPECT_EQ(event["regarding"]["kind"], "LonghaulJob");
  EXPECT_LE(event["note"].get<std::string>().size(), 1'024u);
  EXPECT_EQ(event["eventTime"], "2026-01-31T08:00:00.000000Z");
  EXPECT_NE(event["metadata"]["name"],
            EventOf(Job(), "Warning", "Restarted", "b", kWall)["metadata"]["name"]);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::job_status_test
