// What goes into the agent's core and what comes out of it.
//
// Inputs are facts: of the link to the controller, of processes, of what workers said at the worker
// API, of disk work that has ended. Effects are orders to whoever owns processes, sockets and
// disks: the agent's service, or the simulator. An effect that is answered names its answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace longhaul::runtime {

// One worker's process: a rank in one attempt of a job.
struct WorkerId {
  JobId job;
  uint64_t attempt = 0;
  uint32_t rank = 0;

  friend auto operator<=>(const WorkerId&, const WorkerId&) = default;
};

// Shared and never changed: each worker's effect carries it, and a job's description is long.
using StartOrder = std::shared_ptr<const proto::StartWorkers>;

// ---------------------------------------------------------------------------------------- inputs

// The controller has welcomed us; it has logged our events up to `acknowledged`.
struct Connected {
  uint64_t acknowledged = 0;
};
struct Disconnected {};
struct CommandReceived {
  proto::Command command;
};
struct EventsAcknowledged {
  uint64_t sequence = 0;
};

// Answers OpenStoreAt: a port, or why not.
struct StoreListening {
  JobId job;
  uint64_t attempt = 0;
  uint32_t port = 0;
  std::string error;  // empty: it listens
};

// Answers SpawnWorker: a process, or why not. `permanent`: no retry can help.
struct WorkerForked {
  WorkerId worker;
  int64_t pid = 0;
  std::string error;  // empty: there is a process
  bool permanent = false;
};
// The process was reaped, and nothing of its process group is left.
struct WorkerGone {
  WorkerId worker;
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string message;
  int64_t error_at_ns = 0;
};

// What workers say through the worker API, or in their output.
struct WorkerPhase {
  WorkerId worker;
  proto::PhaseEntered::Phase phase = proto::PhaseEntered::PHASE_UNSPECIFIED;
  Instant at{};
};
struct WorkerStep {
  WorkerId worker;
  uint64_t step = 0;
  Instant at{};
  Duration data{};
  Duration snapshot{};
  Duration evaluation{};
  Duration communication{};
  std::optional<double> loss;
  std::optional<double> validation_loss;
  double gradient_norm = 0;
  uint64_t tokens = 0;
  double flops = 0;
};
struct WorkerSealed {
  WorkerId worker;
  uint64_t step = 0;
  Duration blocked{};
  uint64_t bytes = 0;
  Instant at{};
  bool non_finite = false;  // its state has NaN or infinity
  Duration waited{};        // of `blocked`, for a slot
  proto::SnapshotWay way = proto::SNAPSHOT_WAY_UNSPECIFIED;
  std::optional<proto::RankContent> content = {};
};
// It stands still until a slot of its arena is free.
struct WorkerWaitsForSlot {
  WorkerId worker;
  uint64_t step = 0;
  Duration waited{};
  std::string holders;  // who holds which slot for what
};
struct WorkerRestored {
  WorkerId worker;
  uint64_t step = 0;
  proto::Restore::Tier tier = proto::Restore::TIER_NONE;
};
struct WorkerRestoreFailed {
  WorkerId worker;
  uint64_t step = 0;
  proto::Restore::Tier tier = proto::Restore::TIER_NONE;
  std::string reason;
  std::vector<proto::Restore::Piece> bad = {};  // with TIER_PIECES: those that are no good
  bool served = false;                          // by others all the same: the worker continues
};
struct WorkerResultText {
  WorkerId worker;
  std::string json;
};
// A step that a worker's output shows (Workload.step_pattern): all ranks have done it.
struct WorkerOutputStep {
  WorkerId worker;
  uint64_t step = 0;   // 0: none is done yet
  uint64_t total = 0;  // of the whole run; 0: unknown
  Instant at{};
  std::optional<double> loss = {};
};
// It has written nothing and used no processor time for so long; zero: that is over.
struct WorkerQuiet {
  WorkerId worker;
  Duration silent{};
};
// What a simulated job says for all of its nodes at once (StepReported and SnapshotSealed with
// whole_job): told as it is.
struct JobReport {
  proto::Event event;
};

// Answers PersistPieces: files, or why not.
struct PiecesPersisted {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::vector<proto::SnapshotPersisted::File> files;
  Duration took{};
  std::string error;       // empty: all are on disk
  bool overtaken = false;  // with an error: newer snapshots have taken its place in memory
};
// Answers WriteManifest.
struct ManifestWritten {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::string error;  // empty: committed
};
// Committed checkpoints of the job have been removed from its folder by somebody else.
struct CheckpointsMissing {
  JobId job;
  struct Checkpoint {
    uint64_t step = 0;
    uint64_t attempt = 0;  // in its name
  };
  std::vector<Checkpoint> lost;
  std::string folder;
};
// Answers CopyOut.
struct CheckpointCopied {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  uint64_t bytes = 0;
  Duration took{};
  std::string error;  // empty: it is committed there
};
// Answers FetchBack.
struct CheckpointFetched {
  JobId job;
  uint64_t attempt = 0;  // of the FetchBack
  std::string error;     // empty: it is committed on disk
};
// Answers SendCopies.
struct CopiesSent {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::string holder;  // the node that keeps them
  Duration took{};
  std::string error;  // empty: all are sealed there
};
// Answers ProbeWorkersNow, in any order. The core adds each worker's phase and last step.
struct ProbedWorkers {
  JobId job;
  uint64_t attempt = 0;
  std::vector<proto::WorkersProbed::Worker> workers;
};

// The deadline of AgentCore::NextDeadline has passed.
struct TimerFired {};
// The agent shall end: workers get SIGTERM, and SIGKILL after `grace`; nothing new is started.
struct ShutDownAsked {
  Duration grace{};
  // The controller has ended for good, and no other agent continues: the agent commits its last
  // snapshot itself if it holds all of it.
  bool cluster_ended = false;
};

using AgentInput =
    std::variant<Connected, Disconnected, CommandReceived, EventsAcknowledged, StoreListening,
                 WorkerForked, WorkerGone, WorkerPhase, WorkerStep, WorkerSealed,
                 WorkerWaitsForSlot, WorkerRestored, WorkerRestoreFailed, WorkerResultText,
                 WorkerOutputStep, WorkerQuiet, JobReport, PiecesPersisted, ManifestWritten,
                 CheckpointsMissing, CheckpointCopied, CheckpointFetched, CopiesSent, ProbedWorkers,
                 TimerFired, ShutDownAsked>;

// --------------------------------------------------------------------------------------- effects

// To the controller, in order. Only while connected.
struct Send {
  proto::FromAgent message;
};
// Opens a fresh, empty store. Answer: StoreListening.
struct OpenStoreAt {
  JobId job;
  uint64_t attempt = 0;
  uint32_t world = 0;
  std::string torch_version;  // of its clients; empty: unknown
};
// Closes the job's stores of attempts below `below_attempt`.
struct CloseStores {
  JobId job;
  uint64_t below_attempt = 0;
};
// Answer: WorkerForked, and once that gave a process, at its end WorkerGone.
struct SpawnWorker {
  WorkerId worker;
  StartOrder start;
};
// To the worker's whole process group. The process may have ended already: then nothing.
struct SignalWorker {
  WorkerId worker;
  int signal = 0;
};
// Writes the arenas' snapshots of these ranks to the checkpoint directory. At most one a job is
// under way. Answer: PiecesPersisted.
struct PersistPieces {
  JobId job;
  uint64_t attempt = 0;  // that sealed it
  uint64_t step = 0;
  std::vector<uint32_t> ranks;
  StartOrder start;  // of the attempt that sealed it
};
// Makes the pieces a checkpoint, then prunes old ones. Answer: ManifestWritten.
struct WriteManifest {
  proto::CommitSnapshot commit;
  StartOrder start;
  uint64_t current_attempt = 0;
  std::vector<uint64_t> protected_steps;  // not to be pruned
};
// Copies a committed checkpoint to the second tier. At most one a job is under way. Answer:
// CheckpointCopied.
struct CopyOut {
  JobId job;
  uint64_t attempt = 0;  // in its name
  uint64_t step = 0;
  StartOrder start;
};
// Brings a checkpoint back from the second tier. Answer: CheckpointFetched.
struct FetchBack {
  JobId job;
  uint64_t attempt = 0;  // that is to start from it
  proto::Restore restore;
  StartOrder start;  // only its job
};
// Sends the arenas' snapshots of these ranks to the peer that `start` names. At most one a job is
// under way. Answer: CopiesSent.
struct SendCopies {
  JobId job;
  uint64_t attempt = 0;  // that sealed it
  uint64_t step = 0;
  std::vector<uint32_t> ranks;
  StartOrder start;
};
// To all workers of the attempt through the worker API, and to those who come.
struct TellInterval {
  JobId job;
  uint64_t attempt = 0;
  uint64_t steps = 0;
};
// Reads the state of these processes; sends SIGCONT to stopped ones if asked to. Answer:
// ProbedWorkers.
struct ProbeWorkersNow {
  JobId job;
  uint64_t attempt = 0;
  std::vector<uint32_t> ranks;
  bool resume_stopped = false;
};
// The job is over and has no process: release its arenas, fork server, worker API and logs.
struct DropJob {
  JobId job;
};
// Chaos: SIGKILL to all workers' groups, then to the agent itself.
struct KillNode {
  bool memory_too = false;  // what would outlive it is lost too
};

using AgentEffect = std::variant<Send, OpenStoreAt, CloseStores, SpawnWorker, SignalWorker,
                                 PersistPieces, WriteManifest, CopyOut, FetchBack, SendCopies,
                                 TellInterval, ProbeWorkersNow, DropJob, KillNode>;

}  // namespace longhaul::runtime
