#include "scheduler/share/fair_order.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longhaul::scheduler::share {
namespace {

spec::QueueSpec Queue(const std::string& name, const std::string& parent, int64_t guarantee,
                      uint32_t weight = 1) {
  spec::QueueSpec queue;
  queue.name = name;
  queue.parent = parent;
  queue.guarantee[0] = guarantee;
  queue.weight = weight;
  return queue;
}

// With what each queue used recently.
FairOrder WithUse(const QueueTree& tree, const std::vector<char>& open,
                  const std::vector<int64_t>& used) {
  return FairOrder(tree, open,
                   [used](QueueIndex queue) { return used[static_cast<size_t>(queue)]; });
}

FairOrder AllOpen(const QueueTree& tree) {
  std::vector<char> open(tree.size(), 1);
  open[0] = 0;
  for (size_t q = 0; q < tree.size(); ++q) {
    if (!tree.children(static_cast<QueueIndex>(q)).empty()) open[q] = 0;
  }
  return FairOrder(tree, open, [](QueueIndex) { return 0; });
}

TEST(FairOrder, ServesQueuesBelowTheirGuaranteeFirstByExactFraction) {
  auto tree =
      *QueueTree::Create({Queue("a", "", 3), Queue("b", "", 7), Queue("c", "", 0)}, {{20, 0, 0}});
  tree.Add({1, {{2, 0, 0}}});  // 2/3
  tree.Add({2, {{4, 0, 0}}});  // 4/7 is less
  EXPECT_EQ(AllOpen(tree).Next(), 2);
  tree.Add({2, {{3, 0, 0}}});
  EXPECT_EQ(AllOpen(tree).Next(), 1);
  tree.Add({1, {{1, 0, 0}}});
  EXPECT_EQ(AllOpen(tree).Next(), 3) << "nobody holds anything beyond: the least share";
  tree.Add({3, {{1, 0, 0}}});
  EXPECT_EQ(AllOpen(tree).Next(), 1);
}

TEST(FairOrder, DividesWhatWasUsedOverTimeByWeight) {
  auto tree = *QueueTree::Create({Queue("a", "", 0, 2), Queue("b", "", 0, 1)}, {{300, 0, 0}});
  tree.Add({1, {{1, 0, 0}}});
  const std::vector<char> open = {0, 1, 1};
  const auto next = [&](int64_t used_a, int64_t used_b, FairShare share) {
    const std::vector<int64_t> used = {0, used_a, used_b};
    const auto decayed = [&used](QueueIndex queue) { return used[static_cast<size_t>(queue)]; };
    return FairOrder(tree, open, decayed, share).Next();
  };
  EXPECT_EQ(next(199, 100, FairShare::kHistory), 1);
  EXPECT_EQ(next(201, 100, FairShare::kHistory), 2);
  EXPECT_EQ(next(200, 100, FairShare::kHistory), 2)
      << "what they hold decides where they are equal";
  EXPECT_EQ(next(199, 100, FairShare::kPresent), 2);
}

TEST(FairOrder, GuaranteesComeBeforeWhatWasUsedOverTime) {
  auto tree = *QueueTree::Create({Queue("a", "", 3), Queue("b", "", 0)}, {{20, 0, 0}});
  const std::vector<int64_t> used = {0, 1'000, 0};
  const auto decayed = [&used](QueueIndex queue) { return used[static_cast<size_t>(queue)]; };
  const std::vector<char> open = {0, 1, 1};
  EXPECT_EQ(FairOrder(tree, open, decayed, FairShare::kHistory).Next(), 1);
  tree.Add({1, {{3, 0, 0}}});
  EXPECT_EQ(FairOrder(tree, open, decayed, FairShare::kHistory).Next(), 2);
}

TEST(FairOrder, DividesTheRestByWeight) {
  auto tree = *QueueTree::Create({Queue("a", "", 0, 2), Queue("b", "", 0, 1)}, {{300, 0, 0}});
  FairOrder order = AllOpen(tree);
  std::map<QueueIndex, int> turns;
  for (int i = 0; i < 300; ++i) {
    const QueueIndex next = order.Next();
    ++turns[next];
    tree.Add({next, {{1, 0, 0}}});
    order.Refresh(next);
  }
  EXPECT_EQ(turns[1], 200);
  EXPECT_EQ(turns[2], 100);
}

// Bhattacharya et al., section 4: with plain sums a2, who needs the other resource, would wait
// behind b for what its sibling a1 holds.
TEST(FairOrder, DoesNotStarveALeafForWhatItsSiblingHolds) {
  auto tree = *QueueTree::Create(
      {Queue("a", "", 0), Queue("b", "", 0), Queue("a1", "a", 0), Queue("a2", "a", 0)},
      {{10, 10, 0}});
  tree.Add({tree.Find("a1"), {{6, 0, 0}}});
  tree.Add({tree.Find("b"), {{4, 0, 0}}});
  FairOrder order = AllOpen(tree);
  EXPECT_EQ(order.Next(), tree.Find("a2"));
  EXPECT_EQ(order.Share(tree.Find("a")), 0);
  // Once a2 wants nothing more, it is left out of the least share.
  order.Close(tree.Find("a2"));
  EXPECT_EQ(order.Next(), tree.Find("b"));
  EXPECT_EQ(order.Share(tree.Find("a")), (int64_t{6} << 32) / 10);
}

TEST(FairOrder, RescalesChildrenToTheLeastOpenShare) {
  auto tree = *QueueTree::Create({Queue("a", "", 0), Queue("a1", "a", 0), Queue("a2", "a", 0)},
                                 {{10, 10, 0}});
  tree.Add({tree.Find("a1"), {{8, 0, 0}}});
  tree.Add({tree.Find("a2"), {{0, 2, 0}}});
  // a1 is scaled from 0.8 to 0.2 of the GPUs, so a holds (0.2, 0.2) and its share is 0.2.
  EXPECT_NEAR(static_cast<double>(AllOpen(tree).Share(tree.Find("a"))), 0.2 * 0x1p32, 0x1p31 / 4);
}

TEST(FairOrder, BreaksTiesByWhatWasUsedOfLateThenByIndex) {
  auto tree = *QueueTree::Create({Queue("a", "", 0), Queue("b", "", 0)}, {{10, 0, 0}});
  EXPECT_EQ(WithUse(tree, {0, 1, 1}, {0, 5, 4}).Next(), 2);
  EXPECT_EQ(WithUse(tree, {0, 1, 1}, {0, 5, 5}).Next(), 1);
}

TEST(FairOrder, AsksForUseOfLateOnlyWhereSharesAreEqual) {
  auto tree = *QueueTree::Create({Queue("a", "", 0), Queue("b", "", 0)}, {{100, 0, 0}});
  int asked = 0;
  const auto count = [&asked](QueueIndex) { return int64_t{++asked}; };
  EXPECT_EQ(FairOrder(tree, std::vector<char>{0, 0, 1}, count).Next(), 2);
  tree.Add({1, {{1, 0, 0}}});
  EXPECT_EQ(FairOrder(tree, std::vector<char>{0, 1, 1}, count).Next(), 2);
  EXPECT_EQ(asked, 0);
}

TEST(FairOrder, EndsWhenNobodyIsOpen) {
  auto tree = *QueueTree::Create({Queue("a", "", 0), Queue("x", "a", 0)}, {{10, 0, 0}});
  FairOrder order = WithUse(tree, {0, 1, 1}, {0, 0, 0});
  EXPECT_EQ(order.Next(), 2);
  order.Close(2);
  EXPECT_EQ(order.Next(), 1);
  order.Close(1);
  EXPECT_EQ(order.Next(), kNoQueue);
}

}  // namespace
}  // namespace longhaul::scheduler::share
