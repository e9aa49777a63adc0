#include "scheduler/share/queue_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/random.h"

namespace longhaul::scheduler::share {
namespace {

using ::testing::HasSubstr;

SharedAmounts Gpus(int64_t gpus) { return {{gpus * 1000, 0, 0}}; }

spec::QueueSpec Queue(const std::string& name, const std::string& parent, int64_t guarantee) {
  spec::QueueSpec queue;
  queue.name = name;
  queue.parent = parent;
  queue.guarantee = Gpus(guarantee);
  return queue;
}

SharedAmounts GpuLimit(int64_t gpus) {
  SharedAmounts limit = spec::kUnlimitedAmounts;
  limit[0] = gpus * 1000;
  return limit;
}

TEST(QueueTree, RefusesGuaranteesBeyondTheCluster) {
  const auto tree = QueueTree::Create({Queue("a", "", 6), Queue("b", "", 5)}, Gpus(10));
  ASSERT_FALSE(tree.ok());
  EXPECT_THAT(
      tree.status().message(),
      HasSubstr("queue 'b': with its guarantee of 5 accelerators the queues are promised 11 "
                "accelerators, but the cluster has 10 accelerators"));
}

TEST(QueueTree, AddsUsageUpToTheRoot) {
  auto tree =
      *QueueTree::Create({Queue("a", "", 6), Queue("x", "a", 2), Queue("b", "", 2)}, Gpus(10));
  tree.Add({tree.Find("x"), Gpus(3)});
  tree.Add({tree.Find("a"), Gpus(1)});
  tree.Add({tree.Find("b"), Gpus(1)});
  EXPECT_EQ(tree.usage(tree.Find("a")), Gpus(4));
  EXPECT_EQ(tree.usage(kRootQueue), Gpus(5));
  tree.Remove({tree.Find("x"), Gpus(3)});
  EXPECT_EQ(tree.usage(kRootQueue), Gpus(2));
  EXPECT_TRUE(tree.CheckInvariants().ok());
}

TEST(QueueTree, HoldsTheLimitsOfEachUserInEveryQueueAbove) {
  auto specs = std::vector{Queue("a", "", 0), Queue("x", "a", 0), Queue("y", "a", 0)};
  specs[0].per_user.amounts = GpuLimit(4);
  specs[0].per_user.running = 2;
  auto tree = *QueueTree::Create(specs, Gpus(100));
  const QueueIndex x = tree.Find("x");
  const QueueIndex y = tree.Find("y");
  tree.Add({x, Gpus(3), "u", 1});
  EXPECT_FALSE(tree.Check({y, Gpus(1), "u", 1}).has_value());
  const QuotaBlock amount{QuotaBlock::Kind::kUser, tree.Find("a"), 0, 3'000, 2'000, 4'000, "u"};
  EXPECT_EQ(tree.Check({y, Gpus(2), "u", 1}), amount);
  EXPECT_FALSE(tree.Check({y, Gpus(4), "v", 1}).has_value()) << "another user's";
  tree.Add({y, Gpus(1), "u", 1});
  const QuotaBlock jobs{QuotaBlock::Kind::kUserRunning, tree.Find("a"), 0, 2, 1, 2, "u"};
  EXPECT_EQ(tree.Check({y, {}, "u", 1}), jobs);
  EXPECT_FALSE(tree.Check({y, {}, "u", 0}).has_value()) << "a running job's part is no job";
  EXPECT_TRUE(tree.users(x).empty()) << "where nothing is limited";
  EXPECT_EQ(tree.users(tree.Find("a")).find("u")->second, (UserUsage{Gpus(4), 2}));
  EXPECT_TRUE(tree.CheckInvariants().ok());
  tree.Remove({x, Gpus(3), "u", 1});
  tree.Remove({y, Gpus(1), "u", 1});
  EXPECT_TRUE(tree.users(tree.Find("a")).empty());
}

TEST(QueueTree, TakesTheLeastRunTimeAbove) {
  auto specs = std::vector{Queue("a", "", 0), Queue("x", "a", 0), Queue("y", "x", 0)};
  specs[0].max_run_time = std::chrono::hours(3);
  specs[1].max_run_time = std::chrono::hours(5);
  specs[2].max_run_time = std::chrono::hours(2);
  const auto tree = *QueueTree::Create(specs, Gpus(10));
  EXPECT_EQ(tree.max_run_time(tree.Find("x")), std::chrono::hours(3));
  EXPECT_EQ(tree.max_run_time(tree.Find("y")), std::chrono::hours(2));
  EXPECT_FALSE(tree.max_run_time(kRootQueue).has_value());
}

TEST(QueueTree, HoldsTheLimitsOfEveryQueueAbove) {
  auto specs = std::vector{Queue("a", "", 2), Queue("x", "a", 0), Queue("y", "a", 0)};
  specs[0].limit = GpuLimit(4);
  auto tree = *QueueTree::Create(specs, Gpus(10));
  tree.Add({tree.Find("x"), Gpus(3)});
  EXPECT_FALSE(tree.Check({tree.Find("y"), Gpus(1)}).has_value());
  const QuotaBlock want = {QuotaBlock::Kind::kLimit, tree.Find("a"), 0, 3000, 2000, 4000};
  EXPECT_EQ(tree.Check({tree.Find("y"), Gpus(2)}), want);
}

// b lends nothing of its 4, so a may use 6 of the 10; what b doesn't use stays its own.
TEST(QueueTree, BorrowsOnlyWhatSiblingsLend) {
  auto specs = std::vector{Queue("a", "", 2), Queue("b", "", 4)};
  specs[1].lend = {};
  auto tree = *QueueTree::Create(specs, Gpus(10));
  EXPECT_FALSE(tree.Check({tree.Find("a"), Gpus(6)}).has_value());
  const auto block = tree.Check({tree.Find("a"), Gpus(7)});
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->kind, QuotaBlock::Kind::kLending);
  EXPECT_EQ(block->queue, kRootQueue);
  EXPECT_EQ(block->bound, 10'000);
  tree.Add({tree.Find("b"), Gpus(4)});  // now it uses what it kept: nothing changes for a
  EXPECT_FALSE(tree.Check({tree.Find("a"), Gpus(6)}).has_value());
  EXPECT_TRUE(tree.Check({tree.Find("a"), Gpus(7)}).has_value());
}

TEST(QueueTree, AdmitsWithinAGuaranteeThatOthersBorrowed) {
  auto tree = *QueueTree::Create({Queue("a", "", 6), Queue("b", "", 4)}, Gpus(10));
  tree.Add({tree.Find("b"), Gpus(10)});
  EXPECT_FALSE(tree.Check({tree.Find("a"), Gpus(6)}).has_value());
  EXPECT_TRUE(tree.Check({tree.Find("a"), Gpus(7)}).has_value());
}

TEST(QueueTree, TakesBackOnlyWhatWasBorrowed) {
  auto tree =
      *QueueTree::Create({Queue("a", "", 6), Queue("b", "", 4), Queue("x", "b", 2)}, Gpus(10));
  const QueueIndex a = tree.Find("a");
  const QueueIndex b = tree.Find("b");
  const QueueIndex x = tree.Find("x");
  tree.Add({b, Gpus(6)});
  tree.Add({x, Gpus(2)});
  EXPECT_TRUE(tree.MayReclaim(a, Gpus(6), b, Gpus(4)));
  EXPECT_FALSE(tree.MayReclaim(a, Gpus(6), b, Gpus(5))) << "b would fall below 4";
  EXPECT_FALSE(tree.MayReclaim(a, Gpus(7), b, Gpus(1))) << "a has no claim to 7";
  EXPECT_FALSE(tree.MayReclaim(a, Gpus(6), x, Gpus(1))) << "x borrows nothing itself";
  EXPECT_FALSE(tree.MayReclaim(x, Gpus(1), b, Gpus(1))) << "b lies above x";
  EXPECT_EQ(tree.ExcessShare(b), 400);
}

// Claims worked out from their definition, for every queue, at every step of a random history.
TEST(QueueTree, AgreesWithTheDefinitionOverRandomHistories) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    std::vector<spec::QueueSpec> specs;
    const size_t queues = 1 + rng.Below(7);
    for (size_t i = 0; i < queues; ++i) {
      const size_t parent = rng.Below(i + 1);
      specs.push_back(Queue("q" + std::to_string(i),
                            parent == i ? "" : "q" + std::to_string(parent),
                            static_cast<int64_t>(rng.Below(5))));
      if (rng.Below(3) == 0) specs.back().lend = Gpus(static_cast<int64_t>(rng.Below(3)));
    }
    auto made = QueueTree::Create(specs, Gpus(12));
    if (!made.ok()) continue;
    QueueTree& tree = *made;
    std::vector<int64_t> own(queues + 1);
    const std::function<int64_t(QueueIndex)> claim = [&](QueueIndex q) {
      int64_t sum = own[static_cast<size_t>(q)];
      for (const QueueIndex child : tree.children(q)) sum += claim(child);
      if (q == kRootQueue) return sum;
      const auto& spec = specs[static_cast<size_t>(q) - 1];
      return std::max({sum, spec.guarantee[0] - spec.lend[0], int64_t{0}});
    };
    // Lent: a node from here to the root keeps the sum of its claims within its guarantee.
    const auto lent = [&](QueueIndex q) {
      for (QueueIndex up = q; up != kNoQueue; up = tree.parent(up)) {
        int64_t sum = own[static_cast<size_t>(up)];
        for (const QueueIndex child : tree.children(up)) sum += claim(child);
        if (sum <= tree.guarantee(up)[0]) return true;
      }
      return false;
    };
    for (int step = 0; step < 40; ++step) {
      const auto q = static_cast<QueueIndex>(1 + rng.Below(queues));
      int64_t& used = own[static_cast<size_t>(q)];
      if (rng.Below(3) == 0 && used > 0) {
        tree.Remove({q, {{used, 0, 0}}});
        used = 0;
      } else {
        const int64_t asked = 1000 * static_cast<int64_t>(1 + rng.Below(4));
        used += asked;
        const bool want = lent(q);
        used -= asked;
        ASSERT_EQ(!tree.Check({q, {{asked, 0, 0}}}).has_value(), want);
        if (want) {
          tree.Add({q, {{asked, 0, 0}}});
          used += asked;
        }
      }
      ASSERT_TRUE(tree.CheckInvariants().ok()) << tree.CheckInvariants();
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler::share
