#include "proto/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace longhaul::proto {
namespace {

TEST(ToJson, WritesScalarsAlsoWhenZeroInTheOrderOfTheFields) {
  EXPECT_EQ(ToJson(SnapshotPolicy()).dump(),
            R"({"interval_steps":0,"keep":0,"replicated":false,"keep_every":0,)"
            R"("keep_best":0,"copy_to":"","copy_every":0,"copy_bytes_per_second":0,)"
            R"("copy_compressed":false})");
}

TEST(ToJson, Writes64BitIntegersAsNumbers) {
  DataSet data;
  data.set_samples(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ToJson(data)["samples"].dump(), "18446744073709551615");
  Event event;
  event.set_at_ns(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(ToJson(event)["at_ns"].dump(), "-9223372036854775808");
}

TEST(ToJson, WritesEnumsInLowerCase) {
  CategoryTime time;
  time.set_category(DATA_STALL);
  time.set_rank_seconds(1.5);
  EXPECT_EQ(ToJson(time).dump(), R"({"category":"data_stall","rank_seconds":1.5})");
}

TEST(ToJson, WritesANumberThatIsNotFiniteAsNull) {
  StepReported step;
  step.set_loss(std::nan(""));
  step.set_gradient_norm(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(ToJson(step)["loss"].is_null());
  EXPECT_TRUE(ToJson(step)["gradient_norm"].is_null());
  EXPECT_EQ(ToJson(step)["validation_loss"], 0.0);
}

TEST(ToJson, LeavesOutMessagesThatAreNotSet) {
  Job job;
  EXPECT_FALSE(ToJson(job).contains("workload"));
  job.mutable_workload();
  EXPECT_TRUE(ToJson(job).contains("workload"));
}

TEST(ToJson, WritesOnlyTheMemberOfAOneofThatIsSet) {
  Event event;
  event.mutable_job_stop_requested()->set_job_id("j1");
  const auto json = ToJson(event);
  EXPECT_EQ(json["job_stop_requested"]["job_id"], "j1");
  EXPECT_FALSE(json.contains("tick"));
}

TEST(ToJson, WritesListsAlsoWhenEmpty) {
  Workload workload;
  EXPECT_EQ(ToJson(workload)["command"].dump(), "[]");
  workload.add_command("python3");
  workload.add_command("train.py");
  EXPECT_EQ(ToJson(workload)["command"].dump(), R"(["python3","train.py"])");
}

TEST(ToJson, SortsMapsByKey) {
  Workload workload;
  for (const char* key : {"ZED", "ALPHA", "MIKE"}) (*workload.mutable_environment())[key] = "1";
  EXPECT_EQ(ToJson(workload)["environment"].dump(), R"({"ALPHA":"1","MIKE":"1","ZED":"1"})");
}

TEST(ToJson, KeepsUtf8AndReplacesWhatIsNot) {
  Job job;
  job.set_name("caf\xc3\xa9");
  EXPECT_EQ(ToJson(job)["name"], "caf\xc3\xa9");
  job.set_name("bad\xff\x01 byte");
  EXPECT_EQ(ToJson(job)["name"], "bad\xef\xbf\xbd\x01 byte");
}

TEST(ToJson, IsTextThatParsesBack) {
  Job job;
  job.set_name("quote \" backslash \\ line\nend");
  (*job.mutable_workload()->mutable_environment())["\xfe"] = "\xff";
  const auto json = ToJson(job);
  EXPECT_EQ(nlohmann::ordered_json::parse(json.dump()), json);
}

TEST(FromJson, ReadsWhatToJsonWrote) {
  Notification notification;
  notification.set_at_ns(1'763'717'281'123'456'789);
  notification.set_job_id("a-1");
  AttemptNotification& attempt = *notification.mutable_attempt();
  attempt.set_attempt(std::numeric_limits<uint64_t>::max());
  attempt.add_gang("node-1");
  attempt.mutable_restore()->set_tier(Restore::TIER_MEMORY);
  Notification read;
  ASSERT_EQ(FromJson(ToJson(notification).dump(), &read), Status());
  EXPECT_EQ(read.SerializeAsString(), notification.SerializeAsString());

  JobStatus status;
  status.mutable_job()->mutable_workload()->mutable_environment()->insert({"A", "b"});
  status.set_state(RECOVERING);
  status.set_eta_seconds(-1);
  JobStatus status_read;
  ASSERT_EQ(FromJson(ToJson(status).dump(), &status_read), Status());
  EXPECT_EQ(status_read.SerializeAsString(), status.SerializeAsString());
}

TEST(FromJson, ReadsNullAsNotANumberAndSkipsTheUnknown) {
  StepNotification step;
  ASSERT_EQ(FromJson(R"({"step": 3, "loss": null, "from_the_future": [1]})", &step), Status());
  EXPECT_EQ(step.step(), 3u);
  EXPECT_TRUE(std::isnan(step.loss()));
}

TEST(FromJson, RefusesWhatItCannotRead) {
  StepNotification step;
  for (const char* text : {"", "[]", "{", R"({"step": "x"})", R"({"step": -1})"}) {
    EXPECT_EQ(FromJson(text, &step).code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace longhaul::proto
