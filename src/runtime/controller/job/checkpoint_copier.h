// The second tier of a job. Committed checkpoints are copied to it one at a time, while training
// continues. A restart fetches one from it when the disk has no valid checkpoint that is newer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::controller {

// A committed checkpoint that is being copied to the second tier.
struct CopyOrder {
  uint64_t attempt = 0;
  uint64_t step = 0;
  NodeId node;  // that copies it
};

class CheckpointCopier {
 public:
  // Adds a copy that existed before the job was submitted.
  void Add(uint64_t step, uint64_t attempt);
  // Returns whether the newest checkpoint, of `step`, must be copied now. `commits` is the number
  // of commits so far: the policy copies each n-th one. A closing job always copies its last one.
  bool IsDue(const proto::SnapshotPolicy& policy, uint64_t step, uint64_t commits,
             bool closing) const;
  // Requires that no copy is under way.
  void Begin(const CopyOrder& order, uint64_t commits);
  // The copy is complete. Returns false when it is not the one under way.
  bool Finish(uint64_t step, uint64_t attempt, size_t keep);
  bool Fail(uint64_t step, const std::string& reason);
  // The node is lost. Returns whether it was copying.
  bool DropNode(const NodeId& node);
  // The copy is damaged and is not used again.
  void Forget(uint64_t step) { copies_.erase(step); }
  // The copies of later steps are not used again.
  void ForgetAbove(uint64_t step) { copies_.erase(copies_.upper_bound(step), copies_.end()); }

  const std::optional<CopyOrder>& order() const { return order_; }        // under way
  const std::map<uint64_t, uint64_t>& copies() const { return copies_; }  // step -> attempt
  uint64_t copied_step() const { return copied_step_; }                   // newest copy
  const std::string& failure() const { return failure_; }  // of the newest copy that failed

 private:
  std::map<uint64_t, uint64_t> copies_;
  std::optional<CopyOrder> order_;
  uint64_t copied_step_ = 0;
  uint64_t failed_step_ = 0;  // the newest that could not be copied
  std::string failure_;
  uint64_t commits_copied_ = 0;  // the number of commits when the newest copy was ordered
};

}  // namespace longhaul::runtime::controller
