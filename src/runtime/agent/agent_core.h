// One agent's state machine: which workers live, what the controller must hear, what to do next.
//
// A pure state machine: facts and the time go in, effects come out; it reads no clock and touches
// no process, so the simulator drives this same class.
//
//   fencing    Per job, commands of an attempt below the highest one seen are ignored, and repeated
//              ones do nothing. Workers of a new attempt start only when those of lower attempts
//              have been reaped. Two kinds are exempt, because they name what they touch:
//              KillWorkers ends attempts up to its own, CommitSnapshot makes durable what an older
//              attempt sealed.
//   reporting  Every event has a sequence number, 1, 2, 3, ... of this incarnation, and is kept
//              until the controller has logged it. After each reconnection what is left is sent
//              again, in order, then AgentJoined with the present.
//   merging    Phases, steps and seals are told once all of the node's ranks have reached them.
//   adoption   Snapshots that an earlier agent left in memory are told with AgentJoined until their
//              job is heard of: its workers start from them, or it is forgotten.
//   snapshots  The one that the controller names is persisted, one at a time, never queued: while
//              one is written, only the newest word is remembered. Where the controller names none
//              (an older one), or no longer (the agent is to end), the newest sealed one.
//
// Without a controller, workers simply continue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "runtime/agent/agent_messages.h"

namespace longhaul::runtime {

// What a node tells about itself when it joins.
struct AgentFacts {
  uint32_t slots = 1;  // workers it takes
  uint64_t cores = 1;
  uint64_t memory_bytes = 0;
  std::string address;
  std::string host;
  uint16_t peer_port = 0;  // where it takes and gives snapshots; 0: it doesn't
  // Snapshots in memory that an earlier agent of the node has left, verified.
  struct HeldSnapshot {
    JobId job;
    uint32_t rank = 0;
    uint64_t step = 0;
    uint64_t attempt = 0;
    bool copy = false;  // kept for another node
  };
  std::vector<HeldSnapshot> held = {};
};

class AgentCore {
 public:
  // `incarnation` differs between any two lives of the agent of a node.
  AgentCore(NodeId node, uint64_t incarnation, AgentFacts facts);
  ~AgentCore();
  AgentCore(AgentCore&&) noexcept;
  AgentCore& operator=(AgentCore&&) noexcept;

  // Takes one fact. Inputs that make no sense (an unknown worker, a phase going back) change
  // nothing. Effects are to be carried out in order.
  std::vector<AgentEffect> Step(const AgentInput& input, Instant now);

  // When to step a TimerFired unless something else comes first. The same until the next Step.
  std::optional<Instant> NextDeadline() const;

  // It knows a job that the controller has not released (proto::ForgetJob).
  bool HasJobs() const;
  // No worker lives and no disk work is under way or wanted.
  bool Idle() const;
  // Idle, the controller has logged all we had to tell, and what was persisted here is committed.
  bool Settled() const;

  // What must hold between two steps; the first thing that doesn't.
  Status CheckInvariants() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace longhaul::runtime
