// Evaluations a second on one core, as a search asks for them: every layout in turn of one job.
#include <benchmark/benchmark.h>

#include <vector>

#include "planner/evaluate.h"

namespace longhaul::planner {
namespace {

spec::Model Llama405B() {
  spec::Model model;
  model.layers = 126;
  model.hidden = 16384;
  model.ffn_hidden = 53248;
  model.heads = 128;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.vocabulary = 128256;
  model.sequence_length = 8192;
  model.gated_ffn = true;
  model.activation = spec::Activation::kSilu;
  model.normalization = spec::Normalization::kRms;
  model.position = spec::Position::kRope;
  return model;
}

spec::DeviceCluster Cluster(uint32_t devices) {
  spec::DeviceCluster cluster;
  cluster.device = *spec::FindDevice("h100-sxm");
  cluster.devices = devices;
  cluster.network.per_device = BytesPerSecond(50e9);
  return cluster;
}

std::vector<spec::Training> Layouts(uint32_t devices) {
  std::vector<spec::Training> layouts;
  for (const uint32_t tensor : {1u, 2u, 4u, 8u}) {
    for (const uint32_t pipeline : {4u, 8u, 9u, 16u}) {
      for (const uint32_t chunks : {1u, 2u, 7u}) {
        for (const uint32_t micro : {1u, 2u, 4u}) {
          for (const bool full : {false, true}) {
            spec::Training training;
            training.layout.tensor = tensor;
            training.layout.pipeline = pipeline;
            training.layout.virtual_pipeline = chunks;
            training.layout.data = devices / tensor / pipeline;
            training.layout.sequence_parallel = tensor > 1;
            training.layout.zero_stage = 1;
            training.batch = {4096, micro};
            if (full) training.recompute.kind = spec::RecomputeKind::kFull;
            training.software.framework = "megatron-core";
            layouts.push_back(training);
          }
        }
      }
    }
  }
  return layouts;
}

void EvaluateInFull(benchmark::State& state) {
  const auto layouts = Layouts(16'384);
  Evaluator evaluator(Llama405B(), Cluster(16'384), layouts[0].software);
  Evaluation out;
  size_t next = 0;
  for (auto _ : state) {
    evaluator.Evaluate(layouts[next], out);
    benchmark::DoNotOptimize(out.step);
    next = next + 1 < layouts.size() ? next + 1 : 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(EvaluateInFull);

void StepTimeAlone(benchmark::State& state) {
  const auto layouts = Layouts(16'384);
  Evaluator evaluator(Llama405B(), Cluster(16'384), layouts[0].software);
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluator.StepSeconds(layouts[next]));
    next = next + 1 < layouts.size() ? next + 1 : 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(StepTimeAlone);

}  // namespace
}  // namespace longhaul::planner

BENCHMARK_MAIN();
