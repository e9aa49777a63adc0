#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "scheduler/internal/check_fits.h"
#include "scheduler/internal/explain.h"
#include "scheduler/internal/guarantees.h"
#include "scheduler/internal/rank_places.h"
#include "scheduler/internal/reservation_idle.h"
#include "scheduler/internal/round/defragmentation.h"
#include "scheduler/internal/scheduler_core.h"
#include "scheduler/internal/scheduler_invariants.h"
#include "scheduler/internal/take_event.h"
#include "scheduler/internal/takeover/adoption.h"
#include "scheduler/internal/takeover/extension.h"

namespace longhaul::scheduler {

using internal::JobEntry;
using internal::JobNumber;
using internal::SchedulerState;

namespace {

// Between two plans for a job that could start now as far as room is concerned.
constexpr Duration kReplanPause = std::chrono::seconds(1);

spec::SharedAmounts CapacityOf(const spec::Topology& topology,
                               const std::vector<spec::QueueSpec>& queues) {
  const internal::ModelDimensions dimensions(topology, spec::QuotaModels(queues));
  spec::SharedAmounts capacity;
  for (uint32_t node = 0; node < topology.size(); ++node) {
    capacity += dimensions.CapacityOf(topology.kind_of(node));
  }
  return capacity;
}

uint64_t Chain(uint64_t hash, std::string_view text) { return Hash64(text, hash); }

}  // namespace

Scheduler::Scheduler(std::unique_ptr<internal::SchedulerCore> core) : core_(std::move(core)) {}
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

Result<Scheduler> Scheduler::Create(spec::Topology topology,
                                    const std::vector<spec::QueueSpec>& queues,
                                    const Policy& policy) {
  RETURN_IF_ERROR(spec::CheckQueues(queues));
  if (!policy.growing_cluster) RETURN_IF_ERROR(internal::CheckModels(queues, topology));
  const spec::SharedAmounts capacity = CapacityOf(topology, queues);
  ASSIGN_OR_RETURN(share::QueueTree tree,
                   share::QueueTree::Create(
                       queues, policy.growing_cluster ? spec::kUnlimitedAmounts : capacity));
  tree.SetCapacity(capacity);
  auto shared = std::make_shared<const spec::Topology>(std::move(topology));
  auto domains = std::make_shared<const DomainTree>(internal::TreeOf(*shared));
  auto core = std::make_unique<internal::SchedulerCore>(std::move(shared), std::move(domains),
                                                        std::move(tree), policy);
  core->state.input_hash = HashOf(policy);
  return Scheduler(std::move(core));
}

Result<Scheduler> Scheduler::Rebuild(const Scheduler& before, spec::Topology topology,
                                     const std::vector<spec::QueueSpec>& queues,
                                     const Policy& policy, const ChangeRequest& change) {
  ASSIGN_OR_RETURN(Scheduler next, Create(std::move(topology), queues, policy));
  internal::TakeOver(before.core_->state, next.core_->state, change);
  return next;
}

bool Scheduler::Extend(spec::Topology topology) {
  return internal::Extend(*core_, std::make_shared<const spec::Topology>(std::move(topology)));
}

Scheduler Scheduler::Copy() const {
  return Scheduler(std::make_unique<internal::SchedulerCore>(*core_));
}

void Scheduler::Apply(const Event& event, Instant now) { core_->Apply(event, now); }

std::vector<Decision> Scheduler::Decide(Instant now, int64_t steps) {
  return core_->Decide(now, steps);
}

bool Scheduler::unfinished() const { return core_->unfinished; }

// The earliest time at which a round could decide something although no event has come.
std::optional<Instant> Scheduler::NextDeadline() const {
  const SchedulerState& state = core_->state;
  std::optional<Instant> next;
  const auto consider = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
  if (!state.bind_deadlines.empty()) consider(state.bind_deadlines.begin()->first);
  // A reservation whose time passes without a start is planned anew just after that time. The plan
  // may be for the present again, if a quota keeps the job: the next one is made after a pause.
  for (const auto& [job, reservation] : state.reservations) {
    const Instant due = std::max(reservation.start, reservation.planned_at + kReplanPause);
    consider(std::max(due, state.now) + Duration(1));
  }
  if (const auto moves = internal::Defragmentation::NextRun(state)) {
    consider(std::max(*moves, state.now + Duration(1)));
  }
  for (const JobNumber number : state.damaged) {
    consider(std::max(state.at(number).lost_since + state.policy.repair_patience,
                      state.now + Duration(1)));
  }
  for (const NodeIndex node : state.unhealthy) {
    consider(state.faulted_at[node] + std::chrono::hours(1));
  }
  if (const auto overdue = state.NextOverdue()) consider(*overdue);
  if (const auto limit = internal::NextIdleLimit(state)) consider(*limit);
  if (state.RoundIsDue()) consider(state.now + Duration(1));
  if (!state.elastic.empty() && state.Versions() != state.grown_seen) {
    consider(std::max(state.grown_at + state.policy.elastic_period, state.now + Duration(1)));
  }
  return next;
}

Status Scheduler::CheckSubmission(const JobRequest& request) const {
  RETURN_IF_ERROR(CheckRequest(request, core_->state.tree->tiers()));
  return internal::WouldFit(core_->state, request);
}

Status Scheduler::CheckScale(const JobScaled& event) const {
  return internal::CheckScale(core_->state, event);
}

Result<Explanation> Scheduler::Explain(const JobId& job, Instant now,
                                       const Changeable& means) const {
  return internal::Explain(*core_, job, now, means);
}

std::string Scheduler::WaitText(const JobId& job) const {
  return internal::WaitText(core_->state, job);
}

Status Scheduler::CheckInvariants() const { return internal::CheckInvariants(core_->state); }

Status Scheduler::CheckGuarantees(Instant now) const {
  return internal::CheckGuarantees(*core_, now);
}

const spec::Topology& Scheduler::topology() const { return *core_->state.topology; }
const State& Scheduler::state() const { return core_->state.resources; }

JobStage Scheduler::StageOf(const JobId& id) const {
  const JobEntry* job = core_->state.Find(id);
  if (job == nullptr) return JobStage::kUnknown;
  if (!job->placed) return job->leaving ? JobStage::kLeaving : JobStage::kWaiting;
  internal::Stage least = internal::Stage::kRunning;
  for (const internal::HeldTask& task : job->tasks) least = std::min(least, task.stage);
  return least == internal::Stage::kAssumed ? JobStage::kAssumed
         : least == internal::Stage::kBound ? JobStage::kBound
                                            : JobStage::kRunning;
}

std::vector<TaskPlacement> Scheduler::TasksOf(const JobId& id) const {
  const JobEntry* job = core_->state.Find(id);
  return job == nullptr ? std::vector<TaskPlacement>() : core_->state.PlacementsOf(*job);
}

std::vector<GpuOfRank> Scheduler::RanksOf(const JobId& id) const {
  const JobEntry* job = core_->state.Find(id);
  return job == nullptr ? std::vector<GpuOfRank>() : internal::GpusOfRanks(core_->state, *job);
}

std::optional<JobOutlook> Scheduler::OutlookOf(const JobId& id) const {
  const SchedulerState& state = core_->state;
  const JobEntry* job = state.Find(id);
  if (job == nullptr) return std::nullopt;
  const share::ExpectedDuration run = state.ExpectedLength(*job);
  return JobOutlook{job->placed, job->started, run.median, run.from_user || run.like_jobs > 0};
}

std::vector<JobId> Scheduler::Waiting() const {
  std::vector<JobId> waiting;
  for (const JobEntry* job : std::as_const(core_->state.jobs).InOrder()) {
    if (!job->placed) waiting.push_back(job->request->id);
  }
  return waiting;
}

std::vector<LinkView> Scheduler::Links() const {
  const SchedulerState& state = core_->state;
  std::vector<LinkView> views;
  for (const auto& [domain, health] : state.links) {
    const auto& level = state.topology->levels()[static_cast<size_t>(domain.first)];
    views.push_back({level.name, level.domains[static_cast<size_t>(domain.second)].name,
                     domain.first, domain.second, health.health, health.up, health.trusted});
  }
  return views;
}

const std::vector<std::string>& Scheduler::QuotaModels() const {
  return core_->state.queues.models();
}

std::vector<QueueView> Scheduler::Queues() const {
  const SchedulerState& state = core_->state;
  std::vector<QueueView> views(state.queues.size());
  for (size_t q = 0; q < views.size(); ++q) {
    const auto queue = static_cast<share::QueueIndex>(q);
    const share::QueueIndex parent = state.queues.parent(queue);
    views[q].name = state.queues.name(queue);
    if (parent != share::kNoQueue) views[q].parent = state.queues.name(parent);
    views[q].guarantee = state.queues.guarantee(queue);
    views[q].limit = state.queues.limit(queue);
    views[q].usage = state.queues.usage(queue);
    for (const auto& [user, usage] : state.queues.users(queue)) {
      views[q].users.push_back({user, usage.amounts, static_cast<uint64_t>(usage.running)});
    }
  }
  for (const JobNumber number : state.placed) {
    ++views[static_cast<size_t>(state.at(number).queue)].running;
  }
  for (const internal::Line& line : state.lines) {
    views[static_cast<size_t>(line.queue)].waiting += line.jobs.size();
  }
  return views;
}

// The parts that a replay must reproduce. The order is that of job numbers, never that of a hash.
uint64_t Scheduler::Fingerprint() const {
  const SchedulerState& state = core_->state;
  uint64_t hash = Chain(state.input_hash, std::to_string(state.resources.Fingerprint()));
  const auto add = [&hash](int64_t number) { hash = Chain(hash, std::to_string(number)); };
  add(ToNanoseconds(state.now));
  add(static_cast<int64_t>(state.next_transaction));
  for (const JobEntry* job : state.jobs.InOrder()) {
    add(static_cast<int64_t>(job->number));
    add(job->placed ? 1 : job->leaving ? 2 : 3);
    for (const internal::HeldTask& task : job->tasks) add(static_cast<int64_t>(task.slot));
  }
  for (const auto& [number, reservation] : state.reservations) {
    add(static_cast<int64_t>(number));
    add(ToNanoseconds(reservation.start));
    add(reservation.domain);
  }
  return hash;
}

// Every member of Policy must be listed here: TakeOver compares policies by this hash.
uint64_t HashOf(const Policy& policy) {
  uint64_t hash = 0;
  const auto add = [&hash](int64_t number) { hash = Chain(hash, std::to_string(number)); };
  add(static_cast<int64_t>(policy.placement));
  add(static_cast<int64_t>(policy.backfill));
  add(policy.reservations);
  add(policy.reservation_gain.count());
  add(policy.replan_period.count());
  add(policy.promise_kept.count());
  add(policy.repair_patience.count());
  add(policy.growing_cluster);
  add(policy.preempt);
  add(policy.evictions_a_day);
  add(policy.priority_gpu_seconds);
  add(policy.bind_deadline.count());
  add(policy.aging_period.count());
  add(policy.aging_steps);
  add(policy.shorter_first.count());
  add(policy.longest_wait.count());
  add(policy.overdue_reservations);
  add(policy.reservation_idle_milli);
  add(policy.least_idle_run.count());
  add(static_cast<int64_t>(policy.fair_share));
  add(policy.usage_half_life.count());
  add(policy.fault_health);
  add(policy.probation_health);
  add(policy.probation_job.count());
  add(policy.leaf_faults);
  add(policy.leaf_window.count());
  add(policy.elastic_period.count());
  add(static_cast<int64_t>(policy.seed));
  add(policy.mix_period);
  add(policy.mix_change);
  for (const int32_t weight :
       {policy.small_jobs.pull_cpu, policy.small_jobs.pull_gpus, policy.small_jobs.packing,
        policy.small_jobs.price_percent, policy.small_jobs.largest_price_milli,
        policy.small_jobs.health, policy.small_jobs.holes}) {
    add(weight);
  }
  add(policy.leaf_slowdown_ppm);
  add(policy.block_slowdown_ppm);
  add(policy.moves);
  add(policy.defragment_period.count());
  add(policy.move_budget_milli);
  add(policy.move_pause.count());
  return hash;
}

}  // namespace longhaul::scheduler
