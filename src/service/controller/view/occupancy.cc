#include "service/controller/view/occupancy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

Occupancy& operator+=(Occupancy& sum, const Occupancy& more) {
  sum.in_use += more.in_use;
  sum.idle += more.idle;
  sum.fragments += more.fragments;
  sum.unavailable += more.unavailable;
  return sum;
}

int64_t Ms(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// Thousandths of an accelerator are the smallest share of one.
double Rounded(double accelerators) { return std::round(accelerators * 1'000) / 1'000; }

}  // namespace

Occupancy OccupancyOf(const std::vector<proto::NodeStatus>& nodes,
                      const std::map<std::string, uint32_t>& absent) {
  Occupancy occupancy;
  for (const proto::NodeStatus& node : nodes) {
    const double has = node.slots();
    const double used = std::clamp(node.used_accelerators(), 0.0, has);
    occupancy.in_use += used;
    const bool ready = node.connected() && node.condition() == "ready";
    double& free = !ready ? occupancy.unavailable : used > 0 ? occupancy.fragments : occupancy.idle;
    free += has - used;
  }
  for (const auto& [name, accelerators] : absent) occupancy.unavailable += accelerators;
  return occupancy;
}

void OccupancyHistory::Add(Instant at, const Occupancy& occupancy) {
  if (periods_.empty()) begin_ = last_ = at;
  last_ = std::max(last_, at);
  MakeRoom(last_);
  Period& period = periods_[PeriodOf(last_)];
  ++period.samples;
  period.sum += occupancy;
}

void OccupancyHistory::MakeRoom(Instant at) {
  while (PeriodOf(at) >= kMostPeriods && width_ < kMostWidth) {
    for (size_t i = 0; i < periods_.size(); ++i) {
      Period& into = periods_[i / 2];
      if (i % 2 == 0) {
        into = std::exchange(periods_[i], {});
      } else {
        into.samples += periods_[i].samples;
        into.sum += std::exchange(periods_[i], {}).sum;
      }
    }
    periods_.resize((periods_.size() + 1) / 2);
    width_ *= 2;
  }
  const size_t period = PeriodOf(at);
  if (period >= kMostPeriods) {
    const size_t old = period - kMostPeriods + 1;
    begin_ += static_cast<int64_t>(old) * width_;
    periods_.erase(periods_.begin(),
                   periods_.begin() + static_cast<std::ptrdiff_t>(std::min(old, periods_.size())));
  }
  periods_.resize(std::max(periods_.size(), PeriodOf(at) + 1));
}

Json OccupancyHistory::ToJson() const {
  if (periods_.empty()) return Json();
  const std::pair<const char*, double Occupancy::*> kColumns[] = {
      {"in_use", &Occupancy::in_use},
      {"idle", &Occupancy::idle},
      {"fragments", &Occupancy::fragments},
      {"unavailable", &Occupancy::unavailable}};
  Json json = {{"from_ms", ToNanoseconds(begin_) / 1'000'000}, {"width_ms", Ms(width_)}};
  for (const auto& [name, member] : kColumns) {
    Json column = Json::array();
    for (const Period& period : periods_) {
      const bool empty = period.samples == 0;
      column.push_back(empty ? Json() : Json(Rounded(period.sum.*member / period.samples)));
    }
    json[name] = std::move(column);
  }
  return json;
}

}  // namespace longhaul::service
