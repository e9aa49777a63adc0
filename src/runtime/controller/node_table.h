// The nodes that have joined: who is connected, who is lost, and how many slots are in use.
//
// A node is a name; an incarnation is one life of its agent. A node that lost its connection is cut
// at first, and lost once its grace period is over or a new incarnation takes its name. Leaves out
// what the scheduler knows of a node (scheduling/cluster_scheduler.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/events.pb.h"

namespace longhaul::runtime::controller {

struct Node {
  // A worker that failed on the node.
  struct WorkerFault {
    Instant at;
    std::string job;
    bool wide = false;  // the job had other nodes
  };

  NodeId id;
  uint64_t incarnation = 0;
  uint64_t last_sequence = 0;
  bool connected = false;
  bool lost = false;  // given up; a new incarnation brings the name back
  bool cordoned = false;
  bool draining = false;
  bool enlisted = false;                   // a spare that an operator has taken into use
  bool cut = false;                        // its connection broke, and nothing else is known
  std::vector<WorkerFault> worker_faults;  // recent ones
  uint32_t used_slots = 0;                 // by gangs, until their workers have ended
  uint32_t losses = 0;
  proto::AgentJoined facts;

  // Whether it can be sent commands, and whether its memory can be read by others.
  bool reachable() const { return connected && !lost; }
  bool serves_peers() const { return reachable() && facts.peer_port() != 0; }
};

class NodeTable {
 public:
  // What an agent that joins is to the table.
  enum class Joining {
    kStale,  // of an earlier life, or an event that was seen before: to be ignored
    kSameLife,
    kNewLife,
  };

  // Null for a name that never joined.
  const Node* Find(const NodeId& id) const { return Lookup(id); }
  // Requires that the node has joined.
  const Node& at(const NodeId& id) const { return nodes_.at(id); }
  const std::map<NodeId, Node>& all() const { return nodes_; }
  // Whether a node takes snapshots of others into its memory. Without one, gangs of thousands would
  // each be looked through for every one of their places.
  bool has_peers() const { return peers_ > 0; }
  // Whether the node is known and not given up.
  bool IsAlive(const NodeId& id) const;
  // Whether the node takes so many more workers now.
  bool CanTake(const NodeId& id, uint32_t slots) const;

  // Whether an event with this sequence number counts, and then notes it. Requires an event of an
  // agent that is no joining.
  bool TakeSequence(const NodeId& id, uint64_t incarnation, uint64_t sequence);
  // The highest sequence number taken from this life of an agent; 0 when it is unknown.
  uint64_t AcknowledgedSequence(const NodeId& id, uint64_t incarnation) const;

  // What the joining of an agent is; a name that is new is entered. An incarnation that was given
  // up and comes back counts as alive again.
  Joining BeginJoin(const NodeId& id, uint64_t incarnation, uint64_t sequence);
  // The name belongs to a new life. Returns the incarnation before; 0 for a new name.
  uint64_t BeginLife(const NodeId& id, uint64_t incarnation);
  // The agent is connected with these facts. Returns whether its connection had been cut while the
  // node was alive.
  bool Join(const NodeId& id, uint64_t sequence, const proto::AgentJoined& facts);

  void Cut(const NodeId& id);
  // The controller itself was away: the agent has to connect again and is not to blame.
  void Disconnect(const NodeId& id);
  void Lose(const NodeId& id);
  void Cordon(const NodeId& id, bool cordoned, bool drain);
  void Enlist(const NodeId& id);
  void TakeSlots(const NodeId& id, uint32_t slots) { nodes_.at(id).used_slots += slots; }
  void FreeSlots(const NodeId& id, uint32_t slots);

  // A worker of the job failed there. Returns whether the fault counts against the node: a worker
  // mostly fails because of its program, so the second failure counts, in a gang of several nodes
  // or of another job.
  bool NoteWorkerFault(const NodeId& id, const std::string& job, bool wide, Instant now);

 private:
  // One look into the hash table: every event of every agent needs it.
  Node* Lookup(const NodeId& id) const;

  std::map<NodeId, Node> nodes_;
  std::unordered_map<std::string, Node*> index_;  // into nodes_, for speed
  uint32_t peers_ = 0;
};

}  // namespace longhaul::runtime::controller
