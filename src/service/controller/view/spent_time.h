// Where the time of all ranks of a run went, over the run, in bounded memory, for drawing.
//
// The run is divided into periods of one width. The input are sums by category of the goodput
// ledger (runtime/goodput/goodput_ledger.h) at some moments. What a category has gained between two
// moments is spread evenly over the time between them. A rollback moves time from one category to
// another, in the past: what a category has lost is taken from its newest periods and given to the
// category that it went to. So the sum of a category over all periods is always its newest sum.
//
// Once there are more than kMostPeriods periods, the width doubles and neighbours are merged. The
// result depends only on the sums and their order. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::service {

class SpentTime {
 public:
  static constexpr size_t kMostPeriods = 240;  // a bar of two or three pixels each
  static constexpr int64_t kFirstWidthMs = 1'000;
  static constexpr size_t kCategories = proto::Category_ARRAYSIZE;

  using Categories = google::protobuf::RepeatedPtrField<proto::CategoryTime>;

  // Takes the sums at `at_ms`, a time since the start of the run. A category that is not named has
  // 0. A time before the last one counts as that one. Sums that are negative, not finite or of an
  // unknown category come from no controller; such an entry is left out as a whole.
  void Note(int64_t at_ms, const Categories& sums);

  bool empty() const { return periods() == 0; }
  int64_t width_ms() const { return width_ms_; }
  size_t periods() const { return by_category_[0].size(); }
  // The rank seconds of a category in each period, in the order of time.
  const std::vector<double>& Of(proto::Category category) const {
    return by_category_[static_cast<size_t>(category)];
  }

 private:
  using Sums = std::array<double, kCategories>;

  void ExtendTo(int64_t at_ms);
  void Widen();
  void Move(size_t from, double seconds, Sums& gained);
  void Spread(size_t category, double seconds, int64_t from_ms, int64_t to_ms);

  int64_t width_ms_ = kFirstWidthMs;
  int64_t noted_ms_ = 0;
  Sums noted_{};
  std::array<std::vector<double>, kCategories> by_category_;  // all of one length
};

}  // namespace longhaul::service
