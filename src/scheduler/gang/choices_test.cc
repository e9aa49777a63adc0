// Rails, rank order, spread, elastic counts, goodput and repair: worked cases and properties.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "scheduler/gang/elastic_counts.h"
#include "scheduler/gang/gang_cases.h"
#include "scheduler/gang/goodput.h"
#include "scheduler/gang/rails.h"
#include "scheduler/gang/rank_order.h"
#include "scheduler/gang/repair.h"
#include "scheduler/gang/spread.h"
#include "scheduler/gang/unlike_tasks.h"

namespace longhaul::scheduler {
namespace {

TEST(Rails, MasksStayInAnIslandOrTakeWholeOnes) {
  const std::vector<uint8_t> halves = {0x0F, 0xF0};
  EXPECT_EQ(LegalMasks(halves, 4), (std::vector<uint8_t>{0x0F, 0xF0}));
  EXPECT_EQ(LegalMasks(halves, 2).size(), 12u);  // C(4,2) in each half
  EXPECT_EQ(LegalMasks(halves, 6).size(), 12u);  // one half whole, two of the other
  EXPECT_EQ(LegalMasks(halves, 8), (std::vector<uint8_t>{0xFF}));
  EXPECT_EQ(LegalMasks(std::vector<uint8_t>{0xFF}, 4).size(), 70u);
}

TEST(Rails, ChoosesTheMaskThatFewestLeavesCanGive) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const DomainTree tree = RandomTree(random);
    RailTable table(tree, 8);
    const auto often = random.Below(3);
    for (int32_t h = 0; h < tree.hosts(); ++h) {
      auto mask = static_cast<uint8_t>(random.Next());
      for (uint64_t i = 0; i < often; ++i) mask = static_cast<uint8_t>(mask | random.Next());
      table.Set(h, mask);
    }
    const std::vector<uint8_t> legal = LegalMasks(std::vector<uint8_t>{0x0F, 0xF0}, 2);
    EqualTasksRequest request;
    request.tasks = static_cast<int32_t>(1 + random.Below(8));
    EqualTasksSolver solver;
    const RailAnswer got = PlaceOnRails(table, legal, request, solver);
    // From the definition: for every mask the hosts that have all of its GPUs free.
    std::array<int32_t, kMaxTiers + 1> best{};
    best.fill(1'000);
    for (const uint8_t mask : legal) {
      SlotTable slots(tree, 1);
      for (int32_t h = 0; h < tree.hosts(); ++h) {
        slots.Set(h, (table.OnHost(h) & mask) == mask ? 1 : 0);
      }
      EqualTasksAnswer answer;
      solver.Solve(slots, request, answer);
      if (!answer.placed) continue;
      std::array<int32_t, kMaxTiers + 1> key{};
      std::reverse_copy(answer.domains.begin(), answer.domains.end(), key.begin());
      key[kMaxTiers] = answer.leaf_leftover;
      best = std::min(best, key);
    }
    ASSERT_EQ(got.placement.placed, best[0] < 1'000) << "seed " << seed;
    if (!got.placement.placed) continue;
    std::array<int32_t, kMaxTiers + 1> key{};
    std::reverse_copy(got.placement.domains.begin(), got.placement.domains.end(), key.begin());
    key[kMaxTiers] = got.placement.leaf_leftover;
    ASSERT_EQ(key, best) << "seed " << seed;
    for (const HostTasks& entry : got.placement.tasks) {
      ASSERT_EQ(table.OnHost(entry.host) & got.mask, got.mask);
      ASSERT_EQ(entry.tasks, 1);
    }
  }
}

// Four hosts of two leaves, two ranks each: data groups of four ranks, or pipelines of two.
TEST(RankOrder, KeepsTheHeavierTrafficInsideALeaf) {
  const DomainTree tree = *DomainTree::Create({{0, 2, 4}});
  const std::vector<HostTasks> slots = {{0, 2}, {1, 2}, {2, 2}, {3, 2}};
  GroupLayout layout{1, 4, 2, 0, 10, 1};
  const RankOrder data_heavy = OrderRanks(tree, slots, layout);
  EXPECT_EQ(data_heavy.cost, 4 * 1);  // four pipelines cross, no data group does
  EXPECT_EQ(data_heavy.crossings.data[1], 0);
  layout = {1, 4, 2, 0, 1, 10};
  const RankOrder pipeline_heavy = OrderRanks(tree, slots, layout);
  EXPECT_EQ(pipeline_heavy.cost, 2 * 1);  // both data groups cross, no pipeline does
  EXPECT_EQ(pipeline_heavy.crossings.pipeline[1], 0);
}

TEST(RankOrder, KeepsTensorGroupsOnAHostWhereOneHasRoom) {
  const DomainTree tree = *DomainTree::Create({{0, 2, 4}});
  const std::vector<HostTasks> slots = {{0, 3}, {1, 4}, {2, 1}};
  const RankOrder order = OrderRanks(tree, slots, {2, 4, 1, 100, 1, 1});
  EXPECT_EQ(order.crossings.tensor[0], 1);  // the odd ranks of hosts 0 and 2
}

TEST(RankOrder, IsAPermutationNoSwapImprovesAndCostsWhatItSays) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    const DomainTree tree = RandomTree(random);
    GroupLayout layout;
    layout.tensor = static_cast<int32_t>(1 + random.Below(2));
    layout.data = static_cast<int32_t>(1 + random.Below(6));
    layout.pipeline = static_cast<int32_t>(1 + random.Below(5));
    layout.tensor_volume = 1'000;
    layout.data_volume = static_cast<int64_t>(random.Below(20));
    layout.pipeline_volume = static_cast<int64_t>(random.Below(20));
    int32_t left = layout.tensor * layout.data * layout.pipeline;
    std::vector<HostTasks> slots;
    for (int32_t h = 0; h < tree.hosts() && left > 0; ++h) {
      const auto here = std::min(left, static_cast<int32_t>(random.Below(3)) * layout.tensor);
      if (here > 0) slots.push_back({h, here});
      left -= here;
    }
    if (left > 0) continue;
    const RankOrder order = OrderRanks(tree, slots, layout);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_EQ(order.cost, CrossingCost(tree, order.host_of_rank, layout));
    ASSERT_LE(order.cost, order.folded_cost);
    std::vector<int32_t> hosts = order.host_of_rank;
    std::sort(hosts.begin(), hosts.end());
    std::vector<int32_t> want;
    for (const HostTasks& entry : slots) {
      want.insert(want.end(), static_cast<size_t>(entry.tasks), entry.host);
    }
    ASSERT_EQ(hosts, want);
    const auto tensor = static_cast<size_t>(layout.tensor);
    for (size_t a = 0; a < hosts.size(); a += tensor) {
      for (size_t b = a + tensor; b < hosts.size(); b += tensor) {
        std::vector<int32_t> swapped = order.host_of_rank;
        std::swap_ranges(swapped.begin() + static_cast<ptrdiff_t>(a),
                         swapped.begin() + static_cast<ptrdiff_t>(a + tensor),
                         swapped.begin() + static_cast<ptrdiff_t>(b));
        ASSERT_LE(order.cost, CrossingCost(tree, swapped, layout));
      }
    }
  }
}

TEST(Spread, IsTheMostEvenOfAllDistributions) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::vector<int32_t> free(1 + random.Below(4));
    std::vector<int32_t> load(free.size());
    for (int32_t& f : free) f = static_cast<int32_t>(random.Below(5));
    for (int32_t& l : load) l = static_cast<int32_t>(random.Below(3));
    const auto tasks = static_cast<int32_t>(random.Below(9));
    const auto most = static_cast<int32_t>(1 + random.Below(4));
    const SpreadAnswer got = SpreadTasks(free, load, tasks, most);
    std::vector<int32_t> best = {1'000};
    std::vector<int32_t> given(free.size());
    const auto enumerate = [&](const auto& self, size_t d, int32_t left) -> void {
      if (d == free.size()) {
        if (left > 0) return;
        std::vector<int32_t> loads;
        for (size_t i = 0; i < free.size(); ++i) loads.push_back(load[i] + given[i]);
        std::sort(loads.rbegin(), loads.rend());
        best = std::min(best, loads);
        return;
      }
      for (int32_t n = 0; n <= std::min(left, free[d]); ++n) {
        if (n > 0 && load[d] + n > most) break;
        given[d] = n;
        self(self, d + 1, left - n);
      }
      given[d] = 0;
    };
    enumerate(enumerate, 0, tasks);
    ASSERT_EQ(got.placed, best.front() < 1'000) << "seed " << seed;
    if (!got.placed) continue;
    std::vector<int32_t> loads;
    for (size_t i = 0; i < free.size(); ++i) loads.push_back(load[i] + got.per_domain[i]);
    std::sort(loads.rbegin(), loads.rend());
    ASSERT_EQ(loads, best) << "seed " << seed;
  }
}

// The largest number that SpreadTasks places in any one domain of the required tier.
TEST(Spread, TheLargestIsWhatCanBePlaced) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<int32_t> leaves = {0};
    std::vector<int32_t> blocks = {0};
    for (uint64_t block = 0; block < 1 + random.Below(3); ++block) {
      for (uint64_t leaf = 0; leaf < 1 + random.Below(3); ++leaf) {
        leaves.push_back(leaves.back() + static_cast<int32_t>(1 + random.Below(3)));
      }
      blocks.push_back(static_cast<int32_t>(leaves.size()) - 1);
    }
    const auto tree = DomainTree::Create({leaves, blocks});
    ASSERT_TRUE(tree.ok()) << tree.status();
    SlotTable slots(*tree, 4);
    for (int32_t host = 0; host < tree->hosts(); ++host) {
      slots.Set(host, static_cast<int32_t>(random.Below(5)));
    }
    const auto most = static_cast<int32_t>(1 + random.Below(6));
    const auto fits = [&](int32_t first_leaf, int32_t last_leaf) {
      const auto free = slots.sums(kLeafTier).subspan(static_cast<size_t>(first_leaf),
                                                      static_cast<size_t>(last_leaf - first_leaf));
      const std::vector<int32_t> load(free.size());
      return SpreadTasks(free, load, 1'000, most).fits;
    };
    int32_t in_a_block = 0;
    for (int32_t block = 0; block < tree->domains(kBlockTier); ++block) {
      in_a_block = std::max(
          in_a_block, fits(tree->FirstLeaf(kBlockTier, block), tree->LastLeaf(kBlockTier, block)));
    }
    EXPECT_EQ(LargestSpread(slots, kBlockTier, kLeafTier, most), in_a_block);
    EXPECT_EQ(LargestSpread(slots, kClusterTier, kLeafTier, most), fits(0, tree->leaves()));
  }
}

TEST(ElasticCounts, GivesGpusWhereTheyAreWorthMost) {
  const std::vector<ElasticJob> jobs = {{{{1, 10}, {2, 18}, {4, 24}}},
                                        {{{1, 10}, {2, 19}, {4, 36}}}};
  const ElasticAnswer six = ChooseElasticCounts(jobs, 6);
  EXPECT_EQ(six.choices, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(six.value, 54);
  EXPECT_TRUE(six.proven);
  EXPECT_FALSE(ChooseElasticCounts(jobs, 1).feasible);
  // More GPUs never lower the value.
  int64_t last = 0;
  for (int64_t gpus = 2; gpus <= 9; ++gpus) {
    const int64_t value = ChooseElasticCounts(jobs, gpus).value;
    EXPECT_GE(value, last);
    last = value;
  }
}

// Worked by hand from the formulas of the header.
TEST(Goodput, FollowsTheFormulas) {
  const ThroughputModel model{0.1, 0.01, 0.2, 0.05, 0.5, 0.1, 1};
  EXPECT_NEAR(IterationSeconds(model, 1, 1, 10, 0), 0.2, 1e-12);
  EXPECT_NEAR(IterationSeconds(model, 4, 1, 10, 0), 0.2 + 0.3, 1e-12);
  EXPECT_NEAR(IterationSeconds(model, 4, 2, 10, 3), 3 * 0.2 + 0.2 + 0.7, 1e-12);
  ThroughputModel overlapped = model;
  overlapped.overlap = 2;
  EXPECT_NEAR(IterationSeconds(overlapped, 4, 2, 10, 0), std::sqrt(0.2 * 0.2 + 0.7 * 0.7), 1e-12);
  EXPECT_DOUBLE_EQ(StatisticalEfficiency(300, 100, 100), 1);
  EXPECT_DOUBLE_EQ(StatisticalEfficiency(300, 100, 500), 0.5);
  EXPECT_EQ(ElasticValue(ElasticAim::kSum, 1.5, false, 0, 0), 1'500'000);
  EXPECT_EQ(ElasticValue(ElasticAim::kSum, 1.5, true, 60, 30), 1'000'000);
  EXPECT_EQ(ElasticValue(ElasticAim::kHarmonicMean, 2, false, 0, 0), -500'000);
}

// Two leaves of four hosts in a block, a block of one leaf beside; a gang of three lost one task.
class RepairTest : public ::testing::Test {
 protected:
  RepairTest() : tree_(*DomainTree::Create({{0, 4, 8, 12}, {0, 2, 3}})), free_(tree_, 1) {
    problem_.survivors = survivors_;
    problem_.lost_tasks = 1;
    problem_.min_tasks = 2;
    problem_.gpus_a_task = 8;
    problem_.remaining_s = 3'600;
    problem_.restart_s = 30;
    problem_.move_s = 120;
    problem_.wait_s = 7'200;
    problem_.slowdown_ppm = {20'000, 50'000};
  }

  std::vector<RepairCandidate> Find(std::vector<int32_t> free_hosts, std::vector<uint8_t> spare) {
    SlotTable if_moved(tree_, 1);
    for (const int32_t host : free_hosts) free_.Set(host, 1), if_moved.Set(host, 1);
    for (const HostTasks& entry : survivors_) if_moved.Set(entry.host, 1);
    return FindRepairs(free_, spare, if_moved, problem_, solver_);
  }

  DomainTree tree_;
  SlotTable free_;
  std::vector<HostTasks> survivors_ = {{0, 1}, {1, 1}};
  RepairProblem problem_;
  EqualTasksSolver solver_;
};

TEST_F(RepairTest, PrefersTheLeafThenTheBlockThenAnotherBlock) {
  // 3 tasks x 8 GPUs x 30 s; a leaf more costs 2 % of an hour of 24 GPUs, a block more 5 % too.
  const int64_t restart = 3 * 8 * 30'000;
  const int64_t hour = 3 * 8 * 3'600'000;
  std::vector<RepairCandidate> ways = Find({2, 4, 8}, {});
  EXPECT_EQ(ways.front().way, RepairWay::kHostInLeaf);
  EXPECT_EQ(ways.front().cost_gpu_ms, restart);
  EXPECT_EQ(ways.front().added, (std::vector<HostTasks>{{2, 1}}));
  free_.Set(2, 0);
  ways = Find({4, 8}, {});
  EXPECT_EQ(ways.front().way, RepairWay::kHostInBlock);
  EXPECT_EQ(ways.front().cost_gpu_ms, restart + hour / 50);
  free_.Set(4, 0);
  ways = Find({8}, {});
  EXPECT_EQ(ways.front().way, RepairWay::kHostAnywhere);
  EXPECT_EQ(ways.front().cost_gpu_ms, restart + hour * 7 / 100);
}

TEST_F(RepairTest, MovesTheGangWhenThatPaysAndNeverBreaksTheRule) {
  problem_.remaining_s = 1'000'000;
  std::vector<RepairCandidate> ways = Find({8, 9, 10}, {});
  EXPECT_EQ(ways.front().way, RepairWay::kMoveGang);  // one leaf for the whole gang
  EXPECT_EQ(ways.front().added, (std::vector<HostTasks>{{8, 1}, {9, 1}, {10, 1}}));
  problem_.required_tier = kBlockTier;
  for (const RepairCandidate& way : Find({8, 9, 10}, {})) {
    EXPECT_NE(way.way, RepairWay::kHostAnywhere);
  }
}

TEST_F(RepairTest, ShrinksOrWaitsWhenNothingIsFree) {
  const std::vector<RepairCandidate> ways = Find({}, {});
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].way, RepairWay::kShrink);
  EXPECT_EQ(ways[0].tasks_after, 2);
  // Two tasks restart, and the third's GPUs are lost for the hour.
  EXPECT_EQ(ways[0].cost_gpu_ms, 2 * 8 * 30'000 + 8 * 3'600'000);
  EXPECT_EQ(ways[1].way, RepairWay::kWait);
  problem_.min_tasks = 3;
  EXPECT_EQ(Find({}, {}).front().way, RepairWay::kWait);
}

TEST_F(RepairTest, OffersASpareFirst) {
  std::vector<uint8_t> spare(12);
  spare[3] = 1;
  const std::vector<RepairCandidate> ways = Find({2, 3}, spare);
  EXPECT_EQ(ways[0].way, RepairWay::kSpareInLeaf);
  EXPECT_EQ(ways[0].added, (std::vector<HostTasks>{{3, 1}}));
  EXPECT_EQ(ways[1].way, RepairWay::kHostInLeaf);
}

TEST(UnlikeTasks, PlacesALeaderBesideItsWorkersInOneLeaf) {
  const DomainTree tree = *DomainTree::Create({{0, 2, 4}});
  // GPUs and cores; the first leaf has the GPUs, but no core for the leader.
  const std::vector<FreeHost> hosts = {{{8, 8}, 0}, {{8, 8}, 0}, {{8, 10}, 0}, {{8, 8}, 0}};
  const std::vector<TaskGroup> groups = {{{0, 2}, 1, 1, ~0u}, {{8, 8}, 2, 1, ~0u}};
  UnlikeTasksRequest request;
  request.groups = groups;
  for (const int64_t steps : {int64_t{1'000'000}, int64_t{0}}) {
    request.max_steps = steps;
    const UnlikeTasksAnswer answer = PlaceUnlikeTasks(tree, hosts, request);
    ASSERT_TRUE(answer.placed);
    if (steps > 0) {
      EXPECT_EQ(answer.domains[kLeafTier], 1);
      EXPECT_TRUE(answer.proven);
      ASSERT_EQ(answer.tasks.size(), 2u);
      EXPECT_EQ(answer.tasks[0].host, 2);
      EXPECT_EQ(answer.tasks[0].tasks[0], 1);
    } else {
      EXPECT_EQ(answer.bound[kLeafTier], 1);
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
