// Which hosts of chosen leaves take the tasks: the fewest, then those that leave the least free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/internal/leaf_problem.h"

namespace longhaul::scheduler::internal {

class HostChooser {
 public:
  // The fewest hosts of the leaves that hold `units`, or -1 when they don't fit. Units may be
  // spread over the leaves at will.
  int32_t FewestHosts(const LeafProblem& problem, std::span<const int32_t> leaves, int32_t units);

  // The fewest hosts when each leaf's units are a multiple of problem.slice, and those units; -1
  // when they don't fit. Adds its cost to `steps`.
  int32_t FewestHostsOfSlices(const LeafProblem& problem, std::span<const int32_t> leaves,
                              int32_t units, std::vector<int32_t>& units_of_leaf, int64_t& steps);

  // Appends the tasks of `units` on the fewest hosts of the leaves, and returns the slots (in
  // tasks) left free on them, the least possible (exact below 64 slots a host). Slots left free in
  // the leaves are left in the last ones of the list. Requires that the units fit.
  int32_t Append(const LeafProblem& problem, std::span<const int32_t> leaves, int32_t units,
                 std::vector<HostTasks>& tasks);

 private:
  // Fills merged_: hosts by units, over the leaves.
  void MergeHistograms(const LeafProblem& problem, std::span<const int32_t> leaves);
  // Exchanges hosts in taken_ for smaller ones so that as little as possible of `excess` stays.
  int32_t ReduceExcess(int32_t least, int32_t excess);
  int32_t BestReduction(int32_t least, int32_t excess) const;
  void ApplyReduction(int32_t least, int32_t excess, int32_t reduction);

  std::vector<int32_t> merged_;
  std::vector<int32_t> taken_;  // hosts to take, by units
  struct Exchange {
    int32_t value;  // units of the hosts concerned
    int32_t cost;   // how much one of them lowers the sum
    int32_t most;   // how many
    int32_t sign;   // +1: leaves the choice, -1: enters
  };
  std::vector<Exchange> exchanges_;
  // [exchange][leaving minus entering, shifted by the excess]: bit r, the sum can fall by r.
  std::vector<std::vector<uint64_t>> layers_;
  std::vector<std::vector<int32_t>> slices_;  // [leaf][slices]: the fewest hosts so far
};

}  // namespace longhaul::scheduler::internal
