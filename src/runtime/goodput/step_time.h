// How long a training step takes, learned from the newest ones, so that a step that takes clearly
// longer can be split into the time that it needs and a stall.
//
// The typical step is the median of the last kWindow steps, and the noise is their median absolute
// deviation (MAD); both ignore outliers as long as these are fewer than half of the window. A
// report of n steps that takes `time` has an excess of time - n * median. The excess counts as a
// stall when it is above the largest of
//
//   9 MAD a step                        normal noise: about 6 standard deviations
//   half a median step, times sqrt(n)   a slow step is not a stall
//   100 ms                              the scheduling of a busy machine
//
// and then all of the excess does. Every step is observed with its whole time. So a lasting
// slow-down becomes the new normal once it fills half of the window: after 16 steps.
//
// Deterministic and of constant size: the controller's state is replayed from its log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace longhaul::runtime {

class StepTime {
 public:
  static constexpr size_t kWindow = 32;
  static constexpr size_t kLeast = 8;  // observed steps before any is judged
  static constexpr Duration kFloor = std::chrono::milliseconds(100);

  // Adds a step that took this long. Requires each >= 0.
  void Observe(Duration each);
  void Forget() { *this = StepTime(); }

  // Returns the part of the time of `steps` steps that is a stall. Requires steps >= 1.
  Duration Stall(Duration time, uint64_t steps) const;
  // Zero until kLeast steps have been observed.
  Duration typical() const { return Duration(count_ < kLeast ? 0 : median_ns_); }

 private:
  std::array<int64_t, kWindow> newest_ns_{};
  size_t count_ = 0;  // used entries of newest_ns_
  size_t next_ = 0;   // the next entry to overwrite
  int64_t median_ns_ = 0;
  int64_t deviation_ns_ = 0;  // median absolute deviation
};

}  // namespace longhaul::runtime
