// Which samples have been used: arithmetic instead of bookkeeping.
//
// Step s of a job takes the global positions [(s-1)*B, s*B) for the global batch B, whatever the
// world; a keyed permutation of each pass turns a position into a sample (longhaul_sample). So the
// state of the ledger is two numbers: how far the one open lease reaches and which step is
// committed. A position counts as used once the snapshot of its step, or of a later one, is
// complete; what a closed lease used beyond that is handed out again, in the same order.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::runtime {

class DataLedger {
 public:
  explicit DataLedger(const proto::DataSet& data) : data_(data) {}

  // Grants the steps after `restored_step` to an attempt. Any older lease is void from here on; so
  // is what was committed above `restored_step`, as those steps will be done again. Requires a
  // higher attempt than any before.
  proto::DataLease Open(uint64_t attempt, uint64_t restored_step, uint64_t total_steps);
  void Close(uint64_t attempt);

  // The state after `step` is safe: its samples count. Refused for any but the open lease's attempt
  // and for steps outside it: an old world can't commit.
  Status Commit(uint64_t attempt, uint64_t step);

  uint64_t committed_step() const { return committed_step_; }
  // Samples that count so far.
  uint64_t committed_samples() const { return committed_step_ * data_.global_batch(); }

  Status Check() const;

 private:
  proto::DataSet data_;
  uint64_t attempt_ = 0;  // of the newest lease
  bool open_ = false;
  uint64_t first_step_ = 1;  // of the newest lease
  uint64_t end_step_ = 1;
  uint64_t committed_step_ = 0;
};

}  // namespace longhaul::runtime
