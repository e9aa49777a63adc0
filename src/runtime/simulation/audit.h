// An independent record of a simulated job: it observes what the workers do and compares that with
// the controller's status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::runtime::simulation {

class Audit {
 public:
  explicit Audit(uint64_t global_batch) : global_batch_(global_batch) {}

  // The workers of an attempt begin with the state after `restored_step`.
  void AttemptBegins(uint64_t attempt, uint64_t restored_step);
  // The attempt's optimizer has taken steps [first, last].
  void Stepped(uint64_t attempt, uint64_t first, uint64_t last);
  // The job has this many ranks from `at` on.
  void Sized(Instant at, uint32_t ranks);
  // The job has ended.
  void Over(Instant at);
  // Adds a violation.
  void Violate(std::string what);

  // Compares the controller's status with what happened.
  void Compare(const proto::JobStatus& status, Instant now);

  uint64_t step() const { return lineage_.size(); }
  uint64_t highest_step() const { return highest_; }
  uint64_t steps_taken() const { return taken_; }  // including discarded ones
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  uint64_t global_batch_;
  // The attempt that took each step of the present history, from step 1. Every step, and so every
  // sample, is in it once and in order; otherwise Stepped adds a violation.
  std::vector<uint32_t> lineage_;
  uint64_t attempt_ = 0;
  uint32_t ranks_ = 0;
  Instant sized_{};
  double rank_seconds_ = 0;  // until sized_
  bool over_ = false;
  uint64_t highest_ = 0;
  uint64_t taken_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace longhaul::runtime::simulation
