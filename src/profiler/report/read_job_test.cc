// The traces of a job within the memory that is given, and what is looked at where not all fits.
#include "profiler/report/read_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "profiler/across/findings.h"
#include "profiler/report/report_fixture.h"

namespace longhaul::profiler {
namespace {

using testing::HasSubstr;

// Of many steps, one of them three times as long.
class MemoryBound : public ReportTest {
 protected:
  MemoryBound() {
    GeneratorOptions options = Slow();
    options.steps = 24;
    options.stall_rank = 2;
    options.stall_step = 20;
    options.stall_us = 60'000;
    paths_ = Write(options, "");
    job_ = Load(paths_);
    for (const RankSummary& rank : job_.ranks) summaries_ += MemoryOf(rank);
  }

  // What is read where the summaries may be the share of all steps'.
  Result<RankSummaries> Within(double share, unsigned threads = 2) {
    ReadJobOptions read;
    read.threads = threads;
    read.max_memory_bytes = static_cast<size_t>(share * 4 * static_cast<double>(summaries_));
    return ReadJob(paths_, read);
  }

  std::vector<std::string> paths_;
  ProfiledJob job_;
  size_t summaries_ = 0;
};

TEST_F(MemoryBound, AsManyStepsAreLookedAtAsFit) {
  EXPECT_EQ(Within(1.01)->left_out, "");
  const RankSummaries some = Within(0.5).value();
  size_t bytes = 0;
  for (const RankSummary& rank : some.ranks) {
    bytes += MemoryOf(rank);
    EXPECT_GE(rank.steps.size(), 8u);
    EXPECT_LT(rank.steps.size(), 12u);
    EXPECT_EQ(rank.steps.front().name, some.ranks[0].steps.front().name);
  }
  EXPECT_LE(bytes, summaries_ / 2);
  EXPECT_THAT(some.left_out, testing::ContainsRegex("^[0-9]+ of 24 steps are looked at, Profiler"));
  EXPECT_THAT(some.left_out, testing::ContainsRegex(
                                 "ProfilerStep#23, which took [0-9.]+ times the median, is not: "
                                 "--steps 23"));
}

TEST_F(MemoryBound, TheyTellWhatAllTell) {
  GeneratorOptions calm = Slow();
  calm.steps = 24;
  paths_ = Write(calm, "calm-");
  job_ = Load(paths_);
  JobOptions options;
  options.ranks_per_host = 4;
  const Findings of_some = FindAll(AssembleJob(Within(0.5)->ranks, options).value());
  const Findings of_all = FindAll(job_);
  const auto slow = [](const Findings& findings) {
    for (const Finding& f : findings.findings) {
      if (f.cause == Cause::kSlowKernels && f.subject == "rank 5") return f.seconds_per_step;
    }
    return 0.0;
  };
  EXPECT_GT(slow(of_all), 0);
  EXPECT_NEAR(slow(of_some) / slow(of_all), 1, 0.02);
}

TEST_F(MemoryBound, TheyAreTheSameWhateverTheNumberOfThreads) {
  for (const double share : {0.1, 0.4, 0.7}) {
    const RankSummaries one = Within(share, 1).value(), four = Within(share, 4).value();
    EXPECT_EQ(one.left_out, four.left_out);
    EXPECT_EQ(one.ranks[3].segments.size(), four.ranks[3].segments.size());
  }
}

TEST_F(MemoryBound, WhereNotOneStepFitsItSaysHowMuchIsNeeded) {
  const auto none = Within(0.03);
  EXPECT_EQ(none.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(ToString(none.status()), HasSubstr("one step of all ranks needs about "));
}

// At least a piece of 65,536 events.
TEST_F(MemoryBound, ATraceThatDoesNotFitIsReadAloneOrRefused) {
  std::string spans;
  for (int i = 0; i < 150'000; ++i) {
    spans += (i == 0 ? "" : ",") + std::string("{\"ph\":\"X\",\"name\":\"k\",\"ts\":") +
             std::to_string(i) + ",\"dur\":1}";
  }
  const std::string path = folder_ + "/large-rank-0.json";
  std::ofstream(path) << "{\"traceEvents\":[" << spans << "]}";
  const size_t needed = ReadTraceFile(path, {})->memory_bytes();
  const std::vector<std::string> two = {path, path};
  ReadJobOptions read;
  read.threads = 2;
  read.max_memory_bytes = 2 * needed;  // three quarters of it for the traces
  EXPECT_TRUE(ReadJob(two, read).ok());
  read.max_memory_bytes = needed / 2;
  const Status refused = ReadJob(two, read).status();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_THAT(ToString(refused), HasSubstr("large-rank-0.json: its events don't fit into"));
}

TEST_F(MemoryBound, ReportsProgressAndStopsOnRequest) {
  ReadJobOptions read;
  read.threads = 3;
  std::vector<uint64_t> seen;
  uint64_t all = 0;
  read.progress = [&](uint64_t done, uint64_t total) {
    seen.push_back(done);
    all = total;
    return true;
  };
  ASSERT_TRUE(ReadJob(paths_, read).ok());
  EXPECT_EQ(seen.size(), paths_.size());
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), all);
  read.progress = [&](uint64_t done, uint64_t total) { return done < total / 2; };
  EXPECT_EQ(ReadJob(paths_, read).status().code(), Code::kCancelled);
}

TEST_F(MemoryBound, StepsThatAreAskedForAreThoseReadOrRefused) {
  ReadJobOptions read;
  read.summary.steps = {5, 6};
  const RankSummaries asked = ReadJob(paths_, read).value();
  for (const RankSummary& rank : asked.ranks) EXPECT_EQ(rank.steps.size(), 2u);
  read.max_memory_bytes = summaries_ / 8;
  EXPECT_THAT(ToString(ReadJob(paths_, read).status()), HasSubstr("the steps asked for need more"));
  read.summary.steps = {99, 99};
  const Status absent = ReadJob(paths_, read).status();
  EXPECT_EQ(absent.code(), Code::kNotFound);
  EXPECT_THAT(ToString(absent), HasSubstr("rank-0.json: holds steps 3 to 26, none of 99"));
}

// Files of other programs that lie beside the traces.
class ForeignFiles : public ReportTest {
 protected:
  std::string Foreign(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  ReadJobOptions Found(const std::vector<std::string>& paths) {
    ReadJobOptions read;
    read.threads = 2;
    read.found = {paths.begin(), paths.end()};
    return read;
  }
};

TEST_F(ForeignFiles, AreSkippedByNameWhereTheyWereFoundInAFolder) {
  std::vector<std::string> paths = Write(Slow(), "");
  const size_t ranks = paths.size();
  paths.insert(paths.begin(), Foreign("a.json", "{}"));
  paths.push_back(Foreign("numbers.json", "[1, 2, 3]"));
  paths.push_back(Foreign("records.json", R"([{"a": 1}, {"a": 2}])"));
  paths.push_back(Foreign("empty.json", ""));
  paths.push_back(Foreign("text.json.gz", "no gzip"));
  const RankSummaries read = ReadJob(paths, Found(paths)).value();
  EXPECT_EQ(read.ranks.size(), ranks);
  ASSERT_EQ(read.skipped.size(), 5u);
  EXPECT_THAT(read.skipped[0], HasSubstr("a.json holds no trace"));
  for (const RankSummary& rank : read.ranks) EXPECT_GE(rank.metadata.rank, 0);

  // Also where not all steps fit, and the first file is not the one to look at.
  ReadJobOptions small = Found(paths);
  small.max_memory_bytes = 0;
  for (const RankSummary& rank : read.ranks) small.max_memory_bytes += 3 * MemoryOf(rank);
  const RankSummaries some = ReadJob(paths, small).value();
  EXPECT_NE(some.left_out, "");
  EXPECT_EQ(some.ranks.size(), ranks);
  EXPECT_EQ(some.skipped.size(), 5u);
}

TEST_F(ForeignFiles, AreErrorsWhereTheyWereNamed) {
  std::vector<std::string> paths = Write(Slow(), "");
  const ReadJobOptions read = Found(paths);
  paths.push_back(Foreign("foreign.json", "{}"));
  const Status refused = ReadJob(paths, read).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("foreign.json holds no trace"));
}

TEST_F(ForeignFiles, AloneAreAnErrorThatNamesWhatWasLookedAt) {
  std::vector<std::string> paths;
  for (int i = 0; i < 7; ++i) paths.push_back(Foreign(std::to_string(i) + ".json", "{}"));
  const Status refused = ReadJob(paths, Found(paths)).status();
  EXPECT_EQ(refused.code(), Code::kNotFound);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("none of the 7 files looked at holds a trace: "));
  EXPECT_THAT(message, HasSubstr("0.json holds no trace"));
  EXPECT_THAT(message, HasSubstr("; and 2 more"));
}

TEST(TypicalSteps, AreThoseNearestToTheMedianStep) {
  EXPECT_EQ(TypicalSteps({9, 1, 1, 5, 1, 2, 2, 2}, 3), 5u);
  EXPECT_EQ(TypicalSteps({2, 9, 1, 3, 1}, 1), 2u);  // the first one, which is the median, warms up
  EXPECT_EQ(TypicalSteps({1, 5, 5, 1}, 4), 0u);
}

}  // namespace
}  // namespace longhaul::profiler
