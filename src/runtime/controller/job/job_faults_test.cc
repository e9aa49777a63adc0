#include "runtime/controller/job/job_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller::job_faults_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

Evidence Error(int32_t rank, Instant at) {
  return {proto::FaultClass::kError, "worker failed", "a", rank, at, false};
}
Evidence NodeGone(const std::string& node, Instant at) {
  return {proto::FaultClass::kNode, node + " is gone", node, -1, at, true};
}

// The faults of a job on the nodes a and b.
class Faults {
 public:
  explicit Faults(const proto::Job& wanted = {}) : spec(wanted), faults(wanted.faults_size()) {
    group.Replace({NodeId("a"), NodeId("b")});
  }
  bool Take(const Evidence& evidence, Instant now) {
    return faults.Take(evidence, spec, group, 1, 50, now);
  }
  bool Improve(const Evidence& evidence) { return faults.Improve(evidence, spec, group); }

  proto::Job spec;
  WorkerGroup group;
  JobFaults faults;
};

TEST(JobFaults, AFaultAwaitsItsDecision) {
  Faults job;
  EXPECT_TRUE(job.Take(Error(1, kStart), kStart + seconds(1)));
  EXPECT_TRUE(job.faults.undecided());
  EXPECT_EQ(job.faults.newest().class_name(), "error");
  EXPECT_EQ(job.faults.newest().number(), 1u);
  EXPECT_EQ(job.faults.newest().happened_at_ns(), ToNanoseconds(kStart));
  EXPECT_EQ(job.faults.failed_attempt(), 1u);
}

TEST(JobFaults, TheEarlierOrSurerEvidenceIsTheCause) {
  const struct {
    const char* name;
    Evidence later;
    bool better;
  } kRows[] = {
      {"a later error", Error(2, kStart + milliseconds(1)), false},
      {"an earlier error", Error(2, kStart - milliseconds(1)), true},
      {"a later death of a node", NodeGone("b", kStart + milliseconds(1)), true},
  };
  for (const auto& row : kRows) {
    Faults job;
    job.Take(Error(1, kStart), kStart);
    EXPECT_EQ(job.Improve(row.later), row.better) << row.name;
    EXPECT_EQ(job.faults.newest().rank(), row.better ? row.later.rank : 1) << row.name;
  }
  Faults job;
  EXPECT_FALSE(job.Improve(Error(1, kStart))) << "there is no fault";
}

TEST(JobFaults, ASilentNodeIsTheRealCauseOfItsPeersError) {
  Faults job;
  job.Take(Error(1, kStart), kStart);
  job.faults.Decide("restart", kStart);
  job.faults.Dismiss();
  EXPECT_FALSE(job.Take(NodeGone("b", kStart + seconds(5)), kStart + seconds(10)));
  EXPECT_EQ(job.faults.size(), 1u);
  EXPECT_EQ(job.faults.newest_class(), proto::FaultClass::kNode);
  EXPECT_TRUE(job.Take(NodeGone("b", kStart + seconds(30)), kStart + seconds(30)))
      << "another fault: the newest is no error any more";
}

Evidence Killed(const std::string& node, int32_t rank, Instant at) {
  return {proto::FaultClass::kProcess, "worker was ended by signal 9", node, rank, at, true};
}

TEST(JobFaults, OnlyWhatComesFromOutsideOnAnotherNodeIsAnotherFault) {
  const struct {
    const char* name;
    Evidence first, second;
    bool another;
  } kRows[] = {
      {"a killed worker and a lost node", Killed("a", 0, kStart), NodeGone("b", kStart), true},
      {"a lost node and a killed worker", NodeGone("b", kStart), Killed("a", 0, kStart), true},
      {"two killed workers", Killed("a", 0, kStart), Killed("b", 2, kStart), true},
      {"two killed workers of a node", Killed("a", 0, kStart), Killed("a", 1, kStart), false},
      {"a killed worker of a lost node", Killed("b", 2, kStart), NodeGone("b", kStart), false},
      {"an error because of a lost node", NodeGone("b", kStart), Error(0, kStart), false},
      {"a lost node after its peers' error", Error(0, kStart), NodeGone("b", kStart), false},
  };
  for (const auto& row : kRows) {
    Faults job;
    job.Take(row.first, kStart);
    EXPECT_EQ(job.faults.IsAnother(row.second), row.another) << row.name;
  }
}

TEST(JobFaults, TwoFaultsWithOneRestartCostItOnce) {
  Faults job;
  job.Take(Killed("a", 0, kStart), kStart);
  job.faults.SetBadBefore({{proto::REPAIR, 10}});
  const Instant lost = kStart + seconds(1);
  EXPECT_EQ(job.faults.AddAnother(NodeGone("b", lost), job.spec, job.group, lost).size(), 2u);
  EXPECT_EQ(job.faults.newest().node(), "b") << "the restart replaces a node";
  EXPECT_FALSE(job.faults.IsAnother(Killed("a", 1, lost))) << "of the first";
  job.faults.CountRestart();
  job.faults.DecideRestart({{}, 50, false, false, 2, 2, true}, lost);
  EXPECT_EQ(job.faults.restarts(), 1u);
  EXPECT_THAT(job.faults.fault(0).action(), HasSubstr("the same restart as for fault 2"));
  EXPECT_THAT(job.faults.fault(1).action(), HasSubstr("replace the node"));
  const JobFaults::Outlook outlook{51, true, false, true};
  const proto::Fault* first = job.faults.ResolveNext(outlook, {{proto::REPAIR, 30}}, lost);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->lost_rank_seconds(), 0);
  const proto::Fault* second = job.faults.ResolveNext(outlook, {{proto::REPAIR, 30}}, lost);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->lost_rank_seconds(), 20) << "from the first one on";
  EXPECT_FALSE(job.faults.has_unresolved());
}

TEST(JobFaults, AnotherFaultThatIsReportedAfterTheDecisionIsDecidedWithIt) {
  Faults job;
  job.Take(NodeGone("b", kStart), kStart);
  job.faults.Dismiss();
  job.faults.DecideRestart({{}, 50, false, false, 2, 2, true}, kStart);
  const Instant later = kStart + seconds(1);
  EXPECT_EQ(job.faults.AddAnother(Killed("a", 0, kStart), job.spec, job.group, later).size(), 1u);
  EXPECT_EQ(job.faults.newest().number(), 1u);
  EXPECT_EQ(job.faults.fault(1).decided_at_ns(), ToNanoseconds(later));
  EXPECT_EQ(job.faults.FailuresWithoutStep(), 1u);
}

// Two workers of a node fail at the same step: one is stopped and continued, the other hangs.
TEST(JobFaults, AWorkerThatWasContinuedIsNoRepeatedFailureOfItsNode) {
  Faults job;
  const Evidence stopped{proto::FaultClass::kHang, "worker 3 was stopped", "a", 3, kStart, true};
  const Evidence hangs{proto::FaultClass::kHang, "worker 2 hangs", "a", 2, kStart, true};
  job.faults.AddContinued(stopped, job.spec, job.group, 50, 50, {}, kStart);
  for (size_t failures = 1; failures <= 2; ++failures) {
    job.Take(hangs, kStart + seconds(failures));
    EXPECT_EQ(job.faults.FailuresWithoutStep(), failures);
    EXPECT_EQ(job.faults.RepeatedNode(), failures == 2 ? "a" : "");
    job.faults.Dismiss();
    job.faults.DecideRestart({{}, 50, false, false, 2, 2, true}, kStart + seconds(failures));
  }
}

TEST(JobFaults, ErrorsWithoutAStepBetweenThemEndTheJob) {
  Faults job;
  const JobFaults::RestartLimits limits{100, 3, false};
  for (int i = 0; i < 2; ++i) {
    job.Take(Error(1, kStart), kStart);
    EXPECT_FALSE(job.faults.WhyGiveUp(limits).has_value());
    job.faults.CountRestart();
    job.faults.Dismiss();
  }
  EXPECT_THAT(*job.faults.WhyGiveUp(limits), HasSubstr("failed 3 times"));
  EXPECT_FALSE(job.faults.WhyGiveUp({100, 3, true}).has_value()) << "it has lasted";
  job.faults.CountRestart();
  job.faults.NoteNewStep();
  EXPECT_FALSE(job.faults.WhyGiveUp(limits).has_value());
  EXPECT_THAT(*job.faults.WhyGiveUp({3, 9, false}), HasSubstr("out of restarts (3 allowed)"));
}

TEST(JobFaults, ALostNodeIsNotTheProgramsFault) {
  Faults job;
  job.Take(NodeGone("a", kStart), kStart);
  job.faults.CountRestart();
  EXPECT_EQ(job.faults.fruitless(), 0u);
  EXPECT_EQ(job.faults.restarts(), 1u);
}

TEST(JobFaults, ARestartSaysWhereItContinues) {
  const auto action = [](const Evidence& evidence, uint64_t step, size_t nodes) {
    Faults job;
    job.Take(evidence, kStart);
    JobFaults::Restart restart;
    restart.restore.set_step(step);
    restart.restore.set_tier(proto::Restore::TIER_MEMORY);
    restart.reached = 30;
    restart.nodes_before = 2;
    restart.nodes = nodes;
    job.faults.DecideRestart(restart, kStart);
    EXPECT_EQ(job.faults.newest().lost_steps(), 30 - step);
    return job.faults.newest().action();
  };
  EXPECT_EQ(action(Error(1, kStart), 20, 2), "restart from memory at step 20");
  EXPECT_EQ(action(Error(1, kStart), 0, 2), "restart from the beginning");
  EXPECT_EQ(action(NodeGone("a", kStart), 20, 2),
            "replace the node, restart from memory at step 20");
  EXPECT_EQ(action(NodeGone("a", kStart), 20, 1),
            "continue with 1 nodes in place of 2, restart from memory at step 20");
}

TEST(JobFaults, AFaultIsOverWithAStepBeyondTheHighestBefore) {
  const BadTime kBad = {{proto::START_UP_TIME, 10}, {proto::DETECT, 20}, {proto::LOST_WORK, 100}};
  Faults job;
  job.Take(Error(1, kStart), kStart);
  job.faults.SetBadBefore({{proto::DETECT, 20}, {proto::LOST_WORK, 80}});
  JobFaults::Outlook outlook;
  outlook.reports = true;
  outlook.step = 51;
  EXPECT_EQ(job.faults.ResolveNext(outlook, kBad, kStart), nullptr) << "it is not decided";
  job.faults.Decide("restart", kStart);
  outlook.step = 50;
  EXPECT_EQ(job.faults.ResolveNext(outlook, kBad, kStart), nullptr);
  outlook.step = 51;
  const proto::Fault* over = job.faults.ResolveNext(outlook, kBad, kStart);
  ASSERT_NE(over, nullptr);
  EXPECT_EQ(over->lost_rank_seconds(), 30);
  ASSERT_EQ(over->costs_size(), 2) << "detection cost nothing";
  EXPECT_EQ(over->costs(0).category(), proto::START_UP_TIME);
  EXPECT_EQ(over->costs(0).rank_seconds(), 10);
  EXPECT_EQ(over->costs(1).category(), proto::LOST_WORK);
  EXPECT_EQ(over->costs(1).rank_seconds(), 20);
  EXPECT_FALSE(job.faults.has_unresolved());
  EXPECT_EQ(job.faults.ResolveNext(outlook, kBad, kStart), nullptr);
}

TEST(JobFaults, WhatOpenFaultsHaveCostIsStoredAtTheEndOfTheJob) {
  Faults job;
  job.Take(Error(1, kStart), kStart);
  job.faults.SetBadBefore({{proto::DETECT, 2}});
  const auto open = job.faults.ChargeOpen({{proto::DETECT, 3}, {proto::DIAGNOSE, 4}});
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0]->lost_rank_seconds(), 5);
  EXPECT_EQ(open[0]->costs_size(), 2);
  EXPECT_TRUE(job.faults.has_unresolved());
}

TEST(JobFaults, WithoutStepsAFaultIsOverWhenTheWorkersHaveStarted) {
  Faults job;
  job.Take(Error(1, kStart), kStart);
  job.faults.Decide("restart", kStart);
  JobFaults::Outlook outlook;
  EXPECT_EQ(job.faults.ResolveNext(outlook, {}, kStart), nullptr);
  outlook.workers_started = true;
  EXPECT_NE(job.faults.ResolveNext(outlook, {}, kStart), nullptr);
}

TEST(JobFaults, AStageIsStampedOnceAndOnlyAfterTheDecision) {
  Faults job;
  job.Take(Error(1, kStart), kStart);
  job.faults.Stamp(RestartStage::kStarted, kStart + seconds(1));
  EXPECT_EQ(job.faults.newest().started_at_ns(), 0);
  job.faults.Decide("restart", kStart);
  job.faults.Stamp(RestartStage::kStarted, kStart + seconds(2));
  job.faults.Stamp(RestartStage::kStarted, kStart + seconds(3));
  EXPECT_EQ(job.faults.newest().started_at_ns(), ToNanoseconds(kStart + seconds(2)));
}

TEST(JobFaults, AnInjectedFaultExplainsOneFault) {
  proto::Job spec;
  auto* planned = spec.add_faults();
  planned->set_kind(proto::PlannedFault::KILL_WORKER);
  planned->set_target(1);
  Faults job(spec);
  job.Take(Error(1, kStart), kStart);
  EXPECT_FALSE(job.faults.newest().injected()) << "not yet";
  job.faults.Dismiss();
  job.faults.MarkInjected(0);
  job.Take(Error(1, kStart), kStart);
  EXPECT_TRUE(job.faults.newest().injected());
  job.faults.Dismiss();
  job.Take(Error(1, kStart), kStart);
  EXPECT_FALSE(job.faults.newest().injected());
}

TEST(JobFaults, TheFirstOutputSaysWhatWasLost) {
  Faults job;
  EXPECT_FALSE(job.faults.NoteFirstOutput(20, 30));
  job.Take(Error(1, kStart), kStart);
  job.faults.Decide("restart all workers", kStart);
  EXPECT_TRUE(job.faults.NoteFirstOutput(20, 30));
  EXPECT_EQ(job.faults.newest().lost_steps(), 10u);
  EXPECT_EQ(job.faults.newest().action(), "restart all workers; the output continues with step 20");
}

}  // namespace
}  // namespace longhaul::runtime::controller::job_faults_test
