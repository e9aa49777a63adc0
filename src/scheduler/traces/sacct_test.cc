#include "scheduler/traces/sacct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kHeader =
    "JobIDRaw|User|Account|State|Submit|ElapsedRaw|TimelimitRaw|NNodes|ReqTRES\n";

std::string Row(const std::string& tres, const std::string& nodes = "1") {
  return "7|ann|vision|COMPLETED|2026-01-03T10:00:00|60|30|" + nodes + "|" + tres + "\n";
}

TraceJob OnlyJob(const std::string& rows) {
  const auto read = ReadSacct(kHeader + rows, "s.txt");
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok() || read->jobs.size() != 1) return {};
  return read->jobs[0];
}

TEST(Sacct, AJobIsOneTaskANodeWithAnEqualPartOfEverything) {
  const TraceJob job =
      OnlyJob(Row("billing=64,cpu=64,gres/gpu=16,gres/gpu:h100=16,mem=1T,node=2", "9"));
  EXPECT_EQ(job.name, "7");
  EXPECT_EQ(job.tenant, "vision");
  EXPECT_EQ(job.user, "ann");
  EXPECT_EQ(job.tasks, 2u);
  EXPECT_EQ(job.task.gpus, 8u);
  EXPECT_EQ(job.task.cpu_milli, 32'000);
  EXPECT_EQ(job.task.memory_mib, 512 * 1'024);
  EXPECT_THAT(job.task.models, ElementsAre("h100"));
  EXPECT_EQ(job.duration_ms, 60'000);
  EXPECT_EQ(job.limit_ms, 30 * 60'000);
  EXPECT_EQ(job.clock_ms, int64_t{1'767'434'400} * 1'000);
  EXPECT_EQ(job.arrival_ms, 0);
}

TEST(Sacct, GpusThatNodesCannotShareEquallyAreTasksOfTheirOwn) {
  const TraceJob job = OnlyJob(Row("cpu=10,gres/gpu=5,mem=5G,node=2"));
  EXPECT_EQ(job.tasks, 5u);
  EXPECT_EQ(job.task.gpus, 1u);
  EXPECT_EQ(job.task.cpu_milli, 2'000);
  EXPECT_EQ(job.task.memory_mib, 1'024);
}

TEST(Sacct, TypedGpusCountWhereNoTotalIsStated) {
  const TraceJob job = OnlyJob(Row("gres/gpu:a100=2,gres/gpu:h100=2,node=1"));
  EXPECT_EQ(job.task.gpus, 4u);
  EXPECT_THAT(job.task.models, ElementsAre("a100", "h100"));
}

TEST(Sacct, NNodesCountsWhereTheRequestStatesNone) {
  EXPECT_EQ(OnlyJob(Row("cpu=8,gres/gpu=8", "4")).tasks, 4u);
}

TEST(Sacct, AJobWithoutGpusNeedsCoresAlone) {
  const TraceJob job = OnlyJob(Row("cpu=3,mem=1536M,node=1"));
  EXPECT_EQ(job.task.gpus, 0u);
  EXPECT_EQ(job.task.cpu_milli, 3'000);
  EXPECT_EQ(job.task.memory_mib, 1'536);
  EXPECT_THAT(job.task.models, IsEmpty());
}

TEST(Sacct, MemoryWithoutAUnitIsInMebibytes) {
  EXPECT_EQ(OnlyJob(Row("cpu=1,mem=900,node=1")).task.memory_mib, 900);
  EXPECT_EQ(OnlyJob(Row("cpu=1,mem=2048K,node=1")).task.memory_mib, 2);
}

TEST(Sacct, StepsAndJobsThatNeverRanAreLeftOut) {
  const auto read = ReadSacct(std::string(kHeader) + Row("cpu=1") +
                                  "7.batch||vision|COMPLETED|2026-01-03T10:00:00|60||1|cpu=1\n"
                                  "8|ann|vision|CANCELLED by 5|2026-01-03T10:00:01|0|30|1|cpu=1\n"
                                  "9|ann|vision|PENDING|2026-01-03T10:00:01|0|30|1|cpu=1\n",
                              "s.txt");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->jobs.size(), 1u);
  EXPECT_EQ(read->steps, 1u);
  EXPECT_EQ(read->never_started, 2u);
}

TEST(Sacct, ARunningJobHasNoEndAndUnlimitedNoLimit) {
  const TraceJob job =
      OnlyJob("7|ann||RUNNING|2026-01-03T10:00:00|60|UNLIMITED|1|cpu=1,gres/gpu=1\n");
  EXPECT_EQ(job.duration_ms, std::nullopt);
  EXPECT_EQ(job.limit_ms, std::nullopt);
  EXPECT_EQ(job.tenant, "ann") << "without an account";
}

TEST(Sacct, JobsAreSortedByTheirSubmission) {
  const auto read = ReadSacct(std::string(kHeader) +
                                  "2|a|x|COMPLETED|2026-01-03T10:00:10|1||1|cpu=1\n"
                                  "1|a|x|COMPLETED|2026-01-03T10:00:00|1||1|cpu=1\n",
                              "s.txt");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->jobs[0].name, "1");
  EXPECT_EQ(read->jobs[1].arrival_ms, 10'000);
}

TEST(Sacct, ColumnsForPeopleServeTooAndTheAllocationWhereThereIsNoRequest) {
  const auto read = ReadSacct(
      "JobID|Submit|Elapsed|Timelimit|AllocTRES\n"
      "12_3|2026-01-03T10:00:00|1-02:03:04|02:00:00|cpu=2,gres/gpu=1,mem=0.5G,node=1\n",
      "s.txt");
  ASSERT_TRUE(read.ok()) << read.status();
  const TraceJob& job = read->jobs.at(0);
  EXPECT_EQ(job.name, "12_3");
  EXPECT_EQ(job.duration_ms, (86'400 + 2 * 3'600 + 3 * 60 + 4) * 1'000);
  EXPECT_EQ(job.limit_ms, 7'200'000);
  EXPECT_EQ(job.task.memory_mib, 512);
}

TEST(Sacct, NamesTheLineTheValueAndWhatIsExpected) {
  const std::string header = kHeader;
  const struct {
    std::string text;
    const char* says;
  } kRows[] = {
      {"JobID|Elapsed|ReqTRES\n", "s.txt:1:1: the header lacks the column 'Submit'"},
      {"Submit|Elapsed|ReqTRES\n", "the header lacks the column 'JobIDRaw', or 'JobID'"},
      {"Submit|JobID|ReqTRES\n", "the header lacks the column 'ElapsedRaw', or 'Elapsed'"},
      {"Submit|JobID|Elapsed\n", "the header lacks the column 'ReqTRES', or 'AllocTRES'"},
      {header + "7|a|b|COMPLETED|Unknown|60|30|1|cpu=1\n",
       "s.txt:2:17: Submit: 'Unknown' is not a time such as 2026-01-03T10:00:00"},
      {header + "7|a|b|COMPLETED|2026-02-30T10:00:00|60|30|1|cpu=1\n", "Submit: '2026-02-30T"},
      {header + Row("cpu"), "ReqTRES: 'cpu' is not NAME=AMOUNT"},
      {header + Row("cpu=many"), "ReqTRES: 'cpu=many' is not a whole number up to 2,000,000"},
      {header + Row("mem=64X"), "ReqTRES: 'mem=64X' is not an amount such as mem=64G"},
      {header + Row("gres/gpu:=1"), "ReqTRES: 'gres/gpu:=1' names no type of GPU"},
      {header + Row("gres/gpu=34,node=2"), "ReqTRES: 17 GPUs on a node: at most 16"},
      {header + Row("node=70000"), "'node=70000' is not a whole number up to 65,536"},
      {"Submit|JobID|Elapsed|ReqTRES\n2026-01-03T10:00:00|1|soon|cpu=1\n",
       "Elapsed: 'soon' is not a time such as 1-02:03:04"},
  };
  for (const auto& row : kRows) {
    const auto read = ReadSacct(row.text, "s.txt");
    ASSERT_FALSE(read.ok()) << row.text;
    EXPECT_THAT(read.status().message(), HasSubstr(row.says)) << row.text;
  }
}

}  // namespace
}  // namespace longhaul::scheduler
