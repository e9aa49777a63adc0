// The shared pieces of a round, each alone on a small state. history_test.cc covers whole rounds.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "scheduler/internal/round/line_turns.h"
#include "scheduler/internal/round/one_gpu_victims.h"
#include "scheduler/internal/round/reservations.h"
#include "scheduler/internal/scheduler_core.h"

namespace longhaul::scheduler::internal {
namespace {

using Purpose = LineTurns::Purpose;
using Outcome = OneGpuVictims::Outcome;

const Instant kStart = InstantFromNanoseconds(1'500'000'000'000'000'000);

// Hosts of 8 GPUs in one leaf, and queues with guarantees in GPUs.
SchedulerCore Cluster(uint32_t hosts, const std::vector<int64_t>& guarantees, Policy policy = {}) {
  std::vector<spec::QueueSpec> specs(guarantees.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].name = "q" + std::to_string(i);
    specs[i].guarantee[0] = guarantees[i] * kWholeGpu;
  }
  auto topology = spec::Topology::Create(spec::ClosCluster(1, 1, hosts));
  EXPECT_TRUE(topology.ok()) << topology.status();
  const spec::SharedAmounts host = {{8 * kWholeGpu, 192'000, 2'048 * 1'024}};
  spec::SharedAmounts capacity;
  for (uint32_t i = 0; i < hosts; ++i) capacity += host;
  auto queues = share::QueueTree::Create(specs, capacity);
  EXPECT_TRUE(queues.ok()) << queues.status();
  auto shared = std::make_shared<const spec::Topology>(*topology);
  auto tree = std::make_shared<const DomainTree>(TreeOf(*shared));
  SchedulerCore core(shared, tree, *queues, policy);
  core.Advance(kStart);
  return core;
}

JobRequest Job(const std::string& name, const std::string& queue, int32_t tasks, int32_t gpus) {
  JobRequest job;
  job.id = JobId(name);
  job.queue = queue;
  job.limit = std::chrono::hours(1);
  job.groups.emplace_back();
  job.groups[0].shape.gpus = static_cast<uint8_t>(gpus);
  job.groups[0].minimum = job.groups[0].desired = tasks;
  return job;
}

// Submits a job, which waits until the next round.
JobEntry& Submit(SchedulerCore& core, const JobRequest& request) {
  core.Apply(JobSubmitted{request}, core.state.now);
  JobEntry* job = core.state.Find(request.id);
  CHECK(job != nullptr) << "refused: " << request.id.value();
  return *job;
}

// Submits a job that starts at once, is confirmed and began in an earlier round.
JobEntry& StartNow(SchedulerCore& core, const JobRequest& request) {
  JobEntry& job = Submit(core, request);
  core.Decide(core.state.now, kUnlimitedSteps);
  EXPECT_TRUE(job.placed) << request.id.value();
  core.Apply(TasksRunning{request.id, job.transaction, {}}, core.state.now);
  ++core.state.rounds;
  return job;
}

JobRequest WithPriority(JobRequest job, int32_t priority) {
  job.priority = priority;
  return job;
}

// --- LineTurns

TEST(LineTurns, GivesTheLinesOfAQueueByPriority) {
  SchedulerCore core = Cluster(1, {0});
  for (const int32_t priority : {1, 4, 2, 5, 3}) {
    Submit(core, WithPriority(Job("p" + std::to_string(priority), "q0", 1, 1), priority));
  }
  LineTurns turns(core.state, Purpose::kPlace);
  const share::QueueIndex queue = core.state.queues.Find("q0");
  for (const int32_t priority : {5, 4, 3, 2, 1}) {
    const JobNumber head = turns.HeadOf(queue);
    ASSERT_NE(head, kNoJob);
    EXPECT_EQ(core.state.at(head).request->priority, priority);
    turns.Park(core.state.at(head).line);
  }
  EXPECT_EQ(turns.HeadOf(queue), kNoJob);
}

TEST(LineTurns, GivesALineTheTurnOfItsNextJobWhenTheFirstHasLeft) {
  SchedulerCore core = Cluster(1, {0});
  const JobEntry& first = Submit(core, Job("first", "q0", 1, 1));
  core.Advance(kStart + std::chrono::seconds(1));
  const JobEntry& other = Submit(core, Job("other line", "q0", 1, 2));
  core.Advance(kStart + std::chrono::seconds(2));
  const JobEntry& next = Submit(core, Job("next", "q0", 1, 1));
  ASSERT_EQ(first.line, next.line);
  LineTurns turns(core.state, Purpose::kPlace);
  EXPECT_EQ(turns.HeadOf(first.queue), first.number);
  const Seen before = core.state.Versions();
  core.state.Dequeue(core.state.at(first.number));
  ASSERT_EQ(core.state.Versions(), before);  // the heap is not filled anew
  EXPECT_EQ(turns.HeadOf(first.queue), other.number);
  turns.Park(other.line);
  EXPECT_EQ(turns.HeadOf(first.queue), next.number);
}

TEST(LineTurns, SkipsAParkedLineUntilTheStateChanges) {
  for (const int lines : {1, 3}) {
    SCOPED_TRACE(lines);
    SchedulerCore core = Cluster(1, {0});
    for (int i = 0; i < lines; ++i) Submit(core, Job("j" + std::to_string(i), "q0", 1, 1 << i));
    const share::QueueIndex queue = core.state.queues.Find("q0");
    for (const Purpose purpose : {Purpose::kPlace, Purpose::kPreempt}) {
      LineTurns turns(core.state, purpose);
      const JobNumber first = turns.HeadOf(queue);
      ASSERT_NE(first, kNoJob);
      for (int i = 0; i < lines; ++i) turns.Park(core.state.at(turns.HeadOf(queue)).line);
      EXPECT_EQ(turns.HeadOf(queue), kNoJob);
      EXPECT_EQ(turns.Order().Next(), share::kNoQueue);
      // Each started job may be a victim.
      ++(purpose == Purpose::kPlace ? core.state.quota_version : core.state.started_version);
      EXPECT_EQ(turns.HeadOf(queue), first);
      EXPECT_EQ(turns.Order().Next(), queue);
    }
  }
}

TEST(LineTurns, ParksALineForPlacementAndPreemptionSeparately) {
  SchedulerCore core = Cluster(1, {0});
  const JobEntry& job = Submit(core, Job("a", "q0", 1, 1));
  LineTurns place(core.state, Purpose::kPlace);
  LineTurns preempt(core.state, Purpose::kPreempt);
  place.Park(job.line);
  EXPECT_EQ(place.HeadOf(job.queue), kNoJob);
  EXPECT_EQ(preempt.HeadOf(job.queue), job.number);
  ++core.state.quota_version;
  preempt.Park(job.line);
  EXPECT_EQ(place.HeadOf(job.queue), job.number);
  EXPECT_EQ(preempt.HeadOf(job.queue), kNoJob);
  // A job that has started may be a victim, and leaves no more room.
  place.Park(job.line);
  ++core.state.started_version;
  EXPECT_EQ(place.HeadOf(job.queue), kNoJob);
  EXPECT_EQ(preempt.HeadOf(job.queue), job.number);
}

// --- OneGpuVictims

TEST(OneGpuVictims, ChoosesTheVictimThatLosesLeast) {
  SchedulerCore core = Cluster(1, {0, 8});
  // One GPU each; the loss is the time since the last snapshot.
  std::vector<JobNumber> jobs;
  for (int i = 0; i < 8; ++i) {
    jobs.push_back(StartNow(core, Job("b" + std::to_string(i), "q0", 1, 1)).number);
  }
  core.Advance(kStart + std::chrono::minutes(10));
  core.state.at(jobs[5]).last_snapshot = kStart + std::chrono::minutes(9);
  core.state.at(jobs[2]).last_snapshot = kStart + std::chrono::minutes(8);
  JobRequest request = Job("entitled", "q1", 1, 1);
  request.groups[0].shape.cpu_milli = 1'000;  // so that only the cheapest victim may be chosen
  const JobEntry& claimant = Submit(core, request);
  OneGpuVictims victims(core.state);
  for (const JobNumber want : {jobs[5], jobs[2]}) {
    const OneGpuVictims::Choice choice = victims.Choose(claimant);
    ASSERT_EQ(choice.outcome, Outcome::kFound);
    EXPECT_EQ(choice.victim.job, want);
    EXPECT_EQ(choice.victim.means, Means::kEvict);
    EXPECT_EQ(choice.landing, 0U);
    core.state.Requeue(core.state.at(want), true);
  }
}

TEST(OneGpuVictims, ChoosesTheQueueThatHoldsMostBeyondItsGuaranteeAmongEqualLosses) {
  SchedulerCore core = Cluster(1, {0, 4, 0});
  for (int i = 0; i < 8; ++i) {
    StartNow(core, Job("b" + std::to_string(i), i % 4 == 1 ? "q0" : "q2", 1, 1));
  }
  const JobEntry& claimant = Submit(core, Job("entitled", "q1", 1, 1));
  const OneGpuVictims::Choice choice = OneGpuVictims(core.state).Choose(claimant);
  ASSERT_EQ(choice.outcome, Outcome::kFound);
  EXPECT_EQ(core.state.at(choice.victim.job).request->id.value(), "b7");  // the last of q2
}

// Each row protects the job that would lose least, so that another one is the victim.
TEST(OneGpuVictims, SparesProtectedJobs) {
  const struct {
    const char* name;
    std::function<void(SchedulerState&, JobEntry&)> protect;
  } kRows[] = {
      {"started in this round",
       [](SchedulerState& state, JobEntry& job) { job.started_in_round = state.rounds; }},
      {"evicted as often as a day allows",
       [](SchedulerState& state, JobEntry& job) {
         job.evictions.assign(state.policy.evictions_a_day, state.now - std::chrono::hours(23));
       }},
      {"expedited", [](SchedulerState&, JobEntry& job) { job.held_priority = kMaxPriority + 1; }},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    SchedulerCore core = Cluster(1, {0, 8});
    JobEntry& first = StartNow(core, Job("first", "q0", 7, 1));
    JobEntry& cheap = StartNow(core, Job("cheap", "q0", 1, 1));
    const JobEntry& claimant = Submit(core, Job("entitled", "q1", 1, 1));
    ASSERT_EQ(OneGpuVictims(core.state).Choose(claimant).victim.job, cheap.number);
    row.protect(core.state, cheap);
    EXPECT_EQ(OneGpuVictims(core.state).Choose(claimant).victim.job, first.number);
  }
  // An eviction of more than a day ago does not count.
  SchedulerCore core = Cluster(1, {0, 8});
  JobEntry& victim = StartNow(core, Job("victim", "q0", 8, 1));
  victim.evictions.assign(core.state.policy.evictions_a_day, kStart - std::chrono::hours(24));
  const JobEntry& claimant = Submit(core, Job("entitled", "q1", 1, 1));
  EXPECT_EQ(OneGpuVictims(core.state).Choose(claimant).victim.job, victim.number);
}

TEST(OneGpuVictims, LeavesSharedGpusAndJobsThatShrinkToTheSearch) {
  JobRequest shared = Job("shared", "q0", 1, 0);
  shared.groups[0].shape.share = 500;
  JobRequest elastic = Job("elastic", "q0", 1, 1);
  elastic.groups[0].desired = 2;
  for (const JobRequest& request : {shared, elastic}) {
    SCOPED_TRACE(request.id.value());
    SchedulerCore core = Cluster(1, {0, 8});
    StartNow(core, Job("whole", "q0", 6, 1));
    const JobEntry& before = Submit(core, Job("entitled", "q1", 1, 1));
    EXPECT_EQ(OneGpuVictims(core.state).Choose(before).outcome, Outcome::kFound);
    core.Apply(JobEnded{before.request->id}, core.state.now);
    StartNow(core, request);
    const JobEntry& claimant = Submit(core, Job("entitled", "q1", 1, 1));
    EXPECT_EQ(OneGpuVictims(core.state).Choose(claimant).outcome, Outcome::kToSearch);
  }
}

TEST(OneGpuVictims, StopsNobodyWithoutARightAndKeepsTheState) {
  SchedulerCore core = Cluster(1, {4, 4});
  StartNow(core, WithPriority(Job("within its guarantee", "q0", 4, 1), 1));
  StartNow(core, WithPriority(Job("of the same queue", "q1", 4, 1), 1));
  const auto outcome = [&](int32_t priority) {
    JobRequest request = Job("p" + std::to_string(priority), "q1", 1, 1);
    return OneGpuVictims(core.state).Choose(Submit(core, WithPriority(request, priority))).outcome;
  };
  const uint64_t resources = core.state.resources.Fingerprint();
  const share::QueueTree queues = core.state.queues;
  EXPECT_EQ(outcome(1), Outcome::kNobody);
  EXPECT_EQ(outcome(2), Outcome::kFound);
  EXPECT_EQ(core.state.resources.Fingerprint(), resources);
  for (share::QueueIndex q = 0; q < static_cast<share::QueueIndex>(queues.size()); ++q) {
    EXPECT_EQ(core.state.queues.usage(q), queues.usage(q));
  }
}

// --- Reservations

// A cluster of two hosts that are full for an hour, and gangs of both hosts that wait.
SchedulerCore FullCluster(uint32_t reservations) {
  Policy policy;
  policy.reservations = reservations;
  SchedulerCore core = Cluster(2, {0}, policy);
  StartNow(core, Job("running", "q0", 2, 8));
  return core;
}

// The holders of reservations, by submission.
std::vector<std::string> Holders(const SchedulerCore& core) {
  std::vector<std::string> names;
  for (const auto& [number, reservation] : core.state.reservations) {
    EXPECT_EQ(reservation.job, number);
    names.push_back(core.state.at(number).request->id.value());
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Reservations, TakeTheReservationOfTheLastHolderForAJobThatGoesBefore) {
  SchedulerCore core = FullCluster(2);
  JobEntry& low = Submit(core, WithPriority(Job("low", "q0", 2, 8), 1));
  JobEntry& middle = Submit(core, WithPriority(Job("middle", "q0", 2, 8), 2));
  JobEntry& high = Submit(core, WithPriority(Job("high", "q0", 2, 8), 3));
  RoundContext context(core.state, core.placer, kUnlimitedSteps);
  Reservations reservations(context);
  reservations.Reserve(middle);
  reservations.Reserve(low);
  EXPECT_EQ(Holders(core), Names({"low", "middle"}));
  const Seen before = core.state.Versions();
  reservations.Reserve(high);
  EXPECT_EQ(Holders(core), Names({"middle", "high"}));
  EXPECT_NE(core.state.Versions(), before);  // jobs that the lost reservation blocked are tried
  reservations.Reserve(low);                 // it would be behind both
  EXPECT_EQ(Holders(core), Names({"middle", "high"}));
  ASSERT_EQ(context.decisions.size(), 3U);
  EXPECT_EQ(context.decisions[2].kind, DecisionKind::kReserve);
  EXPECT_EQ(context.decisions[2].job.value(), "high");
  EXPECT_EQ(context.decisions[2].from, kStart + std::chrono::hours(1));
}

TEST(Reservations, PlanAnewWhatIsOverdueAndKeepTheOthers) {
  SchedulerCore core = FullCluster(2);
  JobEntry& overdue = Submit(core, WithPriority(Job("overdue", "q0", 2, 8), 2));
  JobEntry& other = Submit(core, WithPriority(Job("other", "q0", 2, 8), 1));
  RoundContext context(core.state, core.placer, kUnlimitedSteps);
  Reservations reservations(context);
  reservations.Reserve(overdue);
  reservations.Reserve(other);
  context.decisions.clear();
  core.state.planned_at = core.state.now;
  // A new plan would be hours earlier, but none is due.
  core.state.reservations.at(other.number).start += std::chrono::hours(9);
  core.state.reservations.at(overdue.number).start = core.state.now - Duration(1);
  reservations.Refresh();
  ASSERT_EQ(context.decisions.size(), 1U);
  EXPECT_EQ(context.decisions[0].job.value(), "overdue");
  EXPECT_EQ(core.state.reservations.at(overdue.number).start, kStart + std::chrono::hours(1));
  EXPECT_EQ(core.state.reservations.at(other.number).start, kStart + std::chrono::hours(11));
}

TEST(Reservations, ReplaceAPlanOnlyForAGain) {
  const Instant end = kStart + std::chrono::hours(1);
  const Duration gain = Policy().reservation_gain;
  const struct {
    Instant old;
    Instant want;
  } kRows[] = {{end + gain - Duration(1), end + gain - Duration(1)}, {end + gain, end}};
  for (const auto& row : kRows) {
    SchedulerCore core = FullCluster(1);
    JobEntry& job = Submit(core, Job("waiting", "q0", 2, 8));
    RoundContext context(core.state, core.placer, kUnlimitedSteps);
    Reservations reservations(context);
    reservations.Reserve(job);
    core.state.reservations.at(job.number).start = row.old;
    core.state.planned_at = core.state.now - core.state.policy.replan_period;
    reservations.Refresh();
    EXPECT_EQ(core.state.reservations.at(job.number).start, row.want);
    EXPECT_EQ(core.state.planned_at, core.state.now);
  }
}

TEST(Reservations, ReuseARecentPromiseOfTheLine) {
  for (const bool recent : {true, false}) {
    SCOPED_TRACE(recent);
    SchedulerCore core = FullCluster(1);
    JobEntry& job = Submit(core, Job("waiting", "q0", 2, 8));
    const Instant promised = kStart + std::chrono::hours(7);
    Line& line = core.state.lines[job.line];
    line.promise.emplace().start = promised;
    line.promised_at = core.state.now - core.state.policy.promise_kept + Duration(recent ? 1 : 0);
    RoundContext context(core.state, core.placer, kUnlimitedSteps);
    Reservations(context).Reserve(job);
    EXPECT_EQ(Holders(core), Names({"waiting"}));
    EXPECT_FALSE(line.promise.has_value());
    EXPECT_EQ(core.state.reservations.at(job.number).start,
              recent ? promised : kStart + std::chrono::hours(1));
  }
}

TEST(Reservations, FillUpToTheMaximumInTheOrderOfTheQueue) {
  SchedulerCore core = FullCluster(3);
  for (const int32_t priority : {1, 3, 2}) {
    for (const char* name : {"a", "b"}) {
      JobRequest request = Job(name + std::to_string(priority), "q0", 2, 8);
      Submit(core, WithPriority(request, priority)).block.kind = Block::Kind::kRoom;
    }
  }
  core.state.Find(JobId("a3"))->block.kind = Block::Kind::kQuota;  // more room would not help
  RoundContext context(core.state, core.placer, kUnlimitedSteps);
  Reservations(context).Fill();
  Names reserved;
  for (const Decision& decision : context.decisions) reserved.push_back(decision.job.value());
  EXPECT_EQ(reserved, Names({"a2", "b2", "a1"}));
  EXPECT_EQ(core.state.reservations.size(), 3U);
}

}  // namespace
}  // namespace longhaul::scheduler::internal
