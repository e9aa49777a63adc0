// Which snapshot of a job is written to disk, by which nodes, and when it counts as a checkpoint.
//
// One step at a time is ordered: a step that every node has in memory. Nodes that chose by
// themselves would choose different steps as soon as one disk is slower than another, and no step
// would ever have all of its pieces on disk. The pieces of a step wait in a pending commit; once
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
  std::map<NodeId, bool> nodes;  // that write a part of it, and whether it is on disk
  std::map<NodeId, std::vector<uint32_t>> ranks;  // that each writes; none: all of its own
};

// A checkpoint whose pieces are arriving on disk.
struct PendingCommit {
  uint64_t attempt = 0;
  std::map<uint32_t, proto::SnapshotPersisted::File> files;  // by rank
  std::set<std::string> nodes;                               // that have persisted theirs
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
  // What the ranks of a place hold of a step, as its node reported when it sealed it. `world`: the
  // ranks of the attempt.
  void NoteContents(size_t place, const proto::SnapshotSealed& sealed, uint32_t local,
                    uint32_t world);

  // Whether an order is under way. One that waits only for nodes that will not answer is dropped.
  bool IsBusy(const std::function<bool(const NodeId&)>& will_answer);
  // Orders `step`, which `writers` hold by place. Returns whether there is anything to write: its
  // commit may be under way already. Requires that no order is under way.
  bool Order(uint64_t attempt, uint64_t step, const std::vector<NodeId>& writers,
             const AttemptShape& shape);
  // Whether the step has failed to reach the disk, or a later one has.
  bool HasFailed(uint64_t step) const { return step <= unsaved_step_; }
  void MarkFailed(uint64_t step);
  // The node has written a step, or says that it could not.
  void NodePersisted(const NodeId& node, uint64_t attempt, uint64_t step);
  void NodeFailed(const NodeId& node, uint64_t attempt, uint64_t step);
  // The node cannot carry out its write order: it is lost, or its memory has been released.
  void DropNode(const NodeId& node);
  const std::optional<PersistOrder>& order() const { return order_; }

  // Files of a step are on the disk of the node. Ranks beyond `world` are ignored.
  void TakeFiles(const NodeId& node, const proto::SnapshotPersisted& persisted, uint32_t world);
  const std::map<uint64_t, PendingCommit>& pending() const { return pending_; }
  // Whether the commit of the step is to be granted now: once, and when every rank's state is
  // there.
  bool Grant(uint64_t step, const AttemptShape& shape);
  // The ranks that each file of a granted commit stands for beside its own; empty when unknown.
  std::vector<std::vector<uint32_t>> AlsoServedBy(uint64_t step, const AttemptShape& shape) const;
  // The node has a new agent, or a new connection: what it was granted is granted again.
  void WithdrawGrants(const NodeId& node);
  // The commit is done. Returns false when it is not one that was pending.
  bool Commit(uint64_t attempt, uint64_t step);
  uint64_t commits() const { return commits_; }

  // A step could not be saved. `workers_ended`: the agent will not try once more.
  void NoteSaveFailure(const proto::SnapshotFailed& failed, bool workers_ended);
  void ForgetSaveFailure() { save_failure_.clear(); }
  // Whether this step could not be saved, and will not be.
  bool IsLost(uint64_t step) const;
  // Why this step or a later one could not be saved; empty when unknown.
  std::string WhyNotSaved(uint64_t step) const;

  // A new attempt begins with the state after `step`: later ones are void.
  void Rewind(uint64_t step);

 private:
  // What the ranks of a step hold, and the nodes that were told to write it: none yet, or all.
  struct StepContents {
    uint64_t attempt = 0;  // that sealed it
    RankContents ranks;
    std::set<std::string> writers;
  };

  // Of a step that was sealed in that attempt; null when nothing is known of it.
  const StepContents* ContentsOf(uint64_t attempt, uint64_t step, uint32_t world) const;
  std::vector<NodeId> Deal(const std::vector<NodeId>& nodes, PersistOrder& order,
                           const AttemptShape& shape);
  bool IsWhole(const PendingCommit& commit, uint64_t step, const AttemptShape& shape) const;

  std::map<uint64_t, StepContents> contents_;  // by step, the newest ones
  std::optional<PersistOrder> order_;
  uint64_t unsaved_step_ = 0;                  // the newest whose order came to nothing
  std::map<uint64_t, PendingCommit> pending_;  // by step
  std::string save_failure_;                   // of the newest save that failed
  uint64_t save_failure_step_ = 0;             // which one
  bool save_failure_final_ = false;            // the agent will not try once more
  uint64_t commits_ = 0;
};

}  // namespace longhaul::runtime::controller
