#include "runtime/controller/job/checkpoint_copier.h"

#include <algorithm>

namespace longhaul::runtime::controller {

void CheckpointCopier::Add(uint64_t step, uint64_t attempt) {
  copies_[step] = attempt;
  copied_step_ = std::max(copied_step_, step);
}

// One copy at a time, and only of the newest checkpoint: with a slow second tier, the ones in
// between are skipped. A step that failed is not tried again; the next checkpoint is.
bool CheckpointCopier::IsDue(const proto::SnapshotPolicy& policy, uint64_t step, uint64_t commits,
                             bool closing) const {
  if (policy.copy_to().empty() || order_.has_value()) return false;
  if (step <= copied_step_ || step <= failed_step_) return false;
  const uint64_t since = commits - std::min(commits, commits_copied_);
  return closing || since >= std::max<uint64_t>(policy.copy_every(), 1);
}

void CheckpointCopier::Begin(const CopyOrder& order, uint64_t commits) {
  commits_copied_ = commits;
  order_ = order;
}

bool CheckpointCopier::Finish(uint64_t step, uint64_t attempt, size_t keep) {
  if (!order_.has_value() || order_->step != step || order_->attempt != attempt) return false;
  order_.reset();
  Add(step, attempt);
  while (copies_.size() > keep) copies_.erase(copies_.begin());
  return true;
}

bool CheckpointCopier::Fail(uint64_t step, const std::string& reason) {
  if (!order_.has_value() || order_->step != step) return false;
  order_.reset();
  failed_step_ = std::max(failed_step_, step);
  failure_ = reason;
  return true;
}

// The copy is ordered again at another node, from its beginning: nothing of an incomplete copy is
// visible at the second tier.
bool CheckpointCopier::DropNode(const NodeId& node) {
  if (!order_.has_value() || order_->node != node) return false;
  order_.reset();
  return true;
}

}  // namespace longhaul::runtime::controller
