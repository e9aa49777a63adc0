#include "runtime/controller/job/data_ledger.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"

namespace longhaul::runtime {

proto::DataLease DataLedger::Open(uint64_t attempt, uint64_t restored_step, uint64_t total_steps) {
  CHECK(attempt > attempt_) << "attempts rise";
  attempt_ = attempt;
  open_ = true;
  // A restored step is safe wherever it was read from, also when its completion was never reported.
  committed_step_ = restored_step;
  first_step_ = restored_step + 1;
  end_step_ = total_steps == 0 ? std::numeric_limits<uint64_t>::max() : total_steps + 1;
  proto::DataLease lease;
  lease.set_attempt(attempt);
  lease.set_first_step(first_step_);
  lease.set_end_step(end_step_);
  *lease.mutable_data() = data_;
  return lease;
}

void DataLedger::Close(uint64_t attempt) {
  if (attempt == attempt_) open_ = false;
}

Status DataLedger::Commit(uint64_t attempt, uint64_t step) {
  // A late worker of an earlier attempt has used the same samples as the present one will. Counting
  // them from both would count them twice.
  if (attempt != attempt_ || !open_) {
    return FailedPrecondition("attempt " + std::to_string(attempt) + " holds no lease");
  }
  if (step + 1 < first_step_ || step >= end_step_) {
    return OutOfRange("step " + std::to_string(step) + " is outside the lease");
  }
  committed_step_ = std::max(committed_step_, step);
  return Status();
}

Status DataLedger::Check() const {
  if (committed_step_ + 1 < first_step_) {
    return InternalError("samples below the open lease are not committed: they would be lost");
  }
  if (committed_step_ >= end_step_) {
    return InternalError("more samples are committed than were ever leased");
  }
  return Status();
}

}  // namespace longhaul::runtime
