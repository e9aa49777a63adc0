// An independent record of a simulated job: it observes what the workers do and compares that with
// the controller's status.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/status.pb.h"
#include "runtime/controller/controller.h"

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
  // From `at` on the job, this one or another, holds the slots of so many ranks.
  void Holds(const std::string& job, Instant at, uint32_t ranks);
  // Adds a violation.
  void Violate(std::string what);

  // Compares the controller's status with what happened.
  void Compare(const proto::JobStatus& status, Instant now);
  // Compares the controller's accounting with the goodput ledgers and with what the notifications
  // of attempts and states say was held. All agree to the nanosecond.
  void CompareUsage(const Controller::UsageTotals& totals, Instant now);

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
  std::map<std::string, uint32_t> held_ranks_;  // by job
  uint64_t all_held_ranks_ = 0;
  AcceleratorTime held_ = 0;  // until held_until_
  Instant held_until_{};
  uint64_t highest_ = 0;
  uint64_t taken_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace longhaul::runtime::simulation
