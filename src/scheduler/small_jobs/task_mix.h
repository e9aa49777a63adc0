// What arrives: how often each shape was asked for recently.
//
// The fragmentation of a node is measured against this mix. The typical shapes are the most
// frequent ones that make up 95 % of the arrivals, ties by number. Counts decay by halves, so that
// they follow a change of habits; all of it is integers and a function of the arrivals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/state/shape.h"

namespace longhaul::scheduler {

struct MixEntry {
  ShapeId shape{};
  int64_t weight = 0;

  friend bool operator==(const MixEntry&, const MixEntry&) = default;
};

struct TaskMix {
  std::vector<MixEntry> entries;  // by weight, heaviest first, ties by shape
  size_t typical = 0;             // the first so many are the typical ones
  int64_t typical_weight = 0;     // their sum

  std::span<const MixEntry> typical_entries() const { return {entries.data(), typical}; }
  friend bool operator==(const TaskMix&, const TaskMix&) = default;
};

// The most frequent that make up this much of all (per mille).
inline constexpr int64_t kTypicalPerMille = 950;
inline constexpr int64_t kMaxMixWeight = 1'000'000;  // sum of all weights, so that scores fit

// The mix of these counts. Counts are scaled down when their sum is above kMaxMixWeight; zeros are
// left out. Requires counts that are not negative, of distinct shapes.
TaskMix MakeTaskMix(std::vector<MixEntry> counts);

// The part of the arrivals that would have to be of another shape to make one mix the other (the
// total variation distance), per mille. 1,000 where one of them is empty.
int64_t DistancePerMille(const TaskMix& a, const TaskMix& b);

class ArrivalCounter {
 public:
  // Counts are halved whenever `window` arrivals have been counted since. Requires window >= 2.
  explicit ArrivalCounter(int64_t window = 100'000) : window_(window) {}

  void Count(ShapeId shape, int64_t tasks = 1);
  TaskMix Mix() const;
  // Arrivals since this counter began; a reader compares it to know how old its mix is.
  uint64_t arrivals() const { return arrivals_; }

 private:
  int64_t window_;
  std::vector<int64_t> counts_;  // by shape
  int64_t sum_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace longhaul::scheduler
