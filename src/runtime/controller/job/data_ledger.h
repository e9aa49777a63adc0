// The data ledger: which samples of the data set a job has used.
//
// Step s of a job uses the global positions [(s-1)*B, s*B), where B is the global batch, for any
// number of ranks. A keyed permutation of each pass maps a position to a sample (longhaul_sample).
// So the ledger's state is two numbers: the end of the open lease, and the committed step. A
// position counts as used once the snapshot of its step, or of a later one, is complete. What a
// closed lease used beyond that is used again, in the same order.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::runtime {

class DataLedger {
 public:
  explicit DataLedger(const proto::DataSet& data) : data_(data) {}

  // Grants the steps after `restored_step` to an attempt. Older leases become void, and so does
  // what was committed above `restored_step`, because those steps are done again. Requires a higher
  // attempt than any before.
  proto::DataLease Open(uint64_t attempt, uint64_t restored_step, uint64_t total_steps);
  void Close(uint64_t attempt);

  // Counts the samples up to `step` as used. Fails for any attempt but that of the open lease, and
  // for steps outside the lease, so that an older attempt can't commit.
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
