// Tracks where the states of one job are stored, and from which step it can be restored.
//
// A snapshot of a step is sealed node by node. It is complete once every node of the gang has
// sealed it, and committed once it is on disk as a checkpoint. A step can be restored from the
// nodes' own memories, from copies in the memories of peers, from pieces in memories of another
// layout, from disk or from the second tier, in this order of preference.
//
// Only the agents have the boxes and tensors of a snapshot. The controller needs less: the places
// that sealed a step together hold its whole state, and for the built-in trainer the layout shows
// which ranks have equal states. So a step can be restored from pieces when every place of the gang
// that sealed it, or a replica of each of its ranks, is in the memory of a live node.
//
// Leaves out writing to disk (checkpoint_writer.h) and the copies on the second tier
// (checkpoint_copier.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "runtime/controller/job/newest_steps.h"
#include "runtime/controller/job/worker_group.h"
#include "runtime/controller/node_table.h"

namespace longhaul::runtime::controller {

// Returns "memory", "a peer's memory", "disk" and so on, for messages.
const char* TierName(proto::Restore::Tier tier);

// A node whose memory has copies for a place of the gang.
struct CopyHolder {
  NodeId node;
  uint64_t incarnation = 0;  // of its agent
  NewestSteps steps;
  std::set<uint64_t> bad;  // steps whose copy there failed to verify
};

// What the node of a place has in memory, over all attempts, as long as the node lives.
struct PlaceMemory {
  NewestSteps sealed;              // in the node's own memory
  std::vector<CopyHolder> copies;  // in the memories of others, by their newest report, few
  uint32_t arena_first_rank = 0;   // see proto::StartWorkers

  // Returns the holders of a copy of the step.
  std::vector<const CopyHolder*> HoldersOf(uint64_t step) const;
};

// What a node that the job has left still has in memory for it; nothing once the node is lost.
struct LeftMemory {
  uint64_t incarnation = 0;
  NewestSteps sealed;
  uint32_t arena_first_rank = 0;
  size_t place = 0;  // in a gang of `nodes`
  size_t nodes = 0;
};

// Where the places of the gang that sealed a step have it in memory. It is kept when the gang
// changes: then no node holds what its new ranks need, but together the nodes hold the state.
struct Spread {
  struct Holding {
    NodeId node;
    uint64_t incarnation = 0;
    uint32_t first = 0;  // the arenas' names there, from this one on
    bool copy = false;   // a copy for the place's own node
  };
  uint64_t attempt = 0;                      // that sealed it
  std::vector<std::vector<Holding>> places;  // holders by place, the place's own node first
};

// The state of other parts that the methods need.
struct GangView {
  const proto::Job& spec;
  const WorkerGroup& group;
  const NodeTable& nodes;

  uint32_t local() const { return spec.processes_per_node(); }
};

class SnapshotTracker {
 public:
  // --- Attempts and gangs.
  // The gang of the next attempt, whose number is `attempt`, has other ranks than the one before.
  void ChangeRanks(uint64_t attempt) { placed_attempt_ = attempt; }
  // An attempt with this many nodes begins from `restore`. Later steps are void.
  void BeginAttempt(uint64_t attempt, uint32_t nodes, const proto::Restore& restore);
  // Changes the gang to `target`. Keeps what its nodes and the nodes that it leaves have in memory.
  // Requires that `view.group` is the earlier gang.
  void ChangeGang(const GangView& view, const std::vector<NodeId>& target);
  // The gang leaves all of its nodes.
  void LeaveAll(const GangView& view);
  // Stores where the newest complete steps are, before the gang changes.
  void RememberSpreads(const GangView& view);
  uint32_t NodesOfAttempt(uint64_t attempt, const proto::Job& spec) const;
  // Returns whether a state that `attempt` sealed is part of the history of the present attempt
  // `now`.
  bool IsOfHistory(uint64_t attempt, uint64_t step, uint64_t now) const;

  // --- Snapshots in memory.
  // The place has the step in its memory, and no longer what it replaces there. It does not count
  // towards the completeness of the step.
  void NoteInMemory(const GangView& view, size_t place, uint64_t step);
  // The place has sealed the step under the present attempt. Returns whether every place now has.
  // Workers that have no step left to do seal the step with which the attempt began. From the first
  // such seal on, the earlier attempt's seals of that step are no longer in every memory.
  bool Seal(const GangView& view, size_t place, uint64_t step);
  void SealAll(uint64_t step);
  // Every rank has sealed the state after `step`; from now on it can be restored.
  void Complete(uint64_t step, uint64_t attempt);
  void NoteWay(const proto::SnapshotSealed& sealed);
  // The memory of `holder` has a copy for the place, of what `attempt` sealed. One that does not
  // belong to the state of the present attempt `now` only replaces an older one there.
  void NoteCopy(size_t place, const Node& holder, uint64_t attempt, uint64_t step, uint64_t now);
  // The agent of the node has listed all copies in its memory.
  void TakeCopies(const GangView& view, const Node& node, uint64_t now,
                  const std::vector<const proto::AgentJoined::HeldSnapshot*>& held);
  // The agent of the place's node has listed the snapshots in its memory, which a new one has
  // verified. Takes what belongs to the present state. Returns the newest step that the place has
  // then.
  uint64_t Adopt(const GangView& view, size_t place, const Node& node, uint64_t life_before,
                 uint64_t attempt,
                 const std::vector<const proto::AgentJoined::HeldSnapshot*>& held);
  // The memory of a place's node, or of a node that the job has left, is lost.
  void LosePlace(size_t place) { places_[place].sealed = {}; }
  void LoseLeft(const NodeId& node);
  // These states are damaged and are not used again.
  void ForgetOwn(const GangView& view, size_t place, uint64_t step);
  void ForgetCopy(const GangView& view, size_t place, uint64_t step);
  void ForgetPieces(const GangView& view, const proto::SnapshotFailed& failed);
  // The states after `step` are not good: none is restored or written to disk, in no memory.
  void ForgetAbove(uint64_t step);

  // --- Nodes that the job has left.
  const std::map<NodeId, LeftMemory>& left() const { return left_; }
  bool HasLeft(const NodeId& node) const { return left_.contains(node); }
  // The node has been ordered to release the job's memory.
  void ForgetLeft(const NodeId& node);
  // Returns whether a node that the job has left is alive and still has its memory.
  bool SomeLeftAlive(const NodeTable& nodes) const;

  // --- Checkpoints on disk.
  // Keeps the newest `keep` checkpoints. Returns whether this one is the newest.
  bool Commit(uint64_t step, uint64_t attempt, size_t keep);
  void DropCommitted(uint64_t step);
  // The checkpoint to start from has been fetched from the second tier to disk.
  void NoteFetched();

  // --- Queries.
  // Returns the newest state that every node can restore. Ranks never choose by themselves, since a
  // mix of steps would be wrong without any error. `copies`: step -> attempt on the second tier.
  proto::Restore ChooseRestore(const GangView& view,
                               const std::map<uint64_t, uint64_t>& copies) const;
  proto::Restore RestoreFor(const GangView& view, size_t place) const;
  // Returns whether a node of `target` can restore the newest state only from disk.
  bool NeedsDisk(const GangView& view, const std::vector<NodeId>& target) const;
  // Returns the nodes that write a part of `step`, by place; none when one of them is not
  // available.
  std::vector<NodeId> WritersOf(const GangView& view, uint64_t step) const;
  // Returns the attempt that sealed the complete step, if the places still have the same ranks and
  // the present attempt has not replaced a part of it.
  std::optional<uint64_t> AttemptOfComplete(uint64_t step) const;
  // Returns whether all places have sealed the step once more since this attempt did.
  bool IsSealedAgain(uint64_t attempt, uint64_t step) const {
    return AttemptOfComplete(step).value_or(0) > attempt;
  }
  bool Holds(size_t place, uint64_t step) const { return places_[place].sealed.contains(step); }

  const std::vector<PlaceMemory>& places() const { return places_; }
  const std::map<uint64_t, Spread>& spreads() const { return spreads_; }
  // Of rank 0; tiers differ between nodes.
  const proto::Restore& restore() const { return restore_; }
  uint64_t placed_attempt() const { return placed_attempt_; }
  uint64_t memory_step() const { return memory_step_; }  // newest complete
  const std::map<uint64_t, uint64_t>& committed() const { return committed_; }
  uint64_t committed_step() const { return committed_step_; }  // newest
  uint64_t committed_attempt() const { return committed_attempt_; }
  uint64_t snapshots() const { return snapshots_; }  // complete ones
  const std::array<uint64_t, proto::SnapshotWay_ARRAYSIZE>& ways() const { return ways_; }
  Seconds slot_waits() const { return slot_waits_; }
  Seconds longest_slot_wait() const { return longest_slot_wait_; }

 private:
  // Returns whether the present attempt continues the state that `attempt` sealed after `step`: no
  // attempt since then has restored an earlier step.
  bool Continues(uint64_t attempt, uint64_t step, uint64_t now) const;
  static CopyHolder& HolderOf(PlaceMemory& memory, const Node& node);
  void AdoptPieces(const GangView& view, const Node& node, uint64_t life_before,
                   const std::vector<const proto::AgentJoined::HeldSnapshot*>& held);
  // Returns another node from whose memory the place can restore `step`; null: none.
  const Node* CopyOf(const GangView& view, size_t place, uint64_t step) const;
  // Returns where the places of the gang that sealed `step` have it: as stored, else as in the
  // present gang. Without places when unknown.
  Spread SpreadOf(const GangView& view, uint64_t step) const;
  bool StillHolds(const GangView& view, const Spread::Holding& holding) const;
  bool IsWhole(const GangView& view, const Spread& spread) const;
  void AddPieces(const GangView& view, size_t place, proto::Restore& restore) const;
  void DropPieces(uint64_t step, const NodeId& node, bool copy);
  void DropHoldings(const NodeId& node);  // pieces of all steps
  // The node's own memory has `step` now and the newest of its steps below, no older ones.
  void DropReplaced(const NodeId& node, size_t place, uint64_t step);
  PlaceMemory MemoryAt(const GangView& view, const std::vector<NodeId>& target, size_t place) const;

  std::vector<PlaceMemory> places_;
  std::map<NodeId, LeftMemory> left_;
  std::map<uint64_t, uint32_t> nodes_of_attempt_;
  std::map<uint64_t, uint64_t> restored_;  // attempt -> the step it began with, the newest ones
  uint64_t placed_attempt_ = 0;            // the first attempt of the present ranks
  proto::Restore restore_;
  // The places that sealed a step under the present attempt, of steps that it has not completed.
  std::map<uint64_t, std::set<size_t>> seals_;
  uint64_t memory_step_ = 0;
  std::map<uint64_t, uint64_t> complete_;   // step -> attempt that sealed it, the newest ones
  std::map<uint64_t, Spread> spreads_;      // by step, of earlier gangs
  std::map<uint64_t, uint64_t> committed_;  // step -> attempt, all that can be restored
  uint64_t committed_step_ = 0;
  uint64_t committed_attempt_ = 0;
  uint64_t snapshots_ = 0;
  std::array<uint64_t, proto::SnapshotWay_ARRAYSIZE> ways_{};  // of complete ones
  Seconds slot_waits_{};                                       // sum for complete snapshots
  Seconds longest_slot_wait_{};
};

}  // namespace longhaul::runtime::controller
