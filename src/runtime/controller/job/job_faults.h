// The faults of one job: the evidence of each, the one that awaits a decision, the number of
// restarts, and which planned faults have been injected.
//
// Evidence may arrive late and from several sources. The cause is the earliest failure with the
// most certain kind of evidence. A failure that no other explains, on another node, is a fault of
// its own: one restart is for both, and its cost counts for the main one. A fault is over with the
// first step beyond the highest one before it. Leaves out the action against a fault
// (fault_handler.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/fault_class.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "runtime/controller/job/worker_group.h"

namespace longhaul::runtime::controller {

struct Evidence {
  proto::FaultClass fault = proto::FaultClass::kError;
  std::string what;
  std::string node;
  int32_t rank = -1;  // -1: not of one rank
  Instant happened;
  bool certain = false;  // the cause itself, not possibly its consequence
};

// Rank seconds of badput that count as the cost of faults, by category.
using BadTime = std::map<proto::Category, double>;
BadTime BadTimeOf(const proto::Ledger& ledger);

// The stages of a restart, in order.
enum class RestartStage { kStarted, kRendezvous, kRestoring, kStepping, kFirstStep };

class JobFaults {
 public:
  // The facts that decide whether the job is restarted again.
  struct RestartLimits {
    uint32_t restarts = 0;    // of the job in all
    uint32_t fruitless = 0;   // errors in a row without a new step
    bool has_lasted = false;  // the workers of a job that reports no steps ran for long
  };
  // A restart that follows the newest fault.
  struct Restart {
    proto::Restore restore;
    uint64_t reached = 0;             // the last step before the fault
    bool restores_by_itself = false;  // the lost steps are not known yet
    bool from_unknown = false;        // the step that it restarts from is unknown
    size_t nodes_before = 0;
    size_t nodes = 0;
    bool node_left = false;  // the gang goes on without the node of the fault
  };
  struct Outlook {
    uint64_t step = 0;
    bool reports = false;  // the job has ever reported a step
    bool at_end = false;   // the last step of the run is done
    bool workers_started = false;
  };

  explicit JobFaults(int planned) : injected_(static_cast<size_t>(planned), false) {}

  // --- Evidence.
  // Takes evidence of a fault; the fault awaits a decision from now on. Returns whether it is a new
  // fault, as opposed to the real cause of the newest one.
  bool Take(const Evidence& evidence, const proto::Job& spec, const WorkerGroup& group,
            uint64_t attempt, uint64_t highest_step, Instant now);
  // Takes later evidence about the newest fault. Returns whether it is better than the earlier one.
  bool Improve(const Evidence& evidence, const proto::Job& spec, const WorkerGroup& group);
  // Whether the evidence is of a failure that the newest fault neither explains nor follows from.
  bool IsAnother(const Evidence& evidence) const;
  // Adds such a failure as a fault, for which the restart of the newest one is too. The loss of a
  // node becomes the newest fault in place of another kind, as long as that is not decided. Returns
  // the faults that have changed.
  std::vector<const proto::Fault*> AddAnother(const Evidence& evidence, const proto::Job& spec,
                                              const WorkerGroup& group, Instant now);
  // Adds a fault that is over already: a stopped worker that was continued.
  const proto::Fault& AddContinued(const Evidence& evidence, const proto::Job& spec,
                                   const WorkerGroup& group, uint64_t step, uint64_t highest_step,
                                   const BadTime& bad_before, Instant now);
  // Stores the badput that had passed when the newest fault happened.
  void SetBadBefore(const BadTime& bad) { records_[newest_].bad_before = bad; }

  // Returns the node of the newest fault if the job has failed at least twice without a step in
  // between and no other node was named meanwhile; empty: none. A worker that was only continued is
  // no failure: with it two workers of a node may fail at once, and a restart may help.
  std::string RepeatedNode() const;
  // The number of failures since the last step.
  size_t FailuresWithoutStep() const;
  // Replaces the description of the newest fault, whose evidence is not complete yet.
  void Restate(const std::string& what, const std::string& node, int32_t rank);
  // Appends what has become known since to the action against a fault. Requires that the number is
  // one of a fault.
  const proto::Fault& AddToAction(uint32_t number, const std::string& text);
  // A check has found that this node is the cause of the newest fault.
  void NameNode(const std::string& node, const std::string& evidence);

  // --- Decisions.
  bool undecided() const { return undecided_; }
  void Dismiss() { undecided_ = false; }
  // Returns why the job is not restarted; nothing when it is. Stores that it has lasted.
  std::optional<std::string> WhyGiveUp(const RestartLimits& limits);
  // Postpones the decision until this node is back or lost.
  void Await(const NodeId& node) { awaited_ = node; }
  const NodeId& awaited() const { return awaited_; }
  // Decides the newest fault; `action` describes what is done.
  void Decide(const std::string& action, Instant now);
  void CountRestart();
  // Decides the newest fault with a restart that has begun.
  void DecideRestart(const Restart& restart, Instant now);
  // The first step in the output of workers that restore by themselves shows how many steps were
  // lost. Returns whether a fault was open.
  bool NoteFirstOutput(uint64_t step, uint64_t step_before);
  void NoteNewStep() { fruitless_ = 0; }

  // --- Stages.
  void Stamp(RestartStage stage, Instant at);
  bool has_unresolved() const { return first_unresolved_ < records_.size(); }
  // Resolves the first open fault if it is over according to `outlook`. `bad` is the badput so far.
  // Returns the fault; null when it is not over.
  const proto::Fault* ResolveNext(const Outlook& outlook, const BadTime& bad, Instant at);
  // The job ends with open faults: stores their cost up to now, and returns them. They stay open.
  std::vector<const proto::Fault*> ChargeOpen(const BadTime& bad);

  // --- Planned faults.
  void ResetPlan(int planned) { injected_.assign(static_cast<size_t>(planned), false); }
  bool injected(int planned) const { return injected_[static_cast<size_t>(planned)]; }
  void MarkInjected(int planned) { injected_[static_cast<size_t>(planned)] = true; }

  bool empty() const { return records_.empty(); }
  size_t size() const { return records_.size(); }
  const proto::Fault& fault(size_t i) const { return records_[i].fault; }
  // The newest fault: of several with one restart the main one.
  const proto::Fault& newest() const { return records_[newest_].fault; }
  proto::FaultClass newest_class() const { return records_[newest_].kind; }
  // The faults with the restart of the newest one, without itself.
  std::vector<const proto::Fault*> OthersOfNewest() const;
  uint64_t failed_attempt() const { return failed_attempt_; }  // that the newest fault ended
  uint32_t restarts() const { return restarts_; }
  uint32_t fruitless() const { return fruitless_; }

 private:
  struct Record {
    proto::Fault fault;
    proto::FaultClass kind = proto::FaultClass::kError;
    uint64_t highest_before = 0;  // the fault is over with the first step above it
    BadTime bad_before;
    uint32_t with = 0;       // the number of the main fault of the restart; 0: it is the main one
    bool continued = false;  // its worker was continued: no restart was for it

    bool CausedRestart() const { return with == 0 && !continued; }
  };

  Record& Add(uint64_t highest_step);
  void DecideOthers(Instant now);
  static void Charge(Record& record, const BadTime& bad);
  void Describe(Record& record, const Evidence& evidence, const proto::Job& spec,
                const WorkerGroup& group) const;
  bool IsRealCauseOfNewest(const Evidence& evidence, Instant now) const;
  // Whether an injected fault explains the evidence and no other fault yet.
  bool WasInjected(const Evidence& evidence, const proto::Job& spec,
                   const WorkerGroup& group) const;
  // Whether the newest fault is the program's own, according to the evidence.
  bool is_own_fault() const;

  std::vector<Record> records_;
  size_t newest_ = 0;  // of records_
  size_t first_unresolved_ = 0;
  bool undecided_ = false;
  NodeId awaited_;
  uint64_t failed_attempt_ = 0;
  uint32_t restarts_ = 0;
  uint32_t fruitless_ = 0;
  std::vector<bool> injected_;  // by planned fault
};

}  // namespace longhaul::runtime::controller
