#include "runtime/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"

namespace longhaul::runtime::simulation {
namespace {

using std::chrono::hours;

// Many faults in little time: eight nodes, ten faults an hour.
SimulationOptions Stormy(uint64_t seed) {
  SimulationOptions options;
  options.nodes = 8;
  options.spares = 1;
  options.processes_per_node = 2;
  options.length = hours(4);
  options.fault_factor = 5000;
  options.seed = seed;
  options.physics.repair = std::chrono::minutes(5);
  return options;
}

TEST(Simulation, EveryInvariantHoldsOverComposedFaults) {
  std::map<std::string, uint64_t> faults;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SimulationResult result = Simulate(Stormy(seed));
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_GT(result.attempts, 5u);
    EXPECT_GT(result.status.highest_step(), 100u);
    for (const auto& [name, count] : result.faults) faults[name] += count;
  }
  for (const auto& [name, count] : faults) EXPECT_GT(count, 0u) << name << " never happened";
}

TEST(Simulation, TwoRunsOfASeedGiveTheSameLog) {
  const SimulationResult first = Simulate(Stormy(7));
  const SimulationResult second = Simulate(Stormy(7));
  EXPECT_EQ(first.log_hash, second.log_hash);
  EXPECT_EQ(first.state_hash, second.state_hash);
  EXPECT_EQ(first.events, second.events);
  EXPECT_NE(first.log_hash, Simulate(Stormy(8)).log_hash);
}

TEST(Simulation, AControllerThatDiesKnowsEverythingAfterItsReplay) {
  uint64_t replays = 0;
  for (const uint64_t seed : {3, 4, 5, 6, 7, 8}) {
    SimulationOptions options = Stormy(seed);
    options.length = hours(3);
    const SimulationResult result = Simulate(options);
    EXPECT_TRUE(result.replay_agrees) << "seed " << seed;
    replays += result.replays;
  }
  EXPECT_GT(replays, 0u);
}

TEST(Simulation, AJobWithoutFaultsIsAlmostAllProductive) {
  SimulationOptions options = Stormy(1);
  options.fault_factor = 0;
  options.total_steps = 2000;
  const SimulationResult result = Simulate(options);
  EXPECT_THAT(result.violations, testing::IsEmpty());
  EXPECT_EQ(result.status.state(), proto::SUCCEEDED);
  EXPECT_EQ(result.status.highest_step(), 2000u);
  EXPECT_EQ(result.steps_taken, 2000u);
  EXPECT_EQ(result.status.samples_committed(), 2000u * 2048);
  EXPECT_GT(result.status.ledger().goodput(), 0.98);
}

TEST(Simulation, PlannedFaultsHappenAndAreSurvived) {
  SimulationOptions options = Stormy(1);
  options.fault_factor = 0;
  options.total_steps = 300;
  const struct {
    proto::PlannedFault::Kind kind;
    uint32_t target;
    uint64_t step;
  } kPlan[] = {{proto::PlannedFault::KILL_WORKER, 1, 40},
               {proto::PlannedFault::KILL_AGENT, 1, 90},
               {proto::PlannedFault::KILL_CONTROLLER, 0, 110},
               {proto::PlannedFault::STOP_WORKER, 0, 120}};
  for (const auto& row : kPlan) {
    proto::PlannedFault fault;
    fault.set_kind(row.kind);
    fault.set_target(row.target);
    fault.set_step(row.step);
    fault.set_duration_ns(60'000'000'000);
    options.planned.push_back(fault);
  }
  const SimulationResult result = Simulate(options);
  EXPECT_THAT(result.violations, testing::IsEmpty());
  EXPECT_EQ(result.status.state(), proto::SUCCEEDED);
  ASSERT_EQ(result.status.faults_size(), 3) << result.status.DebugString();
  for (const auto& fault : result.status.faults()) {
    EXPECT_TRUE(fault.injected()) << fault.what();
    EXPECT_GT(fault.new_step_at_ns(), fault.detected_at_ns()) << fault.what();
  }
}

// A node goes down between the last snapshot and the end of the workers. The new workers have no
// step to do, and the state that they restored from memories is the job's result.
TEST(Simulation, AFaultAfterTheLastStepLosesNoResult) {
  int restored_at_the_end = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.fault_factor = 0;
    options.total_steps = 40;
    options.sharded = seed % 4 != 0;
    options.peers = true;
    options.minimum_nodes = seed % 4 == 1 ? 3 : 0;
    options.physics.copy = std::chrono::milliseconds(seed % 5);
    proto::PlannedFault& fault = options.planned.emplace_back();
    fault.set_kind(seed % 3 == 0 ? proto::PlannedFault::KILL_WORKER
                                 : proto::PlannedFault::KILL_NODE);
    fault.set_target(seed % 2);
    fault.set_step(options.total_steps);
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_EQ(result.status.state(), proto::SUCCEEDED) << result.status.reason();
    EXPECT_EQ(result.status.committed_step(), options.total_steps);
    if (result.status.faults_size() == 0) continue;
    restored_at_the_end += result.status.faults(0).from_step() == options.total_steps;
  }
  EXPECT_GT(restored_at_the_end, 20);
}

// Every step is sealed and only two nodes have to survive, so attempts begin while earlier ones'
// checkpoints are being committed. The one that the controller restores is always on the disk,
// although that keeps only one.
TEST(Simulation, ACommitThatARestartOvertakesIsNeverRestored) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.nodes = 4;
    options.minimum_nodes = 2;
    options.sharded = true;
    options.snapshot_interval = 1;
    options.keep = 1 + seed % 2;
    options.fault_factor = 20'000;
    options.length = hours(2);
    options.physics.repair = std::chrono::minutes(1);
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_GT(result.attempts, 20u);
  }
}

// A device computes NaN once in a while, beside all other faults. Each of them is replayed from a
// good state; the replay may be interrupted, and is decided all the same.
TEST(Simulation, AnIsolatedNanIsReplayedAndNeverBlamedOnTheProgram) {
  uint64_t nans = 0, numeric = 0, suspected = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.numeric.set_not_finite(proto::NumericPolicy::ROLLBACK);
    options.nan_every = 220;
    options.sharded = seed % 2 == 0;
    options.peers = seed % 2 == 0;
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_NE(result.status.state(), proto::FAILED) << result.status.reason();
    EXPECT_GT(result.status.highest_step(), 300u);
    nans += result.nans;
    for (const auto& fault : result.status.faults()) {
      if (fault.class_name() != "numeric") continue;
      ++numeric;
      EXPECT_LT(fault.from_step() + 1, result.status.highest_step()) << fault.action();
      suspected += fault.action().find("the hardware is suspected") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(nans, 16u);
  EXPECT_GT(numeric, nans / 2) << "most are not hidden by another fault at the same time";
  EXPECT_GE(suspected + 8, numeric) << "only the last one of a run may be undecided";
}

TEST(Simulation, ANanOfTheDataEndsTheJobWithItsStep) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.numeric.set_not_finite(proto::NumericPolicy::ROLLBACK);
    options.nan_always = 333;
    options.every_step = true;
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_EQ(result.status.state(), proto::FAILED);
    EXPECT_THAT(result.status.reason(),
                testing::AllOf(testing::HasSubstr("the program or its data is the cause"),
                               testing::HasSubstr("333")));
    EXPECT_LT(result.status.committed_step(), 332u);
  }
}

double SecondsOf(const proto::JobStatus& status, proto::Category category) {
  for (const auto& entry : status.ledger().categories()) {
    if (entry.category() == category) return entry.rank_seconds();
  }
  return 0;
}

// Workers are stopped for a while, too short for a hang, in every thirtieth step or so: what the
// ledger books as a stall is what was injected, times the ranks that waited. A step of 6 s varies
// by 1 %; the limit of a slow step is half a step, 3 s.
TEST(Simulation, TheStallThatIsBookedIsThePausesThatWereInjected) {
  for (const uint32_t per_worker_limit : {256u, 4u}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", limit " + std::to_string(per_worker_limit));
      SimulationOptions options = Stormy(seed);
      options.fault_factor = 0;
      options.total_steps = 600;
      options.per_worker_limit = per_worker_limit;
      options.snapshot_interval = 1;
      Random random(seed);
      double injected_s = 0;
      for (uint64_t step = 20; step < 590; step += 25 + random.Below(10)) {
        proto::PlannedFault& pause = options.planned.emplace_back();
        pause.set_kind(proto::PlannedFault::STOP_WORKER);
        pause.set_target(static_cast<uint32_t>(random.Below(14)));
        pause.set_step(step);
        pause.set_duration_ns(static_cast<int64_t>(4'000'000'000 + random.Below(6'000'000'000)));
        injected_s += 1e-9 * static_cast<double>(pause.duration_ns());
      }
      const SimulationResult result = Simulate(options);
      ASSERT_THAT(result.violations, testing::IsEmpty());
      EXPECT_EQ(result.status.faults_size(), 0) << result.status.faults(0).what();
      EXPECT_EQ(result.status.faults_to_come_size(), 0);
      const double ranks = 14;
      EXPECT_NEAR(SecondsOf(result.status, proto::STALL) / ranks, injected_s, 0.02 * injected_s);
      EXPECT_GT(options.planned.size(), 15u);
    }
  }
}

// Faults, restarts and other sizes are not mistaken for stalls: nothing stops a worker here but
// what is booked elsewhere.
TEST(Simulation, WithoutPausesThereIsHardlyAnyStall) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SimulationResult result = Simulate(Stormy(seed));
    EXPECT_LT(SecondsOf(result.status, proto::STALL), 0.01 * result.status.ledger().rank_seconds());
  }
}

// Every node has a part of the state, one disk is five times as slow as the others and all are
// slower than snapshots come. Left to choose, the nodes write different steps and none is ever
// whole: a slow disk's pace is what there is to have, 40 s a checkpoint, 13 s more or less.
TEST(Simulation, CheckpointsComeAtThePaceOfTheSlowestDisk) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.sharded = true;
    options.snapshot_interval = 1;
    options.slow_disk_node = 2;
    options.slow_disk = 5;
    options.fault_factor = 0;
    options.length = hours(1);
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_GT(result.status.commits(), 70u);
    EXPECT_LT(result.status.memory_step() - result.status.committed_step(), 20u);
  }
}

TEST(Simulation, AStateInPartsIsCommittedThroughComposedFaults) {
  uint64_t from_disk = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.sharded = true;
    options.snapshot_interval = 1;
    options.slow_disk_node = 2;
    options.slow_disk = 5;
    options.fault_factor = 3000;
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_GT(result.status.commits(), 25u);
    EXPECT_GT(result.status.highest_step(), 100u);
    for (const auto& fault : result.status.faults()) {
      from_disk += fault.action().find("from disk") != std::string::npos;
    }
  }
  EXPECT_GT(from_disk, 8u);
}

// Nodes are lost and come back, others need them for a while: the job changes its size, and every
// sample is used once and in order whatever its size is (Audit::Stepped).
TEST(Simulation, AnElasticJobKeepsItsBoundsOverComposedFaults) {
  uint64_t resizes = 0;
  uint64_t rivals = 0;
  std::set<uint32_t> sizes;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.minimum_nodes = 3;
    options.fault_factor = 2500;
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    EXPECT_GT(result.status.highest_step(), 100u);
    resizes += result.status.resizes();
    rivals += result.rivals;
    for (const auto& change : result.status.sizes()) sizes.insert(change.nodes());
  }
  EXPECT_GT(resizes, 30u);
  EXPECT_GT(rivals, 12u);
  EXPECT_TRUE(sizes.contains(3)) << "never at its minimum";
  EXPECT_TRUE(sizes.contains(8)) << "never at its maximum";
}

// The accounting is compared at intervals and at the end (Audit::CompareUsage), so that a
// difference is a violation; here it must have had something to count.
TEST(Simulation, TheAccountingAgreesWithTheLedgersAndWithWhatWasHeld) {
  AcceleratorTime leaving = 0;
  uint64_t replays = 0;
  uint64_t moves = 0;
  for (uint64_t seed = 11; seed <= 16; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulationOptions options = Stormy(seed);
    options.minimum_nodes = seed % 2 == 0 ? 3 : 0;
    const SimulationResult result = Simulate(options);
    ASSERT_THAT(result.violations, testing::IsEmpty());
    const Controller::UsageTotals& usage = result.usage;
    EXPECT_GT(ToHours(usage.held / 1'000), 4.0);
    EXPECT_EQ(usage.held,
              usage.ledgers + usage.difference.leaving - usage.difference.without_nodes);
    leaving += usage.difference.leaving;
    replays += result.replays;
    moves += result.status.moves() + result.status.resizes() + result.status.preemptions();
  }
  EXPECT_GT(leaving, 0);
  EXPECT_GT(replays, 0u);
  EXPECT_GT(moves, 10u);
}

TEST(Audit, ReportsAnAccountingThatDiffers) {
  Audit audit(1);
  const Instant start = InstantFromNanoseconds(0);
  audit.Holds("a", start, 2);
  audit.Holds("b", start + std::chrono::seconds(5), 1);
  audit.Holds("a", start + std::chrono::seconds(10), 0);
  Controller::UsageTotals totals;
  totals.held = totals.ledgers = AcceleratorTime{35} * 1'000'000'000 * 1'000;  // thousandths
  audit.CompareUsage(totals, start + std::chrono::seconds(20));
  EXPECT_THAT(audit.violations(), testing::IsEmpty());
  totals.ledgers += 1;
  audit.CompareUsage(totals, start + std::chrono::seconds(20));
  EXPECT_EQ(audit.violations().size(), 1u);
  totals.held += 1;
  audit.CompareUsage(totals, start + std::chrono::seconds(20));
  EXPECT_EQ(audit.violations().size(), 2u);
}

// A state in stages: nodes are lost and others need them, and the job continues in another size
// from what memories hold. No piece is offered that isn't there (World::WhyNotInPieces), and none
// that was found damaged.
TEST(Simulation, AnElasticJobInStagesGoesOnFromMemoriesOfAnotherLayout) {
  uint64_t resizes = 0;
  uint64_t from_pieces = 0;
  uint64_t served = 0;
  std::map<std::string, uint64_t> faults;
  for (const uint32_t pipeline : {2u, 0u}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", stages " + std::to_string(pipeline));
      SimulationOptions options = Stormy(seed);
      options.minimum_nodes = 3;
      options.sharded = true;
      options.pipeline = pipeline;
      options.peers = true;
      options.snapshot_interval = 10;
      options.fault_factor = 2500;
      const SimulationResult result = Simulate(options);
      ASSERT_THAT(result.violations, testing::IsEmpty());
      EXPECT_TRUE(result.replay_agrees);
      EXPECT_GT(result.status.highest_step(), 100u);
      resizes += result.status.resizes();
      from_pieces += result.from_pieces;
      for (const auto& fault : result.status.faults()) {
        served += fault.action().find("memory in another layout") != std::string::npos;
      }
      for (const auto& [name, count] : result.faults) faults[name] += count;
    }
  }
  EXPECT_GT(resizes, 30u);
  EXPECT_GT(from_pieces, 100u);
  EXPECT_GT(served, 10u);
  EXPECT_GT(faults["bit flip in memory"], 0u);
}

// Node-3 goes down every half hour. Twice that counts; then others are taken in its place, although
// it is back each time when one is sought.
TEST(Simulation, AFlappingNodeIsPutOnProbationAndAvoided) {
  SimulationOptions options = Stormy(1);
  options.nodes = 10;
  options.spares = 3;
  options.fault_factor = 0;
  options.flapping_node = 2;
  options.flaps_after = std::chrono::minutes(30);
  for (const uint64_t step : {900, 1300, 1700, 2100}) {
    proto::PlannedFault& fault = options.planned.emplace_back();
    fault.set_kind(proto::PlannedFault::KILL_AGENT);
    fault.set_target(2);
    fault.set_step(step);
  }
  const SimulationResult result = Simulate(options);
  EXPECT_THAT(result.violations, testing::IsEmpty());
  ASSERT_EQ(result.nodes.size(), 10u);
  proto::NodeStatus flapping;
  for (const proto::NodeStatus& node : result.nodes) {
    if (node.name() == "node-3") flapping = node;
  }
  EXPECT_EQ(flapping.condition(), "suspect");
  EXPECT_LT(flapping.health(), 0.3);
  EXPECT_GE(flapping.losses(), 6u);
  EXPECT_EQ(flapping.jobs_size(), 0);
  int blamed = 0;
  for (const proto::Fault& fault : result.status.faults()) blamed += fault.node() == "node-3";
  EXPECT_EQ(blamed, 1) << "after the first it was no longer needed";
  EXPECT_GE(result.status.faults_size(), 5);
}

SimulationResult WithASlotWaitOf(Duration wait) {
  SimulationOptions options = Stormy(3);
  options.fault_factor = 0;
  options.length = std::chrono::hours(2);
  options.slot_wait_step = 20;
  options.slot_wait = wait;
  return Simulate(options);
}

TEST(Simulation, AWaitForASlowDiskIsNoHangAndAnEndlessOneIs) {
  const SimulationResult slow = WithASlotWaitOf(std::chrono::minutes(5));
  EXPECT_THAT(slow.violations, testing::IsEmpty());
  EXPECT_EQ(slow.status.faults_size(), 0);
  EXPECT_EQ(slow.status.attempt(), 1u);

  const SimulationResult endless = WithASlotWaitOf(std::chrono::hours(24));
  EXPECT_THAT(endless.violations, testing::IsEmpty());
  ASSERT_EQ(endless.status.faults_size(), 1);
  EXPECT_EQ(endless.status.faults(0).class_name(), "hang");
  EXPECT_THAT(endless.status.faults(0).what(), testing::HasSubstr("process 1 writes it to disk"));
  EXPECT_GT(endless.status.highest_step(), 100u) << "it continues after the restart";
}

TEST(Simulation, AggregatedReportsKeepTheInvariantsToo) {
  SimulationOptions options = Stormy(5);
  options.per_worker_limit = 4;
  const SimulationResult result = Simulate(options);
  EXPECT_THAT(result.violations, testing::IsEmpty());
  EXPECT_GT(result.status.commits(), 10u);
}

}  // namespace
}  // namespace longhaul::runtime::simulation
