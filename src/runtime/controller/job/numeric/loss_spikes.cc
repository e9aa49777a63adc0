#include "runtime/controller/job/numeric/loss_spikes.h"

#include <algorithm>
#include <cmath>

namespace longhaul::runtime::controller {

namespace {

constexpr double kSpikeDeviations = 8;
constexpr double kToStandardDeviation = 1.4826;  // of a normal distribution
constexpr double kSpikeFactor = 2;

// Requires at least one value. The upper one of two in the middle.
double MedianLossOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void LossSpikes::Keep(const Entry& entry) {
  good_.push_back(entry);
  if (good_.size() > kWindow) good_.pop_front();
}

std::optional<LossSpikes::Spike> LossSpikes::Take(uint64_t step, double loss) {
  const Entry entry{step, loss};
  if (good_.size() < kLeast) {
    Keep(entry);
    return std::nullopt;
  }
  std::vector<double> values;
  for (const Entry& each : good_) values.push_back(each.loss);
  const double median = MedianLossOf(values);
  for (double& value : values) value = std::fabs(value - median);
  const double spread = kToStandardDeviation * MedianLossOf(std::move(values));
  const double limit = std::max(median + kSpikeDeviations * spread, kSpikeFactor * median);
  if (median <= 0 || loss <= limit) {
    // Single losses that are far above the others are part of ordinary noise.
    for (const Entry& each : suspect_) Keep(each);
    suspect_.clear();
    Keep(entry);
    return std::nullopt;
  }
  suspect_.push_back(entry);
  if (suspect_.size() == kInARow) {
    return Spike{suspect_.front().step, step, loss, median, limit};
  }
  if (suspect_.size() >= kWindow) {
    good_.clear();
    for (const Entry& each : suspect_) Keep(each);
    suspect_.clear();
  }
  return std::nullopt;
}

void LossSpikes::Rewind(uint64_t step) {
  const auto later = [step](const Entry& entry) { return entry.step > step; };
  std::erase_if(good_, later);
  std::erase_if(suspect_, later);
}

}  // namespace longhaul::runtime::controller
