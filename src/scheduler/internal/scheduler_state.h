// What the scheduler knows: the cluster, the queues, every job and what it waits for. Values only;
// a copy is what a what-if question works on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "scheduler/decision.h"
#include "scheduler/event.h"
#include "scheduler/internal/jobs/job_table.h"
#include "scheduler/internal/jobs/waiting_order.h"
#include "scheduler/internal/model_dimensions.h"
#include "scheduler/internal/slot_tables.h"
#include "scheduler/policy.h"
#include "scheduler/share/decayed_usage.h"
#include "scheduler/share/durations.h"
#include "scheduler/share/queue_tree.h"
#include "scheduler/small_jobs/task_mix.h"

namespace longhaul::scheduler::internal {

// The links of a domain to the rest of the network.
struct LinkHealth {
  uint16_t health = 1'000;
  bool up = true;
  bool trusted = true;  // gangs may cross them
  Instant faulted_at{};
};

struct Reservation {
  JobNumber job = kNoJob;
  share::QueueIndex queue = share::kRootQueue;
  Tier tier = kClusterTier;
  int32_t domain = 0;
  int32_t first_host = 0;
  Instant start{};
  Instant end{};
  Instant planned_at{};
  int32_t gpus_a_task = 1;
  int64_t spare = 0;                   // tasks that the domain could hold beyond it at `start`
  std::vector<int16_t> gpus_at_start;  // wholly free, by host from first_host
  JobNumber forbidden = kNoJob;        // the last job that it has forbidden to start
};

// What a line's failure was seen against: it is tried again when one of these has changed.
struct Seen {
  uint64_t freed = 0;
  uint64_t quota = 0;
  uint64_t reservations = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

struct Line {
  std::string key;
  share::QueueIndex queue = share::kRootQueue;
  int32_t priority = 0;
  std::map<std::pair<Instant, JobNumber>, JobNumber> jobs;  // waiting, by (time or slack, number)
  bool parked = false;
  Seen parked_at;
  bool preempt_parked = false;
  Seen preempt_parked_at;
  // The promise of a job that has left: the next of the line, which is alike, inherits it.
  std::optional<Reservation> promise;
  Instant promised_at{};
};

struct SchedulerState {
  SchedulerState(std::shared_ptr<const spec::Topology> topology_in,
                 std::shared_ptr<const DomainTree> tree_in, share::QueueTree queues_in,
                 const Policy& policy_in);

  // Shared by copies: neither ever changes.
  std::shared_ptr<const spec::Topology> topology;
  std::shared_ptr<const DomainTree> tree;
  Policy policy;
  uint64_t device_models = 0;  // bit i: a node has devices of model i
  ModelDimensions model_dimensions;
  State resources;
  SlotTables tables;
  share::QueueTree queues;
  share::QueueTree idle_queues;  // the same with nothing used and every node there
  share::DecayedUsage decayed;
  share::Durations durations;

  Instant now{};
  Instant began{};  // the first time it was reported
  JobNumber next_job = 1;
  uint64_t next_transaction = 1;
  uint64_t rounds = 0;
  uint64_t expedites = 0;
  JobTable jobs;  // waiting or placed
  std::set<JobNumber> placed;
  std::set<JobNumber> damaged;  // have lost tasks
  std::set<JobNumber> expedited;
  WaitingOrder waiting;
  std::set<std::pair<Instant, JobNumber>> protections;  // when they end, of running jobs
  Instant overdue_noted{};  // those that wait since then are overdue, and were tried again for it
  std::set<std::pair<Instant, JobNumber>> bind_deadlines;
  std::set<std::pair<Instant, JobNumber>> ends;  // of what is placed, as expected when last noted
  std::vector<Line> lines;
  std::unordered_map<std::string, uint32_t> line_index;
  std::vector<std::set<uint32_t>> lines_of_queue;              // those with a job
  std::vector<std::map<int64_t, uint32_t>> placed_priorities;  // by queue: how many of each run
  std::map<JobNumber, Reservation> reservations;
  uint64_t quota_version = 0;
  uint64_t reservation_version = 0;
  uint64_t started_version = 0;
  // The last round refused somebody what it had itself begun: the next one looks again.
  bool claims_spared = false;
  // The last round freed room, quota or a reservation after jobs had been tried that it could
  // start: the next round tries them again.
  bool freed_after_walk = false;
  uint32_t planning_rounds = 0;  // the last ones that changed reservations and nothing else
  Instant planned_at{};
  Instant idle_counted{};  // until then reservations were charged for idle accelerators
  Instant grown_at{};
  Seen grown_seen;                         // what the last growth was tried against
  std::set<JobNumber> elastic;             // placed, with less than they want
  std::set<share::QueueIndex> over_limit;  // held more than their limits when they were taken over
  // The same of users, by the queue that limits them.
  std::set<std::pair<share::QueueIndex, std::string>> users_over_limit;
  std::vector<Instant> faulted_at;  // by node: the last fault, or health counted until then
  std::set<NodeIndex> unhealthy;
  // Tasks in one domain, by shape, tier and the most on a host.
  std::map<std::tuple<ShapeId, Tier, int32_t>, int64_t> most_when_empty;
  std::map<int32_t, std::vector<Instant>> leaf_losses;
  std::map<std::pair<Tier, int32_t>, LinkHealth> links;  // those that are not in full health
  ArrivalCounter arrivals;                               // what small jobs are placed for
  TaskMix mix;
  uint64_t mix_version = 0;
  uint64_t mix_arrivals = 0;  // when it was last held against what arrived
  Instant defragmented_at{};
  int64_t moved_gpu_ms = 0;                     // lost by voluntary moves, of the budget
  std::vector<std::set<JobNumber>> leaving_on;  // by node: stopping jobs that still hold it
  std::vector<Decision> rejections;             // the next round returns them
  uint64_t input_hash = 0;                      // of all events and times so far

  JobEntry* Find(const JobId& id) { return jobs.Find(id); }
  const JobEntry* Find(const JobId& id) const { return jobs.Find(id); }
  JobEntry& at(JobNumber job) { return jobs.at(job); }
  const JobEntry& at(JobNumber job) const { return jobs.at(job); }
  Seen Versions() const;
  // What decides whether room can be made: jobs started since may be stopped too.
  Seen PreemptVersions() const;

  // Whether queues have quotas by device model. Then all tasks of a group are on one model, so that
  // it is known what the group counts as.
  bool counts_models() const { return !queues.models().empty(); }
  // What `tasks` tasks of the shape count as in the quotas: as accelerators of a model only where
  // no other model can serve the shape.
  spec::SharedAmounts AmountsOf(const Shape& shape, int64_t tasks) const;
  // The job's amounts with every group at its minimum, and what it counts as with them.
  spec::SharedAmounts MinimumAmounts(const JobEntry& job) const;
  share::Holding MinimumOf(const JobEntry& job) const;
  // Whether the tasks of one of the job's groups are on several device models.
  bool MixesModels(const JobEntry& job) const;
  // What the task of the job counts as, where it is.
  spec::SharedAmounts AmountsOf(const JobEntry& job, const HeldTask& task) const;
  // What `tasks` further tasks of the job's only group count as, and what its last ones do.
  spec::SharedAmounts AmountsBeside(const JobEntry& job, int64_t tasks) const;
  spec::SharedAmounts AmountsOfLast(const JobEntry& job, int64_t tasks) const;

  // The shape of a group of one model that several models could serve, restricted to each of them,
  // in the order of the models. Empty for all other groups.
  std::vector<Shape> RestrictedToModels(const GroupRequest& group) const;
  std::vector<ShapeId> ShapesOfModels(const GroupRequest& group);
  // Sets the shapes of the job by its request.
  void InternShapes(JobEntry& job);
  // The shape of the group's further tasks: where the group is of one model and has tasks, it is
  // restricted to their model.
  ShapeId ShapeBesideTasks(const JobEntry& job, int32_t group) const;

  // Whether another round is due at once, although nothing happens outside.
  bool RoundIsDue() const {
    return claims_spared || (freed_after_walk && placed.size() < jobs.size());
  }

  // --- Lines of waiting jobs.
  void Enqueue(JobEntry& job);
  void Dequeue(JobEntry& job);
  // No other queue's guarantee takes the running job's place before `until`.
  void Protect(JobEntry& job, Instant until);
  // Whether no job of the queue `claimant` may stop the running job: an operator has put it first,
  // or it was overdue when it started and the claim is another queue's guarantee.
  bool IsProtected(const JobEntry& job, share::QueueIndex claimant) const;
  // Whether a waiting job has waited for longer than Policy::longest_wait. The time that it ran
  // before it was stopped is not waiting.
  bool IsOverdue(const JobEntry& job) const;
  // When the next waiting job becomes overdue, or the next running one is no longer protected.
  std::optional<Instant> NextOverdue() const;
  // Lets the jobs be tried again that have become overdue, and those that may claim what is no
  // longer protected.
  void NoteOverdue();
  // Waiting raises: the priority by which it is ordered now.
  int64_t EffectivePriority(const Line& line, const JobEntry& job) const;
  // Whether a goes before b within one queue.
  bool Before(const JobEntry& a, const JobEntry& b) const;

  // --- Bookkeeping of what is placed. The state's own changes are made by the caller before, in
  // one transaction, which these commit.
  // The job holds these tasks beside what it has.
  void Keep(JobEntry& job, const std::vector<HeldTask>& tasks);
  // Takes one task out of the state (uncommitted) and out of the job's amounts.
  void Drop(JobEntry& job, size_t task);
  // The job, which waited, has these tasks now.
  void Begin(JobEntry& job, const std::vector<HeldTask>& tasks, Instant bind_by_in);
  // All tasks leave; the job is neither placed nor waiting.
  void Release(JobEntry& job);
  // The usage of a queue, and so of those above it, has changed.
  void NoteUsage(share::QueueIndex queue);
  // Whether it is placed with less than it wants, for `elastic`.
  void NoteElastic(const JobEntry& job);
  // Ranks are dense again, in the order they had.
  void Renumber(JobEntry& job);
  // The mix of what has arrived, when enough has since it was formed.
  void FormMix();
  // It leaves its places and stays placed: Keep gives it others before the round continues. The
  // engine has to report the old tasks as stopped.
  void Uproot(JobEntry& job);
  // After Uproot and Keep: a transaction of its own, to be confirmed.
  void Confirmable(JobEntry& job, Duration patience);
  // Stops it and puts it back into its queue. `stop_sent`: the engine has to report it stopped.
  void Requeue(JobEntry& job, bool stop_sent);
  void Erase(JobNumber job);

  // Expects its end anew: at its start, when it is overdue, and when plans are made anew.
  void NoteEnd(JobEntry& job);
  Duration Elapsed(const JobEntry& job) const;
  share::JobLikeness LikenessOf(const JobEntry& job) const;
  // Of a placed one: the median, or (`late`) the end that nine of ten stay below.
  Instant ExpectedEnd(const JobEntry& job, bool late = false) const;
  share::ExpectedDuration ExpectedRun(const JobEntry& job) const;  // of a waiting one
  // From its last start; of a waiting one from the next.
  share::ExpectedDuration ExpectedLength(const JobEntry& job) const;

  std::vector<TaskPlacement> PlacementsOf(const JobEntry& job) const;
};

}  // namespace longhaul::scheduler::internal
