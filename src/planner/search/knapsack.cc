#include "planner/search/knapsack.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace longhaul::planner::search {
namespace {

// Rounding of a bound's sums must not lose a plan that is as good.
constexpr double kRounding = 1 - 1e-12;

class Knapsack {
 public:
  // The items in ascending order of their best rate: the greedy bound then takes them in this
  // order.
  Knapsack(std::span<const RecomputeItem> items, double needed, RecomputeTime below, uint32_t first)
      : items_(items), needed_(needed), first_(first), best_time_(below) {
    CHECK(items.size() <= kMostItems);
    for (size_t i = 0; i < items.size(); ++i) {
      order_[i] = i;
      plan_.layers[i] = first;
      rates_[i] = items[i].least_rate;
    }
    std::stable_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(items.size()),
                     [this](size_t a, size_t b) { return rates_[a] < rates_[b]; });
  }

  std::optional<RecomputePlan> Solve(RecomputeTime without) {
    Descend(0, 0, without);
    return best_;
  }

  uint64_t effort() const { return effort_; }

 private:
  double Freed(const RecomputeItem& item, size_t layers) const {
    return item.bytes[layers] - item.bytes[first_];
  }

  // The least time in which the items from `depth` on can free the rest: each at its best rate.
  RecomputeTime Bound(size_t depth, double freed, RecomputeTime time) const {
    for (size_t i = depth; i < items_.size() && freed < needed_; ++i) {
      const double most = Freed(items_[order_[i]], items_[order_[i]].bytes.size() - 1);
      const double taken = std::min(most, needed_ - freed);
      if (taken > 0) time.device_s += taken * rates_[order_[i]];
      freed += taken;
    }
    return time;
  }

  // Whether a plan can be better that frees `freed` with the items up to `depth`, of which the last
  // takes `least_s` or more. With fewer layers of that one it cannot, if it cannot with these: what
  // they would free is freed at rates that are no better.
  bool IsOpen(size_t depth, double freed, RecomputeTime time, double least_s) const {
    time.device_s += least_s;
    RecomputeTime bound = Bound(depth + 1, freed, time);
    bound.device_s *= kRounding;
    return bound < best_time_;
  }

  // Decides the item at `depth`: from the number of layers that suffices down to none. IsOpen ends
  // the loop early, since fewer layers of a cheap item only move bytes to items with worse rates.
  // The device's seconds alone make the bound; the launches that are already chosen still count in
  // total().
  void Descend(size_t depth, double freed, RecomputeTime time) {
    ++effort_;
    if (freed >= needed_) {
      if (!(time < best_time_)) return;
      best_time_ = time;
      plan_.time = time;
      best_ = plan_;
      return;
    }
    RecomputeTime bound = Bound(depth, freed, time);
    bound.device_s *= kRounding;
    if (depth == items_.size() || !(bound < best_time_)) return;
    const size_t k = order_[depth];
    const RecomputeItem& item = items_[k];
    // The fewest layers that are enough, or that free all they can; then fewer.
    const auto begin = item.bytes.begin() + first_;
    const double wanted = std::min(item.bytes[first_] + (needed_ - freed), item.bytes.back());
    const auto enough = std::lower_bound(begin, item.bytes.end(), wanted);
    size_t most = static_cast<size_t>(enough - item.bytes.begin());
    most = std::min(most, item.bytes.size() - 1);
    // Where rounding leaves the sum a hair short, one layer more.
    const bool more = most + 1 < item.bytes.size() && item.bytes[most + 1] > item.bytes[most];
    if (more && freed + Freed(item, most) < needed_) ++most;
    // What frees nothing is not recomputed.
    if (rates_[k] == std::numeric_limits<double>::infinity()) most = first_;
    // The last item must free the rest by itself.
    const size_t fewest = depth + 1 == items_.size() ? most : first_;
    for (size_t n = most + 1; n-- > fewest;) {
      if (n < most && !IsOpen(depth, freed + Freed(item, n), time, Freed(item, n) * rates_[k]))
        break;
      plan_.layers[k] = static_cast<uint32_t>(n);
      Descend(depth + 1, freed + Freed(item, n),
              {time.device_s + item.device_s[n] - item.device_s[first_],
               time.launch_s + item.launch_s[n] - item.launch_s[first_]});
    }
    plan_.layers[k] = first_;
  }

  std::span<const RecomputeItem> items_;
  const double needed_;
  const uint32_t first_;
  std::array<size_t, kMostItems> order_{};
  std::array<double, kMostItems> rates_{};
  RecomputePlan plan_;
  RecomputeTime best_time_;
  std::optional<RecomputePlan> best_;
  uint64_t effort_ = 0;
};

}  // namespace

double LeastRate(std::span<const double> device_s, std::span<const double> bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t n = 0; n + 1 < bytes.size(); ++n) {
    const double freed = bytes[n + 1] - bytes[n];
    if (freed > 0) least = std::min(least, (device_s[n + 1] - device_s[n]) / freed);
  }
  return least;
}

std::optional<RecomputePlan> ChooseRecompute(std::span<const RecomputeItem> items, double needed,
                                             RecomputeTime without, RecomputeTime below,
                                             uint32_t first, uint64_t* effort) {
  Knapsack knapsack(items, needed, below, first);
  std::optional<RecomputePlan> plan = knapsack.Solve(without);
  if (effort != nullptr) *effort += knapsack.effort();
  return plan;
}

// Gift wrapping from the origin: at most as many rounds as choices. Rates do not fall from step to
// step.
std::vector<FreedAtRate> HullOf(std::vector<LayerChoice> choices) {
  std::vector<FreedAtRate> steps;
  LayerChoice at;
  while (true) {
    // The choice beyond the last that adds bytes at the least rate; of equals the farthest.
    const LayerChoice* next = nullptr;
    double least = 0;
    for (const LayerChoice& choice : choices) {
      if (!(choice.bytes > at.bytes)) continue;
      const double rate = (choice.device_s - at.device_s) / (choice.bytes - at.bytes);
      const bool farther = next != nullptr && rate == least && choice.bytes > next->bytes;
      if (next != nullptr && !(rate < least) && !farther) continue;
      next = &choice;
      least = rate;
    }
    if (next == nullptr) return steps;
    steps.push_back({std::max(0.0, least), next->bytes - at.bytes});
    at = *next;
  }
}

double LeastSeconds(std::vector<FreedAtRate>& steps, double needed) {
  std::sort(steps.begin(), steps.end(),
            [](const FreedAtRate& a, const FreedAtRate& b) { return a.rate < b.rate; });
  double seconds = 0;
  for (const FreedAtRate& step : steps) {
    if (needed <= 0) break;
    seconds += step.rate * std::min(needed, step.bytes);
    needed -= step.bytes;
  }
  return needed <= 0 ? seconds : std::numeric_limits<double>::infinity();
}

}  // namespace longhaul::planner::search
