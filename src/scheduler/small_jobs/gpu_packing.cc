#include "scheduler/small_jobs/gpu_packing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

// Enough for any mix of 64 shares seen in tests (most need fewer than 100); after that the duals of
// the last basis serve, which is a worse price and no error.
constexpr int kMaxPivots = 2'000;
constexpr double kTolerance = 1e-9;

// For every v, the dearest set of shares that fits into v.
struct Knapsack {
  std::array<double, kWholeGpu + 1> value{};
  std::array<int16_t, kWholeGpu + 1> item{};  // the last share added; -1: as with one less
};

Knapsack Solve(std::span<const ShareWeight> shares, std::span<const double> prices) {
  Knapsack knapsack;
  knapsack.item.fill(-1);
  for (int v = 1; v <= kWholeGpu; ++v) {
    const auto at = static_cast<size_t>(v);
    knapsack.value[at] = knapsack.value[at - 1];
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i].share > v) continue;
      const double with = knapsack.value[at - static_cast<size_t>(shares[i].share)] + prices[i];
      if (with <= knapsack.value[at] + kTolerance) continue;
      knapsack.value[at] = with;
      knapsack.item[at] = static_cast<int16_t>(i);
    }
  }
  return knapsack;
}

// Walks back from a whole GPU by the last share added.
std::vector<double> BestPattern(std::span<const ShareWeight> shares, const Knapsack& knapsack) {
  std::vector<double> pattern(shares.size());
  for (int v = kWholeGpu; v > 0;) {
    const int16_t item = knapsack.item[static_cast<size_t>(v)];
    if (item < 0) {
      --v;
      continue;
    }
    pattern[static_cast<size_t>(item)] += 1;
    v -= shares[static_cast<size_t>(item)].share;
  }
  return pattern;
}

// The revised simplex method on the patterns in use: min sum x, sum x pattern = weights.
class CuttingStock {
 public:
  explicit CuttingStock(std::span<const ShareWeight> shares)
      : shares_(shares), size_(shares.size()), inverse_(size_ * size_), amounts_(size_) {
    double sum = 0;
    for (const ShareWeight& share : shares) sum += static_cast<double>(share.weight);
    // To begin with each share has a pattern of its own.
    for (size_t i = 0; i < size_; ++i) {
      inverse_[i * size_ + i] = 1.0 / (kWholeGpu / shares[i].share);
      amounts_[i] = static_cast<double>(shares[i].weight) / sum * inverse_[i * size_ + i];
    }
  }

  // The value of a GPU after the last pivot, in GPUs.
  // Column generation: the most valuable pattern at the present prices enters the basis while it is
  // worth more than the GPU that it costs.
  Knapsack Run() {
    Knapsack knapsack = Solve(shares_, Prices());
    for (int pivot = 0; pivot < kMaxPivots && knapsack.value[kWholeGpu] > 1 + 1e-7; ++pivot) {
      if (!Pivot(BestPattern(shares_, knapsack))) break;
      knapsack = Solve(shares_, Prices());
    }
    return knapsack;
  }

 private:
  // A pattern costs one GPU, so the prices are the column sums of the basis' inverse.
  std::vector<double> Prices() const {
    std::vector<double> prices(size_);
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < size_; ++i) prices[i] += inverse_[row * size_ + i];
    }
    for (double& price : prices) price = std::max(price, 0.0);
    return prices;
  }

  // The ratio test finds the pattern that leaves: the one whose amount reaches zero first. The
  // comparison multiplies crosswise to avoid a division.
  bool Pivot(std::span<const double> pattern) {
    std::vector<double> direction(size_);
    for (size_t row = 0; row < size_; ++row) {
      for (size_t i = 0; i < size_; ++i) direction[row] += inverse_[row * size_ + i] * pattern[i];
    }
    size_t leaves = size_;
    for (size_t row = 0; row < size_; ++row) {
      if (direction[row] <= kTolerance) continue;
      const bool first = leaves == size_;
      if (first || amounts_[row] * direction[leaves] < amounts_[leaves] * direction[row]) {
        leaves = row;
      }
    }
    if (leaves == size_) return false;
    const double step = amounts_[leaves] / direction[leaves];
    for (size_t i = 0; i < size_; ++i) inverse_[leaves * size_ + i] /= direction[leaves];
    for (size_t row = 0; row < size_; ++row) {
      if (row == leaves) continue;
      amounts_[row] -= step * direction[row];
      for (size_t i = 0; i < size_; ++i) {
        inverse_[row * size_ + i] -= direction[row] * inverse_[leaves * size_ + i];
      }
    }
    amounts_[leaves] = step;
    return true;
  }

  std::span<const ShareWeight> shares_;
  size_t size_;
  std::vector<double> inverse_;  // of the basis, by rows
  std::vector<double> amounts_;  // how often each pattern of the basis is used
};

}  // namespace

GpuValues ValueGpus(std::vector<ShareWeight> shares) {
  GpuValues values{};
  if (shares.empty()) return values;
  for (const ShareWeight& share : shares) {
    CHECK(share.share >= 1 && share.share < kWholeGpu && share.weight > 0);
  }
  std::sort(shares.begin(), shares.end(), [](const ShareWeight& a, const ShareWeight& b) {
    const int64_t taken_a = a.share * a.weight;
    const int64_t taken_b = b.share * b.weight;
    return taken_a != taken_b ? taken_a > taken_b : a.share < b.share;
  });
  if (shares.size() > kMaxPackedShares) shares.resize(kMaxPackedShares);
  const Knapsack knapsack = CuttingStock(shares).Run();
  // Divided by the value of an empty GPU the prices are feasible even if pivots ran out.
  const double whole = knapsack.value[kWholeGpu];
  CHECK(whole > 0);
  for (size_t v = 0; v < values.size(); ++v) {
    values[v] = static_cast<int32_t>(std::lround(knapsack.value[v] / whole * kGpuValue));
  }
  return values;
}

std::vector<ShareWeight> SharesOf(const ShapeTable& shapes, const TaskMix& mix) {
  std::map<int32_t, int64_t> weights;
  for (const MixEntry& entry : mix.entries) {
    const int32_t share = shapes[entry.shape].share;
    if (share > 0) weights[share] += entry.weight;
  }
  std::vector<ShareWeight> shares;
  for (const auto& [share, weight] : weights) shares.push_back({share, weight});
  return shares;
}

}  // namespace longhaul::scheduler
