// What an agent's core stores about one job: the workers of its attempts and the progress of its
// snapshots.
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

// Ordered by attempt first: after a rollback, a lower step of a higher attempt is the newer state.
struct SnapshotId {
  uint64_t attempt = 0;
  uint64_t step = 0;
  friend auto operator<=>(const SnapshotId&, const SnapshotId&) = default;
};

struct Worker {
  enum class State { kSpawning, kAlive, kGone } state = State::kSpawning;
  int64_t pid = 0;
  bool asked = false;      // the agent ended it
  bool killed = false;     // SIGKILL was sent, or will be once there is a process
  bool continues = false;  // its process can take part in a later attempt
  bool left = false;       // such a process has left its group
};

// A process of an attempt that has ended here, kept for the next one.
struct KeptWorker {
  WorkerId worker;  // that it was
  Instant until;    // when it is ended if no attempt has begun
};

// The workers of one attempt on this node, from their start until the last one is gone.
struct Attempt {
  StartOrder start;
  std::map<uint32_t, Worker> workers;  // by rank
  RankReports reports;
  bool start_reported = false;
  bool failed = false;
  bool terminated = false;              // SIGTERM was sent
  std::optional<Instant> kill_at;       // when the grace after SIGTERM or LeaveGroup ends
  std::optional<uint64_t> output_step;  // the newest step in a worker's output

  bool alive() const {
    return std::any_of(workers.begin(), workers.end(), [](const auto& entry) {
      return entry.second.state != Worker::State::kGone;
    });
  }
  // Whether all remaining workers of the attempt are being ended.
  bool doomed() const {
    return failed || std::all_of(workers.begin(), workers.end(), [](const auto& entry) {
             return entry.second.asked || entry.second.state == Worker::State::kGone;
           });
  }
};

// The outcome of writing a snapshot's pieces to disk. Each snapshot is written once. One that
// failed is tried once more when it is ordered again, and when the workers have ended, because no
// newer one will follow.
struct DiskWrite {
  bool saved = false;
  std::vector<uint32_t> ranks;  // that were written
};

struct AgentJob {
  uint64_t highest_attempt = 0;              // in any command
  uint64_t opened_store = 0;                 // the attempt of the newest
  std::optional<proto::OpenStore> fetching;  // the store opens after its checkpoint is fetched
  std::optional<proto::OpenStore> opening;   // the store opens after `torch_version` is found
  std::optional<std::string> torch_version;  // of the job's command; none: not looked for yet
  uint64_t started_attempt = 0;              // the highest one of StartWorkers
  uint64_t killed_attempt = 0;               // a command ended all workers up to here
  uint64_t closed_attempt = 0;               // the highest one reported as closed
  std::map<uint64_t, Attempt> attempts;
  std::map<uint32_t, KeptWorker> kept;     // by local rank
  StartOrder waiting;                      // starts once lower attempts have ended
  StartOrder latest;                       // of the highest attempt started; kept after its end
  std::map<uint64_t, uint64_t> intervals;  // last command, by attempt; only the highest is kept
  std::set<std::tuple<int, uint32_t, uint64_t>> injected;  // kind, target, step; of this attempt
  bool forget = false;
  uint64_t forget_attempt = 0;  // up to here, with `forget`

  std::optional<SnapshotId> newest;  // sealed by all local ranks
  StartOrder sealed_by;              // the order of those ranks' attempt, while there is a newest
  std::map<SnapshotId, StartOrder> sealed;  // the newest ones, each with its attempt's order
  uint64_t memory_since = 0;                // what lower attempts sealed may be gone
  std::optional<SnapshotId> ordered;       // the controller's order: to be written next, or written
  std::vector<uint32_t> ordered_ranks;     // of the order; none: all that this node persists
  std::optional<SnapshotId> persisting;    // under way
  std::vector<uint32_t> writing;           // the ranks of `persisting`
  std::optional<SnapshotId> persisted;     // the newest on disk
  std::map<SnapshotId, DiskWrite> writes;  // completed ones; the newest
  std::optional<SnapshotId> copying;       // to the peer, under way
  std::optional<SnapshotId> copied;    // the newest that the peer has, or that could not be copied
  bool copy_failure_reported = false;  // since the last successful copy
  std::optional<SnapshotId> committing;              // under way
  std::optional<proto::CommitSnapshot> next_commit;  // the newest grant behind `committing`
  std::optional<SnapshotId> committed;
  std::optional<SnapshotId> copying_out;    // to the second tier, under way
  std::optional<SnapshotId> next_copy_out;  // the newest order behind `copying_out`

  bool alive() const {
    return std::any_of(attempts.begin(), attempts.end(),
                       [](const auto& entry) { return entry.second.alive(); });
  }
};

// The time at which a worker that was stopped by a planned fault continues.
struct Resume {
  Instant at;
  WorkerId worker;
};

// Returns whether both attempts give this node the same ranks of a world of the same size.
bool SameRanks(const proto::StartWorkers& one, const proto::StartWorkers& other);

// Returns the local ranks whose pieces this node persists. With replicated state, rank 0's piece
// serves all.
std::vector<uint32_t> RanksToPersist(const proto::StartWorkers& start);

// Returns why these workers can't be started on a node with this many slots; empty when they can.
std::string WhyStartMakesNoSense(const proto::StartWorkers& start, uint32_t slots);

}  // namespace longhaul::runtime::agent
