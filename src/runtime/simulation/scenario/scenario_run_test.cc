#include "runtime/simulation/scenario/scenario_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "runtime/controller/job/job_faults.h"

namespace longhaul::runtime::simulation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

spec::Scenario Parse(const std::string& faults, uint32_t spares = 1) {
  const auto scenario = spec::ParseScenario("name: s\nnodes: 2\nspares: " + std::to_string(spares) +
                                                "\nprocesses_per_node: 2\nsteps: 120\nstep: "
                                                "50ms\nfaults:\n" +
                                                faults,
                                            "s.yaml");
  CHECK(scenario.ok()) << scenario.status().message();
  return *scenario;
}

std::vector<std::string> ClassesOf(const SimulationResult& result) {
  std::vector<std::string> classes;
  for (const auto& fault : result.status.faults()) classes.push_back(fault.class_name());
  return classes;
}

SimulationResult Survive(const std::string& faults, uint32_t spares = 1) {
  const SimulationResult result = Simulate(OptionsOf(Parse(faults, spares), 1));
  EXPECT_THAT(result.violations, IsEmpty());
  EXPECT_EQ(result.status.state(), proto::SUCCEEDED) << result.status.reason();
  EXPECT_EQ(result.status.highest_step(), 120u);
  return result;
}

TEST(ScenarioRun, AKilledWorkerCostsOneRestartInPlace) {
  const SimulationResult result = Survive("- {at_step: 42, fault: kill_worker, rank: 3}");
  EXPECT_THAT(ClassesOf(result), ElementsAre("process"));
  EXPECT_EQ(result.status.restarts(), 1u);
  ASSERT_EQ(result.scenario.faults.size(), 1u);
  const ScenarioFaultRecord& fault = result.scenario.faults[0];
  EXPECT_EQ(fault.step, 42u);
  EXPECT_EQ(fault.steps_again, 2u) << "the snapshot is of step 40";
  ASSERT_TRUE(fault.new_step.has_value());
  EXPECT_GT(*fault.new_step, fault.at);
  ASSERT_EQ(result.scenario.gangs.size(), 2u);
  EXPECT_EQ(result.scenario.gangs[0], result.scenario.gangs[1]);
}

TEST(ScenarioRun, ALostHostIsReplacedByTheSpare) {
  const SimulationResult result = Survive("- {at_step: 40, fault: power_off, node: 2, for: 5s}");
  EXPECT_THAT(ClassesOf(result), ElementsAre("node"));
  ASSERT_EQ(result.scenario.gangs.size(), 2u);
  EXPECT_EQ(result.scenario.gangs[0][0], result.scenario.gangs[1][0]);
  EXPECT_NE(result.scenario.gangs[0][1], result.scenario.gangs[1][1]);
}

TEST(ScenarioRun, ALostHostWithoutASpareIsWaitedFor) {
  const SimulationResult result = Survive("- {at_step: 40, fault: power_off, node: 2, for: 5s}", 0);
  EXPECT_THAT(ClassesOf(result), ElementsAre("node"));
  ASSERT_EQ(result.scenario.gangs.size(), 2u);
  EXPECT_EQ(result.scenario.gangs[0], result.scenario.gangs[1]);
  const ScenarioFaultRecord& fault = result.scenario.faults.at(0);
  EXPECT_GT(*fault.new_step - fault.at, std::chrono::seconds(5));
}

TEST(ScenarioRun, AShortCutIsNoFault) {
  const SimulationResult result = Survive("- {at_step: 40, fault: cut_link, node: 2, for: 500ms}");
  EXPECT_THAT(ClassesOf(result), IsEmpty());
  EXPECT_EQ(result.status.restarts(), 0u);
  const ScenarioFaultRecord& fault = result.scenario.faults.at(0);
  EXPECT_GT(*fault.new_step - fault.at, std::chrono::milliseconds(500)) << "all wait for the node";
}

// The kernel sends again 0.2, 0.4, 0.8 and 1.6 s after the first time.
TEST(ScenarioRun, TrafficFlowsWithTheNextRetransmissionAfterACut) {
  const struct {
    const char* lasts;
    int flows_ms;
  } kRows[] = {{"100ms", 200}, {"300ms", 400}, {"600ms", 800}, {"900ms", 1'600}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.lasts);
    const SimulationResult result =
        Survive(std::string("- {at_step: 41, fault: cut_link, node: 2, for: ") + row.lasts + "}");
    EXPECT_THAT(ClassesOf(result), IsEmpty());
    const ScenarioFaultRecord& fault = result.scenario.faults.at(0);
    const Duration stopped = *fault.new_step - fault.at;
    EXPECT_GE(stopped, std::chrono::milliseconds(row.flows_ms));
    EXPECT_LE(stopped, std::chrono::milliseconds(row.flows_ms + 60)) << "and the rest of a step";
  }
}

TEST(ScenarioRun, ACauseBelongsToTheFaultOfItsTarget) {
  const spec::Scenario scenario = Parse(
      "- {at_step: 42, fault: power_off, node: 2, for: 5s}\n"
      "- {after: 500ms, fault: kill_controller, for: 100ms}\n"
      "- {at_step: 92, fault: kill_worker, rank: 1}");
  const SimulationResult result = Simulate(OptionsOf(scenario, 1));
  EXPECT_THAT(result.violations, IsEmpty());
  ASSERT_THAT(ClassesOf(result), ElementsAre("node", "process"));
  EXPECT_THAT(CausesOf(scenario, result), ElementsAre(ElementsAre(0), IsEmpty(), ElementsAre(1)));
}

TEST(ScenarioRun, ALongCutIsTheLossOfANode) {
  const SimulationResult result = Survive("- {at_step: 40, fault: cut_link, node: 2, for: 6s}");
  EXPECT_THAT(ClassesOf(result), ElementsAre("node"));
  EXPECT_EQ(result.status.restarts(), 1u);
}

TEST(ScenarioRun, AKilledAgentLeavesItsSnapshotsToTheNextOne) {
  const SimulationResult result =
      Survive("- {at_step: 43, fault: kill_agent, node: 2, for: 100ms}", 0);
  EXPECT_EQ(result.status.restarts(), 1u);
  EXPECT_EQ(result.scenario.faults.at(0).steps_again, 3u) << "from step 40 in memory";
}

// Host 2 is lost while no controller is there to take its reports of the last copies.
TEST(ScenarioRun, CopiesServeWhoseSenderIsLostInTheAbsenceOfTheController) {
  const SimulationResult result = Survive(
      "- {at_step: 42, fault: kill_controller, for: 3s}\n"
      "- {after: 2s, fault: power_off, node: 2, for: 5s}");
  ASSERT_EQ(result.scenario.faults.size(), 2u);
  const ScenarioFaultRecord& lost = result.scenario.faults[1];
  EXPECT_GT(lost.step, 60u) << "training continues meanwhile";
  EXPECT_LT(lost.steps_again, 20u) << "from the newest snapshot, not from before the absence";
}

// The controller has noticed the silence of host 2, and waits for its agent.
TEST(ScenarioRun, AWorkerThatIsKilledWhileAHostIsBeingLostIsAFaultOfItsOwn) {
  const SimulationResult result = Survive(
      "- {at_step: 42, fault: power_off, node: 2, for: 5s}\n"
      "- {after: 1500ms, fault: kill_worker, rank: 1}");
  EXPECT_THAT(ClassesOf(result), testing::UnorderedElementsAre("node", "process"));
  EXPECT_EQ(result.status.restarts(), 1u);
  double costs = 0, bad = 0;
  for (const auto& fault : result.status.faults()) costs += fault.lost_rank_seconds();
  for (const auto& [category, seconds] : controller::BadTimeOf(result.status.ledger())) {
    bad += seconds;
  }
  EXPECT_LT(costs, bad) << "the start of the job is no fault";
  EXPECT_GT(costs, bad / 2);
}

TEST(ScenarioRun, AHostThatIsLostWithTheControllerIsSoonReplaced) {
  const SimulationResult result = Survive(
      "- {at_step: 42, fault: power_off, node: 2, for: 20s}\n"
      "- {after: 500ms, fault: kill_controller, for: 500ms}");
  EXPECT_THAT(ClassesOf(result), ElementsAre("node"));
  const ScenarioFaultRecord& fault = result.scenario.faults.at(0);
  EXPECT_LT(*fault.new_step - fault.at, std::chrono::seconds(5));
}

TEST(ScenarioRun, AWorkerKilledWithoutAControllerIsStartedSoonAfterItsReturn) {
  const SimulationResult result = Survive(
      "- {at_step: 42, fault: kill_controller, for: 5s}\n"
      "- {after: 4s, fault: kill_worker, rank: 1}");
  EXPECT_THAT(ClassesOf(result), ElementsAre("process"));
  const ScenarioFaultRecord& fault = result.scenario.faults.at(1);
  EXPECT_LT(*fault.new_step - fault.at, std::chrono::milliseconds(1'800)) << "1.1 s without one";
}

TEST(ScenarioRun, AStoppedWorkerDelaysAllButIsNoFault) {
  const SimulationResult result = Survive("- {at_step: 40, fault: stop_worker, rank: 1, for: 2s}");
  EXPECT_THAT(ClassesOf(result), IsEmpty());
  const ScenarioFaultRecord& fault = result.scenario.faults.at(0);
  EXPECT_GT(*fault.new_step - fault.at, std::chrono::seconds(2));
}

TEST(ScenarioRun, ASlowLinkMakesStepsLonger) {
  const auto length = [](const SimulationResult& result) {
    return result.status.ended_at_ns() - result.status.submitted_at_ns();
  };
  const SimulationResult slow =
      Survive("- {at_step: 20, fault: slow_link, node: 2, for: 10s, delay: 100ms}");
  const SimulationResult calm = Survive("  []");
  EXPECT_THAT(ClassesOf(slow), IsEmpty());
  // In 10 s there are steps of about 155 ms instead of 55 ms.
  EXPECT_GT(length(slow) - length(calm), 5'000'000'000);
  EXPECT_LT(length(slow) - length(calm), 8'000'000'000);
}

TEST(ScenarioRun, AFullDiskIsNoFault) {
  const SimulationResult result = Survive("- {at_step: 20, fault: full_disk, for: 2s}");
  EXPECT_THAT(ClassesOf(result), IsEmpty());
  EXPECT_EQ(result.status.committed_step(), 120u);
}

TEST(ScenarioRun, AFaultWaitsForItsTarget) {
  const SimulationResult result = Survive(
      "- {at_step: 40, fault: kill_worker, rank: 1}\n"
      "- {after: 0s, fault: kill_worker, rank: 1}\n"
      "- {after: 10ms, fault: kill_controller, for: 200ms}");
  ASSERT_EQ(result.scenario.faults.size(), 3u);
  EXPECT_GT(result.scenario.faults[1].at, result.scenario.faults[0].at)
      << "there is no such process before the restart";
  EXPECT_EQ(result.status.restarts(), 2u);
}

spec::ScenarioFault AnyFault(Random& random, const spec::Scenario& scenario) {
  using Kind = spec::ScenarioFaultKind;
  constexpr Kind kKinds[] = {Kind::kKillWorker, Kind::kStopWorker,    Kind::kKillAgent,
                             Kind::kPowerOff,   Kind::kCutLink,       Kind::kSlowLink,
                             Kind::kFullDisk,   Kind::kKillController};
  spec::ScenarioFault fault;
  fault.kind = kKinds[random.Below(std::size(kKinds))];
  if (fault.kind != Kind::kKillWorker) {
    // limits.
    fault.lasts = std::chrono::milliseconds(50 + random.Below(4'000));
  }
  const std::string_view name = spec::NameOf(fault.kind);
  if (name.ends_with("_worker")) {
    fault.rank = static_cast<uint32_t>(random.Below(scenario.workers()));
  } else if (fault.kind != Kind::kFullDisk && fault.kind != Kind::kKillController) {
    fault.node = static_cast<uint32_t>(1 + random.Below(scenario.nodes));
  }
  if (fault.kind == Kind::kSlowLink) fault.delay = std::chrono::milliseconds(1 + random.Below(99));
  return fault;
}

// As in a file.
std::string TextOf(const spec::Scenario& scenario) {
  std::string text = "spares: " + std::to_string(scenario.spares) + "\nfaults:\n";
  for (const spec::ScenarioFault& fault : scenario.faults) {
    const auto milliseconds = [](Duration duration) {
      return std::to_string(duration / std::chrono::milliseconds(1)) + "ms";
    };
    text += "  - {" + (fault.at_step.has_value() ? "at_step: " + std::to_string(*fault.at_step)
                                                 : "after: " + milliseconds(fault.after));
    text += ", fault: " + std::string(spec::NameOf(fault.kind));
    if (fault.node > 0) text += ", node: " + std::to_string(fault.node);
    if (spec::TargetOf(fault).starts_with("worker"))
      text += ", rank: " + std::to_string(fault.rank);
    if (fault.delay > Duration(0)) text += ", delay: " + milliseconds(fault.delay);
    if (fault.lasts > Duration(0)) text += ", for: " + milliseconds(fault.lasts);
    text += "}\n";
  }
  return text;
}

TEST(ScenarioRun, EveryInvariantHoldsOverComposedFaults) {
  std::set<std::string> classes;
  uint64_t restarts = 0, happened = 0, planned = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    spec::Scenario scenario = Parse("  []", static_cast<uint32_t>(random.Below(3)));
    for (uint64_t step = 10; step < 110; step += 10 + random.Below(30)) {
      scenario.faults.push_back(AnyFault(random, scenario));
      scenario.faults.back().at_step = step;
      if (random.Below(2) == 0) {
        scenario.faults.push_back(AnyFault(random, scenario));
        scenario.faults.back().after = std::chrono::milliseconds(random.Below(2'000));
      }
    }
    SCOPED_TRACE(TextOf(scenario));
    const SimulationResult result = Simulate(OptionsOf(scenario, seed));
    ASSERT_THAT(result.violations, IsEmpty());
    ASSERT_EQ(result.status.highest_step(), 120u) << result.status.reason();
    const bool saved = result.status.reason().find("is not on disk") == std::string::npos;
    ASSERT_EQ(result.status.state(), saved ? proto::SUCCEEDED : proto::FAILED)
        << result.status.reason();
    happened += result.scenario.faults.size();
    planned += scenario.faults.size();
    restarts += result.status.restarts();
    for (const std::string& name : ClassesOf(result)) classes.insert(name);
  }
  EXPECT_GT(restarts, 150u);
  EXPECT_GT(happened * 10, planned * 9) << "a job may end before the last ones";
  EXPECT_TRUE(classes.contains("node") && classes.contains("process"));
}

TEST(ScenarioRun, TwoRunsOfASeedAreTheSame) {
  const spec::Scenario scenario = Parse(
      "- {at_step: 40, fault: cut_link, node: 1, for: 3s}\n"
      "- {after: 1s, fault: kill_controller, for: 300ms}");
  const SimulationResult first = Simulate(OptionsOf(scenario, 7));
  const SimulationResult second = Simulate(OptionsOf(scenario, 7));
  EXPECT_EQ(first.log_hash, second.log_hash);
  EXPECT_EQ(first.state_hash, second.state_hash);
  EXPECT_NE(first.log_hash, Simulate(OptionsOf(scenario, 8)).log_hash);
}

}  // namespace
}  // namespace longhaul::runtime::simulation
