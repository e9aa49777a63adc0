#include "scheduler/small_jobs/task_mix.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler {

TaskMix MakeTaskMix(std::vector<MixEntry> counts) {
  __int128 sum = 0;
  for (const MixEntry& entry : counts) {
    CHECK(entry.weight >= 0);
    sum += entry.weight;
  }
  TaskMix mix;
  int64_t total = 0;
  for (const MixEntry& entry : counts) {
    const int64_t weight =
        sum <= kMaxMixWeight
            ? entry.weight
            : static_cast<int64_t>(static_cast<__int128>(entry.weight) * kMaxMixWeight / sum);
    if (weight == 0) continue;
    mix.entries.push_back({entry.shape, weight});
    total += weight;
  }
  std::sort(mix.entries.begin(), mix.entries.end(), [](const MixEntry& a, const MixEntry& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.shape < b.shape;
  });
  while (mix.typical < mix.entries.size() &&
         mix.typical_weight * 1'000 < total * kTypicalPerMille) {
    mix.typical_weight += mix.entries[mix.typical++].weight;
  }
  return mix;
}

int64_t DistancePerMille(const TaskMix& a, const TaskMix& b) {
  constexpr int64_t kWhole = 1 << 30;
  std::map<ShapeId, int64_t> differences;  // of parts of the whole
  for (const auto& [mix, sign] : {std::pair(&a, 1), std::pair(&b, -1)}) {
    int64_t sum = 0;
    for (const MixEntry& entry : mix->entries) sum += entry.weight;
    if (sum == 0) return 1'000;
    for (const MixEntry& entry : mix->entries) {
      differences[entry.shape] += sign * (entry.weight * kWhole / sum);
    }
  }
  int64_t distance = 0;
  for (const auto& [shape, difference] : differences) distance += std::abs(difference);
  return distance * 500 / kWhole;
}

void ArrivalCounter::Count(ShapeId shape, int64_t tasks) {
  CHECK(tasks >= 1);
  const auto index = static_cast<size_t>(shape);
  if (index >= counts_.size()) counts_.resize(index + 1);
  // One gang is at most the window: a flood of equal tasks must not overflow or own the mix.
  tasks = std::min(tasks, window_);
  counts_[index] += tasks;
  sum_ += tasks;
  arrivals_ += static_cast<uint64_t>(tasks);
  while (sum_ > window_) {
    sum_ = 0;
    for (int64_t& count : counts_) sum_ += count /= 2;
  }
}

TaskMix ArrivalCounter::Mix() const {
  std::vector<MixEntry> counts;
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts.push_back({ShapeId{static_cast<uint32_t>(i)}, counts_[i]});
  }
  return MakeTaskMix(std::move(counts));
}

}  // namespace longhaul::scheduler
