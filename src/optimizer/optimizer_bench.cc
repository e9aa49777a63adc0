// Each optimizer beside a probe: the reads and writes of the same streams without any other work,
// or the matrix products alone. A written stream is read before.
//
// Kernel and probe run in turns, in CPU time. A line has the medians of both and the median of the
// ratios of the pairs: 1 means that the kernel takes as long as its probe.
// The products are those of OpenBLAS, or of libblas where there is none, with one thread. For a
// processor that OpenBLAS does not know, set OPENBLAS_CORETYPE=SkylakeX or Haswell.
//   optimizer_bench [--pairs N] [NAME...]      NAME: part of the name of a row
#include <dlfcn.h>
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

#include "base/random.h"
#include "optimizer/adafactor.h"
#include "optimizer/adamw.h"
#include "optimizer/adamw8.h"
#include "optimizer/agd.h"
#include "optimizer/group_lasso.h"
#include "optimizer/lion.h"
#include "optimizer/muon.h"
#include "optimizer/soap.h"
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

// cblas_sgemm, loaded at run time so that nothing else needs a BLAS to be built.
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float* a, int lda, const float* b, int ldb, float beta, float* c,
                      int ldc);

Gemm LoadGemm() {
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/1);
  for (const char* name : {"libopenblas.so.0", "libblas.so.3"}) {
    void* const library = dlopen(name, RTLD_NOW);
    if (library == nullptr) continue;
    if (void* const symbol = dlsym(library, "cblas_sgemm")) return reinterpret_cast<Gemm>(symbol);
  }
  return nullptr;
}

struct Shape {
  size_t m, n, k;
  bool transpose_b;
};

// Muon and SOAP beside the products that they ask for, repeated on other matrices.
void MeasureProducts(const Table& table, Gemm gemm, size_t rows, size_t columns) {
  const auto multiply = [gemm](size_t m, size_t n, size_t k, const float* a, const float* b,
                               bool transpose_b, float* out) {
    const auto i = [](size_t value) { return static_cast<int>(value); };
    gemm(101, 111, transpose_b ? 112 : 111, i(m), i(n), i(k), 1, a, i(k), b, i(transpose_b ? k : n),
         0, out, i(n));
  };
  std::vector<Shape> shapes;
  bool recording = false;
  const MatrixProduct product = [&](size_t m, size_t n, size_t k, const float* a, const float* b,
                                    bool transpose_b, float* out) {
    if (recording) shapes.push_back({m, n, k, transpose_b});
    multiply(m, n, k, a, b, transpose_b, out);
  };
  Random random(1);
  const size_t most = std::max(rows, columns), count = rows * columns;
  const auto noise = [&](size_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random.Uniform() - 0.5);
    return values;
  };
  const std::vector<float> gradients = noise(count), a = noise(most * most), b = a;
  std::vector<float> weights = noise(count), out(most * most);
  const std::string shape = " " + std::to_string(rows) + "x" + std::to_string(columns);
  const auto row = [&](const std::string& name, const std::function<void()>& step) {
    if (!table.Wants(name + shape)) return;
    shapes.clear();
    recording = true;
    step();
    recording = false;
    table.Row(name + shape, step, [&] {
      for (const Shape& s : shapes) {
        multiply(s.m, s.n, s.k, a.data(), b.data(), s.transpose_b, out.data());
      }
    });
  };
  std::vector<float> momentum(count);
  row("Muon",
      [&] { Update(Muon{}, StepOf(1), rows, columns, weights, gradients, momentum, product); });
  const Soap soap;
  std::vector<float> state(StateOf(soap, rows, columns));
  if (table.Wants("SOAP" + shape)) {
    Update(soap, StepOf(1), rows, columns, weights, gradients, state, product);
  }
  row("SOAP", [&] {  // one refresh and the steps up to the next
    for (uint64_t number = 11; number < 11 + soap.every; ++number) {
      Update(soap, StepOf(number), rows, columns, weights, gradients, state, product);
    }
  });
}

void Main(int pairs, const std::vector<std::string>& names) {
  const Table table(pairs, names);
  const Gemm gemm = LoadGemm();
  std::printf("%d pairs, CPU time\n", pairs);
  std::printf("%-22s %13s %13s %8s %8s\n", "optimizer", "step", "probe", "rate", "load");
  if (gemm == nullptr) {
    std::puts("Muon and SOAP are not measured: there is no libopenblas.so.0 and no libblas.so.3");
  } else {
    MeasureProducts(table, gemm, 1024, 1024);
    MeasureProducts(table, gemm, 2048, 512);
  }
  Streams streams(CountOfStreams());
  std::printf("streams of %zu MiB\n", (streams.weights.size() * sizeof(float)) >> 20);
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
