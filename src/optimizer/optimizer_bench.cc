// Each optimizer beside a probe that moves the same streams: the bytes that it reads and writes
// through memory without any other work. `streams` counts the f32 streams of an element, read ones
// and written ones; a written stream is read before.
#include <benchmark/benchmark.h>

#include <vector>

#include "optimizer/adamw.h"
#include "optimizer/agd.h"
#include "optimizer/group_lasso.h"
#include "optimizer/lion.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

constexpr size_t kCount = size_t{16} << 20;  // 64 MiB a stream: no cache holds it

struct Streams {
  std::vector<float> weights = std::vector<float>(kCount, 0.5F);
  std::vector<float> gradients = std::vector<float>(kCount, 1e-3F);
  std::vector<float> first = std::vector<float>(kCount, 1e-3F);
  std::vector<float> second = std::vector<float>(kCount, 1e-6F);
  std::vector<float> third = std::vector<float>(kCount);
};

Streams& Shared() {
  static Streams streams;
  return streams;
}

Step StepOf(uint64_t number) {
  Step step;
  step.number = number;
  step.rate = 1e-4;
  step.decay = 0.1;
  return step;
}

void Count(benchmark::State& state, int read, int written) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kCount * sizeof(float)) * (read + written));
}

LONGHAUL_VECTORISED
void Touch3(float* __restrict a, const float* __restrict b, float* __restrict c) {
  for (size_t i = 0; i < kCount; ++i) {
    a[i] += b[i];
    c[i] += b[i];
  }
}

LONGHAUL_VECTORISED
void Touch4(float* __restrict a, const float* __restrict b, float* __restrict c,
            float* __restrict d) {
  for (size_t i = 0; i < kCount; ++i) {
    a[i] += b[i];
    c[i] += b[i];
    d[i] += b[i];
  }
}

void ProbeOf2States(benchmark::State& state) {
  Streams& s = Shared();
  for (auto unused : state) {
    Touch4(s.weights.data(), s.gradients.data(), s.first.data(), s.second.data());
  }
  Count(state, 4, 3);
}
BENCHMARK(ProbeOf2States);

void AdamWKernel(benchmark::State& state) {
  Streams& s = Shared();
  uint64_t number = 0;
  for (auto unused : state) {
    Update(AdamW{}, StepOf(++number), s.weights, s.gradients, s.first, s.second);
  }
  Count(state, 4, 3);
}
BENCHMARK(AdamWKernel);

void AgdKernel(benchmark::State& state) {
  Streams& s = Shared();
  uint64_t number = 0;
  for (auto unused : state) {
    Update(Agd{}, StepOf(++number), s.weights, s.gradients, s.first, s.second);
  }
  Count(state, 4, 3);
}
BENCHMARK(AgdKernel);

void ProbeOf1State(benchmark::State& state) {
  Streams& s = Shared();
  for (auto unused : state) Touch3(s.weights.data(), s.gradients.data(), s.first.data());
  Count(state, 3, 2);
}
BENCHMARK(ProbeOf1State);

void LionKernel(benchmark::State& state) {
  Streams& s = Shared();
  uint64_t number = 0;
  for (auto unused : state) Update(Lion{}, StepOf(++number), s.weights, s.gradients, s.first);
  Count(state, 3, 2);
}
BENCHMARK(LionKernel);

}  // namespace
}  // namespace longhaul::optimizer

BENCHMARK_MAIN();
