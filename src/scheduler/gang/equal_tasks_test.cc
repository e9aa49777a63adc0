#include "scheduler/gang/equal_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "scheduler/gang/gang_cases.h"

namespace longhaul::scheduler {
namespace {

// Two blocks of two leaves of four hosts.
DomainTree SmallTree() { return *DomainTree::Create({{0, 4, 8, 12, 16}, {0, 2, 4}}); }

SlotTable Filled(const DomainTree& tree, int32_t max_slots, const std::vector<int32_t>& slots) {
  SlotTable table(tree, max_slots);
  for (size_t h = 0; h < slots.size(); ++h) table.Set(static_cast<int32_t>(h), slots[h]);
  return table;
}

EqualTasksAnswer Solve(const SlotTable& slots, const EqualTasksRequest& request) {
  EqualTasksSolver solver;
  EqualTasksAnswer answer;
  solver.Solve(slots, request, answer);
  return answer;
}

EqualTasksRequest Tasks(int32_t tasks) {
  EqualTasksRequest request;
  request.tasks = tasks;
  return request;
}

TEST(DomainTree, RefusesBoundsThatAreNoIntervals) {
  const struct {
    std::vector<std::vector<int32_t>> bounds;
    std::string want;
  } kRows[] = {
      {{}, "needs a tier of leaves"},
      {{{0}}, "tier 0 has no domain"},
      {{{1, 4}}, "must start at 0, not at 1"},
      {{{0, 4, 4}}, "domain 1 is empty"},
      {{{0, 4, 8}, {0, 3}}, "tier 1 covers 3 of the 2 domains below"},
      {{{0, 70'000}}, "at most 65536 hosts"},
      {{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}}, "at most 4 tiers"},
  };
  for (const auto& row : kRows) {
    const auto tree = DomainTree::Create(row.bounds);
    ASSERT_FALSE(tree.ok());
    EXPECT_NE(tree.status().message().find(row.want), std::string::npos) << tree.status().message();
  }
}

TEST(SlotTable, SumsAndCountsFollowEveryChange) {
  Random random(3);
  const DomainTree tree = RandomTree(random);
  SlotTable slots(tree, 5);
  for (int i = 0; i < 500; ++i) {
    slots.Set(static_cast<int32_t>(random.Below(static_cast<uint64_t>(tree.hosts()))),
              static_cast<int32_t>(random.Below(6)));
  }
  int32_t total = 0;
  for (int32_t leaf = 0; leaf < tree.leaves(); ++leaf) {
    std::vector<int32_t> histogram(6);
    int32_t sum = 0;
    for (int32_t h = tree.First(0, leaf); h < tree.Last(0, leaf); ++h) {
      ++histogram[static_cast<size_t>(slots.OnHost(h))];
      sum += slots.OnHost(h);
    }
    EXPECT_EQ(slots.InLeaf(leaf), sum);
    EXPECT_TRUE(std::ranges::equal(slots.Histogram(leaf), histogram));
    total += sum;
  }
  EXPECT_EQ(slots.total(), total);
  const auto top = slots.sums(tree.tiers() - 1);
  EXPECT_EQ(std::accumulate(top.begin(), top.end(), 0), total);
}

// Slots a host, one row a leaf; worked by hand.
TEST(EqualTasks, ChoosesWhatTheTableSays) {
  const DomainTree tree = SmallTree();
  using Slots = std::vector<int32_t>;
  const struct {
    const char* why;
    Slots slots;
    int32_t tasks;
    std::vector<HostTasks> want;
  } kRows[] = {
      {"one host before two, the tighter leaf first",
       {8, 8, 8, 8, 0, 8, 0, 0, 8, 8, 0, 0, 4, 4, 0, 0},
       8,
       {{5, 8}}},
      {"one leaf before two, though two would leave nothing",
       {2, 2, 0, 0, 2, 2, 0, 0, 8, 8, 0, 0, 0, 0, 0, 0},
       8,
       {{8, 8}}},
      {"one block before two, though two would cross as many leaves",
       {4, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0},
       7,
       {{0, 4}, {4, 3}}},
      {"fewest hosts, then the least left on them",
       {8, 4, 8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       12,
       {{0, 8}, {1, 4}}},
      {"both blocks when one is too small",
       {4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 5, 0, 0, 0},
       12,
       {{0, 4}, {8, 1}, {9, 1}, {10, 1}, {12, 5}}},
      {"nothing when the cluster is too small", Slots(16, 1), 17, {}},
  };
  for (const auto& row : kRows) {
    const EqualTasksAnswer answer = Solve(Filled(tree, 8, row.slots), Tasks(row.tasks));
    EXPECT_EQ(answer.placed, !row.want.empty()) << row.why;
    EXPECT_EQ(answer.tasks, row.want) << row.why;
  }
}

TEST(EqualTasks, KeepsARequiredDomainAndSlices) {
  const DomainTree tree = SmallTree();
  const SlotTable slots = Filled(tree, 8, {3, 3, 0, 0, 3, 2, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0});
  EqualTasksRequest request = Tasks(8);
  EXPECT_EQ(Solve(slots, request).domains[kLeafTier], 2);
  request.required_tier = kLeafTier;
  EXPECT_FALSE(Solve(slots, request).placed);
  request.required_tier = kBlockTier;
  EXPECT_TRUE(Solve(slots, request).placed);
  // Slices of four in a leaf: each leaf of the first block takes one, as does each of the second.
  request.slice = 4;
  const EqualTasksAnswer sliced = Solve(slots, request);
  ASSERT_TRUE(sliced.placed);
  EXPECT_EQ(Violation(slots, request, sliced), "");
  request.slice_tier = kHostTier;  // in a host: the second block alone can
  EXPECT_EQ(Solve(slots, request).tasks, (std::vector<HostTasks>{{8, 4}, {12, 4}}));
  EXPECT_EQ(LargestGang(slots, kHostTier, 1, kLeafTier), 7);
  EXPECT_EQ(LargestGang(slots, kLeafTier, 1, kLeafTier), 7);
  EXPECT_EQ(LargestGang(slots, kBlockTier, 1, kLeafTier), 14);
  EXPECT_EQ(LargestGang(slots, kBlockTier, 4, kLeafTier), 8);
  EXPECT_EQ(LargestGang(slots, kClusterTier, 1, kLeafTier), 25);
}

TEST(EqualTasks, StaysInADomainAndPrefersTheSurvivorsDomains) {
  const DomainTree tree = SmallTree();
  const SlotTable slots = Filled(tree, 1, {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1});
  EqualTasksRequest request = Tasks(2);
  const std::vector<uint8_t> survivors = {1, 0, 0, 0};
  EXPECT_EQ(Solve(slots, request).tasks, (std::vector<HostTasks>{{14, 1}, {15, 1}}));
  request.free_of_charge = survivors;  // one in their leaf, and a leaf more of their block
  const EqualTasksAnswer answer = Solve(slots, request);
  EXPECT_EQ(answer.tasks, (std::vector<HostTasks>{{3, 1}, {4, 1}}));
  EXPECT_EQ(answer.domains[kLeafTier], 1);
  EXPECT_EQ(answer.domains[kBlockTier], 0);
  request = Tasks(5);
  request.within_tier = kBlockTier;
  request.within_domain = 1;
  EXPECT_EQ(Solve(slots, request).tasks,
            (std::vector<HostTasks>{{8, 1}, {9, 1}, {10, 1}, {11, 1}, {14, 1}}));
}

TEST(EqualTasks, SparesTheBlockWhoseHoleIsWorthMore) {
  const DomainTree tree = SmallTree();
  // Leaves of equal room in both blocks; the first block is otherwise whole.
  const SlotTable slots = Filled(tree, 1, {1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  EqualTasksRequest request = Tasks(2);
  EXPECT_EQ(Solve(slots, request).tasks, (std::vector<HostTasks>{{0, 1}, {1, 1}}));
  const std::vector<int64_t> six_hosts_are_worth_something = {0, 0, 0, 0, 0, 0, 100};
  request.holes.top = six_hosts_are_worth_something;
  EXPECT_EQ(Solve(slots, request).tasks, (std::vector<HostTasks>{{8, 1}, {9, 1}}));
}

// Every subset of leaves, from the definition: so the table is held even where GLPK is absent.
TEST(EqualTasks, AgreesWithFullEnumerationOfLeaves) {
  EqualTasksSolver solver;
  EqualTasksAnswer answer;
  int placed = 0;
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    Random random(seed);
    const DomainTree tree = RandomTree(random);
    if (tree.leaves() > 8 || tree.tiers() != 2) continue;
    SlotTable slots(tree, 4);
    FillSlots(random, slots);
    EqualTasksRequest request = RandomRequest(random, slots);
    request.slice = 1;
    request.required_tier = kClusterTier;
    std::array<int32_t, 3> best = {100, 100, 0};
    for (uint32_t set = 0; set < 1u << tree.leaves(); ++set) {
      int32_t sum = 0;
      uint32_t blocks = 0;
      for (int32_t leaf = 0; leaf < tree.leaves(); ++leaf) {
        if ((set >> leaf & 1) == 0) continue;
        sum += slots.InLeaf(leaf);
        blocks |= 1u << tree.DomainOf(kBlockTier, tree.First(kLeafTier, leaf));
      }
      if (sum < request.tasks) continue;
      best = std::min(best, {std::popcount(blocks), std::popcount(set), 0});
    }
    solver.Solve(slots, request, answer);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + Describe(slots, request));
    ASSERT_EQ(answer.placed, best[0] < 100);
    if (!answer.placed) continue;
    ++placed;
    ASSERT_EQ(Violation(slots, request, answer), "");
    ASSERT_EQ(answer.domains[kBlockTier], best[0]);
    ASSERT_EQ(answer.domains[kLeafTier], best[1]);
  }
  EXPECT_GT(placed, 100);
}

// The same hosts in another order of leaves inside their blocks, and an empty leaf more.
TEST(EqualTasks, RenumberingAndEmptyLeavesDontChangeTheOptimum) {
  EqualTasksSolver solver;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const int32_t leaves = static_cast<int32_t>(2 + random.Below(10));
    const int32_t half = static_cast<int32_t>(1 + random.Below(static_cast<uint64_t>(leaves - 1)));
    std::vector<std::vector<int32_t>> leaf_slots(static_cast<size_t>(leaves));
    for (auto& leaf : leaf_slots) {
      for (uint64_t i = 0; i <= random.Below(6); ++i) {
        leaf.push_back(static_cast<int32_t>(random.Below(5)));
      }
    }
    const auto solve = [&](bool reversed, bool empty_leaf) {
      std::vector<std::vector<int32_t>> order(leaf_slots.begin(), leaf_slots.end());
      if (reversed) {
        std::reverse(order.begin(), order.begin() + half);
        std::reverse(order.begin() + half, order.end());
        for (auto& leaf : order) std::reverse(leaf.begin(), leaf.end());
      }
      if (empty_leaf) order.push_back({0, 0});
      std::vector<int32_t> bounds = {0};
      std::vector<int32_t> slots;
      for (const auto& leaf : order) {
        slots.insert(slots.end(), leaf.begin(), leaf.end());
        bounds.push_back(static_cast<int32_t>(slots.size()));
      }
      const DomainTree tree =
          *DomainTree::Create({bounds, {0, half, static_cast<int32_t>(order.size())}});
      const SlotTable table = Filled(tree, 4, slots);
      EqualTasksAnswer answer;
      solver.Solve(table, Tasks(1 + static_cast<int32_t>(seed % 17)), answer);
      return std::array<int32_t, 5>{answer.placed ? 1 : 0, answer.domains[1], answer.domains[0],
                                    answer.hosts, answer.leaf_leftover};
    };
    const auto plain = solve(false, false);
    ASSERT_EQ(plain, solve(true, false)) << "seed " << seed;
    ASSERT_EQ(plain, solve(false, true)) << "seed " << seed;
  }
}

TEST(EqualTasks, SaysWhenAStepLimitLeftItUnproven) {
  Random random(9);
  std::vector<int32_t> bounds = {0};
  for (int leaf = 0; leaf < 24; ++leaf) bounds.push_back(bounds.back() + 8);
  const DomainTree tree = *DomainTree::Create({bounds});
  SlotTable slots(tree, 8);
  for (int32_t h = 0; h < tree.hosts(); ++h) slots.Set(h, static_cast<int32_t>(random.Below(9)));
  EqualTasksRequest request = Tasks(slots.total() / 2);
  request.max_steps = 1;
  const EqualTasksAnswer limited = Solve(slots, request);
  request.max_steps = 10'000'000;
  const EqualTasksAnswer full = Solve(slots, request);
  EXPECT_EQ(limited.domains, full.domains);
  EXPECT_FALSE(limited.leftover_proven);
  EXPECT_TRUE(full.leftover_proven && full.hosts_proven);
  EXPECT_LE(limited.hosts_bound, full.hosts);
  EXPECT_GE(limited.hosts, full.hosts);
  EXPECT_EQ(Violation(slots, request, limited), "");
}

}  // namespace
}  // namespace longhaul::scheduler
