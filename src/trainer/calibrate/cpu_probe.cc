#include <ATen/core/ivalue.h>
#include <fcntl.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "corpus/corpus.h"
#include "io/clock.h"
#include "io/fd.h"
#include "optimizer/adamw.h"
#include "trainer/calibrate/probe.h"
#include "trainer/model/operators.h"
#include "trainer/model/optimizer.h"

namespace longhaul::trainer {
namespace {

using planner::Figure;
using planner::FigureKind;

constexpr size_t kLeastRounds = 3;
constexpr size_t kMostRounds = 2'000;
// A training step goes through its activations once forward and once backward: what is saved has
// left the core's own cache when it is needed again. So many copies of an operator run in turn that
// they fill this.
constexpr double kPoolBytes = 24e6;
constexpr int64_t kMostCopies = 48;

// CPU time of this thread, so that the time of other processes on the machine does not count. The
// operators must run on this thread alone.
double ProbeCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

at::Tensor Noise(at::IntArrayRef shape) { return at::randn(shape); }

// A weight as the trainer has it: its gradient is added to what is there.
at::Tensor Weight(at::IntArrayRef shape) {
  at::Tensor weight = at::randn(shape).mul_(0.02);
  weight.set_requires_grad(true);
  weight.mutable_grad() = at::zeros(shape);
  return weight;
}

at::Tensor Input(at::IntArrayRef shape) {
  at::Tensor input = Noise(shape);
  input.set_requires_grad(true);
  return input;
}

// One copy of an operator with data of its own.
struct Copy {
  std::function<at::Tensor()> forward;
  at::Tensor input;     // its gradient is forgotten after each round; undefined: there is none
  at::Tensor gradient;  // of the output
};

using MakeCopy = std::function<Copy()>;

// Copies of what `figure` names, with the bytes that a copy touches.
struct Bench {
  MakeCopy make;
  double bytes = 0;
};

// The bytes of a copy: the input and the output with their gradients, and the weight with its
// gradient. All values are float32.
Bench MatmulBench(const Figure& figure) {
  const auto m = static_cast<int64_t>(figure.sizes[0]);
  const auto n = static_cast<int64_t>(figure.sizes[1]);
  const auto k = static_cast<int64_t>(figure.sizes[2]);
  const double floats = 2.0 * double(m) * double(n + k) + 2.0 * double(n) * double(k);
  return {[m, n, k] {
            const Linear linear{Weight({n, k}), Weight({n})};
            const at::Tensor x = Input({m, k});
            return Copy{[linear, x] { return linear(x); }, x, Noise({m, n})};
          },
          4 * floats};
}

// `sizes` are heads of all sequences together, positions of a sequence, and values of a head.
Bench AttentionBench(const Figure& figure) {
  const auto heads = static_cast<int64_t>(figure.sizes[0]);
  const auto sequence = static_cast<int64_t>(figure.sizes[1]);
  const auto dim = static_cast<int64_t>(figure.sizes[2]);
  // As many heads a sequence as usual, of the whole number of sequences nearest below.
  const int64_t heads_each = std::min<int64_t>(heads, 4);
  const int64_t batch = std::max<int64_t>(1, heads / heads_each);
  const int64_t hidden = heads_each * dim;
  const at::Tensor mask = CausalMask(sequence);
  const double floats =
      double(heads) * double(sequence) * (8.0 * double(dim) + 2.0 * double(sequence));
  return {[=] {
            const at::Tensor qkv = Input({batch * sequence, 3 * hidden});
            return Copy{[=] { return CoreAttention(qkv, mask, batch, sequence, heads_each); }, qkv,
                        Noise({batch * sequence, hidden})};
          },
          4 * floats};
}

Bench LossBench(int64_t rows, int64_t width) {
  return {[rows, width] {
            const at::Tensor logits = Input({rows, width});
            const at::Tensor targets = at::randint(width, {rows}, at::kLong);
            return Copy{[=] { return SummedCrossEntropy(logits, targets); }, logits,
                        at::full({}, 1e-4)};
          },
          12.0 * double(rows) * double(width)};
}

Bench EmbeddingBench(int64_t rows, int64_t width) {
  // Sequences of 64: how the rows are cut hardly matters.
  const int64_t length = std::min<int64_t>(rows, 64);
  const int64_t batch = std::max<int64_t>(1, rows / length);
  constexpr int64_t kWords = corpus::kVocabulary;
  std::vector<at::Tensor> previous;
  for (uint32_t i = 0; i < spec::kPreviousTokens; ++i) previous.push_back(Weight({kWords, width}));
  const at::Tensor token = Weight({kWords, width});
  const at::Tensor position = Weight({length, width});
  return {[=] {
            const at::Tensor ids = at::randint(kWords, {batch, length}, at::kLong);
            return Copy{[=] { return Embed(ids, token, position, previous); },
                        {},
                        Noise({batch, length, width})};
          },
          40.0 * double(rows) * double(width)};
}

// Operators that go through memory once. The bytes of a copy are the input, the output and the
// gradients of both.
Bench StreamBench(const Figure& figure) {
  const auto rows = static_cast<int64_t>(figure.sizes[0]);
  const auto width = static_cast<int64_t>(figure.sizes[1]);
  const double bytes = 4.0 * double(rows) * double(width);
  switch (figure.kind) {
    case FigureKind::kNorm:
      return {[rows, width] {
                const LayerNorm norm{Weight({width}), Weight({width})};
                const at::Tensor x = Input({rows, width});
                return Copy{[norm, x] { return norm(x); }, x, Noise({rows, width})};
              },
              4 * bytes};
    case FigureKind::kActivation:
      return {[rows, width] {
                const at::Tensor x = Input({rows, width});
                return Copy{[x] { return Activation(x); }, x, Noise({rows, width})};
              },
              4 * bytes};
    case FigureKind::kResidual:
      // Both ways into the sum come from one tensor, so its two gradients are added.
      return {[rows, width] {
                const at::Tensor x = Input({rows, width});
                return Copy{[x] { return x.view(x.sizes()) + x; }, x, Noise({rows, width})};
              },
              4 * bytes};
    case FigureKind::kLoss:
      return LossBench(rows, width);
    default:
      return EmbeddingBench(rows, width);
  }
}

Bench LaunchBench() {
  return {[] {
            const at::Tensor x = Input({1});
            return Copy{[x] { return x + 1; }, x, at::ones({1})};
          },
          1e6};
}

class CpuProbe final : public Probe {
 public:
  explicit CpuProbe(std::string directory) : directory_(std::move(directory)) {}

  std::string Machine() const override {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(':');
      if (line.starts_with("model name") && colon != std::string::npos) {
        return std::string(Trim(std::string_view(line).substr(colon + 1)));
      }
    }
    return "unknown processor";
  }

  Result<Figure> Measure(const Figure& what, Duration budget) override {
    limit_ = io::MonotonicNow() + budget;
    switch (what.kind) {
      case FigureKind::kMatmul:
        return Graph(MatmulBench(what), what);
      case FigureKind::kAttention:
        return Graph(AttentionBench(what), what);
      case FigureKind::kLaunch:
        return Graph(LaunchBench(), what);
      case FigureKind::kOptimizer:
        return Optimizer(what);
      case FigureKind::kCopy:
        return MemoryCopy(what);
      case FigureKind::kStorage:
        return Storage(what);
      case FigureKind::kRuntime:
        return InvalidArgument("what agents and controller add takes a whole run");
      case FigureKind::kAllReduce:
        return InvalidArgument("an all-reduce needs several processes");
      default:
        return Graph(StreamBench(what), what);
    }
  }

 private:
  bool Goes(size_t rounds) const {
    return rounds < kLeastRounds || (rounds < kMostRounds && io::MonotonicNow() < limit_);
  }

  // Runs the copies forward, one after the other, and then backward in one pass, last one first, as
  // a step does. The first round makes the memory and isn't counted.
  Result<Figure> Graph(const Bench& bench, Figure figure) const {
    const auto fitting = static_cast<int64_t>(kPoolBytes / bench.bytes);
    std::vector<Copy> copies(static_cast<size_t>(std::clamp<int64_t>(fitting, 2, kMostCopies)));
    for (Copy& copy : copies) copy = bench.make();
    std::vector<double> forward;
    std::vector<double> backward;
    const auto each = static_cast<double>(copies.size());
    for (bool warm = false; Goes(forward.size()); warm = true) {
      std::vector<at::Tensor> outputs;
      std::vector<at::Tensor> gradients;
      const double begin = ProbeCpuSeconds();
      for (const Copy& copy : copies) outputs.push_back(copy.forward());
      const double middle = ProbeCpuSeconds();
      for (const Copy& copy : copies) gradients.push_back(copy.gradient);
      const double turn = ProbeCpuSeconds();
      torch::autograd::backward(outputs, gradients);
      const double end = ProbeCpuSeconds();
      for (Copy& copy : copies) {
        if (copy.input.defined()) copy.input.mutable_grad().reset();
      }
      if (!warm) continue;
      forward.push_back((middle - begin) / each);
      backward.push_back((end - turn) / each);
    }
    Summarise(std::move(forward), std::move(backward), figure);
    return figure;
  }

  // As in a training step, the time includes setting the gradients and the norm for clipping them.
  Result<Figure> Optimizer(Figure figure) const {
    const auto count = static_cast<size_t>(figure.sizes[0]);
    std::vector<float> weights(count, 0.02F);
    std::vector<float> gradients(count);
    std::vector<float> first(count);
    std::vector<float> second(count);
    const optimizer::AdamW adamw;
    optimizer::Step step;
    step.rate = 1e-3;
    step.decay = 0.1;
    std::vector<double> times;
    for (bool warm = false; Goes(times.size()); warm = true) {
      const double begin = ProbeCpuSeconds();
      std::fill(gradients.begin(), gradients.end(), 1e-4F);
      step.scale = 1 / (1 + std::sqrt(trainer::SquaredNorm(gradients)));
      optimizer::Update(adamw, step, weights, gradients, first, second);
      ++step.number;
      if (warm) times.push_back(ProbeCpuSeconds() - begin);
    }
    Summarise(std::move(times), {}, figure);
    return figure;
  }

  Result<Figure> MemoryCopy(Figure figure) const {
    const auto bytes = static_cast<size_t>(figure.sizes[0]);
    const std::vector<char> from(bytes, 1);
    std::vector<char> to(bytes);
    std::vector<double> times;
    for (bool warm = false; Goes(times.size()); warm = true) {
      const double begin = ProbeCpuSeconds();
      std::memcpy(to.data(), from.data(), bytes);
      // So that the copy isn't left out as never read.
      CHECK(to[times.size() % bytes] == 1);
      if (warm) times.push_back(ProbeCpuSeconds() - begin);
    }
    Summarise(std::move(times), {}, figure);
    return figure;
  }

  // By the clock: a disk makes us wait.
  Result<Figure> Storage(Figure figure) const {
    const auto bytes = static_cast<size_t>(figure.sizes[0]);
    const std::vector<char> data(bytes, 'x');
    std::string path = directory_ + "/longhaul-calibrate-XXXXXX";
    const io::Fd file(mkostemp(path.data(), O_CLOEXEC));
    if (file.get() < 0) return FromErrno(errno, "cannot make a file in " + directory_);
    // Without a name from the start: the space is free again when the process ends, also by a
    // crash.
    unlink(path.c_str());
    std::vector<double> times;
    while (Goes(times.size())) {
      const Instant begin = io::MonotonicNow();
      size_t done = 0;
      while (done < bytes) {
        const ssize_t written =
            pwrite(file.get(), data.data() + done, bytes - done, static_cast<off_t>(done));
        if (written <= 0) return FromErrno(errno, "cannot write in " + directory_);
        done += static_cast<size_t>(written);
      }
      if (fdatasync(file.get()) != 0) return FromErrno(errno, "cannot sync in " + directory_);
      times.push_back(ToSeconds(io::MonotonicNow() - begin));
    }
    Summarise(std::move(times), {}, figure);
    return figure;
  }

  std::string directory_;
  Instant limit_{};
};

// The value below which this share of the sorted values lies.
// Linear between the two nearest values. Requires at least one value.
double Quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

}  // namespace

void Summarise(std::vector<double> forward, std::vector<double> backward, Figure& figure) {
  CHECK(!forward.empty());
  constexpr double kLeast = 1e-9;  // a clock's step may hide what is shorter
  std::sort(forward.begin(), forward.end());
  std::sort(backward.begin(), backward.end());
  figure.repeats = static_cast<uint32_t>(forward.size());
  figure.forward_s = std::max(kLeast, Quantile(forward, 0.5));
  figure.spread = (Quantile(forward, 0.75) - Quantile(forward, 0.25)) / figure.forward_s;
  if (backward.empty()) return;
  figure.backward_s = std::max(kLeast, Quantile(backward, 0.5));
  figure.spread = std::max(
      figure.spread, (Quantile(backward, 0.75) - Quantile(backward, 0.25)) / figure.backward_s);
}

std::unique_ptr<Probe> MakeCpuProbe(std::string directory) {
  return std::make_unique<CpuProbe>(std::move(directory));
}

}  // namespace longhaul::trainer
