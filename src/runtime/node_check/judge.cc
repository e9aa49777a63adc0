#include "runtime/node_check/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr size_t kLeastNodes = 3;          // for a reference of all pairs
constexpr size_t kLeastNodesOfClass = 12;  // for one of pairs of the same or of two switches
constexpr double kDeviations = 4;          // a good test is as slow as that once in 30,000

// The lower one of two medians: it is a fast value even if half of the values are slow. Requires at
// least one value.
double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Reference {
  double seconds = 0;
  double slow_factor = kSlowFactor;
};

using TestsOfPairs = std::map<Pair, std::vector<double>>;  // seconds

// Returns the standard deviation of the logarithm of a test's time, from pairs that were tested
// again: half of the differences of two tests are below 0.954 standard deviations.
double SpreadOf(const TestsOfPairs& tests) {
  std::vector<double> differences;
  for (const auto& [pair, seconds] : tests) {
    if (seconds.size() >= 2) differences.push_back(std::abs(std::log(seconds[1] / seconds[0])));
  }
  return differences.empty() ? 0 : MedianOf(std::move(differences)) / 0.954;
}

std::optional<Reference> ReferenceOf(uint32_t nodes, const TestsOfPairs& tests, size_t least) {
  std::vector<std::vector<double>> pairs_of(nodes);
  for (const auto& [pair, seconds] : tests) {
    const double median = MedianOf(seconds);
    pairs_of[pair.first].push_back(median);
    pairs_of[pair.second].push_back(median);
  }
  std::vector<double> of_nodes;
  for (std::vector<double>& pairs : pairs_of) {
    if (pairs.empty()) continue;
    std::sort(pairs.begin(), pairs.end());
    of_nodes.push_back(pairs[(pairs.size() - 1) / 4]);
  }
  if (of_nodes.size() < least) return std::nullopt;
  const double factor = std::exp(kDeviations * SpreadOf(tests));
  return Reference{MedianOf(std::move(of_nodes)), std::clamp(factor, kSlowFactor, kMostSlowFactor)};
}

// 0: pairs of one switch; 1: others.
size_t ClassOf(const Pair& pair, const std::vector<uint32_t>& switch_of) {
  if (switch_of.empty()) return 1;
  const uint32_t first = switch_of[pair.first];
  return first != kNoSwitch && first == switch_of[pair.second] ? 0 : 1;
}

template <typename Includes>
TestsOfPairs SelectTests(const std::vector<PairMeasurement>& measurements,
                         const Includes& includes) {
  TestsOfPairs tests;
  for (const PairMeasurement& each : measurements) {
    if (!each.failed && includes(each.pair)) tests[each.pair].push_back(each.seconds);
  }
  return tests;
}

}  // namespace

JudgedPairs JudgePairs(uint32_t nodes, const std::vector<uint32_t>& switch_of,
                       const std::vector<PairMeasurement>& measurements) {
  const auto all =
      ReferenceOf(nodes, SelectTests(measurements, [](const Pair&) { return true; }), kLeastNodes);
  std::array<std::optional<Reference>, 2> references;
  for (size_t which = 0; which < references.size(); ++which) {
    const auto includes = [&](const Pair& pair) { return ClassOf(pair, switch_of) == which; };
    references[which] = ReferenceOf(nodes, SelectTests(measurements, includes), kLeastNodesOfClass);
    if (!references[which]) references[which] = all;
  }
  JudgedPairs judged;
  for (const PairMeasurement& each : measurements) {
    PairResult result{each.pair, each.failed ? Outcome::kFailed : Outcome::kOk};
    double ratio = 0;
    const auto& reference = references[ClassOf(each.pair, switch_of)];
    if (!each.failed && reference) {
      CHECK(each.seconds > 0);
      ratio = each.seconds / reference->seconds;
      if (ratio > reference->slow_factor) result.outcome = Outcome::kSlow;
    }
    judged.results.push_back(result);
    judged.ratios.push_back(ratio);
  }
  return judged;
}

std::optional<double> MedianOfKnown(const std::vector<std::optional<double>>& values) {
  std::vector<double> known;
  for (const auto& value : values) {
    if (value && *value > 0) known.push_back(*value);
  }
  if (known.size() < kLeastNodes) return std::nullopt;
  return MedianOf(known);
}

std::vector<double> RatiosToMedian(const std::vector<std::optional<double>>& values,
                                   const std::vector<std::optional<double>>& reference) {
  std::vector<double> ratios(values.size(), 1);
  const std::optional<double> median = MedianOfKnown(reference);
  if (!median) return ratios;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] && *values[i] > 0) ratios[i] = *values[i] / *median;
  }
  return ratios;
}

}  // namespace longhaul::runtime::node_check
