#include "scheduler/small_jobs/fragmentation.h"

#include <algorithm>

namespace longhaul::scheduler {

namespace {

void SortUnique(std::vector<int32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

FragmentationTable::FragmentationTable(const State& state, const TaskMix& mix)
    : weight_(mix.typical_weight) {
  std::vector<int32_t> shares;
  for (const MixEntry& entry : mix.typical_entries()) {
    const Shape& shape = state.shape(entry.shape);
    cpu_needs_.push_back(shape.cpu_milli);
    if (shape.share > 0) shares.push_back(shape.share);
  }
  SortUnique(cpu_needs_);
  SortUnique(shares);
  MakeBuckets();
  for (size_t v = 0; v < share_rank_.size(); ++v) {
    share_rank_[v] = static_cast<uint16_t>(
        std::upper_bound(shares.begin(), shares.end(), static_cast<int32_t>(v)) - shares.begin());
  }
  row_ = 1 + kGpus + shares.size() + 1;
  sums_.assign(state.groups().size() * (cpu_needs_.size() + 1) * row_, 0);
  for (const GroupIndex group : state.groups()) {
    for (const MixEntry& entry : mix.typical_entries()) {
      if (!state.Allows(entry.shape, group)) continue;
      const Shape& shape = state.shape(entry.shape);
      const auto need = std::lower_bound(cpu_needs_.begin(), cpu_needs_.end(), shape.cpu_milli) -
                        cpu_needs_.begin();
      for (auto rank = static_cast<size_t>(need) + 1; rank <= cpu_needs_.size(); ++rank) {
        int64_t* const row = &sums_[(group * (cpu_needs_.size() + 1) + rank) * row_];
        if (!shape.needs_devices()) {
          row[0] += entry.weight;
        } else if (shape.gpus > 0) {
          for (size_t k = shape.gpus; k < kGpus; ++k) row[1 + k] += entry.weight;
        } else {
          for (size_t r = share_rank_[shape.share]; r <= shares.size(); ++r) {
            row[1 + kGpus + r] += entry.weight;
          }
        }
      }
    }
  }
}

void FragmentationTable::MakeBuckets() {
  // A few thousand buckets: the search in one is then a step or two.
  constexpr uint32_t kMostBuckets = 4'096;
  const auto most = cpu_needs_.empty() ? 0u : static_cast<uint32_t>(cpu_needs_.back());
  while (most >> bucket_shift_ >= kMostBuckets) ++bucket_shift_;
  for (uint32_t bucket = 0; bucket <= most >> bucket_shift_; ++bucket) {
    const auto least = static_cast<int64_t>(bucket) << bucket_shift_;
    first_rank_.push_back(static_cast<uint16_t>(
        std::lower_bound(cpu_needs_.begin(), cpu_needs_.end(), least) - cpu_needs_.begin()));
  }
}

int64_t FragmentationTable::Of(Row row, std::span<const int16_t> free_shares) const {
  size_t whole = 0;
  int32_t most = 0;
  int32_t idle = 0;
  for (const int16_t share : free_shares) {
    const int32_t free = std::max<int32_t>(share, 0);
    whole += free == kWholeGpu ? 1 : 0;
    most = std::max(most, free);
    idle += free;
  }
  if (idle == 0) return 0;
  const int64_t* const fractions = row + 1 + kGpus;
  // The weight of shapes with GPUs that could run; each wastes the GPUs that are too full for it.
  const int64_t able = row[1 + whole] + fractions[share_rank_[static_cast<size_t>(most)]];
  int64_t fragmentation = idle * (weight_ - row[0] - able);
  for (const int16_t share : free_shares) {
    if (share <= 0 || share == kWholeGpu) continue;
    fragmentation += share * (able - fractions[share_rank_[static_cast<size_t>(share)]]);
  }
  return fragmentation;
}

}  // namespace longhaul::scheduler
