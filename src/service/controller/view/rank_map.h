// How long ranks worked in a step, relative to the median rank of the same moment, over the time of
// a run and in bounded memory: the heat map of the run view.
//
// Time is divided into periods of one width, as in series.h. A period has a column with a value for
// each group of ranks, the largest of the period's entries, so a short slow-down stays visible. A
// value is in fiftieths of the median: 50 is the median, 255 is 5.1 times the median or more, and 0
// is unknown. Once there are more than kMostPeriods columns, the width doubles and neighbours are
// merged by their maximum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::service {

class RankMap {
 public:
  static constexpr size_t kMostPeriods = 240;
  static constexpr size_t kMostGroups = 512;  // a controller writes at most 128
  static constexpr int64_t kFirstWidthMs = 1'000;
  static constexpr uint32_t kOfMedian = 50;

  struct Column {
    int64_t index = 0;  // the period from index * width_ms() on
    std::vector<uint8_t> values;
  };

  // `at_ms` is a time since the start of the run; one before the last column counts for it. An
  // entry with other groups than the one before, as of an elastic job that has changed its size,
  // begins a new map. Entries of too many groups, or of none, are left out.
  void Take(int64_t at_ms, const proto::RankWork& entry);

  int64_t width_ms() const { return width_ms_; }
  const std::vector<Column>& columns() const { return columns_; }  // in the order of time
  // The newest entry, and its median in microseconds.
  const proto::RankWork& newest() const { return newest_; }
  uint32_t median_us() const { return median_us_; }

 private:
  void Widen();

  int64_t width_ms_ = kFirstWidthMs;
  std::vector<Column> columns_;
  proto::RankWork newest_;
  uint32_t median_us_ = 0;
};

}  // namespace longhaul::service
