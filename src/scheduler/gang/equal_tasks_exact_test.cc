// Fewest switches against an integer program written from the definition, and metamorphic checks.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "scheduler/exact/ilp.h"
#include "scheduler/gang/equal_tasks.h"
#include "scheduler/gang/gang_cases.h"

namespace longhaul::scheduler {
namespace {

// What the program says: the least number of domains of each tier, hosts and leftover, one after
// the other.
struct Verdict {
  bool feasible = false;
  std::array<int64_t, kMaxTiers> domains{};
  int64_t hosts = 0;
  int64_t leftover = 0;
};

// Variables: tasks in each leaf, hosts used of each leaf and size, whether a domain is used.
class Model {
 public:
  Model(const SlotTable& slots, const EqualTasksRequest& request)
      : tree_(slots.tree()), sliced_(request.slice > 1) {
    for (int32_t leaf = 0; leaf < tree_.leaves(); ++leaf) AddLeaf(slots, request, leaf);
    for (Tier tier = 0; tier < tree_.tiers(); ++tier) AddTier(slots, request, tier);
    Ilp::Terms all;
    for (const int tasks : tasks_) all.push_back({tasks, 1});
    ilp_.AddEqual(all, request.tasks);
    if (request.required_tier == kHostTier) ilp_.AddEqual(hosts_, 1);
  }

  Verdict Solve() {
    Verdict verdict;
    for (Tier tier = tree_.tiers() - 1; tier >= 0; --tier) {
      const auto least = ilp_.MinimizeAndFix(used_[static_cast<size_t>(tier)]);
      if (!least) return verdict;
      verdict.domains[static_cast<size_t>(tier)] = *least;
    }
    verdict.hosts = *ilp_.MinimizeAndFix(hosts_);
    verdict.leftover = *ilp_.Minimize(free_slots_);
    verdict.feasible = true;
    return verdict;
  }

 private:
  void AddLeaf(const SlotTable& slots, const EqualTasksRequest& request, int32_t leaf) {
    const bool host_sliced = sliced_ && request.slice_tier == kHostTier;
    const int tasks = ilp_.AddInteger(0, slots.InLeaf(leaf));
    tasks_.push_back(tasks);
    if (host_sliced) {
      const int slices = ilp_.AddInteger(0, slots.InLeaf(leaf));
      ilp_.AddEqual({{tasks, 1}, {slices, -double(request.slice)}}, 0);
    }
    Ilp::Terms held = {{tasks, 1}};
    for (int32_t size = 1; size <= slots.max_slots(); ++size) {
      int32_t count = 0;
      for (int32_t h = tree_.First(0, leaf); h < tree_.Last(0, leaf); ++h) {
        if (slots.OnHost(h) == size) ++count;
      }
      if (count == 0) continue;
      const int used = ilp_.AddInteger(0, count);
      hosts_.push_back({used, 1});
      held.push_back({used, -double(host_sliced ? size - size % request.slice : size)});
    }
    ilp_.AddAtMost(held, 0);
  }

  void AddTier(const SlotTable& slots, const EqualTasksRequest& request, Tier tier) {
    Ilp::Terms used;
    for (int32_t domain = 0; domain < tree_.domains(tier); ++domain) {
      const int chosen = ilp_.AddInteger(0, 1);
      used.push_back({chosen, 1});
      Ilp::Terms inside;
      int32_t room = 0;
      int32_t whole_slices = 0;
      for (int32_t leaf = tree_.FirstLeaf(tier, domain); leaf < tree_.LastLeaf(tier, domain);
           ++leaf) {
        inside.push_back({tasks_[static_cast<size_t>(leaf)], 1});
        room += slots.InLeaf(leaf);
        for (int32_t h = tree_.First(0, leaf); h < tree_.Last(0, leaf); ++h) {
          whole_slices += slots.OnHost(h) / request.slice;
        }
      }
      Ilp::Terms linked = inside;
      linked.push_back({chosen, -double(room)});
      ilp_.AddAtMost(linked, 0);
      if (sliced_ && tier == request.slice_tier && tier < request.required_tier) {
        const int slices = ilp_.AddInteger(0, room);
        Ilp::Terms multiple = inside;
        multiple.push_back({slices, -double(request.slice)});
        ilp_.AddEqual(multiple, 0);
      }
      if (tier == kLeafTier) {
        int32_t counts = room;
        if (sliced_ && request.slice_tier < request.required_tier) {
          if (request.slice_tier == kHostTier) counts = whole_slices * request.slice;
          if (request.slice_tier == kLeafTier) counts = room - room % request.slice;
        }
        free_slots_.push_back({chosen, double(counts)});
      }
    }
    used_.push_back(used);
    if (tier == request.required_tier) ilp_.AddEqual(used, 1);
  }

  const DomainTree& tree_;
  bool sliced_;
  Ilp ilp_;
  std::vector<int> tasks_;  // [leaf]
  Ilp::Terms hosts_;
  Ilp::Terms free_slots_;
  std::vector<Ilp::Terms> used_;  // [tier]
};

struct Tally {
  int64_t cases = 0;
  int64_t placed = 0;
  int64_t several_leaves = 0;
  int64_t sliced = 0;
  int64_t hosts_unproven = 0;
  int64_t hosts_missed = 0;
  int64_t missed_with_slices_above_leaves = 0;
  int64_t leftover_unproven = 0;
  int64_t leftover_missed = 0;
};

void Compare(uint64_t seed, EqualTasksSolver& solver, Tally& tally) {
  Random random(seed);
  const DomainTree tree = RandomTree(random);
  SlotTable slots(tree, std::array<int32_t, 4>{1, 2, 4, 8}[random.Below(4)]);
  FillSlots(random, slots);
  const EqualTasksRequest request = RandomRequest(random, slots);
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + Describe(slots, request));
  EqualTasksAnswer answer;
  solver.Solve(slots, request, answer);
  const Verdict verdict = Model(slots, request).Solve();
  ASSERT_EQ(answer.placed, verdict.feasible);
  ++tally.cases;
  tally.sliced += request.slice > 1 ? 1 : 0;
  if (!answer.placed) return;
  ++tally.placed;
  tally.several_leaves += answer.domains[0] > 1 ? 1 : 0;
  ASSERT_EQ(Violation(slots, request, answer), "");
  for (Tier tier = 0; tier < tree.tiers(); ++tier) {
    const auto t = static_cast<size_t>(tier);
    ASSERT_EQ(answer.domains[t], verdict.domains[t]) << "tier " << tier;
  }
  ASSERT_GE(answer.hosts, verdict.hosts);
  ASSERT_LE(answer.hosts_bound, verdict.hosts);
  if (answer.hosts_proven) {
    ASSERT_EQ(answer.hosts, verdict.hosts);
  }
  tally.hosts_unproven += answer.hosts_proven ? 0 : 1;
  tally.hosts_missed += answer.hosts > verdict.hosts ? 1 : 0;
  if (answer.hosts > verdict.hosts && request.slice > 1 && request.slice_tier > kLeafTier) {
    ++tally.missed_with_slices_above_leaves;
  }
  if (answer.hosts == verdict.hosts) {
    ASSERT_GE(answer.leaf_leftover + request.tasks, verdict.leftover);
    const bool missed = answer.leaf_leftover + request.tasks > verdict.leftover;
    if (answer.leftover_proven) {
      ASSERT_FALSE(missed) << answer.leaf_leftover;
    }
    tally.leftover_missed += missed ? 1 : 0;
  }
  // In a hurry: domains are as exact, and what is said of the hosts still holds.
  EqualTasksRequest hurried = request;
  hurried.max_steps = static_cast<int64_t>(random.Below(3'000));
  EqualTasksAnswer rough;
  solver.Solve(slots, hurried, rough);
  ASSERT_EQ(Violation(slots, hurried, rough), "");
  ASSERT_EQ(rough.domains, answer.domains);
  ASSERT_LE(rough.hosts_bound, verdict.hosts);
  if (rough.hosts_proven) {
    ASSERT_EQ(rough.hosts, verdict.hosts);
  }
  tally.leftover_unproven += answer.leftover_proven ? 0 : 1;
}

TEST(EqualTasksExact, AgreesWithAnIntegerProgram) {
  if (!Ilp::Available())
    GTEST_SKIP() << "EXACT SOLVER ABSENT: install libglpk-dev; nothing was compared";
  EqualTasksSolver solver;
  Tally tally;
  const int64_t cases = ExactCases(150);
  for (int64_t i = 0; i < cases; ++i) {
    Compare(ExactSeed() + static_cast<uint64_t>(i), solver, tally);
    if (HasFatalFailure()) return;
  }
  std::cout << tally.cases << " cases, " << tally.placed << " placed, " << tally.several_leaves
            << " on several leaves, " << tally.sliced << " with slices; hosts unproven "
            << tally.hosts_unproven << ", missed " << tally.hosts_missed << " ("
            << tally.missed_with_slices_above_leaves
            << " with slices above leaves); leftover unproven " << tally.leftover_unproven
            << ", missed " << tally.leftover_missed << "\n";
  EXPECT_GT(tally.placed, tally.cases / 3);
  EXPECT_GT(tally.several_leaves, tally.cases / 10);
}

}  // namespace
}  // namespace longhaul::scheduler
