// What the controller knows, and the rules by which events change it.
//
// One class in ten files, by concept: controller.cc (entry, nodes, deadlines), controller_jobs.cc
// (a job's life and epochs), controller_placing.cc (what the scheduler decides, and leaving nodes),
// controller_faults.cc (evidence, decision, hangs, chaos), controller_snapshots.cc (what can be
// restored, commits), tiers/controller_persist.cc (which step is written to disk),
// tiers/controller_pieces.cc (memories of another layout), tiers/controller_copies.cc (the second
// tier), cluster/operator_changes.cc (what operators change)
// and controller_status.cc (what is shown, invariants).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/cluster/cluster_scheduler.h"
#include "runtime/controller.h"
#include "runtime/data_ledger.h"
#include "runtime/goodput_ledger.h"
#include "runtime/internal/deadlines.h"
#include "runtime/snapshot_interval.h"
#include "runtime/tiers/write_shares.h"

namespace longhaul::runtime::internal {

struct Node {
  NodeId id;
  uint64_t incarnation = 0;
  uint64_t last_sequence = 0;
  bool connected = false;
  bool lost = false;  // given up; a new incarnation brings the name back
  bool cordoned = false;
  bool draining = false;
  bool enlisted = false;  // a spare that an operator has taken into use
  bool cut = false;       // its connection broke, and nothing else is known
  // Workers that failed there of late: a second one, in a gang whose other nodes did not fail or of
  // another job, is the node's own fault.
  struct WorkerFault {
    Instant at;
    std::string job;
    bool wide = false;  // the job has other nodes
  };
  std::vector<WorkerFault> worker_faults;
  uint32_t used_slots = 0;  // by gangs, until their workers have ended
  uint32_t losses = 0;
  wire::AgentJoined facts;
};

// One node of a gang. Its index in the gang is its node rank and its account in the ledger.
struct Member {
  NodeId node;
  // In the present epoch:
  bool started = false;
  bool closed = false;
  wire::PhaseEntered::Phase phase = wire::PhaseEntered::PHASE_UNSPECIFIED;
  uint32_t ranks_done = 0;     // exited with 0
  uint64_t reported_step = 0;  // the restored step at first
  // Over epochs, as long as the node lives: the newest steps in its memory, newest first, 0 = none.
  std::array<uint64_t, 2> sealed{};
  // The newest steps of this place in the gang in the memory of another node, and which life of it.
  NodeId holder;
  uint64_t holder_incarnation = 0;
  std::array<uint64_t, 2> copied{};
  uint32_t arena_first_rank = 0;  // see wire::StartWorkers
};

// A gang that leaves its nodes: a snapshot first, then all workers end, then it waits in its queue
// or goes on with other nodes.
struct Retreat {
  enum class Then { kQueue, kGoOn } then = Then::kQueue;
  enum class Stage {
    kSnapshot,  // the workers take one
    kStopping,  // they end
    kSaving,    // the snapshot reaches the disk, for nodes that don't have it in memory
    kReady,     // the other nodes are not all there yet
  } stage = Stage::kSnapshot;
  std::string reason;
  uint64_t from_step = 0;  // newest snapshot when it began: a later one is awaited
};

// What a node that the job has left still has of it in memory.
struct LeftMemory {
  uint64_t incarnation = 0;
  std::array<uint64_t, 2> sealed{};
  uint32_t arena_first_rank = 0;
  size_t place = 0;  // in a gang of `nodes`
  size_t nodes = 0;
};

// A sealed step in memories, by the places of the gang that sealed it. Kept when the gang changes:
// what a node holds then is no longer what its new ranks hold, but together it is the state.
struct Spread {
  struct Holding {
    NodeId node;
    uint64_t incarnation = 0;
    uint32_t first = 0;  // the names there, from here on
    bool copy = false;   // kept for the place's own node
  };
  uint64_t epoch = 0;                        // that sealed it
  std::vector<std::vector<Holding>> places;  // each place's, its own node's first
};

// "memory", "a peer's memory", "disk": for messages.
const char* TierName(wire::Restore::Tier tier);

// The step that all of its nodes are told to write to disk.
struct PersistOrder {
  uint64_t epoch = 0;  // that sealed it
  uint64_t step = 0;
  std::map<NodeId, bool> nodes;  // that write a part of it, and whether it is on disk
  std::map<NodeId, std::vector<uint32_t>> ranks;  // that each writes; none: all of its own
};

// What the ranks of a step hold, and the nodes that were told to write it: none yet, or all.
struct StepContents {
  uint64_t epoch = 0;  // that sealed it
  RankContents ranks;
  std::set<std::string> writers;
};

// A committed checkpoint on its way to the second tier.
struct CopyOrder {
  uint64_t epoch = 0;
  uint64_t step = 0;
  NodeId node;
};

// A checkpoint whose pieces are arriving on disk.
struct PendingCommit {
  uint64_t epoch = 0;
  std::map<uint32_t, wire::SnapshotPersisted::File> files;  // by rank
  std::set<std::string> nodes;                              // that have persisted theirs
  NodeId committer;
  bool granted = false;
};

struct Job {
  wire::Job spec;
  wire::JobState state = wire::QUEUED;
  std::string reason;
  Instant submitted;
  Instant ended;
  std::optional<wire::JobState> closing;  // decided outcome, waiting for the last checkpoint

  // Places. The scheduler's word is `target`; `gang` is where workers are.
  std::vector<NodeId> target;      // by rank; empty ids where a node is missing; none: it waits
  std::optional<Retreat> retreat;  // from the gang
  uint64_t transaction = 0;        // of the newest placement, until all workers run; 0: none
  std::map<NodeId, LeftMemory> left;
  uint32_t preemptions = 0;
  uint32_t moves = 0;

  // Sizes.
  std::map<uint64_t, uint32_t> nodes_of_epoch;
  uint64_t placed_epoch = 0;  // the first epoch of the present ranks: which node has which
  std::vector<wire::SizeChange> sizes;
  uint32_t resizes = 0;

  // The epoch.
  uint64_t epoch = 0;
  std::vector<Member> gang;
  std::unordered_map<std::string, size_t> places;  // a node's place in the gang
  uint32_t members_started = 0;
  std::array<uint32_t, wire::PhaseEntered::Phase_ARRAYSIZE> members_in_phase{};
  uint32_t store_port = 0;  // 0: not open yet
  wire::Restore restore;    // of rank 0; tiers differ a node
  wire::DataLease lease;
  bool reports_steps = false;             // in this epoch
  std::map<uint64_t, uint64_t> restored;  // by epoch, the newest ones: the step it went on from

  // Progress.
  uint64_t step = 0;          // done on every node that reports, in the present lineage
  uint64_t highest_step = 0;  // ever
  Instant last_progress;
  Duration slowest_report{};  // of late
  double step_seconds = 0;    // moving average
  bool has_first_loss = false;
  bool has_validation_loss = false;
  double first_loss = 0;
  double loss = 0;
  double first_validation_loss = 0;
  double validation_loss = 0;
  std::map<uint64_t, double> validation_losses;  // the newest ones, by step
  double tokens = 0;                             // of steps that count
  double flops = 0;
  double tokens_per_second = 0;
  std::vector<int64_t> pids;
  std::vector<std::string> results;

  // Faults.
  std::vector<wire::Fault> faults;
  std::vector<uint64_t> highest_before;  // a fault's, for its "first new step"
  std::vector<double> bad_before;        // rank seconds of badput when it happened
  size_t first_unresolved = 0;
  bool undecided = false;     // the newest fault awaits its decision
  NodeId awaited;             // whose return or loss the decision waits for
  uint64_t failed_epoch = 0;  // that the newest fault ended
  uint32_t restarts = 0;
  uint32_t fruitless = 0;      // errors in a row without a new step
  uint32_t probes = 0;         // since the last progress
  std::string slot_wait;       // who waits for what, since the last progress
  std::vector<bool> injected;  // by planned fault
  Instant started;             // all workers of the epoch have a process

  // Snapshots.
  std::map<uint64_t, uint32_t> seals;  // nodes that sealed a step, of those not complete yet
  uint64_t memory_step = 0;            // newest complete
  uint64_t committed_step = 0;
  uint64_t committed_epoch = 0;
  std::map<uint64_t, uint64_t> complete;      // step -> epoch that sealed it, the newest ones
  std::map<uint64_t, Spread> spreads;         // by step, of gangs before; see SpreadOf
  std::map<uint64_t, StepContents> contents;  // by step, the newest ones
  std::optional<PersistOrder> order;          // under way
  uint64_t unsaved_step = 0;                  // the newest whose order came to nothing
  std::map<uint64_t, uint64_t> committed;     // step -> epoch, all that may be restored
  std::map<uint64_t, PendingCommit> pending;  // by step
  std::string save_failure;                   // of the newest save that failed
  uint64_t save_failure_step = 0;             // which one
  bool save_tried_again = false;              // it is final: the agent won't try once more
  std::map<uint64_t, uint64_t> copies;        // step -> epoch, on the second tier
  std::optional<CopyOrder> copying;           // under way
  uint64_t copied_step = 0;                   // newest there
  uint64_t uncopied_step = 0;                 // the newest that could not be copied
  std::string copy_failure;                   // why
  uint64_t commits_copied = 0;                // `commits` when the newest copy was ordered
  uint64_t snapshots = 0;
  std::array<uint64_t, wire::SnapshotWay_ARRAYSIZE> snapshot_ways{};  // complete ones, by way
  Seconds slot_waits{};  // before complete ones, all together
  Seconds longest_slot_wait{};
  uint64_t commits = 0;

  mutable uint64_t checked_epoch = 0;  // whose gang CheckInvariants has looked at

  GoodputLedger ledger;
  DataLedger data;
  SnapshotInterval interval;

  Job(const wire::Job& wanted, Instant now, Seconds time_between_failures)
      : spec(wanted),
        submitted(now),
        last_progress(now),
        ledger(now, wanted.nodes(), wanted.processes_per_node()),
        data(wanted.data()),
        interval(wanted.snapshot().interval_steps(), time_between_failures) {}

  // Ranks; of the size that it is planned for while it has no gang.
  uint32_t world() const { return nodes() * spec.processes_per_node(); }
  uint32_t nodes() const {
    return gang.empty() ? spec.nodes() : static_cast<uint32_t>(gang.size());
  }
  bool live() const { return !IsTerminal(state); }
  // So far: a command that uses the door speaks with its first step.
  bool never_reported() const { return !spec.workload().built_in() && highest_step == 0; }
};

}  // namespace longhaul::runtime::internal

namespace longhaul::runtime {

class Controller::State {
 public:
  using Job = internal::Job;
  using Node = internal::Node;
  using Member = internal::Member;

  explicit State(const ControllerOptions& options) : options_(options) {}

  Actions Step(const wire::Event& event, Instant now);
  std::optional<Instant> NextDeadline() const { return deadlines_.Next(); }
  Status CheckSubmission(const wire::Job& job) const;
  Status CheckChanges(const wire::ChangesAsked& asked) const;
  bool CanChangeSize(const JobId& job) const;
  Remedy RemedyOf(const JobId& job, const std::vector<scheduler::Event>& fix) const;
  uint64_t AcknowledgedSequence(const NodeId& node, uint64_t incarnation) const;
  wire::JobStatus StatusOf(const Job& job, Instant now) const;
  wire::NodeStatus StatusOf(const Node& node) const;
  std::optional<wire::JobStatus> StatusOf(const JobId& id, Instant now) const;
  std::vector<wire::JobStatus> AllJobs(Instant now) const;
  std::vector<wire::NodeStatus> AllNodes() const;
  const cluster::ClusterScheduler& scheduler() const { return scheduler_; }
  Status CheckInvariants() const;
  Status CheckPlaces() const;
  uint64_t StateHash() const;

 private:
  // controller.cc: entry, nodes, deadlines
  bool Accept(const wire::Event& event);
  void Dispatch(const wire::Event& event);
  void OnControllerStarted(const wire::ControllerStarted& started);
  void OnAgentJoined(const wire::Event& event);
  void OnAgentDisconnected(const wire::Event& event);
  void OnNodeCordoned(const wire::NodeCordoned& cordoned);
  void TellNode(const Node& node);  // its condition, to the scheduler
  void OnTick();
  void OnDeadline(const internal::Deadlines::Name& name);
  void LoseNode(Node& node, const std::string& why, Instant happened);
  void Reconcile(Node& node);
  Node* FindNode(const NodeId& id);
  const Node* FindNode(const NodeId& id) const;
  void Send(const NodeId& node, wire::Command command);
  wire::Notice& AddNotice(const std::string& job_id);
  void Say(const std::string& job_id, wire::MessageNotice::Severity severity, std::string text);
  void NoticeNode(const Node& node);

  // controller_jobs.cc: a job's life
  void OnJobSubmitted(const wire::Job& spec);
  void OnJobStopRequested(const wire::JobStopRequested& request);
  void OnStoreOpened(const wire::Event& event);
  void OnWorkersStarted(const wire::Event& event);
  void OnPhaseEntered(const wire::Event& event);
  void OnStepReported(const wire::Event& event);
  void OnEpochClosed(const wire::Event& event);
  void CloseIfStopped(Job& job);  // once no worker of a job that is being stopped is left
  void OnWorkerResult(const wire::WorkerResult& result);
  void TakeProgress(Job& job, const wire::StepReported& report, Instant at);
  void Touch(const Job& job) {
    if (touched_.empty() || touched_.back() != &job) touched_.push_back(&job);
  }
  Job* FindJob(const std::string& id);
  // The job if the event speaks of its present epoch and comes from a node of its gang.
  Job* CurrentJob(const wire::Event& event, const std::string& id, uint64_t epoch, size_t* member);
  static std::optional<size_t> MemberOf(const Job& job, const std::string& node);
  void OpenEpoch(Job& job);
  void SendOpenStore(const Job& job);
  void SendStart(const Job& job, size_t member);
  void SendKill(const Job& job, Duration grace, const std::string& reason);
  void SetState(Job& job, wire::JobState state, const std::string& reason);
  void BeginClosing(Job& job, wire::JobState outcome, const std::string& reason);
  void CloseIfSaved(Job& job);
  void NoteSaveFailure(Job& job, size_t member, const wire::SnapshotFailed& failed);
  // Whether the newest snapshot could not be saved, and won't be.
  static bool SaveFailed(const Job& job);
  void Finalize(Job& job);

  // controller_placing.cc: what the scheduler decides
  void Schedule();
  void Carry(const cluster::Verdict& verdict);
  // Starts a job whose nodes are all there and free; false: not yet.
  bool TryBegin(Job& job);
  // Makes the gang what the scheduler says; false: a node of it is not to be had yet.
  bool TakeTarget(Job& job);
  void FillPlace(Job& job, size_t place, const std::vector<Member>& before,
                 const std::unordered_map<std::string, size_t>& places);
  void NoteSize(Job& job, size_t before);
  // Leaves for the target as soon as that can be had, if it is another gang.
  void Follow(Job& job);
  bool CanTake(const Job& job, const NodeId& node) const;
  void Release(Job& job);  // its slots
  void BeginRetreat(Job& job, internal::Retreat::Then then, const std::string& reason);
  void StopForRetreat(Job& job);
  void AdvanceRetreat(Job& job);
  void SayRetreat(const Job& job, const NodeId& node);
  void FinishRetreat(Job& job);
  void OnRetreatOverdue(Job& job);
  bool NeedsDisk(const Job& job) const;
  void TryPending();
  // Tells nodes that the job has left to give its memory free, where it is of no more use: its
  // state is on disk and others work there, or it goes on elsewhere with newer state.
  void FreeLeft(Job& job);
  void FreeLeftOn(const NodeId& node);
  Status CheckPlace(const Job& job) const;

  // cluster/operator_changes.cc
  void OnChangesAsked(const wire::ChangesAsked& asked);
  Status CheckChange(const wire::Change& change) const;
  Status CheckJobChange(const Job& job, const wire::Job& spec) const;
  void Make(const wire::Change& change, const std::string& reason);
  void ChangeJob(Job& job, const wire::Job& spec);
  bool Waits(const Job& job) const;
  bool HasBegun(const Job& job) const;

  // controller_faults.cc: evidence and decisions
  struct Evidence {
    std::string class_name;
    std::string what;
    std::string node;
    int32_t rank = -1;
    Instant happened;
    bool certain = false;  // the cause itself, not perhaps its consequence
  };
  void OnWorkerExited(const wire::Event& event);
  void OnWorkersFailedToStart(const wire::Event& event);
  void OnWorkersProbed(const wire::Event& event);
  void OnWorkerWaits(const wire::Event& event);
  void NoteFault(Job& job, const Evidence& evidence);
  static wire::Fault& AddFault(Job& job);
  bool IsRealCauseOfNewest(const Job& job, const Evidence& evidence) const;
  void ImproveCause(Job& job, const Evidence& evidence);
  void TryDecide(Job& job);
  void OnStartOverdue(Job& job);
  void OnProgressOverdue(Job& job);
  void WatchProgress(Job& job);
  void InjectDueFaults(Job& job);
  bool WasInjected(const Job& job, const Evidence& evidence) const;
  enum class Stage { kStarted, kRendezvous, kRestoring, kStepping, kFirstStep };
  void StampFaults(Job& job, Stage stage, Instant at);
  void ResolveFaults(Job& job, Instant at);
  void NoticeFault(const Job& job, const wire::Fault& fault);
  // Whether the fault counts against the node it happened on, and then does so.
  void BlameNode(const Job& job, const wire::Fault& fault);

  // controller_snapshots.cc: what can be restored
  void AdoptMemory(const Node& node, uint64_t life_before);
  void OnSnapshotSealed(const wire::Event& event);
  void OnSnapshotReplicated(const wire::Event& event);
  void OnSnapshotPersisted(const wire::Event& event);
  void OnSnapshotCommitted(const wire::Event& event);
  void OnSnapshotFailed(const wire::Event& event);
  static void NoteWay(Job& job, const wire::SnapshotSealed& sealed);
  void CompleteSnapshot(Job& job, uint64_t step, Seconds blocked, uint64_t bytes);
  void NoteContents(Job& job, size_t member, const wire::SnapshotSealed& sealed);
  // Of a step that was sealed in that epoch; null when nothing is known of them.
  internal::StepContents* ContentsOf(Job& job, uint64_t epoch, uint64_t step);
  // Whether every rank's state is in the files that have come.
  bool IsWhole(Job& job, const internal::PendingCommit& commit, uint64_t step);
  void GrantIfWhole(Job& job, uint64_t step);

  // tiers/controller_persist.cc: which step is written to disk
  void OrderPersist(Job& job);  // names the newest complete step, unless one is being written
  void SendPersist(const Job& job, const NodeId& node);
  void SendPersistAgain(const Job& job);  // to those that have not written theirs
  void PersistDone(Job& job, const NodeId& node, uint64_t epoch, uint64_t step);
  void PersistFailed(Job& job, const wire::SnapshotFailed& failed, const NodeId& node);
  // The node will not write what it was told to: lost, or its memory was released.
  void DropOrderOf(Job& job, const NodeId& node);
  std::vector<NodeId> WritersOf(const Job& job, uint64_t step) const;
  std::vector<NodeId> Deal(Job& job, const std::vector<NodeId>& nodes,
                           internal::PersistOrder& order);

  // tiers/controller_copies.cc: the second tier
  void OrderCopy(Job& job);  // of the newest commit, when one is due
  void SendCopy(const Job& job);
  void OnSnapshotCopied(const wire::Event& event);
  void CopyFailed(Job& job, const wire::SnapshotFailed& failed);
  // Whether nothing is left to do for the second tier before the job closes.
  bool CopiesSettled(Job& job);
  void NoteFetched(Job& job);  // the checkpoint to start from has come to disk
  // tiers/controller_pieces.cc: memories that hold a step in another layout
  internal::Spread SpreadOf(const Job& job, uint64_t step) const;
  void RememberSpreads(Job& job);  // before the gang changes
  bool StillHolds(const Job& job, const internal::Spread::Holding& holding) const;
  bool IsWhole(const Job& job, const internal::Spread& spread) const;
  void AddPieces(const Job& job, size_t member, wire::Restore& restore) const;
  static void DropPiecesOn(Job& job, const NodeId& node);  // it was told to give them free
  static void DropPieces(Job& job, uint64_t step, const NodeId& node, bool copy);
  void ForgetPieces(Job& job, const wire::SnapshotFailed& failed);
  void AdoptPieces(Job& job, const Node& node, uint64_t life_before);
  static uint32_t NodesOfEpoch(const Job& job, uint64_t epoch);
  wire::Restore ChooseRestore(const Job& job) const;
  wire::Restore RestoreFor(const Job& job, size_t member) const;
  // The node whose memory a place in the gang can have `step` from, its own aside; null: none.
  const Node* CopyOf(const Job& job, size_t member, uint64_t step) const;
  void ForgetCopy(Job& job, size_t member, uint64_t step);
  // The node that is to keep copies of a place's snapshots; null: none.
  const Node* PeerOf(const Job& job, size_t member) const;
  void UpdateInterval(Job& job);

  // controller_status.cc
  Status CheckJob(const Job& job) const;
  Status CheckGang(const Job& job) const;

  ControllerOptions options_;
  Instant now_{};
  std::map<NodeId, Node> nodes_;
  std::unordered_map<std::string, Node*> node_index_;  // into nodes_, for speed
  // Nodes that would take snapshots of others: without one, gangs of thousands would each be looked
  // through for every place of theirs.
  uint32_t peers_ = 0;
  std::map<std::string, Job> jobs_;
  std::vector<std::string> order_;  // of submission
  internal::Deadlines deadlines_;
  cluster::ClusterScheduler scheduler_;
  bool scheduling_ = false;
  std::set<std::string> pending_;    // jobs with nodes that are not free or not there yet
  std::vector<const Job*> touched_;  // jobs that the last step may have changed
  Actions out_;
};

}  // namespace longhaul::runtime
