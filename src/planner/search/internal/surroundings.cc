#include "planner/search/internal/surroundings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "planner/memory/memory_model.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search::internal {
namespace {

using spec::Training;

double TokensPerSecond(const Proposal& proposal) {
  return proposal.evaluation.tokens_per_second_per_device *
         static_cast<double>(proposal.cluster.devices);
}

std::string Scaled(std::string_view key, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value);
  return std::string(key) + "=" + text;
}

// A change down and one up; an empty one is skipped.
struct Pair {
  std::string what;
  std::string down;
  std::string up;
};

Pair Figure(std::string_view what, std::string_view key, double value) {
  return {std::string(what) + " 25 % slower / faster", Scaled(key, 0.75 * value),
          Scaled(key, 1.25 * value)};
}

Pair Size(std::string_view what, std::string_view key, uint32_t value) {
  const std::string name(key);
  return {std::string(what) + " " + std::to_string(value) +
              (value > 1 ? ", halved / doubled" : " doubled"),
          value > 1 ? name + "=" + std::to_string(value / 2) : "",
          name + "=" + std::to_string(value * 2)};
}

std::vector<Pair> ChangesOf(const Proposal& best) {
  const spec::DeviceCluster& cluster = best.cluster;
  const spec::Layout& layout = best.training.layout;
  constexpr double kGiga = 1e9;
  std::vector<Pair> pairs = {
      Figure("network", "network.gb_per_s", cluster.network.per_device.count() / kGiga),
      Figure("GPU memory", "memory_gb_per_s", cluster.device.memory_bandwidth.count() / kGiga),
      Size("tensor", "tensor", layout.tensor),
      Size("pipeline", "pipeline", layout.pipeline),
      Size("context", "context", layout.context),
      Size("micro batch", "micro", best.training.batch.micro),
      Size("global batch", "batch", best.training.batch.global),
      {"leaf switches 2:1 oversubscribed", "network.leaf_oversubscription=2", ""},
      {"everything recomputed", "recompute=full", ""},
  };
  if (cluster.device.island_bandwidth > BytesPerSecond(0)) {
    pairs.push_back(
        Figure("NVLink", "island_gb_per_s", cluster.device.island_bandwidth.count() / kGiga));
  }
  if (layout.virtual_pipeline > 1) {
    pairs.push_back({"no interleaving", "virtual_pipeline=1", ""});
  }
  return pairs;
}

}  // namespace

std::vector<Influence> InfluencesOf(const PlanRequest& job, const Proposal& best,
                                    const PlanOptions& options) {
  std::vector<Influence> influences;
  const double now = TokensPerSecond(best);
  for (const Pair& pair : ChangesOf(best)) {
    Influence influence{pair.what, 0, 0};
    for (auto& [change, effect] :
         {std::pair(&pair.down, &influence.low), std::pair(&pair.up, &influence.high)}) {
      if (change->empty()) continue;
      const Result<Proposal> changed = WhatIf(job, best, *change, options);
      // What cannot run has no bar.
      if (changed.ok() && changed->evaluation.fits) *effect = TokensPerSecond(*changed) / now - 1;
    }
    if (std::abs(influence.low) + std::abs(influence.high) > 1e-4) influences.push_back(influence);
  }
  // Stable, so that equal bars stay in the order of `ChangesOf` on each standard library.
  std::stable_sort(influences.begin(), influences.end(),
                   [](const Influence& a, const Influence& b) {
                     return std::max(std::abs(a.low), std::abs(a.high)) >
                            std::max(std::abs(b.low), std::abs(b.high));
                   });
  return influences;
}

namespace {

constexpr uint32_t kMostStagesDrawn = 64;
constexpr uint64_t kMostTasksDrawn = 6'000;

// A stage's bytes: what is always there, and each micro-batch's activations, which grow over its
// forward and go over its backward. The tasks of a stage follow each other.
MemoryCurve CurveOf(const StageEvaluation& stage, uint32_t index,
                    const std::vector<PipelineTask>& tasks, uint32_t chunks) {
  const MemoryBreakdown& memory = stage.memory;
  const double held = std::max(1u, stage.micro_batches_held);
  const double one = static_cast<double>(memory.activations.count()) / held / chunks;
  const auto transient = static_cast<double>(memory.transient.count());
  double bytes =
      static_cast<double>((memory.total() - memory.activations - memory.transient).count());
  MemoryCurve curve;
  curve.stage = index;
  curve.points.emplace_back(0, bytes);
  for (const PipelineTask& task : tasks) {
    if (task.stage != index || task.pass == PassKind::kWeightGradient) continue;
    const bool forward = task.pass == PassKind::kForward;
    curve.points.emplace_back(task.start_s, bytes);
    if (!forward) curve.points.emplace_back(task.start_s, bytes + transient);
    bytes += forward ? one : -one;
    if (!forward) curve.points.emplace_back(task.end_s, bytes + transient);
    curve.points.emplace_back(task.end_s, bytes);
  }
  return curve;
}

}  // namespace

std::optional<Timeline> TimelineOf(const PlanRequest& job, const Proposal& best) {
  const spec::Layout& layout = best.training.layout;
  if (layout.schedule == spec::PipelineSchedule::kDualPipe) return std::nullopt;
  if (layout.pipeline > kMostStagesDrawn) return std::nullopt;
  static_cast<void>(job);
  std::vector<StageTime> times;
  for (const StageEvaluation& stage : best.evaluation.stages) {
    // A third of forward and backward: where the schedule splits backward it is its half.
    times.push_back({stage.forward.count(), stage.backward.count(), stage.backward.count() / 2});
  }
  Timeline timeline;
  // Tasks of one micro-batch: a forward and a backward on each chunk of each stage. Enough
  // micro-batches are drawn to show filling, a steady part and draining, within the limit on tasks;
  // interleaving needs whole groups of as many micro-batches as stages.
  const uint64_t each = uint64_t{2} * layout.pipeline * layout.virtual_pipeline;
  uint64_t micro = std::min<uint64_t>(best.evaluation.micro_batches, 2ull * layout.pipeline + 4);
  micro = std::min(micro, std::max<uint64_t>(layout.pipeline, kMostTasksDrawn / each));
  if (layout.virtual_pipeline > 1) micro -= micro % layout.pipeline;
  micro = std::max<uint64_t>(1, micro);
  PipelineShape shape;
  shape.schedule = layout.schedule;
  shape.virtual_pipeline = layout.virtual_pipeline;
  shape.micro_batches = static_cast<double>(micro);
  timeline.micro_batches = static_cast<uint32_t>(micro);
  timeline.tasks = SimulatePipeline(times, shape);
  for (const PipelineTask& task : timeline.tasks) {
    timeline.seconds = std::max(timeline.seconds, task.end_s);
  }
  const uint32_t chunks =
      layout.schedule == spec::PipelineSchedule::kZeroBubbleV ? 2 : layout.virtual_pipeline;
  for (uint32_t i = 0; i < best.evaluation.stages.size(); ++i) {
    timeline.memory.push_back(CurveOf(best.evaluation.stages[i], i, timeline.tasks, chunks));
  }
  return timeline;
}

}  // namespace longhaul::planner::search::internal
