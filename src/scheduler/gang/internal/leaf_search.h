// Of all choices with the fewest domains: one with the fewest hosts, then with the least leftover.
//
// For each share t below the largest host, H hosts of a choice hold at most H t + W_t units, W_t
// the sum over its hosts of max(0, units - t): each bounds H from below, the largest of them is
// exact where units may be spread at will, and each W_t is a sum over leaves, so that MaxSuffix
// bounds what any completion can have. The search takes leaves in order, best bound known, and
// stops at the step limit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/internal/host_choice.h"
#include "scheduler/gang/internal/leaf_problem.h"
#include "scheduler/gang/internal/suffix_tables.h"

namespace longhaul::scheduler::internal {

struct LeafChoice {
  std::vector<int32_t> leaves;  // that aren't free, ascending
  int32_t hosts = 0;
  int32_t leftover = 0;  // units
  int32_t hosts_bound = 0;
  bool hosts_proven = false;
  bool leftover_proven = false;
};

class LeafSearch {
 public:
  // `counts` are the fewest domains and choice.leaves one choice that has them; both stay as they
  // are unless something better is found. Requires slices in leaves or below.
  void Improve(const LeafProblem& problem, const Counts& counts, int64_t max_steps,
               LeafChoice& choice);

 private:
  // A choice's hosts and leftover become the best if they are better; true then.
  bool Offer(const std::vector<int32_t>& leaves, LeafChoice& choice);
  int32_t HostsOf(const std::vector<int32_t>& leaves);
  // Loads the problem and computes the hosts and the leftover of the choice that is given.
  void Begin(const LeafProblem& problem, const Counts& counts, int64_t max_steps,
             LeafChoice& choice);
  void LoadWeights();
  // Returns the least leftover that any choice can have, and offers a choice that has it. Sets
  // have_sums_; without the sums the bound is 0.
  int32_t BoundLeftover(LeafChoice& choice);
  // Sets the lower bound of hosts. Returns false when the exact tables would exceed the step
  // limit; then the bound is a coarse one and Descend must not be called.
  bool BoundHosts(LeafChoice& choice);
  // Finds equal leaves next to each other in a block: Descend chooses a later one only together
  // with the earlier one, because swapping them changes nothing.
  void MarkTwins();
  void Descend(size_t position, size_t state, int32_t units, LeafChoice& choice);
  // True when completions from here may be better than the best.
  bool MayImprove(size_t position, size_t state, int32_t units, const LeafChoice& choice) const;

  const LeafProblem* problem_ = nullptr;
  HostChooser hosts_;
  SuffixStates states_;
  SumSuffix sums_;
  bool have_sums_ = false;
  int64_t steps_ = 0;
  int64_t max_steps_ = 0;
  int32_t scale_ = 1;  // divides all capacities, for shorter sets of sums
  int32_t all_free_ = 0;
  std::vector<int32_t> free_leaves_;
  std::vector<int32_t> shares_;                // t, ascending from 0
  std::vector<std::vector<int32_t>> weights_;  // [share][position]: W_t; share 0 is the capacity
  std::vector<MaxSuffix> most_;                // [share]
  std::vector<int32_t> scaled_;                // [position]
  std::vector<int32_t> twin_;    // [position]: an equal leaf before it in the same block, or -1
  std::vector<uint8_t> chosen_;  // [position]
  std::vector<int32_t> held_;    // [share]: W_t of the leaves chosen so far
  std::vector<int32_t> trial_;
  std::vector<int32_t> with_free_;
  std::vector<int32_t> units_of_leaf_;
};

}  // namespace longhaul::scheduler::internal
