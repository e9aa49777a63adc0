#include "profiler/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "profiler/report/report_fixture.h"

namespace longhaul::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(ReportTest, SaysFirstWhatToDoFirst) {
  const ProfiledJob job = Load(Write(Slow(), ""));
  const std::string text = SummaryText(job, FindAll(job), {});
  EXPECT_THAT(text, testing::StartsWith("Do first: slow kernels of rank 5, worth "));
  EXPECT_THAT(text, HasSubstr("Try: look at its clock"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 13);
}

// How long a rank waited in a collective follows from the times at which the other ranks joined it.
TEST_F(ReportTest, WaitingIsUnknownWithoutTheOtherRanks) {
  const std::vector<std::string> paths = Write(Slow(), "");
  const ProfiledJob one = Load({paths[0]});
  const Findings findings = FindAll(one);
  const std::string text = SummaryText(one, findings, {});
  EXPECT_THAT(text, HasSubstr("\nWaiting:  unknown: it needs the traces of the other ranks\n"));
  EXPECT_THAT(text, Not(HasSubstr(" waiting, ")));
  const auto communication =
      ReportJson(one, findings, {})["ranks"][0]["ledger"]["communication_us"]["tensor"];
  EXPECT_TRUE(communication["exposed_wait"].is_null());
  EXPECT_TRUE(communication["exposed_wire"].is_null());
  EXPECT_GT(communication["exposed"].get<double>(), 0);
  EXPECT_EQ(communication["unknown_because"], "it needs the traces of the other ranks");
  EXPECT_THAT(ReportHtml(one, findings, {}), HasSubstr("All of it is shown as wire."));

  const ProfiledJob all = Load(paths);
  const Findings of_all = FindAll(all);
  EXPECT_THAT(SummaryText(all, of_all, {}), HasSubstr(" waiting, "));
  const auto known =
      ReportJson(all, of_all, {})["ranks"][0]["ledger"]["communication_us"]["tensor"];
  EXPECT_TRUE(known["exposed_wait"].is_number());
  EXPECT_FALSE(known.contains("unknown_because"));
}

TEST_F(ReportTest, IsTheSameWhateverTheNumberOfThreads) {
  const std::vector<std::string> paths = Write(Slow(), "");
  const ProfiledJob one = Load(paths, 1);
  const ProfiledJob four = Load(paths, 4);
  EXPECT_EQ(ReportJson(one, FindAll(one), {}).dump(), ReportJson(four, FindAll(four), {}).dump());
}

TEST_F(ReportTest, CountsMfuFromTheModelsFlops) {
  const ProfiledJob job = Load(Write(Slow(), ""));
  const Findings findings = FindAll(job);
  ReportOptions options;
  // Half of what eight H100 could do in the step.
  options.model_flops = 0.5 * 8 * 989.4e12 * findings.step_s;
  EXPECT_NEAR(UtilizationOf(job, findings, options).mfu, 0.5, 1e-9);
}

TEST_F(ReportTest, KnowsTheGpuByItsWholeName) {
  ProfiledJob job = Load(Write(Slow(), ""));
  const Findings findings = FindAll(job);
  for (const auto& [written, name] : {std::pair("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"),
                                      {"NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"},
                                      {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                      {"NVIDIA H100 of tomorrow", "h100-sxm"}}) {
    for (RankSummary& rank : job.ranks) rank.metadata.device_name = written;
    EXPECT_EQ(UtilizationOf(job, findings, {}).device->name, name) << written;
  }
}

TEST_F(ReportTest, ThePageShowsEveryPartWithItsFigures) {
  ProfiledJob job = Load(Write(Slow(), ""));
  job.ranks[0].operators = {{"aten::mm", "[[8,8],[8,8]]", 7, 1'000'000, 1e9, 1e7}};
  const Findings findings = FindAll(job);
  const std::string page = ReportHtml(job, findings, {});
  for (const char* part : {"<h1>Where the time went", "<h2>Faults, worst first",
                           "<h2>Everything else, worst first", "<h2>What each rank's time went to",
                           "<h2>The last step", "<h2>The pipeline in the last step",
                           "<h2>Pipeline stages, a step", "<h2>Ranks against their mean",
                           "<h2>Operators against the roofs", "<h2>Operators by what they lose"}) {
    EXPECT_THAT(page, testing::HasSubstr(part));
  }
  const auto cell = [](double value, const char* unit) {
    char text[64];
    std::snprintf(text, sizeof(text), "<td>%.3f%s", value, unit);
    return std::string(text);
  };
  EXPECT_THAT(page, testing::HasSubstr("<td>slow kernels<td>rank 5" +
                                       cell(findings.findings[0].seconds_per_step * 1e3, " ms")));
  for (const Pipeline::Stage& stage : findings.pipeline.stages) {
    EXPECT_THAT(page, testing::HasSubstr(cell(stage.compute_s * 1e3, " ms") +
                                         cell(stage.bubble_s * 1e3, " ms")));
  }
  for (const RankTotals& totals : findings.totals) {
    EXPECT_THAT(page, testing::HasSubstr("<td>" + std::to_string(totals.last_arrivals)));
  }
  EXPECT_THAT(page, testing::HasSubstr("<td>aten::mm<td>[[8,8],[8,8]]<td>7<td>"));
}

// A small straggler of a job that waits for its wires most of the time.
TEST_F(ReportTest, WhatIsCalledWorstFirstIsSortedByWorth) {
  GeneratorOptions options;
  options.slow_rank = 5;
  options.slow_factor = 1.1;
  options.tensor_wire_us = 900;
  options.launch_us = 40;
  const ProfiledJob job = Load(Write(options, ""));
  const Findings findings = FindAll(job);
  const std::string page = ReportHtml(job, findings, {});
  std::vector<std::string> headings;
  std::vector<double> firsts;
  for (size_t at = page.find("<h2>"); at != page.npos; at = page.find("<h2>", at + 1)) {
    const std::string part = page.substr(at, page.find("<h2>", at + 1) - at);
    const std::string heading = part.substr(4, part.find("</h2>") - 4);
    if (heading.find("worst first") == heading.npos) continue;
    headings.push_back(heading);
    double before = 1e300;
    for (size_t row = part.find("<tr><td>"); row != part.npos;
         row = part.find("<tr><td>", row + 1)) {
      const size_t worth = part.find("<td>", part.find("<td>", row + 8) + 1) + 4;
      const double ms = std::stod(part.substr(worth));
      if (before == 1e300) firsts.push_back(ms);
      EXPECT_LE(ms, before) << heading;
      before = ms;
    }
  }
  EXPECT_THAT(headings, ElementsAre("Faults, worst first", "Everything else, worst first"));
  ASSERT_EQ(firsts.size(), 2u);
  ASSERT_LT(firsts[0], firsts[1]) << "the case is not the one that is distinguished";
  // The summary and the programs' report are in the same order, and say so.
  const std::string text = SummaryText(job, findings, {});
  EXPECT_THAT(text, testing::StartsWith("Do first: slow kernels of rank 5, worth "));
  EXPECT_THAT(text, HasSubstr("\nLarger:   exposed communication of tensor, worth "));
  const size_t reported = text.find("exposed communication of tensor");
  EXPECT_EQ(text.find("exposed communication of tensor", reported + 1), text.npos);
  const auto json = ReportJson(job, findings, {})["findings"];
  EXPECT_TRUE(json[0]["fault"]);
  EXPECT_FALSE(json[1]["fault"]);
}

TEST_F(ReportTest, ALargerLossIsNotReportedWhereTheFirstIsTheLargest) {
  GeneratorOptions options;
  const ProfiledJob job = Load(Write(options, ""));
  const Findings findings = FindAll(job);
  ASSERT_FALSE(findings.findings.empty());
  EXPECT_FALSE(findings.findings[0].fault);
  EXPECT_THAT(SummaryText(job, findings, {}), Not(HasSubstr("Larger:")));
  const std::string page = ReportHtml(job, findings, {});
  EXPECT_THAT(page, HasSubstr("<h2>What is lost, worst first</h2><p>No fault costs 1 %"));
  EXPECT_THAT(page, Not(HasSubstr("Everything else")));
}

// The axes of the roofline's picture hold what is drawn, and no more than a decade beyond.
TEST_F(ReportTest, ThePageDrawsTheRooflineWhereItsOperatorsAre) {
  ProfiledJob job = Load(Write(Slow(), ""));
  // 1 and 5 TFLOP/s at 100 and 300 FLOPs a byte.
  job.ranks[0].operators = {{"aten::mm", "[[8,8],[8,8]]", 1, 1'000'000, 1e9, 1e7},
                            {"aten::bmm", "[[8,8],[8,8]]", 1, 1'000'000, 5e9, 5e9 / 300}};
  const std::string page = ReportHtml(job, FindAll(job), {});
  const size_t begin = page.find("<h2>Operators against the roofs of h100-sxm");
  ASSERT_NE(begin, page.npos);
  const std::string picture = page.substr(begin, page.find("</svg>", begin) - begin);
  for (const char* tick : {">1000 GF/s<", ">1e+06 GF/s<", ">100<", ">1000<"}) {
    EXPECT_THAT(picture, testing::HasSubstr(tick));
  }
  for (const char* tick : {">100 GF/s<", ">1e+07 GF/s<", ">10<", ">10000<"}) {
    EXPECT_THAT(picture, testing::Not(testing::HasSubstr(tick)));
  }
  // From 60 to 680 is a decade from 100 FLOPs a byte; from 290 up to 20 are three from 1 TFLOP/s:
  // 60 + 620 lg 3 and 290 - 90 lg 5.
  EXPECT_THAT(picture, testing::HasSubstr("<circle cx=\"60.0\" cy=\"290.0\""));
  EXPECT_THAT(picture, testing::HasSubstr("<circle cx=\"355.8\" cy=\"227.1\""));
}

// The GPU's ridge is at 295 FLOPs a byte, far from an operator with one.
TEST_F(ReportTest, TheRooflinesPictureHoldsTheRidge) {
  ProfiledJob job = Load(Write(Slow(), ""));
  job.ranks[0].operators = {{"aten::add", "[[8,8],[8,8]]", 1, 1'000'000, 1e9, 1e9}};
  const std::string page = ReportHtml(job, FindAll(job), {});
  const size_t begin = page.find("<h2>Operators against the roofs of h100-sxm");
  ASSERT_NE(begin, page.npos);
  const std::string picture = page.substr(begin, page.find("</svg>", begin) - begin);
  for (const char* tick : {">1<", ">10<", ">100<", ">1000<"}) {
    EXPECT_THAT(picture, testing::HasSubstr(tick));
  }
}

TEST_F(ReportTest, SaysHowToTraceWhereNoKernelIs) {
  RankSummary rank;
  rank.metadata.rank = 0;
  rank.kernels.push_back({"Memcpy HtoD", KernelClass::kCopy, 1, 1000});
  std::vector<RankSummary> ranks(1, rank);
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  const std::string text = SummaryText(job, FindAll(job), {});
  EXPECT_THAT(text, testing::StartsWith("No kernel was traced"));
  EXPECT_THAT(text, testing::HasSubstr("nsys profile --trace=cuda"));
  EXPECT_FALSE(ReportJson(job, FindAll(job), {})["kernels_traced"]);
}

TEST_F(ReportTest, TheJsonHoldsEachKernelSoThatTheirSumIsTheRanks) {
  RankSummary rank;
  rank.metadata.rank = 0;
  for (int i = 0; i < 100; ++i) {
    rank.kernels.push_back({"kernel" + std::to_string(i), KernelClass::kMatrixProduct, 1, 1000});
  }
  const ProfiledJob job = AssembleJob(std::vector<RankSummary>(1, rank)).value();
  const auto json = ReportJson(job, FindAll(job), {});
  double us = 0;
  for (const auto& kernel : json["ranks"][0]["kernels"]) us += kernel["us"].get<double>();
  EXPECT_NEAR(us, 100, 1e-9);
}

TEST_F(ReportTest, ThePageNeedsNothingFromElsewhere) {
  const ProfiledJob job = Load(Write(Slow(), ""));
  const std::string page = ReportHtml(job, FindAll(job), {});
  EXPECT_THAT(page, HasSubstr("slow kernels"));
  EXPECT_THAT(page, HasSubstr("pipeline bubble: beyond it"));
  EXPECT_THAT(page, HasSubstr("Pipeline stages, a step"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_LT(page.size(), 1'000'000u);
}

TEST_F(ReportTest, TheMergedTraceCanBeReadAgain) {
  const ProfiledJob job = Load(Write(Slow(), ""));
  const std::string text = MergedTrace(job);
  const auto source = OpenBytes(text);
  const Result<RankTrace> again = ReadKineto(*source, "merged");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->report.damages, 0u);
  size_t wanted = 0;
  for (const RankSummary& rank : job.ranks) {
    wanted += rank.collectives.size() + rank.steps.size();
    for (const Segment& s : rank.segments) wanted += IsIdle(s.spent) ? 0 : 1;
  }
  EXPECT_EQ(again->events.size(), wanted);
}

TEST_F(ReportTest, TheMergedTraceIsWrittenInPieces) {
  GeneratorOptions options = Slow();
  options.steps = 12;
  const ProfiledJob job = Load(Write(options, ""));
  std::string text;
  size_t pieces = 0;
  const auto take = [&](std::string_view piece) {
    text += piece;
    return ++pieces < 3 ? Status() : Unavailable("no room");
  };
  EXPECT_EQ(WriteMergedTrace(job, take).code(), Code::kUnavailable);
  EXPECT_EQ(pieces, 3u);
  EXPECT_TRUE(MergedTrace(job).starts_with(text));
}

// Perfetto ties each end of an arrow to the slice of its thread that is open at that moment.
TEST_F(ReportTest, ArrowsOfTheMergedTraceJoinTheMembersOfACall) {
  GeneratorOptions options;
  options.data = 1;
  options.steps = 1;
  const ProfiledJob job = Load(Write(options, ""));
  const auto events = nlohmann::json::parse(MergedTrace(job)).at("traceEvents");
  const auto within = [&events](const nlohmann::json& end) {
    const nlohmann::json* found = nullptr;
    for (const auto& slice : events) {
      if (slice.at("ph") != "X" || slice["pid"] != end["pid"] || slice["tid"] != end["tid"]) {
        continue;
      }
      const double since = end.at("ts").get<double>() - slice.at("ts").get<double>();
      if (since >= 0 && since < slice.at("dur").get<double>()) found = &slice;
    }
    return found;
  };
  size_t messages = 0, sums = 0;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const auto& from = events[i];
    if (from.at("ph") != "s") continue;
    const auto& to = events[i + 1];
    ASSERT_EQ(to.at("ph"), "f");
    ASSERT_EQ(to.at("bp"), "e");
    for (const char* key : {"id", "cat", "name"}) EXPECT_EQ(from.at(key), to.at(key));
    EXPECT_NE(from.at("pid"), to.at("pid"));
    EXPECT_LE(from.at("ts"), to.at("ts"));
    const auto* begin = within(from);
    const auto* end = within(to);
    ASSERT_NE(begin, nullptr) << from;
    ASSERT_NE(end, nullptr) << to;
    EXPECT_EQ((*begin)["args"]["group"], (*end)["args"]["group"]);
    const bool message = from.at("name") == "message";
    EXPECT_EQ((*begin)["name"], message ? "send" : "all-reduce") << from;
    EXPECT_EQ((*end)["name"], message ? "receive" : "all-reduce") << to;
    ++(message ? messages : sums);
  }
  size_t sends = 0, others = 0;
  for (const Instance& instance : job.instances) {
    const bool message = instance.members.size() == 2 &&
                         job.groups[instance.group].dimension == Dimension::kPipeline;
    ++(message ? sends : others);
  }
  EXPECT_EQ(messages, sends);
  EXPECT_EQ(sums, others);  // of two ranks each: one waits for the other
}

TEST_F(ReportTest, ComparisonNamesTheKernelsThatChanged) {
  GeneratorOptions slower;
  slower.layer_us *= 1.5;
  const ProfiledJob before = Load(Write(GeneratorOptions(), "a-"));
  const ProfiledJob after = Load(Write(slower, "b-"));
  const std::string text = CompareText(before, FindAll(before), after, FindAll(after));
  // A layer's backward product takes 1.2 x 600 us of which half more; 16 a step.
  EXPECT_THAT(text, HasSubstr("+5.760 ms    11.520 ->   17.280 ms  nvjet_tst_256x128_64x4_NTN"));
}

TEST_F(ReportTest, WarningsAreInTheTextAndInTheJson) {
  ProfiledJob job = Load(Write(Slow(), ""));
  job.warnings.emplace_back("some steps are left out");
  const Findings findings = FindAll(job);
  EXPECT_THAT(SummaryText(job, findings, {}), HasSubstr("Note:     some steps are left out\n"));
  const auto reported = ReportJson(job, findings, {})["warnings"];
  ASSERT_EQ(reported.size(), job.warnings.size());
  EXPECT_EQ(reported.back(), "some steps are left out");
}

TEST_F(ReportTest, AMissingRankAndADoubleOneAreReported) {
  std::vector<std::string> paths = Write(Slow(), "");
  paths.erase(paths.begin() + 3);
  EXPECT_THAT(Load(paths).missing_ranks, ElementsAre(3));
  paths.push_back(paths.front());
  const auto twice = AssembleJob(ReadJob(paths, {}).value().ranks);
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.status().message(), HasSubstr("rank 0 is there twice"));
}

}  // namespace
}  // namespace longhaul::profiler
