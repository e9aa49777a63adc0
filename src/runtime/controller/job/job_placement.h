// The placement of one job: the nodes that the scheduler has assigned, the way in which the job
// vacates its present nodes, and how its size has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/status.pb.h"
#include "scheduler/state/state.h"

namespace longhaul::runtime::controller {

// A gang that vacates its nodes: it takes a snapshot, all workers end, and then the job waits in
// its queue, continues on other nodes or ends.
struct Vacate {
  enum class Then {
    kQueue,  // it waits in its queue
    kGoOn,   // it continues on other nodes
    kEnd,    // it ends as stopped
  } then = Then::kQueue;
  enum class Stage {
    kSnapshot,  // the workers take a snapshot
    kStopping,  // the workers end
    kSaving,    // the snapshot is written to disk, for nodes that don't have it in memory
    kReady,     // blocked until all other nodes are available
  } stage = Stage::kSnapshot;
  std::string reason;
};

class JobPlacement {
 public:
  // The assigned nodes by place, with empty ids for missing nodes. Empty: none are assigned.
  const std::vector<NodeId>& target() const { return target_; }
  // The devices of each place; 0: they are not assigned.
  const std::vector<scheduler::GpuMask>& target_devices() const { return target_devices_; }
  // Requires lists of one length.
  void SetTarget(std::vector<NodeId> target, std::vector<scheduler::GpuMask> devices) {
    target_ = std::move(target);
    target_devices_ = std::move(devices);
  }
  void ClearTarget() {
    target_.clear();
    target_devices_.clear();
  }

  // The newest placement is confirmed to the scheduler once all workers run.
  void BeginTransaction(uint64_t transaction) { transaction_ = transaction; }
  // Returns the transaction to confirm; 0 when there is none.
  uint64_t TakeTransaction() { return std::exchange(transaction_, 0); }

  const std::optional<Vacate>& vacate() const { return vacate_; }
  bool leaving() const { return vacate_.has_value(); }
  void BeginVacate(Vacate::Then then, const std::string& reason) {
    vacate_ = Vacate{then, Vacate::Stage::kSnapshot, reason};
  }
  // Requires that the job is leaving, as do the next two.
  void SetStage(Vacate::Stage stage) { vacate_->stage = stage; }
  // The job waits in its queue instead of continuing elsewhere.
  void QueueInstead(const std::string& reason) {
    vacate_->then = Vacate::Then::kQueue;
    vacate_->reason = reason;
  }
  // The job ends instead of what it was to do.
  void EndInstead(const std::string& reason) {
    vacate_->then = Vacate::Then::kEnd;
    vacate_->reason = reason;
  }
  void EndVacate() { vacate_.reset(); }
  // The gang has vacated its nodes, and the job waits in its queue.
  void FinishVacate();
  void CountMove() { ++moves_; }

  // The job has nodes from `now` on; no effect when it has some already.
  void BeginHolding(Instant now) {
    if (!held_since_) held_since_ = now;
  }
  // It has none from `now` on.
  void EndHolding(Instant now) {
    held_ = held(now);
    held_since_.reset();
  }
  // For how long the job has had nodes, over all attempts.
  Duration held(Instant now) const { return held_since_ ? held_ + (now - *held_since_) : held_; }

  // The gang has this many nodes from `attempt` on.
  void NoteSize(uint32_t nodes, uint64_t attempt, const std::string& reason, Instant now);

  uint32_t preemptions() const { return preemptions_; }
  uint32_t moves() const { return moves_; }
  uint32_t resizes() const { return resizes_; }
  const std::vector<proto::SizeChange>& sizes() const { return sizes_; }

 private:
  std::vector<NodeId> target_;
  std::vector<scheduler::GpuMask> target_devices_;
  std::optional<Vacate> vacate_;  // of the present gang
  Duration held_{};               // before held_since_
  std::optional<Instant> held_since_;
  uint64_t transaction_ = 0;
  uint32_t preemptions_ = 0;
  uint32_t moves_ = 0;
  uint32_t resizes_ = 0;
  std::vector<proto::SizeChange> sizes_;
};

}  // namespace longhaul::runtime::controller
