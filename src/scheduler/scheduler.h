// Decides which job runs on which nodes, and which jobs wait for what. The controller, the
// simulator and the benchmarks use this class.
//
// Pure: no clock, no input or output, no threads. Events go in with their times; Decide returns
// whole transactions. The decisions are a function of the cluster, the queues, the policy and the
// sequence of calls: the same sequence gives the same bytes. A round of Decide
//   1. undoes starts that were not confirmed in time and places lost tasks anew,
//   2. walks the waiting jobs in the order of share/fair_order.h: place, else reserve, else leave,
//   3. makes room for those who have a right to it, only where landing is proven,
//   4. moves running jobs where that joins free slots for a waiting gang (internal/round_move.cc),
//   5. lets elastic jobs grow into slots that no waiting job can use.
// A job that failed costs nothing until room, quota or a reservation has changed.
//
// Model and sources: queues share/queue_tree.h, hosts gang/equal_tasks.h, victims
// victims/victim_search.h, reservations internal/planning.h, constants policy.h. Leaves out how a
// job is started and stopped: the caller carries the decisions out and reports back by events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "scheduler/decision.h"
#include "scheduler/event.h"
#include "scheduler/explanation.h"
#include "scheduler/policy.h"
#include "spec/cluster/topology.h"
#include "spec/queue/queue.h"

namespace longhaul::scheduler {

// A round that has done so many placements or search steps stops and continues in the next.
constexpr int64_t kUnlimitedSteps = int64_t{1} << 62;

struct QueueView {
  std::string name;
  std::string parent;
  spec::SharedAmounts guarantee;
  spec::SharedAmounts limit;
  spec::SharedAmounts usage;
  uint64_t waiting = 0;  // jobs in the queue itself
  uint64_t running = 0;
};

// The links that join a domain to the rest of the network.
struct LinkView {
  std::string level;
  std::string name;
  Tier tier = kLeafTier;
  int32_t domain = 0;
  uint16_t health = 1'000;  // thousandths
  bool up = true;
  bool trusted = true;  // gangs may cross them
};

enum class JobStage : uint8_t { kUnknown, kWaiting, kLeaving, kAssumed, kBound, kRunning };

class Scheduler {
 public:
  // Refuses queues that are unsound or promise more than the cluster has.
  static Result<Scheduler> Create(spec::Topology topology,
                                  const std::vector<spec::QueueSpec>& queues, const Policy& policy);
  // The same jobs on another cluster, under other queues or another policy: what runs keeps its
  // GPUs and what waits its place; tasks on nodes that are no longer there are lost, and a job
  // whose queue is gone is in the root. Decayed usage and learnt durations go along. `change` may
  // bring each request into the new cluster's terms; GPUs are then chosen anew where they must be.
  using ChangeRequest = std::function<void(JobRequest&)>;
  static Result<Scheduler> Rebuild(const Scheduler& before, spec::Topology topology,
                                   const std::vector<spec::QueueSpec>& queues, const Policy& policy,
                                   const ChangeRequest& change = {});
  ~Scheduler();
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  // The same scheduler once more, to try something out.
  Scheduler Copy() const;

  // Takes one fact. `now` never goes back: an earlier one counts as the last. What makes no sense
  // (an unknown job, an old transaction) changes nothing: it comes from outside. A submission that
  // is refused leads to a kReject in the next round.
  void Apply(const Event& event, Instant now);

  std::vector<Decision> Decide(Instant now, int64_t steps = kUnlimitedSteps);
  // The last round ran out of steps: call again.
  bool unfinished() const;
  // When a round is due although nothing happens.
  std::optional<Instant> NextDeadline() const;

  // Whether a job could ever start on this cluster with nothing else in it; the largest size that
  // would, if not. Quotas count.
  Status CheckSubmission(const JobRequest& request) const;

  // Why a job is not running and what would start it, each answer tried out on a copy. Refuses
  // unknown jobs (kNotFound).
  Result<Explanation> Explain(const JobId& job, Instant now, const Changeable& means = {}) const;

  // Why a job waited when it was last tried, in a few words; empty when it doesn't wait. Cheap:
  // nothing is tried out.
  std::string WaitText(const JobId& job) const;

  const spec::Topology& topology() const;
  JobStage StageOf(const JobId& job) const;
  std::vector<TaskPlacement> TasksOf(const JobId& job) const;  // by rank
  std::vector<GpuOfRank> RanksOf(const JobId& job) const;      // rank -> GPU, with a layout
  std::vector<JobId> Waiting() const;                          // by submission
  std::vector<QueueView> Queues() const;                       // the root first
  std::vector<LinkView> Links() const;                         // those not in full health
  const State& state() const;

  // Everything that must hold between two calls; the first thing that doesn't.
  Status CheckInvariants() const;
  // After a round: nobody waits within his queue's guarantee for what stopping those who may be
  // stopped would give him. Judges jobs of one group of whole GPUs while no other job holds a
  // reservation; a round on a copy for each that has somebody to take from, so for tests and
  // simulators.
  Status CheckGuarantees(Instant now) const;
  // Equal histories give equal fingerprints.
  uint64_t Fingerprint() const;

 private:
  friend class Explainer;
  class Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::scheduler
