// The agent's state machine: tracks workers, reports to the controller and chooses the next
// actions.
//
// A pure state machine: inputs and the time go in, effects come out. It reads no clock and touches
// no process, so the simulator drives this same class.
//
//   fencing    For each job, commands for an attempt below the highest one seen are ignored, and
//              repeated ones have no effect. Workers of a new attempt start only after those of
//              lower attempts have been reaped. Two commands are exempt, because they name their
//              attempt: KillWorkers ends attempts up to its own, and CommitSnapshot commits what an
//              older attempt sealed.
//   reporting  Every event has a sequence number, 1, 2, 3, ... of this incarnation, and is kept
//              until the controller has logged it. After each reconnection the kept events are
//              sent again, in order, then AgentJoined with the present state.
//   merging    Phases, steps and seals are reported once all of the node's ranks have reached them.
//   adoption   AgentJoined lists snapshots that an earlier agent left in memory, until a command
//              for their job arrives: its workers start from them, or the job is forgotten.
//   snapshots  The snapshot that the controller orders is persisted, one at a time. While one is
//              written, only the newest order is kept. Without orders (from an older controller,
//              or when the agent must end) the newest sealed one is persisted.
//
// Without a controller, workers continue.
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

// The facts about a node that its agent reports when it joins.
struct AgentFacts {
  uint32_t slots = 1;  // how many workers the node can run
  uint64_t cores = 1;
  uint64_t memory_bytes = 0;
  std::string address;
  std::string host;
  uint16_t peer_port = 0;  // where the agent sends and receives snapshots; 0: it doesn't
  // A verified snapshot in memory that an earlier agent of the node has left.
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

  // Takes one input. Invalid inputs (an unknown worker, an earlier phase) change nothing. The
  // caller must carry out the effects in order.
  std::vector<AgentEffect> Step(const AgentInput& input, Instant now);

  // Returns when to step a TimerFired if no other input comes first. Constant until the next Step.
  std::optional<Instant> NextDeadline() const;

  // Whether it has a job that the controller has not released (proto::ForgetJob).
  bool HasJobs() const;
  // Whether a test here would disturb anyone: it has another job than this one (an id, which may be
  // empty), or workers of this one that live or are to be started.
  bool DisturbedByTests(const std::string& job) const;
  // Whether a process of a job is kept for its next attempt, which may hold memory of devices.
  bool KeepsWorkers() const;
  // Whether no worker is alive and no disk work is under way or pending.
  bool Idle() const;
  // Whether it is idle, the controller has logged all events, and all persisted snapshots are
  // committed.
  bool Settled() const;

  // Checks all invariants and returns the first violation.
  Status CheckInvariants() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace longhaul::runtime
