#include "planner/time/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace longhaul::planner {
namespace {

Evaluation TwoStages(uint32_t micro_batches) {
  Evaluation evaluation;
  evaluation.stages.resize(2);
  for (StageEvaluation& stage : evaluation.stages) {
    stage.forward = Seconds(1);
    stage.backward = Seconds(2);
  }
  evaluation.micro_batches = micro_batches;
  evaluation.breakdown.optimizer = Seconds(0.5);
  return evaluation;
}

TEST(ChromeTrace, HasEveryTaskOnceAndTheOptimizerLast) {
  spec::Training training;
  training.layout.pipeline = 2;
  const nlohmann::json trace = nlohmann::json::parse(ChromeTrace(training, TwoStages(4)));
  std::map<int, double> end_us;
  int tasks = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "kernel") continue;
    ++tasks;
    double& end = end_us[event["tid"].get<int>()];
    EXPECT_GE(event["ts"].get<double>(), end - 1e-3);
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(tasks, 2 * (4 * 2 + 1));
  // Four micro-batches of 3 s, the other stage's 3 s to fill and drain, the optimizer.
  EXPECT_NEAR(end_us[0], 15.5e6, 1);
  const auto& step = trace["traceEvents"].back();
  EXPECT_EQ(step["name"], "ProfilerStep#1");
  EXPECT_EQ(step["dur"].get<double>(), std::max(end_us[0], end_us[1]));
}

TEST(ChromeTrace, IsAnEmptyDocumentWithoutStages) {
  const nlohmann::json trace = nlohmann::json::parse(ChromeTrace({}, {}));
  EXPECT_TRUE(trace["traceEvents"].empty());
}

TEST(ChromeTrace, ShowsTheBeginningOfALongStep) {
  spec::Training training;
  training.layout.pipeline = 2;
  const std::string trace = ChromeTrace(training, TwoStages(1'000'000));
  EXPECT_NE(trace.find("first micro-batches only"), std::string::npos);
  EXPECT_LT(trace.size(), 20'000'000u);
}

}  // namespace
}  // namespace longhaul::planner
