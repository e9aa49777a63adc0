// The status of a job as far as its notifications state it, for a run whose controller is gone.
// Pure.
#pragma once

#include <string>

#include "proto/status.pb.h"
#include "story/run_record.h"

namespace longhaul::frontend {

class RunStatus {
 public:
  // Takes the job's notifications in order.
  void Take(const proto::Notification& notification);

  // Returns what they state, and the ledger of the record's report where it has one.
  proto::JobStatus Of(const story::RunRecord& record) const;

 private:
  void TakeState(const proto::Notification& notification);
  void TakeAttempt(const proto::AttemptNotification& attempt);
  void TakeStep(const proto::StepNotification& step);
  void TakeSnapshot(const proto::SnapshotNotification& snapshot);

  proto::JobStatus status_;
};

}  // namespace longhaul::frontend
