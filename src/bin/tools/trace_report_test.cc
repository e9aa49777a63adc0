#include "bin/tools/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace longhaul::bin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<scheduler::workload::SimulationResult> TwoResults() {
  std::vector<scheduler::workload::SimulationResult> results(2);
  for (auto& result : results) {
    result.wait_by_size.resize(scheduler::workload::StandardSizes().size());
    result.jobs = 12;
    result.use = 0.875;
    result.gangs = 3;
    result.leaves_ratio = 1.25;
    result.wait_by_size[0] = {10, 60, 3'600, 7'200, 9'000};
    result.use_over_time = {{1, 0.5}, {2, 1.0}};
  }
  results[0].contender = "ours";
  results[1].contender = "theirs & others";
  return results;
}

TEST(TraceReport, ShowsEveryPolicyAndSaysSimulated) {
  const std::string table = TraceTable(TwoResults());
  EXPECT_THAT(table, HasSubstr("ours"));
  EXPECT_THAT(table, HasSubstr("87.5 %"));
  EXPECT_THAT(table, HasSubstr("1.250"));
  EXPECT_THAT(table, HasSubstr("1.0 / 2.0 / 2.5"));
  EXPECT_THAT(table, HasSubstr("Simulated."));
}

TEST(TraceReport, SaysWhatWasRejectedAndWhy) {
  auto results = TwoResults();
  EXPECT_THAT(TraceTable(results), Not(HasSubstr("rejected")));
  results[1].rejected = 2;
  results[1].first_rejection = "row 7: needs 513 tasks";
  EXPECT_THAT(
      TraceTable(results),
      HasSubstr("theirs & others rejected 2 of 12 jobs; the first, row 7: needs 513 tasks"));
}

TEST(TraceReport, WritesAsManyCellsAsTheHeadHas) {
  const std::string csv = TraceCsv(TwoResults());
  const auto commas = [](std::string_view line) {
    return std::count(line.begin(), line.end(), ',');
  };
  const size_t first = csv.find('\n');
  const size_t second = csv.find('\n', first + 1);
  EXPECT_EQ(commas(csv.substr(0, first)), commas(csv.substr(first, second - first)));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv, HasSubstr("policy,simulated,jobs"));
}

TEST(TraceReport, DrawsWellFormedText) {
  const std::string svg = TraceSvg(TwoResults());
  EXPECT_THAT(svg, HasSubstr("simulated"));
  EXPECT_THAT(svg, HasSubstr("theirs &amp; others"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(TraceSvg({}), HasSubstr("<svg"));
  EXPECT_THAT(TraceJson(TwoResults()), HasSubstr(R"("simulated":true)"));
}

TEST(TraceReport, ThePageStandsAlone) {
  const std::string page = TraceHtml(TwoResults(), "3 jobs of a <trace>");
  EXPECT_THAT(page, HasSubstr("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("3 jobs of a &lt;trace&gt;"));
  EXPECT_THAT(page, HasSubstr("jobs that wait (simulated)"));
  EXPECT_THAT(page, HasSubstr("moves"));
  EXPECT_EQ(page.find("src="), std::string::npos) << "nothing from outside";
}

}  // namespace
}  // namespace longhaul::bin
