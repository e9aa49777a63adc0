// Decides which job runs on which nodes, and which waiting job gets a reservation. The controller,
// the simulator and the benchmarks use this class.
//
// The class is pure: it has no clock, no input or output, and no threads. Events go in with their
// times, and Decide returns whole transactions. The decisions are a function of the cluster, the
// queues, the policy and the sequence of calls: the same sequence produces the same bytes. A round
// of Decide (internal/round/round.h)
//   1. undoes starts that were not confirmed in time, and places lost tasks anew,
//   2. tries the waiting jobs in the order of share/fair_order.h: a job starts, or it gets a
//      reservation if it is among the first of its queue, or it waits,
//   3. preempts jobs for others that have a right to their room, where it is proved that those fit,
//   4. moves running jobs if that joins free slots for a waiting gang,
//   5. lets elastic jobs grow into slots that no waiting job can use.
// A job that was tried is not tried again until room, quota or a reservation has changed.
//
// Model and sources: queues share/queue_tree.h, hosts gang/equal_tasks.h, victims
// victims/victim_search.h, reservations internal/planning.h, constants policy.h. Leaves out how a
// job is started and stopped: the caller carries out decisions and reports the results as events.
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

namespace internal {
struct SchedulerCore;
}

// What a user holds in a queue and in those below it.
struct UserView {
  std::string user;
  spec::SharedAmounts amounts;
  uint64_t running = 0;  // jobs that have nodes
};

struct QueueView {
  std::string name;
  std::string parent;
  spec::SharedAmounts guarantee;
  spec::SharedAmounts limit;
  spec::SharedAmounts usage;
  uint64_t waiting = 0;  // jobs in the queue itself
  uint64_t running = 0;
  std::vector<UserView> users;  // by name, where the queue limits what a user holds
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

// How long a job is expected to run.
struct JobOutlook {
  bool placed = false;
  Instant started{};   // of a placed one
  Duration length{};   // from its last start: the user's estimate, else the median of like jobs
  bool known = false;  // not: neither exists, and 30 minutes are assumed
};

enum class JobStage : uint8_t { kUnknown, kWaiting, kLeaving, kAssumed, kBound, kRunning };

class Scheduler {
 public:
  // Refuses queues that are inconsistent or guarantee more than the cluster has.
  static Result<Scheduler> Create(spec::Topology topology,
                                  const std::vector<spec::QueueSpec>& queues, const Policy& policy);
  // Returns a scheduler for the same jobs on another cluster, under other queues or another policy.
  // Running jobs keep their GPUs, and waiting jobs keep their places. Tasks on nodes that no longer
  // exist are lost, and a job whose queue no longer exists is in the root queue. Decayed usage and
  // learnt durations are kept. `change` may adapt each request to the new cluster; GPUs are then
  // chosen anew where necessary.
  using ChangeRequest = std::function<void(JobRequest&)>;
  static Result<Scheduler> Rebuild(const Scheduler& before, spec::Topology topology,
                                   const std::vector<spec::QueueSpec>& queues, const Policy& policy,
                                   const ChangeRequest& change = {});
  // Continues on a topology with further nodes, or with other kinds of nodes that have no tasks,
  // and decides from then on as after Rebuild with the same requests, queues and policy. The cost
  // does not grow with the requests, so this is for a node that joins. Returns false and changes
  // nothing if the topologies differ in more than that or the cluster has less of a resource.
  bool Extend(spec::Topology topology);
  ~Scheduler();
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  // Returns an independent copy, on which a caller can try changes out.
  Scheduler Copy() const;

  // Applies one event. A `now` before that of the last call counts as that one. An event that makes
  // no sense (an unknown job, an old transaction) changes nothing, because events come from
  // outside. A submission that is refused leads to a kReject in the next round.
  void Apply(const Event& event, Instant now);

  // Runs a round and returns its decisions. A round that has used `steps` placements and search
  // steps stops, and the next one continues.
  std::vector<Decision> Decide(Instant now, int64_t steps = kUnlimitedSteps);
  // Whether the last round used all its steps: another one is due at once.
  bool unfinished() const;
  // Returns when the next round is due if no event comes before.
  std::optional<Instant> NextDeadline() const;

  // Refuses a job that could not start on this cluster under its quotas even if no other job ran;
  // the message names the largest size that could.
  Status CheckSubmission(const JobRequest& request) const;

  // Returns why the event would change nothing: kInvalidArgument for a count that the job cannot
  // have, kFailedPrecondition for a job that waits, has several groups or is changing its tasks.
  Status CheckScale(const JobScaled& event) const;

  // Returns why a job is not running and what would start it. Every fix is tried out on a copy.
  // Refuses unknown jobs (kNotFound).
  Result<Explanation> Explain(const JobId& job, Instant now, const Changeable& means = {}) const;

  // Returns in a few words why a job waited when it was last tried; empty when it does not wait.
  // Cheap: nothing is tried out.
  std::string WaitText(const JobId& job) const;

  const spec::Topology& topology() const;
  JobStage StageOf(const JobId& job) const;
  std::vector<TaskPlacement> TasksOf(const JobId& job) const;  // by rank
  std::vector<GpuOfRank> RanksOf(const JobId& job) const;      // rank -> GPU, with a layout
  std::vector<JobId> Waiting() const;                          // by submission
  std::vector<QueueView> Queues() const;                       // the root first
  // The device models with quotas, in the order of their dimensions in the amounts of queues.
  const std::vector<std::string>& QuotaModels() const;
  std::vector<LinkView> Links() const;  // the links not in full health
  const State& state() const;
  std::optional<JobOutlook> OutlookOf(const JobId& job) const;

  // Returns an error that names the first invariant between two calls that does not hold.
  Status CheckInvariants() const;
  // Returns an error if, after a round, a job waits within its queue's guarantee although stopping
  // jobs that may be stopped would start it. Checks jobs of one group of whole GPUs while no other
  // job holds a reservation. It runs a round on a copy for each such job that has a possible
  // victim, so it is for tests and simulators.
  Status CheckGuarantees(Instant now) const;
  // Equal sequences of calls give equal fingerprints.
  uint64_t Fingerprint() const;

 private:
  explicit Scheduler(std::unique_ptr<internal::SchedulerCore> core);
  std::unique_ptr<internal::SchedulerCore> core_;
};

}  // namespace longhaul::scheduler
