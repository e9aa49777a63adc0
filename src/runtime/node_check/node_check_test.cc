#include "runtime/node_check/node_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/node_check/simulated_cluster.h"

namespace longhaul::runtime::node_check::node_check_test {
namespace {

using enum Outcome;

// ------------------------------------------------------------------------------------ the plan

TEST(CheckPlan, PairsEveryNodeOnceARoundAndNoTwoNodesTwice) {
  for (const uint32_t nodes : {1u, 2u, 3u, 4u, 5u, 6u, 15u, 16u, 17u, 18u, 33u, 64u, 999u, 1001u}) {
    SCOPED_TRACE(nodes);
    const auto plan = PlanRounds(nodes, nodes * 7u);
    ASSERT_EQ(plan.size(), RoundsFor(nodes));
    std::set<Pair> all;
    std::map<uint32_t, size_t> tests;
    for (const auto& round : plan) {
      std::set<uint32_t> busy;
      EXPECT_EQ(round.size(), nodes / 2);
      for (const Pair& pair : round) {
        ASSERT_LT(pair.first, pair.second);
        ASSERT_LT(pair.second, nodes);
        EXPECT_TRUE(busy.insert(pair.first).second);
        EXPECT_TRUE(busy.insert(pair.second).second);
        EXPECT_TRUE(all.insert(pair).second);
        ++tests[pair.first];
        ++tests[pair.second];
      }
    }
    // With an odd count each node is left out at most once.
    for (uint32_t node = 0; node < nodes; ++node) EXPECT_GE(tests[node] + 1, plan.size()) << node;
  }
}

TEST(CheckPlan, HasAllPairsOfEightNodesAndSixRoundsAboveAThousand) {
  EXPECT_EQ(RoundsFor(0), 0u);
  EXPECT_EQ(RoundsFor(1), 0u);
  EXPECT_EQ(RoundsFor(2), 1u);
  EXPECT_EQ(RoundsFor(3), 3u);
  EXPECT_EQ(RoundsFor(4), 3u);
  EXPECT_EQ(RoundsFor(5), 5u);
  EXPECT_EQ(RoundsFor(8), 7u);
  EXPECT_EQ(RoundsFor(9), 4u);
  EXPECT_EQ(RoundsFor(1000), 4u);
  EXPECT_EQ(RoundsFor(1001), 6u);
}

TEST(CheckPlan, FollowsFromTheSeed) {
  EXPECT_EQ(PlanRounds(40, 3), PlanRounds(40, 3));
  EXPECT_NE(PlanRounds(40, 3), PlanRounds(40, 4));
}

// --------------------------------------------------------------------------------- the decoder

// Results of a complete test of all pairs, of which `other` are not OK.
Evidence AllPairs(uint32_t nodes, const std::map<Pair, Outcome>& other) {
  Evidence evidence;
  evidence.nodes = nodes;
  for (uint32_t a = 0; a < nodes; ++a) {
    for (uint32_t b = a + 1; b < nodes; ++b) {
      const auto found = other.find({a, b});
      evidence.results.push_back({{a, b}, found == other.end() ? kOk : found->second});
    }
  }
  return evidence;
}

TEST(Decoder, FindsNothingWhereAllIsOk) {
  const Diagnosis diagnosis = Decode(AllPairs(6, {}));
  EXPECT_TRUE(diagnosis.faults.empty());
  EXPECT_TRUE(diagnosis.doubts.empty());
}

TEST(Decoder, BlamesTheNodeWhoseTestsFail) {
  const Diagnosis diagnosis = Decode(
      AllPairs(5, {{{0, 2}, kFailed}, {{1, 2}, kFailed}, {{2, 3}, kFailed}, {{2, 4}, kFailed}}));
  ASSERT_EQ(diagnosis.faults.size(), 1u);
  EXPECT_EQ(diagnosis.faults[0].part, Part::kNode);
  EXPECT_EQ(diagnosis.faults[0].node, 2u);
  EXPECT_EQ(diagnosis.faults[0].state, State::kBad);
  EXPECT_TRUE(diagnosis.faults[0].decided());
}

TEST(Decoder, BlamesTheLinkIfBothNodesDoWellElsewhere) {
  Evidence evidence = AllPairs(5, {{{1, 3}, kSlow}});
  evidence.results.insert(evidence.results.end(), 3, {{1, 3}, kSlow});
  const Diagnosis diagnosis = Decode(evidence);
  ASSERT_EQ(diagnosis.faults.size(), 1u);
  EXPECT_EQ(diagnosis.faults[0].part, Part::kLink);
  EXPECT_EQ(diagnosis.faults[0].link, (Pair{1, 3}));
  EXPECT_EQ(diagnosis.faults[0].state, State::kSlow);
  EXPECT_TRUE(diagnosis.faults[0].decided());
}

TEST(Decoder, ReportsOneBadResultAsADoubtAndNotAsAFault) {
  const Diagnosis diagnosis = Decode(AllPairs(5, {{{1, 3}, kSlow}}));
  EXPECT_TRUE(diagnosis.faults.empty());
  ASSERT_EQ(diagnosis.doubts.size(), 1u);
  EXPECT_EQ(diagnosis.doubts[0].link, (Pair{1, 3}));
}

TEST(Decoder, FindsABadLinkOfASlowNode) {
  Evidence evidence =
      AllPairs(5, {{{0, 2}, kFailed}, {{1, 2}, kSlow}, {{2, 3}, kSlow}, {{2, 4}, kSlow}});
  // One failure may be chance, and is a doubt; two are not.
  EXPECT_EQ(Decode(evidence).faults.size(), 1u);
  ASSERT_EQ(Decode(evidence).doubts.size(), 1u);
  EXPECT_EQ(Decode(evidence).doubts[0].link, (Pair{0, 2}));
  evidence.results.insert(evidence.results.end(), 2, {{0, 2}, kFailed});
  const Diagnosis diagnosis = Decode(evidence);
  ASSERT_EQ(diagnosis.faults.size(), 2u);
  EXPECT_EQ(diagnosis.faults[0].state, State::kSlow);
  EXPECT_EQ(diagnosis.faults[1].link, (Pair{0, 2}));
  EXPECT_EQ(diagnosis.faults[1].state, State::kBad);
  EXPECT_TRUE(diagnosis.faults[1].decided());
}

TEST(Decoder, BlamesTheSwitchThatTheFailedPairsShare) {
  std::map<Pair, Outcome> failed;
  Evidence evidence;
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t b = a + 1; b < 12; ++b) failed[{a, b}] = kFailed;
  }
  evidence = AllPairs(12, failed);
  for (uint32_t node = 0; node < 12; ++node) evidence.switch_of.push_back(node / 4);
  const Diagnosis diagnosis = Decode(evidence);
  ASSERT_EQ(diagnosis.faults.size(), 1u);
  EXPECT_EQ(diagnosis.faults[0].part, Part::kSwitch);
  EXPECT_EQ(diagnosis.faults[0].node, 0u);
  EXPECT_TRUE(diagnosis.faults[0].decided());
  // Without the switches, each node is blamed by itself.
  evidence.switch_of.clear();
  EXPECT_EQ(Decode(evidence).faults.size(), 4u);
}

TEST(Decoder, IsUndecidedBetweenTwoNodesWithOneFailedPair) {
  Evidence evidence = AllPairs(2, {{{0, 1}, kFailed}});
  evidence.results.insert(evidence.results.end(), 3, {{0, 1}, kFailed});
  const Diagnosis diagnosis = Decode(evidence);
  ASSERT_EQ(diagnosis.faults.size(), 1u);
  EXPECT_FALSE(diagnosis.faults[0].decided());
  // The other node is named as just as likely.
  ASSERT_EQ(diagnosis.faults[0].nodes_instead.size(), 1u);
  EXPECT_EQ(diagnosis.faults[0].nodes_instead[0], 1 - diagnosis.faults[0].node);
  // Silence decides.
  evidence.silent = {false, true};
  ASSERT_EQ(Decode(evidence).faults.size(), 1u);
  EXPECT_EQ(Decode(evidence).faults[0].node, 1u);
  EXPECT_TRUE(Decode(evidence).faults[0].decided());
}

// Coordinate descent in a large component must find what enumeration finds in a small one: the
// same faults, wherever they are.
TEST(Decoder, FindsTwoFaultsInLargeComponents) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const uint32_t nodes = 20;
    const auto a = static_cast<uint32_t>(random.Below(nodes));
    const auto b = static_cast<uint32_t>((a + 1 + random.Below(nodes - 1)) % nodes);
    std::map<Pair, Outcome> other;
    for (uint32_t node = 0; node < nodes; ++node) {
      if (node != b) other[MakePair(node, b)] = kSlow;
    }
    for (uint32_t node = 0; node < nodes; ++node) {
      if (node != a) other[MakePair(node, a)] = kFailed;
    }
    const Diagnosis diagnosis = Decode(AllPairs(nodes, other));
    ASSERT_EQ(diagnosis.faults.size(), 2u) << a << " " << b;
    for (const Fault& fault : diagnosis.faults) {
      EXPECT_EQ(fault.part, Part::kNode);
      EXPECT_TRUE(fault.node == a ? fault.state == State::kBad
                                  : fault.node == b && fault.state == State::kSlow);
      EXPECT_TRUE(fault.decided());
    }
  }
}

// ---------------------------------------------------------------------------------- slow or not

TEST(Judge, ComparesWithTheMedianOfTheNodesFastPairs) {
  // Half of the results are slow, because they all share node 0.
  const std::vector<PairMeasurement> measurements = {{{0, 1}, false, 0.30}, {{2, 3}, false, 0.10},
                                                     {{0, 2}, false, 0.31}, {{1, 3}, false, 0.11},
                                                     {{0, 3}, false, 0.29}, {{1, 2}, false, 0.10}};
  const JudgedPairs judged = JudgePairs(4, {}, measurements);
  for (size_t i = 0; i < measurements.size(); ++i) {
    EXPECT_EQ(judged.results[i].outcome, i % 2 == 0 ? kSlow : kOk) << i;
  }
  // The values of the nodes are 0.29, 0.10, 0.10 and 0.10.
  EXPECT_NEAR(judged.ratios[0], 3.0, 1e-9);
}

TEST(Judge, DoesNotJudgeTheSpeedOfTwoNodes) {
  const JudgedPairs judged = JudgePairs(2, {}, {{{0, 1}, false, 10}, {{0, 1}, true, 0}});
  EXPECT_EQ(judged.results[0].outcome, kOk);
  EXPECT_EQ(judged.results[1].outcome, kFailed);
}

// On a busy machine repeated tests of a pair differ by much: then twice the reference means little.
TEST(Judge, AllowsForTestsThatVary) {
  std::vector<PairMeasurement> measurements;
  for (const double factor : {1.0, 1.9}) {
    for (uint32_t a = 0; a < 6; ++a) {
      for (uint32_t b = a + 1; b < 6; ++b) measurements.push_back({{a, b}, false, 0.1 * factor});
    }
  }
  measurements.push_back({{0, 1}, false, 0.35});
  measurements.push_back({{0, 1}, false, 0.9});
  const JudgedPairs judged = JudgePairs(6, {}, measurements);
  EXPECT_EQ(judged.results[30].outcome, kOk);
  EXPECT_EQ(judged.results[31].outcome, kSlow) << "the allowance has a limit";
}

// A path through two switches that takes three times as long everywhere is no fault.
TEST(Judge, ComparesPairsOfOneSwitchWithEachOther) {
  std::vector<PairMeasurement> measurements;
  std::vector<uint32_t> switch_of;
  for (uint32_t a = 0; a < 16; ++a) {
    switch_of.push_back(a / 8);
    for (uint32_t b = a + 1; b < 16; ++b) {
      measurements.push_back({{a, b}, false, a / 8 == b / 8 ? 0.1 : 0.3});
    }
  }
  for (const PairResult& result : JudgePairs(16, switch_of, measurements).results) {
    EXPECT_EQ(result.outcome, kOk);
  }
}

// ------------------------------------------------------------------------------ the whole check

TEST(NodeCheck, RepeatsASlowSelfTestAndKeepsTheBetterOne) {
  NodeCheck check(4, {}, 1);
  SelfTest test;
  test.compute_seconds = 1;
  for (const uint32_t node : {0u, 1u, 2u}) check.TakeSelfTest(node, test);
  test.compute_seconds = 5;
  check.TakeSelfTest(3, test);
  const Round round = check.NextRound();
  ASSERT_EQ(round.self_tests, std::vector<uint32_t>{3});
  EXPECT_EQ(check.Conclude().nodes[3].verdict, Verdict::kSlow);
  test.compute_seconds = 1.1;
  check.TakeSelfTest(3, test);
  EXPECT_EQ(check.Conclude().nodes[3].verdict, Verdict::kGood);
  EXPECT_TRUE(check.NextRound().self_tests.empty());
}

// The first tests run on all nodes at the same time. A repeated one may have a shared machine for
// itself, which must not make the other nodes slow.
TEST(NodeCheck, ComparesWithTheFirstSelfTests) {
  NodeCheck check(4, {}, 1);
  for (uint32_t node = 0; node < 4; ++node) {
    SelfTest test;
    test.memory_seconds = node < 2 ? 1 : 5;
    check.TakeSelfTest(node, test);
  }
  ASSERT_EQ(check.NextRound().self_tests, (std::vector<uint32_t>{2, 3}));
  SelfTest alone;
  alone.memory_seconds = 0.1;
  for (const uint32_t node : {2u, 3u}) check.TakeSelfTest(node, alone);
  for (const NodeVerdict& node : check.Conclude().nodes) EXPECT_EQ(node.verdict, Verdict::kGood);
}

TEST(NodeCheck, AWrongResultOfTheSelfTestIsBadWithoutAComparison) {
  NodeCheck check(1, {}, 1);
  check.TakeSelfTest(0, SelfTest{"matrix product is wrong", {}, {}, {}});
  EXPECT_TRUE(check.NextRound().pair_tests.empty());
  const Verdicts verdicts = check.Conclude();
  EXPECT_EQ(verdicts.nodes[0].verdict, Verdict::kBad);
  EXPECT_EQ(verdicts.nodes[0].evidence, "matrix product is wrong");
  EXPECT_EQ(verdicts.Worst(), Verdict::kBad);
}

TEST(NodeCheck, ASilentNodeIsNeverTheOneThatConnects) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    NodeCheck check(6, {}, seed);
    for (uint32_t node = 0; node < 6; ++node) {
      check.TakeSelfTest(node, node < 2 ? std::nullopt : std::optional(SelfTest()));
    }
    for (int round = 0; round < 4; ++round) {
      for (const PairTest& test : check.NextRound().pair_tests) EXPECT_GE(test.client, 2u);
    }
  }
}

// One slow test by chance beside a slow link looks like a slow node, until the node is tested with
// others again: the link's own tests would not decide.
TEST(NodeCheck, TestsANodeWithOthersToTellItFromItsLink) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    NodeCheck check(4, {}, seed);
    for (uint32_t node = 0; node < 4; ++node) {
      check.TakeSelfTest(node, node == 3 ? std::nullopt : std::optional(SelfTest()));
    }
    bool by_chance = true;
    int rounds = 0;
    for (Round round = check.NextRound(); !round.pair_tests.empty(); round = check.NextRound()) {
      ASSERT_LT(++rounds, 50);
      for (const PairTest& test : round.pair_tests) {
        const Pair pair = MakePair(test.client, test.server);
        const bool slow = pair == Pair{0, 1} || (pair == Pair{1, 2} && by_chance);
        if (pair == Pair{1, 2}) by_chance = false;
        check.TakePair({pair, pair.second == 3, slow ? 1.0 : 0.1});
      }
    }
    const Verdicts verdicts = check.Conclude();
    ASSERT_EQ(verdicts.links.size(), 1u);
    EXPECT_EQ(verdicts.links[0].link, (Pair{0, 1}));
    EXPECT_EQ(verdicts.links[0].verdict, Verdict::kSlow);
    EXPECT_EQ(verdicts.nodes[1].verdict, Verdict::kGood) << verdicts.nodes[1].evidence;
    EXPECT_EQ(verdicts.nodes[3].verdict, Verdict::kBad);
  }
}

TEST(NodeCheck, EvictsNobodyIfOnePairOfTwoNodesFails) {
  NodeCheck check(2, {}, 9);
  for (const uint32_t node : {0u, 1u}) check.TakeSelfTest(node, SelfTest());
  int rounds = 0;
  for (Round round = check.NextRound(); !round.pair_tests.empty(); round = check.NextRound()) {
    check.TakePair({{0, 1}, true, 0});
    ASSERT_LT(++rounds, 50);
  }
  const Verdicts verdicts = check.Conclude();
  EXPECT_EQ(verdicts.Worst(), Verdict::kUndecided);
  EXPECT_EQ(verdicts.nodes[0].verdict, Verdict::kUndecided);
  EXPECT_EQ(verdicts.nodes[1].verdict, Verdict::kUndecided);
}

// The goal of the check, over labelled faults in simulated clusters of 4 to 64 nodes.
TEST(NodeCheck, FindsNinetyNineOfAHundredInjectedFaultsAndEvictsOneInAHundredAtMost) {
  using enum FaultKind;
  const std::vector<std::vector<FaultKind>> kinds = {
      {},           {kBadNode},    {kSlowNode},           {kSlowCompute},
      {kBadLink},   {kSlowLink},   {kBadNode, kBadNode},  {kBadNode, kSlowNode},
      {kBadSwitch}, {kSlowSwitch}, {kBadNode, kSlowLink}, {kBadSwitch, kBadNode}};
  const struct {
    uint32_t nodes;
    uint32_t nodes_per_switch;
    uint64_t seeds;
  } kSizes[] = {{5, 0, 100}, {8, 0, 100}, {16, 4, 60}, {64, 8, 15}};
  SimulatedCluster::Score check;
  SimulatedCluster::Score pairs;
  uint32_t runs = 0;
  for (const auto& size : kSizes) {
    for (const auto& kind : kinds) {
      const bool at_switch = !kind.empty() && (kind[0] == kBadSwitch || kind[0] == kSlowSwitch);
      if (at_switch && size.nodes_per_switch == 0) continue;
      for (uint64_t seed = 0; seed < size.seeds; ++seed, ++runs) {
        SimulatedCluster cluster(size.nodes, size.nodes_per_switch, Noise(), seed, kind);
        check.Add(cluster.ScoreOf(cluster.RunNodeCheck()));
        pairs.Add(cluster.ScoreOf(cluster.RunPairsCheck()));
      }
    }
  }
  const auto print = [](const char* name, const SimulatedCluster::Score& score) {
    std::printf("simulated, %s: %u of %u faults found, %u of %u evictions wrong, %u misnamed\n",
                name, score.found, score.injected, score.wrong, score.evicted, score.misnamed);
  };
  print("node check", check);
  print("check in pairs", pairs);
  EXPECT_GT(runs, 2'000u);
  EXPECT_GT(check.injected, 2'000u);
  EXPECT_GE(check.found, 0.99 * check.injected);
  EXPECT_LE(check.wrong, 0.01 * check.evicted);
  EXPECT_LE(check.misnamed, 0.01 * check.injected);
  // The faults are the same for the check in pairs, which can't name links.
  EXPECT_LT(pairs.found, check.found);
  EXPECT_GT(pairs.found, 0.3 * pairs.injected);
}

TEST(NodeCheck, EqualSeedsGiveEqualVerdicts) {
  const auto run = [] {
    SimulatedCluster cluster(64, 8, Noise(), 77, {FaultKind::kBadNode, FaultKind::kSlowLink});
    const Verdicts verdicts = cluster.RunNodeCheck();
    std::string text = std::to_string(cluster.pair_tests());
    for (const NodeVerdict& node : verdicts.nodes) text += ToString(node.verdict);
    return text;
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace longhaul::runtime::node_check::node_check_test
