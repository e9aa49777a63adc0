// The inputs and effects of the agent's core.
//
// Inputs are facts about the link to the controller, processes, workers' reports through the worker
// API, and completed disk work. Effects are orders to the owner of processes, sockets and disks:
// the agent's service, or the simulator. The comment of an effect names its answer, if it has one.
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

// Shared and immutable: each worker's effect carries it, and a job's description is long.
using StartOrder = std::shared_ptr<const proto::StartWorkers>;

// ---------------------------------------------------------------------------------------- inputs

// The controller has accepted the connection and has logged the agent's events up to
// `acknowledged`.
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

// Answers FindTorch.
struct TorchFound {
  JobId job;
  std::string version;  // empty: none, or unknown
};
// Answers OpenStoreAt with a port or an error.
struct StoreListening {
  JobId job;
  uint64_t attempt = 0;
  uint32_t port = 0;
  std::string error;  // empty: the store listens
};

// Answers SpawnWorker with a process or an error. `permanent`: a retry cannot help.
struct WorkerForked {
  WorkerId worker;
  int64_t pid = 0;
  std::string error;  // empty: the process exists
  bool permanent = false;
};
// The process was reaped, and no process of its group is left.
struct WorkerGone {
  WorkerId worker;
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string message;
  int64_t error_at_ns = 0;
  std::string reached_limit = {};  // of the job, which ended it; empty: none
  bool ends_job = false;           // with it: a restart would reach it again
  bool was_stopped = false;        // in state T when this agent ended it
};

// Whether the worker's process can take part in a later attempt. It cannot until it reports this.
struct WorkerContinues {
  WorkerId worker;
  bool continues = true;
};
// Such a worker has left its group: because of LeaveGroup, or because a collective failed.
struct WorkerLeft {
  WorkerId worker;
};

// Reports of workers, through the worker API or in their output.
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
// The worker is blocked until a slot of its arena is free.
struct WorkerWaitsForSlot {
  WorkerId worker;
  uint64_t step = 0;
  Duration waited{};
  std::string holders;  // what occupies each slot, and for what
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
  std::vector<proto::Restore::Piece> bad = {};  // with TIER_PIECES: the damaged ones
  bool served = false;                          // others served instead, and the worker continues
};
struct WorkerResultText {
  WorkerId worker;
  std::string json;
};
// A step that a worker's output shows (Workload.step_pattern): all ranks have done it.
struct WorkerOutputStep {
  WorkerId worker;
  uint64_t step = 0;   // 0: no step is done yet
  uint64_t total = 0;  // of the whole run; 0: unknown
  Instant at{};
  std::optional<double> loss = {};
};
// The worker has shown no activity for this long, or has been stopped; both zero: this has ended.
struct WorkerQuiet {
  WorkerId worker;
  Duration silent{};
  Duration stopped{};
  std::string evidence = {};
};
// An event that is sent unchanged: of a log that is too long, of a device, or of a simulated job
// for all of its nodes (StepReported and SnapshotSealed with whole_job).
struct ReadyReport {
  proto::Event event;
};

// Answers PersistPieces with files or an error.
struct PiecesPersisted {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::vector<proto::SnapshotPersisted::File> files;
  Duration took{};
  std::string error;       // empty: all are on disk
  bool overtaken = false;  // with an error: newer snapshots have replaced it in memory
};
// Answers WriteManifest.
struct ManifestWritten {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::string error;  // empty: committed
};
// Committed checkpoints are missing in the job's folder, and the agent has not removed them.
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
  std::string error;  // empty: the copy is committed
};
// Answers FetchBack.
struct CheckpointFetched {
  JobId job;
  uint64_t attempt = 0;  // of the FetchBack
  std::string error;     // empty: the checkpoint is committed on disk
};
// Answers SendCopies.
struct CopiesSent {
  JobId job;
  uint64_t attempt = 0;
  uint64_t step = 0;
  std::string holder;  // the node that keeps them
  Duration took{};
  std::string error;  // empty: all copies are sealed there
};
// This node's memory has a verified copy of what a rank of another node sealed.
struct CopyReceived {
  JobId job;
  uint32_t rank = 0;
  uint64_t attempt = 0;  // that sealed it
  uint64_t step = 0;
};
// Answers ProbeWorkersNow, in any order. The core adds each worker's phase and last step.
struct ProbedWorkers {
  JobId job;
  uint64_t attempt = 0;
  std::vector<proto::WorkersProbed::Worker> workers;
  bool with_stacks = false;
  std::string stacks_file = {};
};

// Answers SampleWorkersNow, after its period.
struct SampledWorkers {
  JobId job;
  uint64_t attempt = 0;
  proto::WorkersSampled found;  // without the job and the attempt
};

// The deadline of AgentCore::NextDeadline has passed.
struct TimerFired {};
// Requests that the agent ends: workers get SIGTERM, and SIGKILL after `grace`. Nothing new starts.
struct ShutDownAsked {
  Duration grace{};
  // The controller has ended for good, and no other agent continues. So the agent commits its last
  // snapshot itself if it holds all pieces.
  bool cluster_ended = false;
};

using AgentInput =
    std::variant<Connected, Disconnected, CommandReceived, EventsAcknowledged, TorchFound,
                 StoreListening, WorkerForked, WorkerGone, WorkerContinues, WorkerLeft, WorkerPhase,
                 WorkerStep, WorkerSealed, WorkerWaitsForSlot, WorkerRestored, WorkerRestoreFailed,
                 WorkerResultText, WorkerOutputStep, WorkerQuiet, ReadyReport, PiecesPersisted,
                 ManifestWritten, CheckpointsMissing, CheckpointCopied, CheckpointFetched,
                 CopiesSent, CopyReceived, ProbedWorkers, SampledWorkers, TimerFired,
                 ShutDownAsked>;

// --------------------------------------------------------------------------------------- effects

// Sends to the controller, in order. Only while connected.
struct Send {
  proto::FromAgent message;
};
// Finds the version of PyTorch that the job's command would import. Answer: TorchFound.
struct FindTorch {
  JobId job;
  proto::Workload workload;
};
// Opens a new, empty store. Answer: StoreListening.
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
// Answer: WorkerForked. If it has a process, WorkerGone follows when the process ends.
struct SpawnWorker {
  WorkerId worker;
  StartOrder start;
};
// Orders a worker that can continue to leave its group. Answer: WorkerLeft, or nothing from a
// worker that hangs.
struct LeaveGroup {
  WorkerId worker;
};
// The process of `from`, which has left its group, becomes `worker`. A new process is started if it
// has ended meanwhile. Answer: WorkerForked.
struct ContinueWorker {
  WorkerId from;
  WorkerId worker;
  StartOrder start;
};
// Sends to the worker's whole process group. No effect when the process has ended.
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
// Commits the pieces as a checkpoint, then prunes old ones. Answer: ManifestWritten.
struct WriteManifest {
  proto::CommitSnapshot commit;
  StartOrder start;
  uint64_t current_attempt = 0;
  std::vector<uint64_t> protected_steps;  // must not be pruned
};
// Copies a committed checkpoint to the second tier. At most one a job is under way. Answer:
// CheckpointCopied.
struct CopyOut {
  JobId job;
  uint64_t attempt = 0;  // in its name
  uint64_t step = 0;
  StartOrder start;
};
// Fetches a checkpoint from the second tier. Answer: CheckpointFetched.
struct FetchBack {
  JobId job;
  uint64_t attempt = 0;  // that starts from it
  proto::Restore restore;
  StartOrder start;  // only its job is used
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
// Sends the interval to all workers of the attempt through the worker API, and to workers that
// connect later.
struct SendInterval {
  JobId job;
  uint64_t attempt = 0;
  uint64_t steps = 0;
};
// Reads the state of these processes, and sends SIGCONT to stopped ones if requested. Answer:
// ProbedWorkers.
struct ProbeWorkersNow {
  JobId job;
  uint64_t attempt = 0;
  std::vector<uint32_t> ranks;
  bool resume_stopped = false;
  bool with_stacks = false;
};
// Looks at these processes many times within the period. Answer, at its end: SampledWorkers.
struct SampleWorkersNow {
  JobId job;
  uint64_t attempt = 0;
  std::vector<uint32_t> ranks;
  Duration period{};
};
// The job has ended and has no process: releases its arenas, fork server, worker API and logs.
struct DropJob {
  JobId job;
};
// This idle node may be the next to run the job: starts its fork server. No answer.
struct PrepareFork {
  JobId job;
  StartOrder start;  // as the job's first node received it
};
// The job has no workers here and is not expected any more: ends its fork server.
struct EndFork {
  JobId job;
};
// Injects a fault: SIGKILL to all workers' groups, then to the agent itself.
struct KillNode {
  bool memory_too = false;  // also loses the memory of its snapshots
};

using AgentEffect = std::variant<Send, FindTorch, OpenStoreAt, CloseStores, SpawnWorker, LeaveGroup,
                                 ContinueWorker, SignalWorker, PersistPieces, WriteManifest,
                                 CopyOut, FetchBack, SendCopies, SendInterval, ProbeWorkersNow,
                                 SampleWorkersNow, DropJob, PrepareFork, EndFork, KillNode>;

}  // namespace longhaul::runtime
