// Where one job is to be: the nodes that the scheduler has given it, how it leaves the nodes it
// has, and how its size has changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::runtime::controller {

// A gang that leaves its nodes: a snapshot first, then all workers end, then it waits in its queue
// or continues with other nodes.
struct Vacate {
  enum class Then { kQueue, kGoOn } then = Then::kQueue;
  enum class Stage {
    kSnapshot,  // the workers take one
    kStopping,  // they end
    kSaving,    // the snapshot reaches the disk, for nodes that don't have it in memory
    kReady,     // the other nodes are not all there yet
  } stage = Stage::kSnapshot;
  std::string reason;
};

class JobPlacement {
 public:
  // The nodes by place; empty ids where a node is missing. None: the job waits for the scheduler.
  const std::vector<NodeId>& target() const { return target_; }
  void SetTarget(std::vector<NodeId> target) { target_ = std::move(target); }
  void ClearTarget() { target_.clear(); }

  // The newest placement is not confirmed to the scheduler until all workers run.
  void BeginTransaction(uint64_t transaction) { transaction_ = transaction; }
  // Returns the transaction to confirm; 0 when there is none.
  uint64_t TakeTransaction() { return std::exchange(transaction_, 0); }

  const std::optional<Vacate>& vacate() const { return vacate_; }
  bool leaving() const { return vacate_.has_value(); }
  void BeginVacate(Vacate::Then then, const std::string& reason) {
    vacate_ = Vacate{then, Vacate::Stage::kSnapshot, reason};
  }
  // Requires that the job is leaving, as the next two do.
  void SetStage(Vacate::Stage stage) { vacate_->stage = stage; }
  // It waits in its queue in place of continuing elsewhere.
  void QueueInstead(const std::string& reason) {
    vacate_->then = Vacate::Then::kQueue;
    vacate_->reason = reason;
  }
  void EndVacate() { vacate_.reset(); }
  // The gang has left its nodes and waits in its queue.
  void FinishVacate();
  void CountMove() { ++moves_; }

  // The gang has so many nodes from `attempt` on.
  void NoteSize(uint32_t nodes, uint64_t attempt, const std::string& reason, Instant now);

  uint32_t preemptions() const { return preemptions_; }
  uint32_t moves() const { return moves_; }
  uint32_t resizes() const { return resizes_; }
  const std::vector<proto::SizeChange>& sizes() const { return sizes_; }

 private:
  std::vector<NodeId> target_;
  std::optional<Vacate> vacate_;  // from the gang
  uint64_t transaction_ = 0;
  uint32_t preemptions_ = 0;
  uint32_t moves_ = 0;
  uint32_t resizes_ = 0;
  std::vector<proto::SizeChange> sizes_;
};

}  // namespace longhaul::runtime::controller
