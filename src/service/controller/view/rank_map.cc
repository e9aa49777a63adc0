#include "service/controller/view/rank_map.h"

#include <algorithm>
#include <limits>

namespace longhaul::service {
namespace {

// Of those that are known; the lower one of two, so that the slower of two ranks stands out.
uint32_t MedianOf(const proto::RankWork& entry) {
  std::vector<uint32_t> known;
  for (const uint32_t each : entry.work_us()) {
    if (each > 0) known.push_back(each);
  }
  if (known.empty()) return 0;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

uint8_t ValueOf(uint32_t work_us, uint32_t median_us) {
  if (work_us == 0) return 0;
  const uint64_t value =
      (uint64_t{work_us} * RankMap::kOfMedian + median_us / 2) / uint64_t{median_us};
  return static_cast<uint8_t>(std::clamp<uint64_t>(value, 1, std::numeric_limits<uint8_t>::max()));
}

void TakeLargest(const std::vector<uint8_t>& from, std::vector<uint8_t>& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

void RankMap::Take(int64_t at_ms, const proto::RankWork& entry) {
  const auto groups = static_cast<size_t>(entry.work_us_size());
  if (groups > kMostGroups || entry.slowest_size() != entry.work_us_size()) return;
  const uint32_t median_us = MedianOf(entry);
  if (median_us == 0) return;
  if (entry.ranks_per_group() != newest_.ranks_per_group() ||
      entry.work_us_size() != newest_.work_us_size()) {
    columns_.clear();
  }
  newest_ = entry;
  median_us_ = median_us;
  std::vector<uint8_t> values;
  for (const uint32_t each : entry.work_us()) values.push_back(ValueOf(each, median_us));
  int64_t index = std::max<int64_t>(0, at_ms) / width_ms_;
  if (!columns_.empty()) index = std::max(index, columns_.back().index);
  if (!columns_.empty() && columns_.back().index == index) {
    return TakeLargest(values, columns_.back().values);
  }
  columns_.push_back({index, std::move(values)});
  while (columns_.size() > kMostPeriods) Widen();
}

void RankMap::Widen() {
  width_ms_ *= 2;
  std::vector<Column> merged;
  for (Column& column : columns_) {
    column.index /= 2;
    if (!merged.empty() && merged.back().index == column.index) {
      TakeLargest(column.values, merged.back().values);
    } else {
      merged.push_back(std::move(column));
    }
  }
  columns_ = std::move(merged);
}

}  // namespace longhaul::service
