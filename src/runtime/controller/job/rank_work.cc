#include "runtime/controller/job/rank_work.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::runtime::controller {

void RankWork::BeginAttempt(uint32_t nodes, uint32_t local) {
  CHECK(nodes >= 1 && local >= 1);
  local_ = local;
  ranks_.assign(size_t{nodes} * local, Sum());
  has_news_ = false;
  // Whole nodes, so that a group that stands out names machines.
  const bool grouped = ranks_.size() > kMostGroups;
  ranks_per_group_ = grouped ? local * ((nodes + kMostGroups - 1) / kMostGroups) : 1;
}

void RankWork::Take(size_t place, const proto::StepReported& report) {
  const size_t first = place * local_;
  const auto count = static_cast<size_t>(report.rank_work_us_size());
  if (count != local_ || first + count > ranks_.size()) return;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t work_us = report.rank_work_us(static_cast<int>(i));
    if (work_us == 0) continue;
    ranks_[first + i].work_us += work_us;
    ++ranks_[first + i].reports;
    has_news_ = true;
  }
}

proto::RankWork RankWork::TakeEntry() {
  proto::RankWork entry;
  entry.set_ranks_per_group(ranks_per_group_);
  for (size_t first = 0; first < ranks_.size(); first += ranks_per_group_) {
    uint64_t longest_us = 0;
    size_t slowest = first;
    const size_t end = std::min(ranks_.size(), first + ranks_per_group_);
    for (size_t rank = first; rank < end; ++rank) {
      const Sum& sum = ranks_[rank];
      const uint64_t mean_us = sum.reports > 0 ? sum.work_us / sum.reports : 0;
      if (mean_us <= longest_us) continue;
      longest_us = mean_us;
      slowest = rank;
    }
    entry.add_work_us(static_cast<uint32_t>(longest_us));  // a mean of 32-bit numbers
    entry.add_slowest(static_cast<uint32_t>(slowest));
  }
  std::fill(ranks_.begin(), ranks_.end(), Sum());
  has_news_ = false;
  return entry;
}

}  // namespace longhaul::runtime::controller
