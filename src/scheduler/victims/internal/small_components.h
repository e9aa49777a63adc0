// What it costs to free x slots where that is known exactly for every x: small components, joined.
//
// A component of one job with pieces of its own slots by a knapsack over its pieces; of few jobs
// and pieces by enumeration. All components with one slot are one list, cheapest first; the others
// join by a covering knapsack. Components too large for this are left to the search.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/victims/internal/cover.h"

namespace longhaul::scheduler::internal {

class SmallComponents {
 public:
  // Stops taking in components when the steps are used up. Adds its steps.
  SmallComponents(const Cover& cover, const std::vector<Component>& components, int64_t max_steps,
                  int64_t& steps);

  // The least cost to free `slots` or more of these components' slots; kNoCost: not possible.
  // Requires 0 <= slots <= cover.need.
  int64_t Cost(int32_t slots) const { return costs_[static_cast<size_t>(slots)]; }
  // Adds that choice.
  void Choose(int32_t slots, Selection& selection) const;

  // Components that were left out, as indices.
  const std::vector<size_t>& large() const { return large_; }

 private:
  // Jobs (>= 0) and pieces (~piece) that go together.
  using Choice = std::vector<int32_t>;
  struct Function {
    std::vector<int64_t> cost;    // [slots freed]
    std::vector<Choice> choices;  // [slots freed]
  };
  bool Enumerate(const Component& component, Function& function, int64_t& steps) const;
  size_t FreedBy(const Component& component, const std::vector<std::vector<uint32_t>>& units,
                 uint32_t set) const;
  bool OneJob(const Component& component, Function& function, int64_t& steps) const;
  // The same where each piece holds as many slots: the cheapest pieces first.
  void EqualPieces(const Cover::CoverJob& job, int32_t held, Function& function) const;
  void AddSingles(std::vector<std::pair<int64_t, Choice>> singles);
  void Join(Function function, int64_t& steps);

  const Cover& cover_;
  std::vector<Choice> singles_;              // cheapest first
  std::vector<Function> functions_;          // [joined component]
  std::vector<int64_t> costs_;               // [slots]
  std::vector<std::vector<int32_t>> taken_;  // [joined component][slots]: slots from it
  std::vector<size_t> large_;
};

}  // namespace longhaul::scheduler::internal
