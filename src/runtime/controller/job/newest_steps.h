// The newest two steps in a memory. An arena has room for no more.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace longhaul::runtime::controller {

class NewestSteps {
 public:
  bool contains(uint64_t step) const { return steps_[0] == step || steps_[1] == step; }
  uint64_t newest() const { return steps_[0]; }  // 0: none
  uint64_t second() const { return steps_[1]; }  // 0: none
  const std::array<uint64_t, 2>& all() const { return steps_; }

  void Add(uint64_t step) {
    if (contains(step)) return;
    if (step > steps_[0]) {
      steps_[1] = steps_[0];
      steps_[0] = step;
    } else {
      steps_[1] = std::max(steps_[1], step);
    }
  }
  void Remove(uint64_t step) {
    for (uint64_t& each : steps_) each = each == step ? 0 : each;
    Order();
  }
  void RemoveAbove(uint64_t step) {
    for (uint64_t& each : steps_) each = each > step ? 0 : each;
    Order();
  }

 private:
  void Order() {
    if (steps_[0] == 0) std::swap(steps_[0], steps_[1]);
  }

  std::array<uint64_t, 2> steps_{};  // newest first
};

}  // namespace longhaul::runtime::controller
