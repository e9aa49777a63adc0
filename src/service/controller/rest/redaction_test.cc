#include "service/controller/rest/redaction.h"

#include <gtest/gtest.h>

#include "proto/commands.pb.h"
#include "proto/json.h"

namespace longhaul::service {
namespace {

proto::Job JobWithSecret() {
  proto::Job job;
  job.set_name("a");
  (*job.mutable_workload()->mutable_environment())["WANDB_API_KEY"] = "s3cret";
  job.mutable_workload()->add_command("train");
  job.set_spec_json(R"({"name":"a","environment":{"WANDB_API_KEY":"s3cret"},"command":["train"]})");
  return job;
}

TEST(RedactEnvironment, KeepsNamesAndEverythingElse) {
  proto::Job job = JobWithSecret();
  RedactEnvironment(job);
  EXPECT_EQ(job.workload().environment().at("WANDB_API_KEY"), kRedacted);
  EXPECT_EQ(job.spec_json(),
            R"({"name":"a","environment":{"WANDB_API_KEY":"<redacted>"},"command":["train"]})");
  EXPECT_EQ(job.workload().command(0), "train");
}

TEST(RedactEnvironment, LeavesAJobWithoutEnvironmentAsItIs) {
  proto::Job job;
  job.set_spec_json(R"({"name": "a"})");
  const std::string before = job.SerializeAsString();
  RedactEnvironment(job);
  job.clear_workload();
  EXPECT_EQ(job.SerializeAsString(), before);
}

TEST(RedactJobs, FindsJobsWhereverTheyLieInAMessage) {
  proto::Event submitted;
  *submitted.mutable_job_submitted()->mutable_job() = JobWithSecret();
  proto::Event changed;
  *changed.mutable_changes_asked()->add_changes()->mutable_job() = JobWithSecret();
  proto::StartWorkers start;
  *start.mutable_job() = JobWithSecret();
  proto::JobStatus status;
  *status.mutable_job() = JobWithSecret();
  for (google::protobuf::Message* message :
       std::initializer_list<google::protobuf::Message*>{&submitted, &changed, &start, &status}) {
    EXPECT_NE(message->DebugString().find("s3cret"), std::string::npos);
    RedactJobs(*message);
    EXPECT_EQ(message->DebugString().find("s3cret"), std::string::npos);
    EXPECT_NE(proto::ToJson(*message).dump().find("WANDB_API_KEY"), std::string::npos);
  }
}

}  // namespace
}  // namespace longhaul::service
