#include "training/conformance/compare.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "training/c10d_communicator.h"
#include "training/thread_communicator.h"

namespace longhaul::training {
namespace {

constexpr std::chrono::seconds kPatience{20};

double Largest(const at::Tensor& values) { return values.abs().max().item<double>(); }

// The loss does not depend on the bias of the keys: it adds the same to all scores of a query. Its
// gradient is rounding alone, which AdamW makes as large as any other. With rotary positions it
// does matter.
bool HasNoEffect(const ModelConfig& config, const std::string& name) {
  return config.shape.position != spec::Position::kRope && name.ends_with("attention.key.bias");
}

std::string Both(const std::string& what, double expected, double actual) {
  char text[160];
  std::snprintf(text, sizeof(text), ": expected %.9g, is %.9g, ratio %.6g", expected, actual,
                actual / expected);
  return what + text;
}

WholeWeights LikeZeros(const WholeWeights& weights) {
  WholeWeights zeros;
  for (const auto& [name, values] : weights) {
    zeros[name] = at::full(values.sizes(), std::nan(""), values.options().requires_grad(false));
  }
  return zeros;
}

// What the ranks of a layout have computed; all ranks write to it.
struct Outcome {
  std::span<StepResult> steps;
  WholeWeights first_gradients;
  WholeWeights weights;
};

constexpr auto kState =
    std::to_array({Content::kWeights, Content::kFirstMoments, Content::kSecondMoments});

using State = std::array<WholeWeights, kState.size()>;

// A run of some steps in one layout.
struct Stretch {
  Layout layout;
  uint64_t first_step = 1;
  uint64_t save_step = 1;  // after which the state is saved
  uint64_t last_step = 1;
  const State* begin = nullptr;  // null: the initial state
  State* saved = nullptr;
  std::atomic<uint64_t>* done = nullptr;  // the steps that rank 0 has done; may be null
};

void RunRank(const Exercise& exercise, const Stretch& stretch, uint32_t rank,
             CommunicatorMaker& maker, Outcome& outcome) {
  Result<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(exercise.config, stretch.layout, exercise.options, rank, maker);
  if (!trainer.ok()) throw CommunicationError(trainer.status().message());
  SlicedParameters& parameters = (*trainer)->parameters();
  for (size_t i = 0; stretch.begin != nullptr && i < kState.size(); ++i) {
    parameters.Import(kState[i], (*stretch.begin)[i]);
  }
  for (uint64_t step = stretch.first_step; step <= stretch.last_step; ++step) {
    const Result<StepResult> done = (*trainer)->Step(step, BatchOf(exercise, step));
    if (!done.ok()) throw CommunicationError(done.status().message());
    if (step == 1) parameters.Export(Content::kGradients, outcome.first_gradients);
    if (rank == 0) outcome.steps[step - 1] = *done;  // the same on all ranks
    for (size_t i = 0; step == stretch.save_step && i < kState.size(); ++i) {
      parameters.Export(kState[i], (*stretch.saved)[i]);
    }
    if (rank == 0 && stretch.done != nullptr) stretch.done->store(step);
  }
}

std::string RunStretch(const Exercise& exercise, const Stretch& stretch, Outcome& outcome) {
  return RunThreads(stretch.layout.world(), kPatience,
                    [&](uint32_t rank, CommunicatorMaker& maker) {
                      RunRank(exercise, stretch, rank, maker, outcome);
                    });
}

// Memory that processes share.
template <typename T>
std::span<T> Shared(size_t count) {
  void* const memory =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  return {static_cast<T*>(memory), count};
}

WholeWeights InSharedMemory(const WholeWeights& weights) {
  WholeWeights shared;
  for (const auto& [name, values] : weights) {
    const std::span<std::byte> memory = Shared<std::byte>(values.nbytes());
    shared[name] = at::from_blob(
        memory.data(), values.sizes(), [size = memory.size()](void* begin) { munmap(begin, size); },
        values.scalar_type());
    shared[name].fill_(std::nan(""));
  }
  return shared;
}

// A rank's process. Returns its message in `failure`.
[[noreturn]] void BeRank(const Exercise& exercise, const Stretch& stretch, uint32_t rank,
                         const std::string& path, Outcome& outcome, std::span<char> failure) {
  try {
    Result<std::unique_ptr<CommunicatorMaker>> maker =
        JoinByFile(path, stretch.layout.world(), rank);
    if (!maker.ok()) throw CommunicationError(maker.status().message());
    RunRank(exercise, stretch, rank, **maker, outcome);
    // All have received what they wait for, before a connection is closed.
    at::Tensor done = at::ones({1});
    std::vector<uint32_t> world(stretch.layout.world());
    std::iota(world.begin(), world.end(), 0u);
    (*maker)->Make("world", world)->Sum(done);
    _exit(0);
  } catch (const std::exception& error) {
    std::snprintf(failure.data(), failure.size(), "rank %u: %s", rank, error.what());
    _exit(1);
  }
}

// Relative differences are those to the largest value of the tensor; what is below a millionth of
// the largest of all is compared with that.
std::string CompareTensors(const Exercise& exercise, const std::string& what,
                           const WholeWeights& expected, const WholeWeights& actual, bool relative,
                           double tolerance, double& largest) {
  std::string failure;
  double least = 0;
  for (const auto& [name, values] : expected) least = std::max(least, 1e-6 * Largest(values));
  for (const auto& [name, values] : expected) {
    if (HasNoEffect(exercise.config, name)) continue;
    const double difference =
        Largest(values - actual.at(name)) / (relative ? std::max(least, Largest(values)) : 1);
    if (!(difference <= tolerance) && failure.empty()) {
      const at::Tensor place = (values - actual.at(name)).abs().flatten().argmax();
      failure = Both(what + " " + name, values.flatten()[place].item<double>(),
                     actual.at(name).flatten()[place].item<double>());
    }
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
  }
  return failure;
}

}  // namespace

Batch BatchOf(const Exercise& exercise, uint64_t step) {
  const auto sequences = static_cast<int64_t>(exercise.options.global_batch);
  const int64_t length = exercise.config.shape.sequence_length;
  Random random(exercise.options.seed * 1'000'003 + step);
  Batch batch{at::empty({sequences, length + 1}, at::kLong), at::ones({sequences, length})};
  int64_t* const tokens = batch.tokens.data_ptr<int64_t>();
  // Runs of a few words, so that there is something to learn.
  for (int64_t i = 0; i < batch.tokens.numel(); ++i) {
    const bool again = i % (length + 1) > 1 && random.Below(2) == 0;
    tokens[i] = again ? tokens[i - 2]
                      : static_cast<int64_t>(random.Below(exercise.config.shape.vocabulary));
  }
  if (!exercise.ragged) return batch;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t kept =
        i == 0 ? 0 : 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(length)));
    batch.mask[i].narrow(0, kept, length - kept).zero_();
  }
  return batch;
}

Tolerance ToleranceOf(at::ScalarType type) {
  if (type == at::kDouble) return {1e-12, 1e-12, 1e-12, 1e-12};
  return {};
}

Expected RunReference(const Exercise& exercise) {
  const StepOptions& options = exercise.options;
  Expected expected;
  expected.weights = InitialWeights(exercise.config, options.seed, options.type);
  WholeWeights first;
  WholeWeights second;
  for (auto& [name, values] : expected.weights) {
    first[name] = at::zeros_like(values);
    second[name] = at::zeros_like(values);
  }
  const int64_t length = exercise.config.shape.sequence_length;
  for (uint64_t number = 1; number <= exercise.steps; ++number) {
    const Batch batch = BatchOf(exercise, number);
    at::Tensor balance;
    const at::Tensor logits = ReferenceLogits(exercise.config, expected.weights,
                                              batch.tokens.narrow(1, 0, length), &balance);
    const at::Tensor targets = batch.tokens.narrow(1, 1, length).unsqueeze(-1);
    const at::Tensor losses = -at::log_softmax(logits, -1).gather(-1, targets).squeeze(-1);
    const double tokens = std::max(1.0, batch.mask.sum().item<double>());
    const at::Tensor loss = (losses * batch.mask.to(options.type)).sum() / tokens;
    const at::Tensor mean_balance = balance / static_cast<double>(options.global_batch);
    for (auto& [name, values] : expected.weights) values.mutable_grad() = at::Tensor();
    (loss + mean_balance).backward();
    const at::NoGradGuard no_gradients;
    double squares = 0;
    for (auto& [name, values] : expected.weights) {
      squares += values.grad().to(at::kDouble).square().sum().item<double>();
      if (number == 1) expected.first_gradients[name] = values.grad().clone();
    }
    StepResult result{loss.item<double>(), mean_balance.item<double>(), std::sqrt(squares)};
    UpdateStep step{number, options.rate, options.decay, 1};
    if (options.clip > 0 && result.norm > options.clip) {
      step.scale = options.clip / (result.norm + 1e-6);
    }
    for (auto& [name, values] : expected.weights) {
      UpdateStep own = step;
      if (values.dim() < 2 || name == "model.embedding.position.weight") own.decay = 0;
      at::Tensor flat = values.detach();
      ApplyRule(options.rule, own, flat, values.grad().contiguous(), first[name], second[name]);
    }
    expected.steps.push_back(result);
  }
  return expected;
}

namespace {

void Compare(const Exercise& exercise, const Expected& expected, const Outcome& outcome,
             Comparison& comparison) {
  const Tolerance tolerance = ToleranceOf(exercise.options.type);
  const at::NoGradGuard no_gradients;
  const std::string gradients =
      CompareTensors(exercise, "gradient of step 1 of", expected.first_gradients,
                     outcome.first_gradients, true, tolerance.gradients, comparison.gradients);
  std::string steps;
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    const StepResult& should = expected.steps[i];
    const StepResult& is = outcome.steps[i];
    const std::string step = " of step " + std::to_string(i + 1);
    const double loss = std::abs(should.loss - is.loss) + std::abs(should.balance - is.balance);
    const double norm = std::abs(should.norm - is.norm) / should.norm;
    if (!(loss <= tolerance.loss) && steps.empty()) {
      steps = Both("loss" + step, should.loss, is.loss);
    }
    if (!(norm <= tolerance.norm) && steps.empty()) {
      steps = Both("norm of the gradients" + step, should.norm, is.norm);
    }
    comparison.loss = std::max(comparison.loss, loss);
    comparison.norm = std::max(comparison.norm, norm);
  }
  const std::string weights =
      CompareTensors(exercise, "weights of", expected.weights, outcome.weights, false,
                     tolerance.weights, comparison.weights);
  comparison.failure = !gradients.empty() ? gradients : !steps.empty() ? steps : weights;
}

}  // namespace

Comparison CompareLayouts(const Exercise& exercise, const Expected& expected,
                          const std::vector<Layout>& layouts, WholeWeights* weights) {
  std::vector<StepResult> steps(exercise.steps);
  Outcome outcome{steps, LikeZeros(expected.weights), {}};
  State state;
  Comparison comparison;
  uint64_t done = 0;
  for (size_t i = 0; i < layouts.size(); ++i) {
    State end;
    for (WholeWeights& each : end) each = LikeZeros(expected.weights);
    const uint64_t last = exercise.steps * (i + 1) / layouts.size();
    const Stretch stretch{layouts[i], done + 1, last, last, i == 0 ? nullptr : &state,
                          &end,       nullptr};
    comparison.failure = RunStretch(exercise, stretch, outcome);
    if (!comparison.failure.empty()) return comparison;
    done = stretch.last_step;
    state = std::move(end);
  }
  outcome.weights = std::move(state[0]);
  Compare(exercise, expected, outcome, comparison);
  if (weights != nullptr) *weights = std::move(outcome.weights);
  return comparison;
}

namespace {

// Runs the ranks as processes. With more steps to do than are saved, they are killed once they are
// beyond the saved one.
std::string RunProcesses(const Exercise& exercise, const Stretch& stretch, Outcome& outcome) {
  const TemporaryFolder folder(std::filesystem::temp_directory_path());
  const std::span<char> failure = Shared<char>(1'000);
  std::vector<pid_t> ranks;
  for (uint32_t rank = 0; rank < stretch.layout.world(); ++rank) {
    ranks.push_back(fork());
    CHECK(ranks.back() >= 0);
    if (ranks.back() == 0) {
      BeRank(exercise, stretch, rank, folder.path() + "/store", outcome, failure);
    }
  }
  const bool kills = stretch.last_step > stretch.save_step;
  while (kills && stretch.done->load() <= stretch.save_step && failure[0] == 0) usleep(500);
  std::string why;
  for (const pid_t rank : ranks) {
    if (kills) kill(rank, SIGKILL);
    int status = 0;
    CHECK(waitpid(rank, &status, 0) == rank);
    const bool killed = kills && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (status != 0 && !killed && why.empty()) why = "a rank has crashed";
  }
  if (failure[0] != 0) why = failure.data();
  munmap(failure.data(), failure.size_bytes());
  return why;
}

}  // namespace

Comparison CompareProcesses(const Exercise& exercise, const Expected& expected,
                            const std::vector<Layout>& layouts, WholeWeights* weights) {
  Outcome outcome{Shared<StepResult>(exercise.steps), InSharedMemory(expected.weights), {}};
  const std::span<std::atomic<uint64_t>> done = Shared<std::atomic<uint64_t>>(1);
  State state;
  Comparison comparison;
  uint64_t saved_step = 0;
  for (size_t i = 0; i < layouts.size() && comparison.failure.empty(); ++i) {
    State saved;
    for (WholeWeights& each : saved) each = InSharedMemory(expected.weights);
    done[0] = 0;
    const Stretch stretch{layouts[i],
                          saved_step + 1,
                          exercise.steps * (i + 1) / layouts.size(),
                          exercise.steps,
                          i == 0 ? nullptr : &state,
                          &saved,
                          done.data()};
    comparison.failure = RunProcesses(exercise, stretch, outcome);
    saved_step = stretch.save_step;
    state = std::move(saved);
  }
  if (comparison.failure.empty()) {
    outcome.weights = std::move(state[0]);
    Compare(exercise, expected, outcome, comparison);
    if (weights != nullptr) *weights = std::move(outcome.weights);
  }
  munmap(outcome.steps.data(), outcome.steps.size_bytes());
  munmap(done.data(), done.size_bytes());
  return comparison;
}

uint64_t HashOf(const WholeWeights& weights) {
  uint64_t hash = 0;
  for (const auto& [name, values] : weights) {
    const at::Tensor flat = values.contiguous();
    hash = Hash64(std::span(static_cast<const std::byte*>(flat.data_ptr()), flat.nbytes()), hash);
  }
  return hash;
}

}  // namespace longhaul::training
