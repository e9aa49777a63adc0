#include "service/controller/view/spent_time.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace longhaul::service {
namespace {

using SumOfCategory = std::array<double, SpentTime::kCategories>;

std::optional<SumOfCategory> SumsIn(const SpentTime::Categories& sums) {
  SumOfCategory result{};
  for (const proto::CategoryTime& each : sums) {
    const double seconds = each.rank_seconds();
    // Written as a negation, so that a NaN is refused too.
    if (!proto::Category_IsValid(each.category()) || !(seconds >= 0) || std::isinf(seconds)) {
      return std::nullopt;
    }
    result[static_cast<size_t>(each.category())] = seconds;
  }
  return result;
}

// The category to which time of another one goes when the past changes: steps are discarded, or
// what the workers did before their first line of output becomes known. Else the category that has
// gained most.
size_t TargetOf(size_t from, const SumOfCategory& gained) {
  if (from == proto::PRODUCTIVE && gained[proto::LOST_WORK] > 0) return proto::LOST_WORK;
  return static_cast<size_t>(std::max_element(gained.begin(), gained.end()) - gained.begin());
}

}  // namespace

void SpentTime::Note(int64_t at_ms, const Categories& sums) {
  const std::optional<Sums> now = SumsIn(sums);
  if (!now.has_value()) return;
  const int64_t from_ms = noted_ms_;
  const int64_t to_ms = std::max(from_ms, at_ms);
  ExtendTo(to_ms);
  Sums gained{};
  for (size_t i = 0; i < kCategories; ++i) gained[i] = (*now)[i] - noted_[i];
  for (size_t i = 0; i < kCategories; ++i) {
    if (gained[i] < 0) Move(i, -gained[i], gained);
  }
  for (size_t i = 0; i < kCategories; ++i) {
    if (gained[i] > 0) Spread(i, gained[i], from_ms, to_ms);
  }
  noted_ = *now;
  noted_ms_ = to_ms;
}

void SpentTime::ExtendTo(int64_t at_ms) {
  const auto most = static_cast<int64_t>(kMostPeriods);
  while (at_ms / width_ms_ >= most) Widen();
  const auto needed = static_cast<size_t>(at_ms / width_ms_) + 1;
  if (needed <= periods()) return;
  for (std::vector<double>& each : by_category_) each.resize(needed);
}

void SpentTime::Widen() {
  width_ms_ *= 2;
  for (std::vector<double>& each : by_category_) {
    for (size_t i = 0; i < each.size(); ++i) {
      const double seconds = each[i];
      each[i] = 0;
      each[i / 2] += seconds;
    }
    each.resize((each.size() + 1) / 2);
  }
}

// Steps that are discarded are the newest ones, so the time is taken from the newest periods.
void SpentTime::Move(size_t from, double seconds, Sums& gained) {
  std::vector<double>& source = by_category_[from];
  for (size_t i = source.size(); i > 0 && seconds > 0;) {
    double& left = source[i - 1];
    const size_t to = TargetOf(from, gained);
    double moved = std::min(left, seconds);
    if (gained[to] > 0) {
      moved = std::min(moved, gained[to]);
      by_category_[to][i - 1] += moved;
      gained[to] -= moved;
    }
    left -= moved;
    seconds -= moved;
    if (left <= 0) --i;
  }
}

void SpentTime::Spread(size_t category, double seconds, int64_t from_ms, int64_t to_ms) {
  std::vector<double>& periods = by_category_[category];
  const int64_t first = from_ms / width_ms_;
  const int64_t last = to_ms / width_ms_;
  if (first == last) {
    periods[static_cast<size_t>(first)] += seconds;
    return;
  }
  const double rate = seconds / static_cast<double>(to_ms - from_ms);
  for (int64_t i = first; i <= last; ++i) {
    const int64_t begin = std::max(from_ms, i * width_ms_);
    const int64_t end = std::min(to_ms, (i + 1) * width_ms_);
    periods[static_cast<size_t>(i)] += rate * static_cast<double>(end - begin);
  }
}

}  // namespace longhaul::service
