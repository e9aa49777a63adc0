#include "scheduler/small_jobs/scarcity.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler {

ScarcityPrices::ScarcityPrices(const ShapeTable& shapes, const TaskMix& mix, size_t models,
                               const SmallJobPolicy& policy)
    : largest_(policy.largest_price_milli), percent_(policy.price_percent), models_(models) {
  CHECK(models <= spec::kMaxDeviceModels);
  const uint64_t all = (uint64_t{1} << models) - 1;
  std::map<uint64_t, int64_t> demand;  // by allowed models
  for (const MixEntry& entry : mix.entries) {
    const Shape& shape = shapes[entry.shape];
    if (!shape.needs_devices()) continue;
    demand[shape.models & all] += entry.weight * shape.gpu_milli();
  }
  for (const auto& [allowed, amount] : demand) {
    demand_ += amount;
    if (allowed != all) pinned_.push_back({allowed, amount});
  }
}

std::vector<int64_t> ScarcityPrices::Form(std::span<const int64_t> free_milli) const {
  CHECK(free_milli.size() == models_);
  std::vector<int64_t> prices(models_);
  if (pinned_.empty()) return prices;
  const int64_t free = std::accumulate(free_milli.begin(), free_milli.end(), int64_t{0});
  for (const Class& pinned : pinned_) {
    int64_t allowed = 0;
    for (size_t m = 0; m < models_; ++m) {
      if ((pinned.models >> m & 1) != 0) allowed += free_milli[m];
    }
    // What the class would take of each of its models: demand x (free / all demand) / allowed.
    const auto share = static_cast<__int128>(pinned.demand) * free * 1'000 /
                       (static_cast<__int128>(demand_) * std::max<int64_t>(allowed, 1));
    const auto price = static_cast<int64_t>(std::min<__int128>(share, largest_));
    for (size_t m = 0; m < models_; ++m) {
      if ((pinned.models >> m & 1) != 0) prices[m] += price;
    }
  }
  for (int64_t& price : prices) price = std::min(price, largest_) * percent_ / 100;
  return prices;
}

}  // namespace longhaul::scheduler
