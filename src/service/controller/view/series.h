// A series of numbers over time in bounded memory, for drawing.
//
// Time is divided into periods of one width. Of the samples of a period, the first, the smallest,
// the largest and the last are kept, so a line through them has each extreme value of the whole
// series. Once there are more than kMostBuckets periods with samples, the width doubles and
// neighbours are merged. The result depends only on the samples and their order.
//
// A value that is not finite (the loss of a diverged model) counts as a mark of its period and
// does not change the four values. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longhaul::service {

class Series {
 public:
  static constexpr size_t kMostBuckets = 512;  // about as many as a chart has pixels
  static constexpr int64_t kFirstWidthMs = 100;

  struct Bucket {
    int64_t index = 0;  // the period from index * width_ms() on
    uint64_t step = 0;  // of the last sample
    uint64_t finite = 0;
    uint64_t not_finite = 0;
    // Of the finite samples; 0 if there are none.
    double first = 0;
    double min = 0;
    double max = 0;
    double last = 0;
  };

  // `at_ms` is a time since the start of the series. One that is before the last sample's period,
  // such as after a correction of the clock, counts for that period.
  void Add(int64_t at_ms, uint64_t step, double value);

  int64_t width_ms() const { return width_ms_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }  // in the order of time

 private:
  void Widen();

  int64_t width_ms_ = kFirstWidthMs;
  std::vector<Bucket> buckets_;
};

}  // namespace longhaul::service
