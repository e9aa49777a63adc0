#include "service/controller/view/series.h"

#include <algorithm>
#include <cmath>

namespace longhaul::service {
namespace {

void AddTo(Series::Bucket& bucket, uint64_t step, double value) {
  bucket.step = step;
  if (!std::isfinite(value)) {
    ++bucket.not_finite;
    return;
  }
  const bool empty = bucket.finite == 0;
  if (empty) bucket.first = value;
  bucket.min = empty ? value : std::min(bucket.min, value);
  bucket.max = empty ? value : std::max(bucket.max, value);
  bucket.last = value;
  ++bucket.finite;
}

// `later` follows `bucket` in time.
void Merge(Series::Bucket& bucket, const Series::Bucket& later) {
  bucket.step = later.step;
  bucket.not_finite += later.not_finite;
  if (later.finite == 0) return;
  const bool empty = bucket.finite == 0;
  if (empty) bucket.first = later.first;
  bucket.min = empty ? later.min : std::min(bucket.min, later.min);
  bucket.max = empty ? later.max : std::max(bucket.max, later.max);
  bucket.last = later.last;
  bucket.finite += later.finite;
}

}  // namespace

void Series::Add(int64_t at_ms, uint64_t step, double value) {
  int64_t index = std::max<int64_t>(at_ms, 0) / width_ms_;
  if (!buckets_.empty()) index = std::max(index, buckets_.back().index);
  if (buckets_.empty() || buckets_.back().index != index) {
    buckets_.emplace_back();
    buckets_.back().index = index;
  }
  AddTo(buckets_.back(), step, value);
  while (buckets_.size() > kMostBuckets) Widen();
}

void Series::Widen() {
  width_ms_ *= 2;
  size_t kept = 0;
  for (Bucket bucket : buckets_) {
    bucket.index /= 2;
    if (kept > 0 && buckets_[kept - 1].index == bucket.index) {
      Merge(buckets_[kept - 1], bucket);
    } else {
      buckets_[kept++] = bucket;
    }
  }
  buckets_.resize(kept);
}

}  // namespace longhaul::service
