// The largest capacity that each number of domains of each tier can have (see equal_tasks.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/gang/internal/leaf_problem.h"

namespace longhaul::scheduler::internal {

// The fewest domains of each tier that hold the units, and the leaves of one such choice.
class DomainTable {
 public:
  // False when the units don't fit. Domains of `required_tier` and above are one at most. Free
  // domains cost nothing; `leaves` lists chosen leaves that aren't free, ascending.
  bool FewestDomains(const LeafProblem& problem, Tier required_tier, Counts& counts,
                     std::vector<int32_t>& leaves);

 private:
  enum class Kind : uint8_t { kEnter, kItem, kExit };
  struct Event {
    Kind kind;
    Tier tier;
    int32_t domain;
    size_t decisions;  // where its bytes start
  };

  // Finds counts[top] and one choice of domains of the top tier.
  bool FewestOnTop(const LeafProblem& problem, Tier required_tier, Counts& counts);
  // An upper bound for the domains of `tier`, from the domains chosen above.
  int32_t UpperBound(const LeafProblem& problem, Tier tier) const;
  void Fill(const LeafProblem& problem, Tier lowest, const Counts& limits);
  void FillDomain(const LeafProblem& problem, Tier tier, int32_t domain);
  void FillItem(const LeafProblem& problem, int32_t item);
  void Merge(std::vector<int32_t>& into, const std::vector<int32_t>& from);
  // The domains of tier lowest_ behind the entry `state`, ascending, into chosen_.
  void Choose(const LeafProblem& problem, size_t state);

  Tier lowest_ = 0;
  size_t states_ = 0;
  Counts limits_{};
  std::array<size_t, kMaxTiers + 1> stride_{};  // of a tier's count in the index of an entry
  // [tier]: with a domain of `tier` open and paid; [tiers]: nothing open.
  std::array<std::vector<int32_t>, kMaxTiers + 1> table_;
  std::vector<Event> events_;
  std::vector<uint8_t> decisions_;
  std::vector<int32_t> chosen_;
  std::vector<int32_t> order_;
};

}  // namespace longhaul::scheduler::internal
