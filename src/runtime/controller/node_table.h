// The nodes that have joined: which are connected, which are lost, and how many slots are in use.
//
// A node is a name; an incarnation is one life of its agent. A node that lost its connection is cut
// at first. It is lost once its grace period is over or a new incarnation uses its name. Leaves out
// the scheduler's state of a node (scheduling/cluster_scheduler.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "runtime/controller/slot_claim.h"
#include "spec/cluster/topology.h"

namespace longhaul::runtime::controller {

struct Node {
  // A worker failed on the node.
  struct WorkerFault {
    Instant at;
    std::string job;
    bool wide = false;  // the job had other nodes
  };

  NodeId id;
  uint64_t incarnation = 0;
  uint64_t last_sequence = 0;
  bool connected = false;
  bool lost = false;  // until a new incarnation joins
  bool cordoned = false;
  bool draining = false;
  bool enlisted = false;                   // a spare that an operator has taken into use
  bool cut = false;                        // its connection broke, for unknown reasons
  bool checked = false;                    // a check has ended since it joined or came back
  bool avoided = false;                    // while a gang that fails on it leaves it
  std::vector<WorkerFault> worker_faults;  // recent ones
  // By gangs, until their workers have ended: thousandths of slots, and the assigned devices.
  struct Device {
    uint32_t share_milli = 0;
    int64_t memory_mib = 0;
  };
  uint32_t used_milli = 0;
  std::array<Device, spec::kMaxDevices> devices{};
  uint32_t losses = 0;
  proto::AgentJoined facts;

  // The slots in use, rounded up.
  uint32_t used_slots() const { return (used_milli + 999) / 1'000; }
  // Whether commands can be sent to it, and whether others can read its memory.
  bool reachable() const { return connected && !lost; }
  bool serves_peers() const { return reachable() && facts.peer_port() != 0; }
};

class NodeTable {
 public:
  // How the table classifies an agent that joins.
  enum class Joining {
    kStale,  // of an earlier life, or a repeated event: ignored
    kSameLife,
    kNewLife,
  };

  // Returns null for a name that never joined.
  const Node* Find(const NodeId& id) const { return Lookup(id); }
  // Requires that the node has joined.
  const Node& at(const NodeId& id) const { return nodes_.at(id); }
  const std::map<NodeId, Node>& all() const { return nodes_; }
  // Whether any node stores snapshots of others. If not, large gangs need no search for peers at
  // each of their places.
  bool has_peers() const { return peers_ > 0; }
  // Whether the node has joined and is not lost.
  bool IsAlive(const NodeId& id) const;
  // Whether the node is reachable and has these slots and devices free now. Each of its devices has
  // `device_memory_mib` of memory; 0: unknown.
  bool CanTake(const NodeId& id, const SlotClaim& claim, int64_t device_memory_mib) const;
  // Whether the devices of the claim are free once those of `own` are. Requires that the node has
  // joined.
  bool DevicesFree(const NodeId& id, const SlotClaim& claim, const SlotClaim& own,
                   int64_t device_memory_mib) const;

  // Stores the sequence number and returns true if it is new. Requires an event other than
  // AgentJoined.
  bool TakeSequence(const NodeId& id, uint64_t incarnation, uint64_t sequence);
  // Returns the highest sequence number of this life of an agent; 0 when it is unknown.
  uint64_t AcknowledgedSequence(const NodeId& id, uint64_t incarnation) const;

  // Classifies an agent that joins, and adds a new name. An incarnation that was lost and connects
  // again counts as alive.
  Joining BeginJoin(const NodeId& id, uint64_t incarnation, uint64_t sequence);
  // The name belongs to a new life. Returns the earlier incarnation; 0 for a new name.
  uint64_t BeginLife(const NodeId& id, uint64_t incarnation);
  // The agent is connected with these facts. Returns whether its connection was cut while the node
  // was alive.
  bool Join(const NodeId& id, uint64_t sequence, const proto::AgentJoined& facts);

  void Cut(const NodeId& id);
  // The controller itself was away: the agent must connect again, and it doesn't count as a cut.
  void Disconnect(const NodeId& id);
  void Lose(const NodeId& id);
  void Cordon(const NodeId& id, bool cordoned, bool drain);
  void MarkChecked(const NodeId& id);
  void Enlist(const NodeId& id);
  void Avoid(const NodeId& id, bool avoided);
  void TakeSlots(const NodeId& id, const SlotClaim& claim);
  // Requires a claim that was taken.
  void FreeSlots(const NodeId& id, const SlotClaim& claim);
  uint64_t changes() const { return changes_; }        // of any node, so far
  uint64_t used_milli() const { return used_milli_; }  // thousandths of slots of all nodes

  // A worker of the job failed on the node. Returns whether the fault counts against the node. Most
  // workers fail because of their program, so a fault counts only after an earlier one that was in
  // a gang of several nodes or of another job.
  bool NoteWorkerFault(const NodeId& id, const std::string& job, bool wide, Instant now);

 private:
  // One hash look-up: every event of every agent needs it.
  Node* Lookup(const NodeId& id) const;
  Node& Change(const NodeId& id);

  std::map<NodeId, Node> nodes_;
  std::unordered_map<std::string, Node*> index_;  // into nodes_, for speed
  uint32_t peers_ = 0;
  uint64_t used_milli_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace longhaul::runtime::controller
