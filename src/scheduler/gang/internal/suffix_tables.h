// What the leaves from a position on can still add, for every number of domains that may be left.
//
// Positions are leaves with capacity, ascending. A state is the counts left of each tier and the
// lowest tier that is open: paid for already at this position (a domain is paid once, with its
// first chosen leaf). For each position and state there is the largest sum of a weight, or the set
// of reachable sums; both are upper bounds ("at most so many domains").
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/internal/leaf_problem.h"

namespace longhaul::scheduler::internal {

class SuffixStates {
 public:
  // Requires slices below the leaf's tier or none: capacities above leaves are plain sums.
  void Load(const LeafProblem& problem, const Counts& counts);

  size_t positions() const { return leaves_.size(); }
  size_t states() const { return states_; }
  int32_t LeafAt(size_t position) const { return leaves_[position]; }
  bool IsFree(size_t position) const { return free_[position] != 0; }

  // The state with all counts left, at the first position.
  size_t Start() const { return start_; }
  // The state at the next position after passing this one without choosing it.
  size_t Skip(size_t position, size_t state) const {
    const size_t open = open_[state];
    return state + (open_after_[position * levels_ + open] - open) * entries_;
  }
  // The state at the next position after choosing it; kNone when counts don't allow it.
  size_t Take(size_t position, size_t state) const {
    const size_t price = IsFree(position) ? 0 : price_[state];
    if (price == kNone) return kNone;
    return state - price + (open_after_[position * levels_] - open_[state]) * entries_;
  }

  static constexpr size_t kNone = ~size_t{0};

 private:
  std::vector<int32_t> leaves_;
  std::vector<uint8_t> free_;
  // "Open" is counted from tier 1: 0 means that everything above the leaf is paid.
  size_t levels_ = 0;
  size_t entries_ = 0;  // combinations of counts
  size_t states_ = 0;
  size_t start_ = 0;
  std::vector<size_t> open_;        // [state]
  std::vector<size_t> price_;       // [state]: what choosing a leaf takes off the entry's index
  std::vector<size_t> open_after_;  // [position][open]: open at the next position
};

// The largest sum of `weight` (one entry a position), layer by layer.
class MaxSuffix {
 public:
  void Fill(const SuffixStates& states, std::span<const int32_t> weight);
  int32_t At(size_t position, size_t state) const { return best_[position * states_ + state]; }
  // The positions of the best choice with the lowest leaves, free ones not listed.
  void Choose(const SuffixStates& states, std::span<const int32_t> weight,
              std::vector<int32_t>& leaves) const;

 private:
  size_t states_ = 0;
  std::vector<int32_t> best_;
};

// The reachable sums up to a limit.
class SumSuffix {
 public:
  // False, and nothing is filled, when it would take more than max_words words.
  bool Fill(const SuffixStates& states, std::span<const int32_t> weight, int32_t limit,
            int64_t max_words);
  // The least reachable sum in [from, to], or -1.
  int32_t LeastIn(size_t position, size_t state, int32_t from, int32_t to) const;
  // The leaves of one choice with this sum, the lowest ones; free ones not listed.
  void Choose(const SuffixStates& states, std::span<const int32_t> weight, int32_t sum,
              std::vector<int32_t>& leaves) const;

 private:
  const uint64_t* Row(size_t position, size_t state) const {
    return bits_.data() + (position * states_ + state) * words_;
  }
  bool Has(size_t position, size_t state, int32_t sum) const;

  size_t states_ = 0;
  size_t words_ = 0;
  std::vector<uint64_t> bits_;
};

}  // namespace longhaul::scheduler::internal
