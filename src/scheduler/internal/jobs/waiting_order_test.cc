#include "scheduler/internal/jobs/waiting_order.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <vector>

#include "base/random.h"

namespace longhaul::scheduler::internal {
namespace {

using Job = WaitingOrder::Job;

Instant At(int64_t seconds) { return InstantFromNanoseconds(seconds * 1'000'000'000); }

TEST(WaitingOrder, AnswersAsAnOrderedSetDoes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    WaitingOrder order;
    std::set<Job> expected;
    std::set<Job> started;
    uint64_t number = 0;
    for (int step = 0; step < 3'000; ++step) {
      if (!expected.empty() && random.Below(2) == 0) {
        // Old jobs, and often the newest one.
        const auto job =
            random.Below(2) == 0
                ? std::prev(expected.end())
                : std::next(expected.begin(),
                            static_cast<std::ptrdiff_t>(random.Below(expected.size())));
        started.insert(*job);
        order.Remove(*job);
        expected.erase(job);
      } else if (!started.empty() && random.Below(4) == 0) {
        const Job job = *started.begin();
        started.erase(started.begin());
        order.Add(job);
        expected.insert(job);
      } else {
        ++number;
        // A job that is taken over was submitted earlier.
        const int64_t submitted =
            random.Below(20) == 0 ? static_cast<int64_t>(random.Below(100)) : step;
        order.Add({At(submitted), number});
        expected.insert({At(submitted), number});
      }
      ASSERT_EQ(order.size(), expected.size());
      ASSERT_EQ(order.empty(), expected.empty());
      ASSERT_EQ(order.First().has_value(), !expected.empty());
      if (!expected.empty()) {
        ASSERT_EQ(*order.First(), *expected.begin());
      }
      const Instant instant =
          At(static_cast<int64_t>(random.Below(static_cast<uint64_t>(step) + 2)));
      const auto after = expected.upper_bound({instant, ~uint64_t{0}});
      ASSERT_EQ(order.FirstAfter(instant).has_value(), after != expected.end());
      if (after != expected.end()) {
        ASSERT_EQ(*order.FirstAfter(instant), *after);
      }
      const Instant until = instant + std::chrono::seconds(random.Below(300));
      const std::vector<Job> between(after, expected.upper_bound({until, ~uint64_t{0}}));
      ASSERT_EQ(order.Between(instant, until), between);
    }
  }
}

TEST(WaitingOrderDeathTest, AJobIsNeitherAddedTwiceNorRemovedTwice) {
  WaitingOrder order;
  order.Add({At(1), 1});
  order.Add({At(2), 2});
  EXPECT_DEATH(order.Add({At(1), 1}), "added twice");
  EXPECT_DEATH(order.Add({At(2), 2}), "added twice");
  order.Remove({At(1), 1});
  EXPECT_DEATH(order.Remove({At(1), 1}), "does not wait");
}

}  // namespace
}  // namespace longhaul::scheduler::internal
