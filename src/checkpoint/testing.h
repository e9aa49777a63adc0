// For tests of checkpoints: small states with known bytes. Header only; not part of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint::testing_support {

// One tensor of several chunks, with small and empty ones around it: about 1.3 MiB.
inline StatePlan SmallPlan() {
  return *StatePlan::Create({{"bias", "BF16", {33}},
                             {"weight", "F32", {320, 1027}},
                             {"nothing", "F32", {0, 4}},
                             {"step", "I64", {}}});
}

// Four small tensors, for tests that write a state many times: 2 KiB.
inline StatePlan TinyPlan() {
  return *StatePlan::Create(
      {{"a", "F32", {100}}, {"b", "U8", {1300}}, {"c", "F32", {0}}, {"d", "I64", {}}});
}

// A manifest that names no files yet.
inline Manifest ManifestOf(uint64_t step, uint64_t attempt, uint32_t world) {
  Manifest manifest;
  manifest.job = "job-1";
  manifest.step = step;
  manifest.attempt = attempt;
  manifest.world = world;
  manifest.data.samples_consumed = step * 8;
  manifest.data.fingerprint = "data";
  return manifest;
}

// Pseudo-random bytes of a plan's sizes: the same plan and seed give the same state.
class State {
 public:
  State(StatePlan plan, uint64_t seed) : plan_(std::move(plan)) {
    Random random(seed);
    for (size_t i = 0; i < plan_.size(); ++i) {
      std::vector<std::byte>& bytes = tensors_.emplace_back(plan_.bytes(i));
      for (std::byte& byte : bytes) byte = std::byte{static_cast<unsigned char>(random.Next())};
    }
  }

  const StatePlan& plan() const { return plan_; }
  std::span<const std::byte> tensor(size_t i) const { return tensors_[i]; }
  std::vector<std::span<const std::byte>> Tensors() const {
    return {tensors_.begin(), tensors_.end()};
  }
  std::vector<std::span<std::byte>> Writable() { return {tensors_.begin(), tensors_.end()}; }

  bool Equals(const std::vector<std::span<const std::byte>>& other) const {
    if (other.size() != tensors_.size()) return false;
    for (size_t i = 0; i < other.size(); ++i) {
      if (other[i].size() != tensors_[i].size()) return false;
      if (!other[i].empty() &&
          std::memcmp(other[i].data(), tensors_[i].data(), other[i].size()) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  StatePlan plan_;
  std::vector<std::vector<std::byte>> tensors_;
};

}  // namespace longhaul::checkpoint::testing_support
