#include "bin/tools/replay/replay_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace longhaul::bin {
namespace {

using runtime::simulation::kBaselines;
using runtime::simulation::LossPart;
using runtime::simulation::TimeParts;
using testing::HasSubstr;
using testing::Not;

TimeParts PartsWith(double productive, double lost) {
  TimeParts parts;
  parts[LossPart::kProductive] = productive;
  parts[LossPart::kLostWork] = lost;
  return parts;
}

ReplayOutcome Outcome(uint64_t seed, double productive) {
  ReplayOutcome outcome;
  outcome.seed = seed;
  outcome.failures = 2;
  outcome.parts = PartsWith(productive, 1000 - productive);
  outcome.result.causes["gpu"] = {2, std::chrono::seconds(20)};
  outcome.result.causes["hbm"] = {0, std::chrono::seconds(0)};
  for (size_t i = 0; i < kBaselines.size(); ++i) {
    outcome.baselines.push_back(PartsWith(900, 100));
  }
  return outcome;
}

TEST(ReplayReport, EveryHeadlineSaysSimulatedAndGivesMedianAndRange) {
  const std::string text = ReplayTables({Outcome(1, 980), Outcome(2, 990), Outcome(3, 970)});
  EXPECT_THAT(text, HasSubstr("Simulated effective training time over 3 seeds: median 98.00 %, "
                              "from 97.00 to 99.00 %"));
  EXPECT_THAT(text, HasSubstr("Simulated loss by cause"));
  EXPECT_THAT(text, HasSubstr("Simulated effective time and loss by part"));
  // 20 s for 2 failures; 20 of 1,000 s.
  EXPECT_THAT(text,
              HasSubstr("gpu                               2.0           10.0            2.000"));
  for (const auto& system : kBaselines) EXPECT_THAT(text, HasSubstr(std::string(system.name)));
}

TEST(ReplayReport, JsonHasThePartsOfEverySystemAndSaysSimulated) {
  const auto json = nlohmann::json::parse(ReplayJson(Outcome(7, 980)));
  EXPECT_TRUE(json["simulated"].get<bool>());
  EXPECT_EQ(json["seed"], 7);
  EXPECT_DOUBLE_EQ(json["longhaul"]["effective"].get<double>(), 0.98);
  EXPECT_DOUBLE_EQ(json["longhaul"]["seconds"]["lost work"].get<double>(), 20);
  EXPECT_EQ(json["models"].size(), kBaselines.size());
  EXPECT_EQ(json["causes"]["gpu"]["failures"], 2);
}

TEST(ReplayReport, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_DOUBLE_EQ(MedianOf({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(MedianOf({3, 1, 2}), 2);
}

const std::vector<VariantOutcome> kVariants = {{"", "", {0.98, 0.98}},
                                               {"small", "1 s", {0.979, 0.979}},
                                               {"big <&>", "10 s", {0.99, 0.99}},
                                               {"big <&>", "60 s", {0.95, 0.95}}};

TEST(SensitivityTable, ShowsTheChangeOfEachVariant) {
  const std::string text = SensitivityTable(kVariants);
  EXPECT_THAT(text, HasSubstr("98.00"));
  EXPECT_THAT(text, HasSubstr("95.00      -3.00"));
  EXPECT_THAT(text, HasSubstr("99.00      +1.00"));
}

TEST(SensitivitySvg, HasTheLongestBarFirstAndEscapesText) {
  const std::string svg = SensitivitySvg(kVariants, "Simulated title");
  EXPECT_THAT(svg, HasSubstr("Simulated title"));
  EXPECT_THAT(svg, HasSubstr("big &lt;&amp;&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<&>")));
  EXPECT_LT(svg.find("big &lt;"), svg.find(">small<"));
  EXPECT_THAT(svg, HasSubstr("60 s"));
}

}  // namespace
}  // namespace longhaul::bin
