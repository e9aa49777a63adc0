// Random clusters with faults: gangs are never left partly bound, and all work ends.
//
// LONGHAUL_HISTORIES says how many seeds of each kind, LONGHAUL_HISTORY_SEED the first one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engines/kubernetes/scheduling/simulated_cluster.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

void Fill(SimulatedCluster& cluster, uint64_t seed, bool late_volumes) {
  Random rng(seed + 1'000'000);
  const auto below = [&rng](uint64_t most) { return static_cast<int>(rng.Below(most)); };
  if (late_volumes) cluster.AddStorageClass();
  const int nodes = 2 + below(5);
  for (int i = 0; i < nodes; ++i) {
    cluster.AddNode("n" + std::to_string(i), "leaf-" + std::to_string(i / 2), 8);
  }
  if (below(2) == 0) cluster.AddForeignPod("foreign", "n0", 1 + below(4));
  const int gangs = 2 + below(5);
  for (int i = 0; i < gangs; ++i) {
    SimulatedGang gang;
    gang.name = "g" + std::to_string(i);
    gang.gang = below(4) != 0;
    gang.devices = 1 << below(4);
    // The foreign pod leaves one node of eight devices fewer.
    gang.size = 1 + below(static_cast<uint64_t>((nodes - 1) * 8 / gang.devices));
    gang.size = std::min(gang.size, 8);
    gang.priority = 100 * below(3);
    gang.runs = seconds(5 + below(120));
    gang.late_volumes = late_volumes && i % 2 == 0;
    cluster.AddGang(gang);
  }
}

void RunSeed(uint64_t seed, const SimulatedFaults& faults, int* rejected, int* removed) {
  SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
  SimulatedCluster cluster(seed, faults);
  Fill(cluster, seed, faults.provisioning);
  cluster.FaultsUntil(minutes(5));
  const Status holds = cluster.Run(hours(12), [&cluster] { return cluster.AllFinished(); });
  ASSERT_TRUE(holds.ok()) << holds << "\n" << cluster.log();
  ASSERT_TRUE(cluster.AllFinished()) << cluster.log();
  *rejected += cluster.Rejected();
  *removed += cluster.Removed();
  EXPECT_EQ(cluster.Volumes() > 0, faults.provisioning);
}

void RunAll(const SimulatedFaults& faults, int* rejected, int* removed) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 12);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    RunSeed(seed, faults, rejected, removed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(PodHistory, WithoutFaultsNoNodeIsGivenMoreThanItHas) {
  int rejected = 0, removed = 0;
  RunAll({}, &rejected, &removed);
  EXPECT_EQ(rejected, 0);
  EXPECT_GT(removed, 0) << "some pods were preempted";
}

TEST(PodHistory, WithLostMessagesAndRefusalsGangsStartWhole) {
  SimulatedFaults faults;
  faults.lost_messages = faults.refusals = true;
  int rejected = 0, removed = 0;
  RunAll(faults, &rejected, &removed);
}

// Its reply was lost, and its gang was undone before it was known that it had not been done.
TEST(PodHistory, ABindIsNotSentAgainWhenItsGangLeaves) {
  SimulatedFaults faults;
  faults.lost_messages = faults.refusals = true;
  int rejected = 0, removed = 0;
  RunSeed(30, faults, &rejected, &removed);
}

TEST(PodHistory, WithBrokenWatchesNoNodeIsGivenMoreThanItHas) {
  SimulatedFaults faults;
  faults.watches = true;
  int rejected = 0, removed = 0;
  RunAll(faults, &rejected, &removed);
  EXPECT_EQ(rejected, 0);
}

TEST(PodHistory, WithVanishingNodesAndDeletedPodsAllWorkEnds) {
  SimulatedFaults faults;
  faults.nodes = faults.deletions = true;
  int rejected = 0, removed = 0;
  RunAll(faults, &rejected, &removed);
}

TEST(PodHistory, WithVolumesThatAreMadeLateAndGivenUpGangsStartWhole) {
  SimulatedFaults faults;
  faults.provisioning = true;
  int rejected = 0, removed = 0;
  RunAll(faults, &rejected, &removed);
  EXPECT_EQ(rejected, 0);
  faults.lost_messages = faults.refusals = faults.watches = faults.nodes = true;
  faults.leaders = faults.deletions = true;
  RunAll(faults, &rejected, &removed);
}

TEST(PodHistory, WithEveryFaultAndChangesOfLeaderAllWorkEnds) {
  SimulatedFaults faults;
  faults.lost_messages = faults.refusals = faults.watches = faults.nodes = true;
  faults.leaders = faults.deletions = true;
  int rejected = 0, removed = 0;
  RunAll(faults, &rejected, &removed);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
