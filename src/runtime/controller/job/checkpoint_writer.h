// Decides which snapshot of a job is written to disk, by which nodes, and when it is a checkpoint.
//
// One step at a time is ordered: a step that every node has in memory. If nodes chose by
// themselves, they would choose different steps as soon as one disk is slower than another, and no
// step would have all of its pieces on disk. A pending commit collects the pieces of a step; once
// they hold the state of every rank, one node is granted the commit. docs/commit.md has the
// protocol. Leaves out which steps can be restored (snapshot_tracker.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "proto/events.pb.h"
#include "runtime/controller/job/write_shares.h"

namespace longhaul::runtime::controller {

// The step that all nodes of the gang must write to disk.
struct PersistOrder {
  uint64_t attempt = 0;  // that sealed it
  uint64_t step = 0;
  std::map<NodeId, bool> nodes;  // the nodes that write, and whether each has finished
  // The ranks that each node writes; none: all of its own.
  std::map<NodeId, std::vector<uint32_t>> ranks;
};

// A checkpoint whose pieces are arriving on disk.
struct PendingCommit {
  uint64_t attempt = 0;
  std::map<uint32_t, proto::SnapshotPersisted::File> files;  // by rank
  std::set<std::string> nodes;                               // that have persisted their pieces
  NodeId committer;
  bool granted = false;
};

// The size of the attempt that sealed a step.
struct AttemptShape {
  uint32_t nodes = 0;
  uint32_t local = 0;       // ranks of a node
  bool replicated = false;  // every rank has the same state

  uint32_t world() const { return nodes * local; }
};

class CheckpointWriter {
 public:
  // Stores the content hashes of a place's ranks for a step, as its node reported them with the
  // seal. `world` is the number of ranks of the attempt.
  void NoteContents(size_t place, const proto::SnapshotSealed& sealed, uint32_t local,
                    uint32_t world);

  // Returns whether an order is under way. Drops an order whose remaining nodes will all not
  // answer.
  bool IsBusy(const std::function<bool(const NodeId&)>& will_answer);
  // Orders `step`, which the nodes `writers` (by place) have in memory. Returns whether there is
  // anything to write: its commit may be pending already. Requires that no order is under way.
  bool Order(uint64_t attempt, uint64_t step, const std::vector<NodeId>& writers,
             const AttemptShape& shape);
  // Returns whether this step or a later one has failed to reach the disk.
  bool HasFailed(uint64_t step) const { return step <= unsaved_step_; }
  void MarkFailed(uint64_t step, const std::string& reason);
  void ForgetFailedOrder() { unsaved_step_ = 0; }
  // The node has written the step, or could not write it.
  void NodePersisted(const NodeId& node, uint64_t attempt, uint64_t step);
  void NodeFailed(const NodeId& node, uint64_t attempt, uint64_t step, const std::string& reason);
  // The node cannot carry out its write order: it is lost, or its memory has been released.
  void DropNode(const NodeId& node);
  const std::optional<PersistOrder>& order() const { return order_; }

  // The node's disk has files of a step. Ranks beyond `world` are ignored.
  void TakeFiles(const NodeId& node, const proto::SnapshotPersisted& persisted, uint32_t world);
  const std::map<uint64_t, PendingCommit>& pending() const { return pending_; }
  // Returns whether to grant the commit of the step now: once, when the files hold every rank's
  // state.
  bool Grant(uint64_t step, const AttemptShape& shape);
  // Returns for each file of a granted commit which other ranks it stands for; empty when unknown.
  std::vector<std::vector<uint32_t>> AlsoServedBy(uint64_t step, const AttemptShape& shape) const;
  // The node has a new agent or a new connection: its grants are sent again.
  void WithdrawGrants(const NodeId& node);
  // The node is lost: another node that has persisted pieces, and will answer, gets the right to
  // commit in its place when Grant is called next. Without such a node the grant stays.
  void PassGrants(const NodeId& node, const std::function<bool(const NodeId&)>& will_answer);
  // The commit is complete. Returns false when it was not pending.
  bool Commit(uint64_t attempt, uint64_t step);
  uint64_t commits() const { return commits_; }

  // Every rank has sealed the step: that an earlier seal of it could not be saved counts no longer.
  void ForgetFailures(uint64_t step);

  // A step could not be saved. `workers_ended`: the agent won't try again.
  void NoteSaveFailure(const proto::SnapshotFailed& failed, bool workers_ended);
  void ForgetSaveFailure() { save_failure_.clear(); }
  // Returns whether this step could not be saved and its agent does not try again.
  bool IsLost(uint64_t step) const;
  // Returns whether an order is under way, or the commit of this step.
  bool IsSaving(uint64_t step) const;
  // Returns why this step or a later one could not be saved; empty when unknown.
  std::string WhyNotSaved(uint64_t step) const;

  // A new attempt begins with the state after `step`, or no state after it is good: nothing of
  // later steps becomes a checkpoint.
  void Rewind(uint64_t step);

 private:
  // The content hashes of a step's ranks, and the nodes that were ordered to write it: none yet, or
  // all.
  struct StepContents {
    uint64_t attempt = 0;  // that sealed it
    RankContents ranks;
    std::set<std::string> writers;
  };

  // Returns null unless the contents of the step are known and from that attempt.
  const StepContents* ContentsOf(uint64_t attempt, uint64_t step, uint32_t world) const;
  std::vector<NodeId> Deal(const std::vector<NodeId>& nodes, PersistOrder& order,
                           const AttemptShape& shape);
  bool IsWhole(const PendingCommit& commit, uint64_t step, const AttemptShape& shape) const;

  std::map<uint64_t, StepContents> contents_;  // by step, the newest ones
  std::optional<PersistOrder> order_;
  uint64_t unsaved_step_ = 0;                  // the newest whose order failed
  std::string unsaved_reason_;                 // why it did
  std::map<uint64_t, PendingCommit> pending_;  // by step
  std::string save_failure_;                   // of the newest save that failed
  uint64_t save_failure_step_ = 0;             // the step of save_failure_
  bool save_failure_final_ = false;            // the agent won't try again
  uint64_t commits_ = 0;
};

}  // namespace longhaul::runtime::controller
