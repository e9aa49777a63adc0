// What group lasso drops when the truth is known: logistic regression on rows of a matrix
// (embeddings) of which 80 % have no effect on the label.
//
// A sample has some of the rows and a context h of normal numbers. The logit of its label is the
// sum over its rows of <row, h>. A true row is 0 or has a random direction and a length between 0.5
// and 1. All samples are seen once, as in click prediction. Two penalties of a grid are printed:
// `+` has the best AUC on a validation set, and `*` is the largest one whose AUC there is at most
// 0.0005 below the one without a penalty, whose rate is the best of five. AUC, and the loss of AUC
// compared with no penalty, are those on a third set of samples.
//   group_lasso_bench [SEEDS] [--all]      --all: a line for each penalty of the grid
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string>
#include <vector>

#include "base/random.h"
#include "optimizer/group_lasso.h"

namespace longhaul::optimizer {
namespace {

constexpr size_t kRows = 1000, kColumns = 16, kSignals = 200;
constexpr size_t kRowsOfSample = 20, kBatch = 256;
constexpr size_t kTraining = 400 * 1024, kValidation = 50'000, kTest = 50'000;
constexpr double kMostLoss = 0.0005;  // of AUC

float Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log1p(-random.Uniform()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.Uniform()));
}

using Weights = std::vector<float>;

// Rows 0 to kSignals - 1 have an effect.
Weights PlantedTruth(Random& random) {
  Weights truth(kRows * kColumns);
  for (size_t row = 0; row < kSignals; ++row) {
    float* const values = truth.data() + row * kColumns;
    double squares = 0;
    for (size_t i = 0; i < kColumns; ++i) {
      values[i] = Normal(random);
      squares += static_cast<double>(values[i]) * values[i];
    }
    const auto factor = static_cast<float>((0.5 + 0.5 * random.Uniform()) / std::sqrt(squares));
    for (size_t i = 0; i < kColumns; ++i) values[i] *= factor;
  }
  return truth;
}

struct Sample {
  std::array<uint32_t, kRowsOfSample> rows;
  std::array<float, kColumns> context;
  bool label;
};

double Logit(const Weights& weights, const Sample& sample) {
  std::array<float, kColumns> sums = {};
  for (const uint32_t row : sample.rows) {
    for (size_t i = 0; i < kColumns; ++i) sums[i] += weights[row * kColumns + i];
  }
  float logit = 0;
  for (size_t i = 0; i < kColumns; ++i) logit += sums[i] * sample.context[i];
  return static_cast<double>(logit);
}

double Probability(double logit) { return 1 / (1 + std::exp(-logit)); }

std::vector<Sample> Samples(const Weights& truth, size_t count, Random& random) {
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    for (uint32_t& row : sample.rows) row = static_cast<uint32_t>(random.Below(kRows));
    for (float& value : sample.context) value = Normal(random);
    sample.label = random.Uniform() < Probability(Logit(truth, sample));
  }
  return samples;
}

// The probability that a sample with the label has a higher logit than one without; equal ones
// count half.
double Auc(const Weights& weights, const std::vector<Sample>& samples) {
  std::vector<std::pair<double, bool>> scores;
  for (const Sample& sample : samples) scores.emplace_back(Logit(weights, sample), sample.label);
  std::sort(scores.begin(), scores.end());
  double without = 0, with = 0, pairs = 0;
  for (size_t at = 0; at < scores.size();) {
    double equal_without = 0, equal_with = 0;
    const double logit = scores[at].first;
    for (; at < scores.size() && scores[at].first == logit; ++at) {
      (scores[at].second ? equal_with : equal_without) += 1;
    }
    pairs += equal_with * (without + equal_without / 2);
    with += equal_with;
    without += equal_without;
  }
  return pairs / (with * without);
}

// The mean gradient over a batch.
void Differentiate(const Weights& weights, const Sample* batch, Weights& gradients) {
  std::fill(gradients.begin(), gradients.end(), 0.0F);
  for (size_t s = 0; s < kBatch; ++s) {
    const double error = Probability(Logit(weights, batch[s])) - (batch[s].label ? 1 : 0);
    const auto factor = static_cast<float>(error / kBatch);
    for (const uint32_t row : batch[s].rows) {
      for (size_t i = 0; i < kColumns; ++i) {
        gradients[row * kColumns + i] += factor * batch[s].context[i];
      }
    }
  }
}

enum class Kind { kAdam, kAdaGrad };

// One pass over the samples from weights of 0.
Weights Train(Kind kind, double rate, double penalty, const std::vector<Sample>& samples) {
  Weights weights(kRows * kColumns), gradients = weights, first = weights, second = weights,
                                     offset = weights;
  GroupAdam adam;
  adam.penalties.l21 = penalty;
  GroupAdaGrad adagrad;
  adagrad.initial = 1e-4;  // gradients are means over a batch
  adagrad.penalties.l21 = penalty;
  Step step;
  step.rate = rate;
  if (kind == Kind::kAdaGrad) Begin(adagrad, step.rate, weights, second, offset);
  for (size_t at = 0; at + kBatch <= samples.size(); at += kBatch, ++step.number) {
    Differentiate(weights, samples.data() + at, gradients);
    if (kind == Kind::kAdam) {
      Update(adam, step, kColumns, weights, gradients, first, second, offset);
    } else {
      Update(adagrad, step, kColumns, weights, gradients, second, offset);
    }
  }
  return weights;
}

struct Figures {
  double penalty, dropped, auc, loss, precision, recall;
};

bool IsDropped(const Weights& weights, size_t row) {
  const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(row * kColumns);
  return std::all_of(begin, begin + kColumns, [](float value) { return value == 0; });
}

Figures FiguresOf(double penalty, const Weights& weights, const Weights& without,
                  const std::vector<Sample>& test) {
  size_t dropped = 0, right = 0;
  for (size_t row = 0; row < kRows; ++row) {
    if (!IsDropped(weights, row)) continue;
    ++dropped;
    if (row >= kSignals) ++right;
  }
  const double auc = Auc(weights, test);
  return {.penalty = penalty,
          .dropped = static_cast<double>(dropped) / kRows,
          .auc = auc,
          .loss = Auc(without, test) - auc,
          .precision = dropped == 0 ? 1 : static_cast<double>(right) / static_cast<double>(dropped),
          .recall = static_cast<double>(right) / (kRows - kSignals)};
}

struct Data {
  explicit Data(uint64_t seed) : random(seed) {}

  Random random;
  Weights truth = PlantedTruth(random);
  std::vector<Sample> training = Samples(truth, kTraining, random);
  std::vector<Sample> validation = Samples(truth, kValidation, random);
  std::vector<Sample> test = Samples(truth, kTest, random);
};

Weights BestWithoutPenalty(Kind kind, double rate, const Data& data) {
  Weights best;
  double best_auc = 0;
  for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0}) {
    Weights weights = Train(kind, factor * rate, 0, data.training);
    const double auc = Auc(weights, data.validation);
    if (auc <= best_auc) continue;
    best_auc = auc;
    best = std::move(weights);
  }
  return best;
}

void Print(Kind kind, uint64_t seed, const Figures& f, const std::string& marks) {
  std::printf("%-13s %4zu %8.4f%-2s %7.1f %% %9.4f %9.4f %8.1f %% %8.1f %%\n",
              kind == Kind::kAdam ? "group Adam" : "group AdaGrad", static_cast<size_t>(seed),
              f.penalty, marks.c_str(), 100 * f.dropped, f.auc, f.loss, 100 * f.precision,
              100 * f.recall);
  std::fflush(stdout);
}

void Measure(Kind kind, uint64_t seed, bool all) {
  const Data data(seed);
  const bool is_adam = kind == Kind::kAdam;
  const double rate = is_adam ? 2e-3 : 2e-2;
  const Weights without = BestWithoutPenalty(kind, rate, data);
  std::vector<double> penalties, aucs;
  std::vector<Weights> trained;
  for (double penalty = is_adam ? 0.05 : 0.04; penalties.size() < 10;
       penalty *= std::numbers::sqrt2) {
    penalties.push_back(penalty);
    trained.push_back(Train(kind, rate, penalty, data.training));
    aucs.push_back(Auc(trained.back(), data.validation));
  }
  const size_t best =
      static_cast<size_t>(std::max_element(aucs.begin(), aucs.end()) - aucs.begin());
  const double least = Auc(without, data.validation) - kMostLoss;
  size_t largest = penalties.size() - 1;
  while (largest > 0 && aucs[largest] < least) --largest;
  if (all) Print(kind, seed, FiguresOf(0, without, without, data.test), "");
  for (size_t i = 0; i < penalties.size(); ++i) {
    const std::string marks = std::string(i == best ? "+" : "") + (i == largest ? "*" : "");
    if (marks.empty() && !all) continue;
    Print(kind, seed, FiguresOf(penalties[i], trained[i], without, data.test), marks);
  }
}

void Main(uint64_t seeds, bool all) {
  std::printf("%zu rows of %zu, %zu of them with an effect\n", kRows, kColumns, kSignals);
  std::printf("%-13s %4s %9s %10s %9s %9s %10s %10s\n", "optimizer", "seed", "l21", "dropped",
              "AUC", "lost AUC", "precision", "recall");
  for (const Kind kind : {Kind::kAdam, Kind::kAdaGrad}) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) Measure(kind, seed, all);
  }
}

}  // namespace
}  // namespace longhaul::optimizer

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 5;
  const bool all = argc > 2 && std::string(argv[2]) == "--all";
  longhaul::optimizer::Main(static_cast<uint64_t>(std::max(1, seeds)), all);
}
