// The cost of bitwise mode: the CPU time of training steps of one process with the model of
// examples/headers-gpt.yaml, in f32, in turns.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "training/conformance/compare.h"
#include "training/thread_communicator.h"

namespace longhaul::training {
namespace {

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Variant {
  std::string name;
  std::string layout;
  bool bitwise = false;
  std::unique_ptr<Trainer> trainer = nullptr;
  std::vector<double> seconds = {};
};

Exercise Model() {
  Exercise exercise;
  spec::Model& shape = exercise.config.shape;
  shape.layers = 4;
  shape.hidden = 128;
  shape.ffn_hidden = 512;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 32;
  shape.vocabulary = 257;
  shape.sequence_length = 128;
  shape.bias = shape.qkv_bias = true;
  exercise.options.global_batch = 8;
  exercise.options.clip = 1;
  return exercise;
}

void Measure(CommunicatorMaker& maker) {
  constexpr uint64_t kWarm = 3;
  constexpr uint64_t kSteps = 30;
  Exercise exercise = Model();
  std::vector<Variant> variants;
  variants.push_back({"8 sequences a pass", "dp1", false});
  variants.push_back({"1 sequence a pass", "mb8", false});
  variants.push_back({"bitwise mode", "dp1", true});
  for (Variant& variant : variants) {
    exercise.options.bitwise = variant.bitwise;
    auto trainer =
        Trainer::Create(exercise.config, *ParseLayout(variant.layout), exercise.options, 0, maker);
    CHECK(trainer.ok()) << trainer.status().message();
    variant.trainer = std::move(*trainer);
  }
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const Batch batch = BatchOf(exercise, step);
    for (Variant& variant : variants) {
      const double begin = CpuSeconds();
      CHECK(variant.trainer->Step(step, batch).ok());
      if (step > kWarm) variant.seconds.push_back(CpuSeconds() - begin);
    }
  }
  double first = 0;
  for (Variant& variant : variants) {
    std::sort(variant.seconds.begin(), variant.seconds.end());
    const double median = variant.seconds[variant.seconds.size() / 2];
    if (first == 0) first = median;
    std::printf("%-20s %8.1f ms a step, %.3f of the first\n", variant.name.c_str(), 1e3 * median,
                median / first);
  }
}

}  // namespace
}  // namespace longhaul::training

int main() {
  at::set_num_threads(1);
  const std::string failure = longhaul::training::RunThreads(
      1, std::chrono::seconds(60), [](uint32_t, longhaul::training::CommunicatorMaker& maker) {
        longhaul::training::Measure(maker);
      });
  if (!failure.empty()) std::fprintf(stderr, "%s\n", failure.c_str());
  return failure.empty() ? 0 : 1;
}
