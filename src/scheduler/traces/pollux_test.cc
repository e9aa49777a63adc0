#include "scheduler/traces/pollux.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::scheduler {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPlacements =
    "placement,local_bsz,step_time,sync_time\n"
    "1,8,0.1,0\n1,16,0.3,0\n"
    "33,8,9,1\n24,8,0.2,0.05\n24,16,0.4,0.1\n1113,8,9,1\n";
constexpr const char* kScalability =
    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,8,7,1\n6,24,8,0.5,0.25\n";
constexpr const char* kTraining = "progress,iteration,metric\n10.5,100,0.3\n20.25,250,0.2\n";

PolluxTimes Measured() {
  PolluxTimes times;
  EXPECT_TRUE(times.AddPlacements("app", kPlacements, "p.csv").ok());
  EXPECT_TRUE(times.AddScalability("app", kScalability, "s.csv").ok());
  for (const int64_t batch : {4, 8, 12, 40, 48, 60, 96, 192, 384}) {
    EXPECT_TRUE(times.AddTraining("app", batch, kTraining, "v.csv").ok());
  }
  return times;
}

TEST(Pollux, ADurationIsTheIterationsOfTheBatchTimesOneIteration) {
  const PolluxTimes times = Measured();
  const struct {
    int64_t gpus;
    int64_t batch;
    int64_t want_ms;
  } kRows[] = {
      {1, 8, 25'000},      // 250 x 0.1 s
      {1, 12, 50'000},     // between 8 and 16: 0.2 s
      {1, 4, 25'000},      // below the smallest: as it
      {1, 40, 175'000},    // 3 passes of 13.3: 0.1 + 0.2 x (5.33 / 8) = 0.2333 s each
      {6, 48, 50'000},     // 8 each on 2 + 4, which fills a host more than 3 + 3: 0.2 s
      {6, 60, 62'500},     // 10 each: 0.25 s
      {6, 192, 175'000},   // 2 passes of 16: 0.4 + (0.4 - 0.1) = 0.7 s
      {24, 192, 125'000},  // 8 each on six hosts: 0.5 s
      {24, 384, 187'500},  // 2 passes: 0.5 + 0.25
  };
  for (const auto& row : kRows) {
    const auto duration = times.DurationMs({"j", 0, "app", row.gpus, row.batch});
    ASSERT_TRUE(duration.ok()) << duration.status();
    EXPECT_NEAR(static_cast<double>(*duration), static_cast<double>(row.want_ms), 1.0)
        << row.gpus << " GPUs, batch " << row.batch;
  }
}

TEST(Pollux, WhatWasNotMeasuredIsNamed) {
  const PolluxTimes times = Measured();
  const auto why = [&](const std::string& application, int64_t gpus, int64_t batch) {
    return std::string(times.DurationMs({"j", 0, application, gpus, batch}).status().message());
  };
  EXPECT_THAT(why("other", 1, 8), HasSubstr("job j: no time of application 'other' was measured"));
  EXPECT_THAT(why("app", 1, 7), HasSubstr("was measured with a batch of 7"));
  EXPECT_THAT(why("app", 5, 8), HasSubstr("was measured on 5 GPUs"));
}

TEST(Pollux, ARowThatIsRefusedIsNotKept) {
  PolluxTimes times;
  EXPECT_FALSE(
      times.AddPlacements("app", "placement,local_bsz,step_time,sync_time\n1,8,0,1\n", "p.csv")
          .ok());
  ASSERT_TRUE(times.AddTraining("app", 8, "iteration\n10\n", "v.csv").ok());
  EXPECT_THAT(times.DurationMs({"j", 0, "app", 1, 8}).status().message(),
              HasSubstr("was measured on 1 GPUs"));
}

TEST(Pollux, AJobThatWouldNeverEndIsRefused) {
  PolluxTimes times;
  ASSERT_TRUE(
      times.AddPlacements("app", "placement,local_bsz,step_time,sync_time\n1,8,86400,0\n", "p.csv")
          .ok());
  ASSERT_TRUE(times.AddTraining("app", 8, "iteration\n1000000000000\n", "v.csv").ok());
  EXPECT_THAT(times.DurationMs({"j", 0, "app", 1, 8}).status().message(),
              HasSubstr("more than 272 years"));
}

TEST(Pollux, AWorkloadBecomesTasksOfEqualGpus) {
  const auto jobs = ReadPolluxWorkload(
      "name,time,application,num_replicas,batch_size\n"
      "b,107.5,app,6,48\na,7,app,1,8\nc,200,app,24,192\n",
      "w.csv");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  const auto timed = WithDurations(*jobs, Measured());
  ASSERT_TRUE(timed.ok()) << timed.status();
  ASSERT_EQ(timed->size(), 3u);
  EXPECT_EQ((*timed)[0].name, "a");
  EXPECT_EQ((*timed)[1].arrival_ms, 100'500);
  EXPECT_EQ((*timed)[1].tasks, 2u);
  EXPECT_EQ((*timed)[1].task.gpus, 3u);
  EXPECT_EQ((*timed)[2].tasks, 6u);
  EXPECT_EQ((*timed)[2].task.gpus, 4u);
  EXPECT_EQ((*timed)[2].user, "app");
}

TEST(Pollux, SaysWhereAMistakeIs) {
  const std::string head = "name,time,application,num_replicas,batch_size\n";
  const struct {
    std::string text;
    const char* message;
  } kWorkloads[] = {
      {"name,time,application\n", "w.csv:1:1: the header lacks the column 'num_replicas'"},
      {head + "a,1,app,1\n", "w.csv:2:10: the row has 4 fields where the header has 5"},
      {head + "a,-1,app,1,8\n", "w.csv:2:3: time: -1 is out of range"},
      {head + "a,1,../x,1,8\n", "w.csv:2:5: application: '../x' is not a name"},
      {head + "a,1,,1,8\n", "application: '' is not a name"},
      {head + "a,1,app,0,8\n", "num_replicas: 0 is out of range: 1 to 16,384"},
      {head + "a,1,app,1,99999999999999999999\n", "batch_size: 99999999999999999999 is out of"},
      {head + "a,1,app,9,8\n", "batch_size: 8 is less than one for each of 9 GPUs"},
  };
  for (const auto& row : kWorkloads) {
    EXPECT_THAT(ReadPolluxWorkload(row.text, "w.csv").status().message(), HasSubstr(row.message));
  }
  const std::string places = "placement,local_bsz,step_time,sync_time\n";
  const struct {
    std::string text;
    const char* message;
  } kPlaces[] = {
      {places + "1,8,0.1", "p.csv:2:8: the row has 3 fields"},
      {places + "102,8,0.1,0\n", "p.csv:2:1: placement: '102' is not a placement"},
      {places + ",8,0.1,0\n", "placement: '' is not a placement"},
      {places + std::string(65, '1') + ",8,0.1,0\n", "is not a placement"},
      {places + "1,0,0.1,0\n", "local_bsz: 0 is out of range"},
      {places + "1,8,1e300,0\n", "step_time: 1e300 is out of range: 0 to 86,400"},
      {places + "1,8,nan,0\n", "step_time: "},
      {places + "1,8,0.1,0.2\n", "p.csv:2:9: sync_time: is longer than the step"},
  };
  for (const auto& row : kPlaces) {
    PolluxTimes times;
    EXPECT_THAT(times.AddPlacements("app", row.text, "p.csv").message(), HasSubstr(row.message));
  }
  PolluxTimes times;
  const std::string scale = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n";
  EXPECT_THAT(times.AddScalability("app", scale + "6,5,8,1,0\n", "s.csv").message(),
              HasSubstr("num_replicas: 5 is out of range: 6 to 16,384"));
  EXPECT_THAT(times.AddTraining("app", 8, "iteration\n", "v.csv").message(),
              HasSubstr("v.csv:2:1: the table has no epoch"));
  EXPECT_THAT(times.AddTraining("app", 8, "iteration\n9\n8\n", "v.csv").message(),
              HasSubstr("v.csv:3:1: iteration: 8 is out of range: 9 to"));
}

}  // namespace
}  // namespace longhaul::scheduler
