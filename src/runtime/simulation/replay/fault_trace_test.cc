#include "runtime/simulation/replay/fault_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/simulation/replay/published.h"

namespace longhaul::runtime::simulation {
namespace {

using testing::HasSubstr;

const TraceLimits kLimits = {8, std::chrono::hours(24)};
constexpr std::string_view kHead = "t,cause,node,scope,silent,notice_s,repair_s\n";

std::map<std::string, int> CountsOf(const std::vector<TracedFault>& trace) {
  std::map<std::string, int> counts;
  for (const TracedFault& fault : trace) ++counts[fault.cause];
  return counts;
}

TEST(PublishedCauses, SumToThePublishedTotals) {
  int unexpected = 0;
  for (const PublishedCause& cause : kPublishedCauses) {
    if (cause.name != "planned-maintenance") unexpected += cause.count;
  }
  EXPECT_EQ(unexpected, kPublishedUnexpected);
  EXPECT_EQ(unexpected + kPublishedPlanned, 466);
}

TEST(GenerateFaultTrace, HasThePublishedCountsForEverySeedAndOption) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TraceOptions options;
    if (seed % 2 == 0) options.weibull = kWeibullShape;
    options.lemons = seed % 3 == 0;
    options.racks = seed % 4 == 0;
    options.offenders = seed % 5 == 0 ? kOffenders : 0;
    const auto trace = GenerateFaultTrace(options, seed);
    const auto counts = CountsOf(trace);
    for (const PublishedCause& cause : kPublishedCauses) {
      EXPECT_EQ(counts.at(std::string(cause.name)), cause.count) << cause.name << ", seed " << seed;
    }
    for (size_t i = 0; i < trace.size(); ++i) {
      EXPECT_TRUE(i == 0 || trace[i - 1].at <= trace[i].at);
      EXPECT_GT(trace[i].at, Duration(0));
      EXPECT_LT(trace[i].at, options.length);
      EXPECT_GE(trace[i].node, 1u);
      EXPECT_LE(trace[i].node, options.nodes);
    }
  }
}

TEST(GenerateFaultTrace, IsAFunctionOfTheSeed) {
  EXPECT_EQ(GenerateFaultTrace({}, 7), GenerateFaultTrace({}, 7));
  EXPECT_NE(GenerateFaultTrace({}, 7), GenerateFaultTrace({}, 8));
}

TEST(GenerateFaultTrace, ScalesTheCountsByTheFactorAndTheLength) {
  TraceOptions options;
  options.factor = 2;
  EXPECT_EQ(CountsOf(GenerateFaultTrace(options, 1)).at("gpu"), 296);
  options.length = kPublishedLength / 2;
  EXPECT_EQ(CountsOf(GenerateFaultTrace(options, 1)).at("gpu"), 148);
}

TEST(GenerateFaultTrace, SplitsACauseBySharesThatAreTheSameForAllSeeds) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    int hangs = 0, lasting = 0, crashes = 0;
    for (const TracedFault& fault : GenerateFaultTrace({}, seed)) {
      if (fault.cause != "gpu") continue;
      hangs += fault.silent;
      lasting += fault.silent && fault.repair > Duration(0);
      crashes += fault.scope == FaultScope::kNode && fault.repair == kRepair;
    }
    EXPECT_EQ(hangs, 30);   // 20 % of 148
    EXPECT_EQ(lasting, 6);  // 20 % of 30
    EXPECT_EQ(crashes, 118);
  }
}

TEST(GenerateFaultTrace, LemonsAndRepeatOffendersGatherFailuresOnFewPlaces) {
  const auto most_on = [](const TraceOptions& options) {
    std::map<uint32_t, int> by_place;
    for (const TracedFault& fault : GenerateFaultTrace(options, 3)) ++by_place[fault.node];
    return by_place.size();
  };
  TraceOptions lemons, offenders;
  lemons.lemons = true;
  offenders.offenders = 0.5;
  const size_t plain = most_on({});
  EXPECT_GT(plain, 380u);  // 466 of 2,048 places, hardly any of them twice
  EXPECT_LT(most_on(lemons), plain - 40);
  EXPECT_LT(most_on(offenders), plain - 100);
}

// Times of shape 0.7 come in groups: their gaps vary more than the uniform times' do.
TEST(GenerateFaultTrace, WeibullTimesComeInGroups) {
  const auto variation = [](double shape) {
    TraceOptions options;
    options.weibull = shape;
    double sum = 0, squares = 0, count = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const auto trace = GenerateFaultTrace(options, seed);
      for (size_t i = 1; i < trace.size(); ++i) {
        const double gap = ToSeconds(trace[i].at - trace[i - 1].at);
        sum += gap;
        squares += gap * gap;
        ++count;
      }
    }
    const double mean = sum / count;
    return std::sqrt(squares / count - mean * mean) / mean;
  };
  EXPECT_NEAR(variation(1), 1.0, 0.08);
  EXPECT_NEAR(variation(0.7), 1.46, 0.15);  // of the distribution: 1.462
}

TEST(FormatFaultTrace, IsReadAsTheSameTrace) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    TraceOptions options;
    options.racks = seed % 2 == 0;
    const auto trace = GenerateFaultTrace(options, seed);
    const auto again =
        ParseFaultTrace(FormatFaultTrace(trace), "t.csv", {options.nodes, options.length});
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, trace);
  }
}

TEST(ParseFaultTrace, ReadsEveryField) {
  const auto trace = ParseFaultTrace(std::string(kHead) + "1.25,fan-3,8,slow-device,0,600,5400.5\n",
                                     "t.csv", kLimits);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  const TracedFault expected{std::chrono::milliseconds(1250),
                             "fan-3",
                             8,
                             FaultScope::kSlowDevice,
                             false,
                             std::chrono::seconds(600),
                             std::chrono::milliseconds(5'400'500)};
  EXPECT_THAT(*trace, testing::ElementsAre(expected));
}

TEST(ParseFaultTrace, NamesLineColumnAndValueOfWhatItRefuses) {
  const struct {
    std::string_view line;
    std::string_view error;
  } kRows[] = {
      {"x,a,1,process,0,0,0", "t.csv:3:1: t: 'x' is not a number"},
      {"-1,a,1,process,0,0,0", "t.csv:3:1: t: -1 is out of range: 0 to 86,400"},
      {"nan,a,1,process,0,0,0", "t.csv:3:1: t: "},
      {"86401,a,1,process,0,0,0", "t.csv:3:1: t: 86401 is out of range"},
      {"3,a,1,process,0,0,0", "t.csv:3:1: t: 3 is before the 5 of the line above"},
      {"6,A b,1,process,0,0,0", "t.csv:3:3: cause: 'A b' is not a name"},
      {"6,,1,process,0,0,0", "t.csv:3:3: cause: '' is not a name"},
      {"6,a,0,process,0,0,0", "t.csv:3:5: node: 0 is out of range: 1 to 8"},
      {"6,a,9,process,0,0,0", "t.csv:3:5: node: 9 is out of range: 1 to 8"},
      {"6,a,1,galaxy,0,0,0", "t.csv:3:7: scope: 'galaxy' is not a scope; use one of process, "},
      {"6,a,1,process,yes,0,0", "t.csv:3:15: silent: 'yes' is not a whole number"},
      {"6,a,1,process,2,0,0", "t.csv:3:15: silent: 2 is out of range: 0 to 1"},
      {"6,a,1,process,0,60,0", "t.csv:3:17: notice_s: 60 for scope process; use 0"},
      {"6,a,1,process,0,0,60", "t.csv:3:19: repair_s: 60 for scope process; use 0"},
      {"6,a,1,node,0,0,0", "t.csv:3:16: repair_s: 0 for scope node; give the time"},
      {"6,a,1,node,1,60,60", "t.csv:3:12: silent: 1 for a failure that announces itself"},
      {"6,a,1,state,0,0,60", "t.csv:3:17: repair_s: 60 for scope state that is not silent"},
      {"6,a,1,node,0,0,1e300", "t.csv:3:16: repair_s: 1e300 is out of range: 0 to 2,592,000"},
      {"6,a,1,node,0,0", "t.csv:3:15: the row has 6 fields where the header has 7"},
  };
  for (const auto& row : kRows) {
    const std::string text = std::string(kHead) + "5,a,1,process,0,0,0\n" + std::string(row.line);
    const auto trace = ParseFaultTrace(text, "t.csv", kLimits);
    ASSERT_FALSE(trace.ok()) << row.line;
    EXPECT_EQ(trace.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(trace.status().message(), HasSubstr(std::string(row.error))) << row.line;
  }
}

TEST(ParseFaultTrace, RefusesOtherHeadersAndAcceptsAnEmptyTrace) {
  for (const std::string_view header :
       {"", "t,cause", "cause,t,node,scope,silent,notice_s,repair_s",
        "t,cause,node,scope,silent,notice_s,repair_s,more"}) {
    const auto trace = ParseFaultTrace(header, "t.csv", kLimits);
    ASSERT_FALSE(trace.ok()) << header;
    EXPECT_THAT(trace.status().message(), HasSubstr("t.csv:1:1: the header is "));
  }
  const auto none = ParseFaultTrace(kHead, "t.csv", kLimits);
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace longhaul::runtime::simulation
