// What an agent's core keeps of one job: its attempts' workers and the way of its snapshots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "runtime/agent/agent_messages.h"
#include "runtime/agent/rank_reports.h"

namespace longhaul::runtime::agent {

// Later attempts first: after a rollback a lower step of a higher attempt is the newer state.
struct SnapshotId {
  uint64_t attempt = 0;
  uint64_t step = 0;
  friend auto operator<=>(const SnapshotId&, const SnapshotId&) = default;
};

struct Worker {
  enum class State { kSpawning, kAlive, kGone } state = State::kSpawning;
  int64_t pid = 0;
  bool asked = false;   // its end is our doing
  bool killed = false;  // SIGKILL was sent, or is as soon as there is a process
};

// The workers of one attempt on this node, from their start until the last one is gone.
struct Attempt {
  StartOrder start;
  std::map<uint32_t, Worker> workers;  // by rank
  RankReports reports;
  bool started_told = false;
  bool failed = false;
  bool terminated = false;              // SIGTERM was sent
  std::optional<Instant> kill_at;       // when the grace after SIGTERM ends
  std::optional<uint64_t> output_step;  // the newest that a worker's output has shown

  bool alive() const {
    return std::any_of(workers.begin(), workers.end(), [](const auto& entry) {
      return entry.second.state != Worker::State::kGone;
    });
  }
  // No worker is left that is meant to live.
  bool doomed() const {
    return failed || std::all_of(workers.begin(), workers.end(), [](const auto& entry) {
             return entry.second.asked || entry.second.state == Worker::State::kGone;
           });
  }
};

// How the writing of a snapshot's pieces to disk has ended. Each snapshot is written once; one that
// failed is tried once more when the workers have ended, because no newer one will come.
struct DiskWrite {
  bool saved = false;
  std::vector<uint32_t> ranks;  // that were written
};

struct AgentJob {
  uint64_t highest_attempt = 0;              // in any command
  uint64_t opened_store = 0;                 // the attempt of the newest
  std::optional<proto::OpenStore> fetching;  // its checkpoint is being brought; then it opens
  uint64_t started_attempt = 0;              // the highest one of StartWorkers
  uint64_t killed_attempt = 0;               // all workers up to here were told to end
  uint64_t closed_attempt = 0;               // the highest one told as closed
  std::map<uint64_t, Attempt> attempts;
  StartOrder waiting;                      // for lower attempts to be gone
  StartOrder latest;                       // of the highest attempt started; kept after its end
  std::map<uint64_t, uint64_t> intervals;  // last told, by attempt; only the highest is kept
  std::set<std::tuple<int, uint32_t, uint64_t>> injected;  // kind, target, step of this attempt
  bool forget = false;
  uint64_t forget_attempt = 0;  // up to here, with `forget`

  std::optional<SnapshotId> newest;  // sealed by all local ranks
  StartOrder sealed_by;              // the order of those ranks' attempt, while there is a newest
  std::map<SnapshotId, StartOrder> sealed;  // the newest ones, each with its attempt's order
  std::optional<SnapshotId> told;           // the controller's word: to be written next, or was
  std::vector<uint32_t> told_ranks;         // of it; none: all that this node persists
  std::optional<SnapshotId> persisting;     // under way
  std::vector<uint32_t> writing;            // those ranks
  std::optional<SnapshotId> persisted;      // the newest on disk
  std::map<SnapshotId, DiskWrite> writes;   // that have ended; the newest ones
  std::optional<SnapshotId> copying;        // to the peer, under way
  std::optional<SnapshotId> copied;         // the newest that the peer has, or could not be given
  bool copy_failure_told = false;           // since the last one that went well
  std::optional<SnapshotId> committing;     // under way
  std::optional<proto::CommitSnapshot> next_commit;  // the newest grant that waits for it
  std::optional<SnapshotId> committed;
  std::optional<SnapshotId> copying_out;    // to the second tier, under way
  std::optional<SnapshotId> next_copy_out;  // the newest word that waits for it

  bool alive() const {
    return std::any_of(attempts.begin(), attempts.end(),
                       [](const auto& entry) { return entry.second.alive(); });
  }
};

// The instant at which a worker stopped on purpose continues.
struct Resume {
  Instant at;
  WorkerId worker;
};

// Whether both attempts give this node the same ranks of the same world.
bool SameRanks(const proto::StartWorkers& one, const proto::StartWorkers& other);

// The local ranks whose pieces this node persists: with replicated state rank 0's serves all.
std::vector<uint32_t> RanksToPersist(const proto::StartWorkers& start);

// Why these workers can't be started on a node of so many slots; empty when they can.
std::string WhyStartMakesNoSense(const proto::StartWorkers& start, uint32_t slots);

}  // namespace longhaul::runtime::agent
