// Which measurements of a node check are slow, compared with those of the other nodes.
//
// The reference for pair tests is robust against a minority of slow nodes and links: of each pair
// the median of its tests, of each node the lower quartile of its pairs, of these the median over
// the nodes. A test is slow if it took more than twice the reference, or more if repeated tests of
// one pair differ a lot. Pairs of one switch and pairs of different switches have a reference each
// if there are enough of both. Of two medians the lower one counts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/node_check/decoder.h"
#include "runtime/node_check/plan.h"

namespace longhaul::runtime::node_check {

// Two is the limit of other node checks for a straggler as well.
constexpr double kSlowFactor = 2;
constexpr double kMostSlowFactor = 6;  // however much the tests of a pair differ

struct PairMeasurement {
  Pair pair;
  bool failed = false;
  double seconds = 0;  // of the whole test, if it did not fail
};

struct JudgedPairs {
  std::vector<PairResult> results;  // in the order of the measurements
  std::vector<double> ratios;       // to the reference; 0 if it failed or there is no reference
};

// Requires finite seconds above zero of tests that did not fail. `switch_of` as in Evidence.
// Nothing is slow if fewer than three nodes have a test that did not fail.
JudgedPairs JudgePairs(uint32_t nodes, const std::vector<uint32_t>& switch_of,
                       const std::vector<PairMeasurement>& measurements);

// Returns the median of the values that are there and above zero; nothing if they are fewer than
// three.
std::optional<double> MedianOfKnown(const std::vector<std::optional<double>>& values);

// Returns how many times the median of `reference` each value is; 1 for a missing one, and for all
// if the reference has fewer than three values.
std::vector<double> RatiosToMedian(const std::vector<std::optional<double>>& values,
                                   const std::vector<std::optional<double>>& reference);

}  // namespace longhaul::runtime::node_check
