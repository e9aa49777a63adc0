// Each optimizer beside a probe: the reads and writes of the same streams without any other work,
// or the matrix products alone. A written stream is read before.
//
// Kernel and probe run in turns, in CPU time. A line has the medians of both and the median of the
// ratios of the pairs: 1 means that the kernel takes as long as its probe.
//   optimizer_bench [--pairs N] [NAME...]      NAME: part of the name of a row
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "optimizer/adafactor.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw8.h"
#include "optimizer/agd.h"
#include "optimizer/group_lasso.h"
#include "optimizer/lion.h"
#include "optimizer/vectorised.h"

namespace longhaul::optimizer {
namespace {

// Eight times the last level of the cache for the five streams together, so that no part of them
// stays in it, and at most a fourth of the memory. A multiple of the columns and of a block.
size_t CountOfStreams() {
  constexpr size_t kUnit = size_t{1} << 20;
  const auto cache = static_cast<size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 32L << 20));
  const auto memory =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = std::min(8 * cache, memory / 4);
  return std::max<size_t>(1, bytes / (5 * sizeof(float)) / kUnit) * kUnit;
}

constexpr size_t kColumns = 64;  // of an embedding

struct Streams {
  explicit Streams(size_t count)
      : weights(count, 0.5F),
        gradients(count, 1e-3F),
        first(count, 1e-3F),
        second(count, 1e-6F),
        third(count, -1.0F) {}

  std::vector<float> weights, gradients, first, second, third;
};

Step StepOf(uint64_t number) {
  Step step;
  step.number = number;
  step.rate = 1e-4;
  step.decay = 0.1;
  return step;
}

// Adds b to each of the written streams.
template <typename... Written>
[[gnu::always_inline]] inline void Touch(size_t count, const float* __restrict b,
                                         Written* __restrict... written) {
  for (size_t i = 0; i < count; ++i) ((written[i] += b[i]), ...);
}
LONGHAUL_VECTORISED
void Touch2(size_t count, const float* __restrict b, float* __restrict a, float* __restrict c) {
  Touch(count, b, a, c);
}
LONGHAUL_VECTORISED
void Touch3(size_t count, const float* __restrict b, float* __restrict a, float* __restrict c,
            float* __restrict d) {
  Touch(count, b, a, c, d);
}
LONGHAUL_VECTORISED
void Touch4(size_t count, const float* __restrict b, float* __restrict a, float* __restrict c,
            float* __restrict d, float* __restrict e) {
  Touch(count, b, a, c, d, e);
}

// The streams of AdamW8: two of floats, one of them written, and two of bytes, both written.
LONGHAUL_VECTORISED
void TouchCodes(size_t count, const float* __restrict b, float* __restrict a, uint8_t* __restrict c,
                uint8_t* __restrict d) {
  constexpr size_t kChunk = 64;
  for (size_t at = 0; at + kChunk <= count; at += kChunk) {
    for (size_t i = at; i < at + kChunk; ++i) a[i] += b[i];
    for (size_t i = at; i < at + kChunk; ++i) c[i] = static_cast<uint8_t>(c[i] + 1);
    for (size_t i = at; i < at + kChunk; ++i) d[i] = static_cast<uint8_t>(d[i] + 1);
  }
}

// The streams of Adafactor: its means are known after all gradients were read, and the size of a
// step after all of them were read again with the weights.
LONGHAUL_VECTORISED
float TouchThreeTimes(size_t count, const float* __restrict g, float* __restrict w) {
  std::array<float, kBlock> sums = {};
  for (size_t at = 0; at + kBlock <= count; at += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) sums[i] += g[at + i];
  }
  for (size_t at = 0; at + kBlock <= count; at += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) sums[i] += g[at + i] + w[at + i];
  }
  Touch(count, g, w);
  return sums[0];
}

double CpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Measures pairs, and prints a line for those that were asked for.
class Table {
 public:
  Table(int pairs, std::vector<std::string> names) : pairs_(pairs), names_(std::move(names)) {}

  bool Wants(const std::string& name) const {
    return names_.empty() || std::any_of(names_.begin(), names_.end(), [&](const auto& part) {
             return name.find(part) != std::string::npos;
           });
  }

  void Row(const std::string& name, const std::function<void()>& kernel,
           const std::function<void()>& probe) const {
    if (!Wants(name)) return;
    std::vector<double> kernels, probes, ratios;
    kernel();
    probe();
    for (int pair = 0; pair < pairs_; ++pair) {
      // The first one of a pair alternates.
      const bool probe_first = pair % 2 == 1;
      const double begin = CpuSeconds();
      (probe_first ? probe : kernel)();
      const double middle = CpuSeconds();
      (probe_first ? kernel : probe)();
      const double end = CpuSeconds();
      kernels.push_back(probe_first ? end - middle : middle - begin);
      probes.push_back(probe_first ? middle - begin : end - middle);
      ratios.push_back(probes.back() / kernels.back());
    }
    double load = 0;
    getloadavg(&load, 1);
    std::printf("%-22s %10.1f ms %10.1f ms %8.2f %8.2f\n", name.c_str(), 1e3 * Median(kernels),
                1e3 * Median(probes), Median(ratios), load);
    std::fflush(stdout);
  }

 private:
  int pairs_;
  std::vector<std::string> names_;
};

void MeasureElementwise(const Table& table, Streams& s) {
  const size_t count = s.weights.size();
  uint64_t number = 0;
  const auto probe2 = [&] {
    Touch3(count, s.gradients.data(), s.weights.data(), s.first.data(), s.second.data());
  };
  table.Row(
      "AdamW",
      [&] { Update(AdamW{}, StepOf(++number), s.weights, s.gradients, s.first, s.second); },
      probe2);
  table.Row(
      "AGD", [&] { Update(Agd{}, StepOf(++number), s.weights, s.gradients, s.first, s.second); },
      probe2);
  table.Row(
      "Lion", [&] { Update(Lion{}, StepOf(++number), s.weights, s.gradients, s.first); },
      [&] { Touch2(count, s.gradients.data(), s.weights.data(), s.first.data()); });
  if (!table.Wants("AdamW8")) return;
  std::vector<uint8_t> codes1(count, 127), codes2(count);
  std::vector<float> scales1(BlocksOf(AdamW8{}, count)), scales2 = scales1;
  table.Row(
      "AdamW8",
      [&] {
        Update(AdamW8{}, StepOf(++number), s.weights, s.gradients, {codes1, scales1},
               {codes2, scales2});
      },
      [&] {
        TouchCodes(count, s.gradients.data(), s.weights.data(), codes1.data(), codes2.data());
      });
}

void MeasureGroups(const Table& table, Streams& s) {
  const size_t count = s.weights.size();
  uint64_t number = 0;
  GroupAdam adam;
  adam.penalties.l21 = 1e-3;
  table.Row(
      "group Adam",
      [&] {
        Update(adam, StepOf(++number), kColumns, s.weights, s.gradients, s.first, s.second,
               s.third);
      },
      [&] {
        Touch4(count, s.gradients.data(), s.weights.data(), s.first.data(), s.second.data(),
               s.third.data());
      });
  GroupAdaGrad adagrad;
  adagrad.penalties.l21 = 1e-3;
  table.Row(
      "group AdaGrad",
      [&] { Update(adagrad, StepOf(1), kColumns, s.weights, s.gradients, s.second, s.third); },
      [&] {
        Touch3(count, s.gradients.data(), s.weights.data(), s.second.data(), s.third.data());
      });
  constexpr size_t kWidth = 4096;
  std::vector<float> state(StateOf(Adafactor{}, count / kWidth, kWidth));
  float sink = 0;
  table.Row(
      "Adafactor",
      [&] {
        Update(Adafactor{}, StepOf(++number), count / kWidth, kWidth, s.weights, s.gradients,
               state);
      },
      [&] { sink += TouchThreeTimes(count, s.gradients.data(), s.weights.data()); });
  if (sink == 1) std::puts("");  // the sums are used
}

void Main(int pairs, const std::vector<std::string>& names) {
  const Table table(pairs, names);
  Streams streams(CountOfStreams());
  std::printf("streams of %zu MiB, %d pairs, CPU time\n", (streams.weights.size() * 4) >> 20,
              pairs);
  std::printf("%-22s %13s %13s %8s %8s\n", "optimizer", "step", "probe", "rate", "load");
  MeasureElementwise(table, streams);
  MeasureGroups(table, streams);
}

}  // namespace
}  // namespace longhaul::optimizer

int main(int argc, char** argv) {
  int pairs = 7;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--pairs") == 0 && i + 1 < argc) {
      pairs = std::max(1, std::atoi(argv[++i]));
    } else {
      names.emplace_back(argv[i]);
    }
  }
  longhaul::optimizer::Main(pairs, names);
}
