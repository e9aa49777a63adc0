#include "runtime/goodput/step_time.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace longhaul::runtime {
namespace {

constexpr double kDeviations = 9;
constexpr double kShare = 0.5;

// The lower one of two middles. Requires 1 <= count <= kWindow.
int64_t Median(std::array<int64_t, StepTime::kWindow> numbers, size_t count) {
  const auto begin = numbers.begin();
  const auto middle = begin + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(begin, middle, begin + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace

void StepTime::Observe(Duration each) {
  CHECK(each >= Duration(0));
  newest_ns_[next_] = each.count();
  next_ = (next_ + 1) % kWindow;
  count_ = std::min(count_ + 1, kWindow);
  median_ns_ = Median(newest_ns_, count_);
  std::array<int64_t, kWindow> deviations{};
  for (size_t i = 0; i < count_; ++i) deviations[i] = std::abs(newest_ns_[i] - median_ns_);
  deviation_ns_ = Median(deviations, count_);
}

Duration StepTime::Stall(Duration time, uint64_t steps) const {
  CHECK(steps >= 1);
  if (count_ < kLeast) return Duration(0);
  // IEEE arithmetic and its square root round the same way everywhere.
  const auto count = static_cast<double>(steps);
  const auto median = static_cast<double>(median_ns_);
  const double excess = static_cast<double>(time.count()) - median * count;
  const double limit =
      std::max({kDeviations * static_cast<double>(deviation_ns_) * count,
                kShare * median * std::sqrt(count), static_cast<double>(kFloor.count())});
  return excess > limit ? Duration(static_cast<int64_t>(excess)) : Duration(0);
}

}  // namespace longhaul::runtime
