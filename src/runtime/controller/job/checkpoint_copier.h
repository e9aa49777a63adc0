// The second tier of a job: committed checkpoints are copied there one at a time, while training
// continues, and are fetched from there when the disk has no checkpoint that is newer and good.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::controller {

// A committed checkpoint on its way to the second tier.
struct CopyOrder {
  uint64_t attempt = 0;
  uint64_t step = 0;
  NodeId node;  // that copies it
};

class CheckpointCopier {
 public:
  // A copy that was there before the job was submitted.
  void Add(uint64_t step, uint64_t attempt);
  // Whether the newest checkpoint, of `step`, is to be copied now. `commits`: how many there have
  // been; the policy copies every so many. A job that is closing copies its last one in any case.
  bool IsDue(const proto::SnapshotPolicy& policy, uint64_t step, uint64_t commits,
             bool closing) const;
  // Requires that no copy is under way.
  void Begin(const CopyOrder& order, uint64_t commits);
  // The copy is done. Returns false when it is not the one under way.
  bool Finish(uint64_t step, uint64_t attempt, size_t keep);
  bool Fail(uint64_t step, const std::string& reason);
  // The node is lost. Returns whether it had been copying.
  bool DropNode(const NodeId& node);
  // A copy was no good and is never offered again.
  void Forget(uint64_t step) { copies_.erase(step); }

  const std::optional<CopyOrder>& order() const { return order_; }        // under way
  const std::map<uint64_t, uint64_t>& copies() const { return copies_; }  // step -> attempt
  uint64_t copied_step() const { return copied_step_; }                   // newest there
  const std::string& failure() const { return failure_; }  // of the newest that failed

 private:
  std::map<uint64_t, uint64_t> copies_;
  std::optional<CopyOrder> order_;
  uint64_t copied_step_ = 0;
  uint64_t failed_step_ = 0;  // the newest that could not be copied
  std::string failure_;
  uint64_t commits_copied_ = 0;  // the number of commits when the newest copy was ordered
};

}  // namespace longhaul::runtime::controller
