#include "spec/scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::spec {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A scenario with these faults, of which the first one is in line 6.
std::string WithFaults(const std::string& faults) {
  return "name: s\nnodes: 2\nsteps: 100\nstep: 50ms\nfaults:\n" + faults;
}

TEST(Scenario, HasAJobAndFaultsInTheirOrder) {
  const auto scenario = ParseScenario(
      "name: composed\n"
      "nodes: 2\n"
      "spares: 1\n"
      "processes_per_node: 4\n"
      "steps: 300\n"
      "step: 20ms\n"
      "snapshot_every: 10\n"
      "faults:\n"
      "  - {at_step: 40, fault: kill_worker, rank: 7}\n"
      "  - {after: 250ms, fault: kill_controller, for: 500ms}\n"
      "  - {at_step: 80, fault: power_off, node: 2, for: 5s}\n"
      "  - {at_step: 80, fault: slow_link, node: 1, for: 2s, delay: 30ms, rate: 4mbit}\n"
      "  - {at_step: 90, fault: full_disk, for: 1s}\n",
      "s.yaml");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->name, "composed");
  EXPECT_EQ(scenario->nodes, 2u);
  EXPECT_EQ(scenario->spares, 1u);
  EXPECT_EQ(scenario->workers(), 8u);
  EXPECT_EQ(scenario->steps, 300u);
  EXPECT_EQ(scenario->step, std::chrono::milliseconds(20));
  EXPECT_EQ(scenario->snapshot_every, 10u);
  ASSERT_EQ(scenario->faults.size(), 5u);
  EXPECT_EQ(scenario->faults[0].at_step, 40u);
  EXPECT_EQ(TargetOf(scenario->faults[0]), "worker 7");
  EXPECT_EQ(scenario->faults[1].at_step, std::nullopt);
  EXPECT_EQ(scenario->faults[1].after, std::chrono::milliseconds(250));
  EXPECT_EQ(scenario->faults[1].lasts, std::chrono::milliseconds(500));
  EXPECT_EQ(TargetOf(scenario->faults[1]), "");
  EXPECT_EQ(scenario->faults[2].kind, ScenarioFaultKind::kPowerOff);
  EXPECT_EQ(TargetOf(scenario->faults[2]), "node 2");
  EXPECT_EQ(scenario->faults[3].delay, std::chrono::milliseconds(30));
  EXPECT_EQ(scenario->faults[3].rate_bits_per_s, 4'000'000u);
  EXPECT_EQ(TargetOf(scenario->faults[4]), "");
  EXPECT_EQ(scenario->faults[4].line, 13);
}

TEST(Scenario, NeedsNoFaults) {
  const auto scenario = ParseScenario("{name: calm, nodes: 1, steps: 5, step: 1s}", "s.yaml");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->faults.size(), 0u);
  EXPECT_EQ(scenario->spares, 0u);
  EXPECT_EQ(scenario->workers(), 1u);
}

TEST(Scenario, AnErrorOfTheJobNamesLineKeyAndValue) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"[]", "s.yaml:1: expected a map with the keys name, nodes"},
      {"name: a/b", "s.yaml:1: name is 'a/b', expected 1 to 63 letters"},
      {"name: s\nnodes: 65", "s.yaml:2: nodes is '65', expected a number from 1 to 64"},
      {"name: s\nnodes: '2'", "s.yaml:2: nodes is '2', expected a number"},
      {"name: s\nnode: 2", "s.yaml:2: unknown key 'node': did you mean 'nodes'?"},
      {"name: s\nspares: -1", "spares is '-1', expected a number from 0 to 64"},
      {"steps: 0", "steps is '0', expected a number from 1 to 100000"},
      {"step: 10us", "step is '10us', expected a duration from 1"},
      {"step: [1s]", "step is a list, expected a duration"},
      {"snapshot_every: 0", "snapshot_every is '0'"},
      {"name: s\nnodes: 2\nsteps: 5", "s.yaml:1: step is missing: add step: 50ms"},
      {"{name: s, nodes: 64, processes_per_node: 5, steps: 5, step: 1s}",
       "320 workers are more than the limit of 256: use fewer"},
  };
  for (const auto& row : kRows) {
    const auto scenario = ParseScenario(row.text, "s.yaml");
    ASSERT_FALSE(scenario.ok()) << row.text;
    EXPECT_THAT(scenario.status().message(), HasSubstr(row.message)) << row.text;
  }
}

TEST(Scenario, AnErrorOfAFaultNamesLineKeyAndValue) {
  const struct {
    const char* fault;
    const char* message;
  } kRows[] = {
      {"  kill_worker", "faults is 'kill_worker', expected a list such as"},
      {"- kill_worker", "s.yaml:6: faults: expected a map such as"},
      {"- {at_step: 4}", "s.yaml:6: faults: expected a map such as"},
      {"- {at_step: 4, fault: kill}", "fault is 'kill', expected one of kill_worker, stop_worker"},
      {"- {fault: kill_worker, rank: 0}", "expected either at_step or after"},
      {"- {at_step: 4, after: 1s, fault: kill_worker, rank: 0}", "either at_step or after"},
      {"- {after: 1s, fault: kill_worker, rank: 0}", "this is the first one: use at_step"},
      {"- {at_step: 101, fault: kill_worker, rank: 0}",
       "at_step is '101', expected a number from 1 to 100"},
      {"- {at_step: 4, fault: kill_worker, rank: 2}", "rank is '2', expected a number from 0 to 1"},
      {"- {at_step: 4, fault: kill_worker}", "kill_worker has no rank, expected the keys rank"},
      {"- {at_step: 4, fault: kill_worker, rank: 0, for: 1s}",
       "for has no effect on kill_worker, which has the keys rank: remove it"},
      {"- {at_step: 4, fault: kill_worker, ranks: 0}",
       "faults: unknown key 'ranks': did you mean 'rank'?"},
      {"- {at_step: 4, fault: power_off, node: 0, for: 1s}",
       "node is '0', expected a number from 1 to 2"},
      {"- {at_step: 4, fault: power_off, node: 1}", "power_off has no for, expected the keys node"},
      {"- {at_step: 4, fault: power_off, node: 1, for: 1h}", "for is '1h', expected a duration"},
      {"- {at_step: 4, fault: slow_link, node: 1, for: 1s}", "expected delay, rate or both"},
      {"- {at_step: 4, fault: slow_link, node: 1, for: 1s, delay: 1us}",
       "delay is '1us', expected a duration from 1"},
      {"- {at_step: 4, fault: slow_link, node: 1, for: 1s, rate: 4}",
       "rate is '4', expected a rate from 1kbit to 100gbit"},
      {"- {at_step: 4, fault: slow_link, node: 1, for: 1s, rate: 99999999999999999999gbit}",
       "expected a rate"},
      {"- {at_step: 9, fault: kill_worker, rank: 0}\n- {at_step: 8, fault: kill_worker, rank: 0}",
       "s.yaml:7: at_step is 8, but the fault before it is at step 9"},
  };
  for (const auto& row : kRows) {
    const auto scenario = ParseScenario(WithFaults(row.fault), "s.yaml");
    ASSERT_FALSE(scenario.ok()) << row.fault;
    EXPECT_THAT(scenario.status().message(), HasSubstr(row.message)) << row.fault;
    EXPECT_THAT(scenario.status().message(), StartsWith("s.yaml:")) << row.fault;
  }
}

TEST(Scenario, HasAtMost64Faults) {
  std::string faults;
  for (int i = 0; i < 65; ++i) faults += "- {at_step: 4, fault: kill_worker, rank: 0}\n";
  const auto scenario = ParseScenario(WithFaults(faults), "s.yaml");
  ASSERT_FALSE(scenario.ok());
  EXPECT_THAT(scenario.status().message(),
              HasSubstr("faults: 65 faults are more than the limit of 64"));
}

}  // namespace
}  // namespace longhaul::spec
