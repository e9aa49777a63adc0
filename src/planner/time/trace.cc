#include "planner/time/trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "planner/time/simulate.h"

namespace longhaul::planner {

namespace {

using nlohmann::json;

constexpr double kMostTasks = 50'000;  // what a browser shows without waiting

// In the category of what a device does, so that readers of real traces count it as work.
json Event(const std::string& name, uint32_t thread, double start_s, double seconds) {
  return {{"name", name},  {"cat", "kernel"},     {"ph", "X"},           {"pid", 0},
          {"tid", thread}, {"ts", start_s * 1e6}, {"dur", seconds * 1e6}};
}

// The object form, with a step's annotation on a thread of its own and a rank, as Kineto writes.
std::string Document(json events, double step_s) {
  constexpr uint32_t kHostThread = 1'000'000;  // beyond any stage
  if (step_s > 0) {
    json step = Event("ProfilerStep#1", kHostThread, 0, step_s);
    step["cat"] = "user_annotation";
    events.push_back(std::move(step));
  }
  const json document = {{"schemaVersion", 1},
                         {"distributedInfo", {{"rank", 0}, {"world_size", 1}}},
                         {"traceEvents", std::move(events)}};
  return document.dump();
}

json Label(const char* what, uint32_t thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 0}, {"tid", thread}, {"args", {{"name", name}}}};
}

const char* PassName(PassKind pass) {
  switch (pass) {
    case PassKind::kForward:
      return "forward";
    case PassKind::kBackward:
      return "backward";
    case PassKind::kWeightGradient:
      break;
  }
  return "weight gradient";
}

PipelineShape ShapeOf(const spec::Training& training, const Evaluation& evaluation) {
  PipelineShape shape;
  shape.schedule = training.layout.schedule;
  // Its two directions share ranks, which no single order shows; 1F1B has the same tasks.
  if (shape.schedule == spec::PipelineSchedule::kDualPipe) {
    shape.schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  }
  shape.virtual_pipeline = training.layout.virtual_pipeline;
  const double chunks = static_cast<double>(evaluation.stages.size()) * shape.virtual_pipeline;
  const double most = std::max(1.0, kMostTasks / (3 * chunks));
  shape.micro_batches = std::min<double>(std::max(1u, evaluation.micro_batches), std::floor(most));
  const double messages = 2 * shape.virtual_pipeline * std::max(1.0, shape.micro_batches);
  if (evaluation.stages.size() > 1) {
    shape.send_s = evaluation.breakdown.pipeline_exposed.count() / messages * shape.micro_batches /
                   std::max(1u, evaluation.micro_batches);
  }
  return shape;
}

}  // namespace

std::string ChromeTrace(const spec::Training& training, const Evaluation& evaluation) {
  std::vector<StageTime> stages;
  for (const StageEvaluation& stage : evaluation.stages) {
    const double backward = stage.backward.count();
    stages.push_back({stage.forward.count(), backward, backward / 2});
  }
  json events = json::array();
  if (stages.empty()) return Document(std::move(events), 0);
  const PipelineShape shape = ShapeOf(training, evaluation);
  const bool cut = shape.micro_batches < evaluation.micro_batches;
  events.push_back(Label("process_name", 0,
                         cut ? "predicted step, first micro-batches only" : "predicted step"));
  for (uint32_t i = 0; i < stages.size(); ++i) {
    events.push_back(Label("thread_name", i, "stage " + std::to_string(i)));
  }
  std::vector<double> ends(stages.size(), 0);
  for (const PipelineTask& task : SimulatePipeline(stages, shape)) {
    const std::string name = std::string(PassName(task.pass)) + " " +
                             std::to_string(task.micro_batch) + " chunk " +
                             std::to_string(task.chunk);
    events.push_back(Event(name, task.stage, task.start_s, task.end_s - task.start_s));
    ends[task.stage] = std::max(ends[task.stage], task.end_s);
  }
  const StepBreakdown& b = evaluation.breakdown;
  // Sharded parameters are paid for with every micro-batch, inside the stages' times.
  const Seconds traffic = training.layout.zero_stage >= 3 ? Seconds(0) : b.data_exposed;
  const std::pair<const char*, Seconds> kTails[] = {{"nccl data parallel traffic", traffic},
                                                    {"optimizer", b.optimizer}};
  for (uint32_t i = 0; i < stages.size(); ++i) {
    for (const auto& [name, seconds] : kTails) {
      if (!(seconds.count() > 0)) continue;
      events.push_back(Event(name, i, ends[i], seconds.count()));
      ends[i] += seconds.count();
    }
  }
  return Document(std::move(events), *std::max_element(ends.begin(), ends.end()));
}

}  // namespace longhaul::planner
