#include "planner/search/knapsack.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace longhaul::planner::search {
namespace {

class Knapsack {
 public:
  Knapsack(std::span<const RecomputeItem> items, int64_t needed) : items_(items), needed_(needed) {
    for (const RecomputeItem& item : items) CHECK(item.seconds >= 0 && item.bytes >= 0);
    order_.resize(items.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&items](size_t a, size_t b) {
      // Seconds a byte, compared without dividing by a zero.
      return items[a].seconds * static_cast<double>(items[b].bytes) <
             items[b].seconds * static_cast<double>(items[a].bytes);
    });
    counts_.assign(items.size(), 0);
    best_.seconds = std::numeric_limits<double>::infinity();
  }

  std::optional<RecomputePlan> Solve() {
    Descend(0, 0, 0);
    if (best_.layers.empty() && !items_.empty()) return std::nullopt;
    if (best_.seconds == std::numeric_limits<double>::infinity()) return std::nullopt;
    return best_;
  }

 private:
  // The least seconds that the items from `depth` on can free the rest in, if layers were
  // divisible.
  double Bound(size_t depth, int64_t freed) const {
    double seconds = 0;
    for (size_t i = depth; i < order_.size() && freed < needed_; ++i) {
      const RecomputeItem& item = items_[order_[i]];
      if (item.bytes == 0) continue;
      const double layers =
          std::min(static_cast<double>(item.layers),
                   static_cast<double>(needed_ - freed) / static_cast<double>(item.bytes));
      seconds += layers * item.seconds;
      freed += static_cast<int64_t>(layers * static_cast<double>(item.bytes)) + 1;
    }
    return freed < needed_ ? std::numeric_limits<double>::infinity() : seconds;
  }

  void Descend(size_t depth, int64_t freed, double seconds) {
    if (freed >= needed_) {
      if (seconds < best_.seconds) best_ = {counts_, seconds, freed};
      return;
    }
    if (depth == order_.size() || seconds + Bound(depth, freed) >= best_.seconds) return;
    const RecomputeItem& item = items_[order_[depth]];
    uint32_t most = item.layers;
    if (item.bytes > 0) {
      const int64_t enough = (needed_ - freed + item.bytes - 1) / item.bytes;
      most = static_cast<uint32_t>(std::min<int64_t>(most, enough));
    } else {
      most = 0;
    }
    // The most first: a good plan early prunes the rest.
    for (uint32_t layers = most + 1; layers-- > 0;) {
      counts_[order_[depth]] = layers;
      Descend(depth + 1, freed + layers * item.bytes, seconds + layers * item.seconds);
    }
    counts_[order_[depth]] = 0;
  }

  std::span<const RecomputeItem> items_;
  const int64_t needed_;
  std::vector<size_t> order_;
  std::vector<uint32_t> counts_;
  RecomputePlan best_;
};

}  // namespace

std::optional<RecomputePlan> ChooseRecompute(std::span<const RecomputeItem> items, int64_t needed) {
  if (needed <= 0) return RecomputePlan{std::vector<uint32_t>(items.size(), 0), 0, 0};
  return Knapsack(items, needed).Solve();
}

}  // namespace longhaul::planner::search
