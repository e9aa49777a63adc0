#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler {
namespace {

const Lands kAlways = [](int32_t, std::span<const Victim>) { return true; };

// A domain from its slots, each with the pieces that hold it.
VictimDomain Domain(int32_t id, int32_t need, const std::vector<std::vector<int32_t>>& slots) {
  VictimDomain domain;
  domain.id = id;
  domain.need = need;
  domain.first_holder.push_back(0);
  for (const auto& holders : slots) {
    domain.holders.insert(domain.holders.end(), holders.begin(), holders.end());
    domain.first_holder.push_back(static_cast<int32_t>(domain.holders.size()));
  }
  return domain;
}

std::vector<int32_t> Jobs(const VictimAnswer& answer) {
  std::vector<int32_t> jobs;
  for (const Victim& victim : answer.victims) jobs.push_back(victim.job);
  return jobs;
}

TEST(Victims, StopsOneJobOfTwoSlotsBeforeTwoOfOne) {
  const std::vector<VictimJob> jobs = {{10}, {12}, {15}};
  const std::vector<VictimPiece> pieces = {{0}, {1}, {2}};
  const std::vector<VictimDomain> domains = {Domain(0, 2, {{0}, {1}, {2}, {2}})};
  const VictimAnswer answer = FindVictims(jobs, pieces, domains, kAlways);
  EXPECT_EQ(Jobs(answer), std::vector<int32_t>{2});
  EXPECT_EQ(answer.cost, 15);
  EXPECT_TRUE(answer.proven);
}

TEST(Victims, ASlotIsFreeOnlyWhenAllItsHoldersAreGone) {
  const std::vector<VictimJob> jobs = {{1}, {1}, {5}};
  const std::vector<VictimPiece> pieces = {{0}, {1}, {2}};
  // Jobs 0 and 1 share two slots: both go for less than job 2 does for one.
  const std::vector<VictimDomain> domains = {Domain(0, 2, {{0, 1}, {0, 1}, {2}})};
  const VictimAnswer answer = FindVictims(jobs, pieces, domains, kAlways);
  EXPECT_EQ(Jobs(answer), (std::vector<int32_t>{0, 1}));
}

TEST(Victims, ShrinksBeforeItStops) {
  const std::vector<VictimJob> jobs = {{100, Means::kMove, 2}, {60, Means::kEvict}};
  const std::vector<VictimPiece> pieces = {{0, 20}, {0, 25}, {0, 22}, {1}};
  std::vector<VictimDomain> domains = {Domain(0, 2, {{0}, {1}, {2}, {3}})};
  VictimAnswer answer = FindVictims(jobs, pieces, domains, kAlways);
  ASSERT_EQ(Jobs(answer), std::vector<int32_t>{0});
  EXPECT_EQ(answer.victims[0].means, Means::kShrink);
  EXPECT_EQ(answer.victims[0].pieces, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(answer.cost, 42);
  domains[0].need = 3;  // it may lose two pieces only: moving it costs less than 42 + 60
  answer = FindVictims(jobs, pieces, domains, kAlways);
  EXPECT_EQ(answer.victims[0].means, Means::kMove);
  EXPECT_TRUE(answer.victims[0].pieces.empty());
  EXPECT_EQ(answer.cost, 100);
}

TEST(Victims, TakesTheCheapestDomainAndTheLowerIdOfEqualOnes) {
  const std::vector<VictimJob> jobs = {{9}, {7}, {7}};
  const std::vector<VictimPiece> pieces = {{0}, {1}, {2}};
  const std::vector<VictimDomain> domains = {Domain(4, 1, {{0}}), Domain(6, 1, {{1}}),
                                             Domain(5, 1, {{2}})};
  EXPECT_EQ(FindVictims(jobs, pieces, domains, kAlways).domain, 2);
}

TEST(Victims, NobodyIsAVictimForAGangThatDoesNotLand) {
  const std::vector<VictimJob> jobs = {{1}, {2}};
  const std::vector<VictimPiece> pieces = {{0}, {1}};
  const std::vector<VictimDomain> domains = {Domain(0, 1, {{0}, {1}})};
  const Lands never = [](int32_t, std::span<const Victim>) { return false; };
  const VictimAnswer answer = FindVictims(jobs, pieces, domains, never);
  EXPECT_FALSE(answer.found);
  EXPECT_TRUE(answer.proven);
  // The cheaper slot is of no use: the next best set is found.
  const Lands second = [](int32_t, std::span<const Victim> victims) {
    return std::any_of(victims.begin(), victims.end(), [](const Victim& v) { return v.job == 1; });
  };
  const VictimAnswer next = FindVictims(jobs, pieces, domains, second);
  EXPECT_EQ(Jobs(next), std::vector<int32_t>{1});
  EXPECT_TRUE(next.proven);
  EXPECT_FALSE(FindVictims(jobs, pieces, std::vector{Domain(0, 3, {{0}, {1}})}, kAlways).found);
}

TEST(Victims, ReprieveSparesWhoIsNotNeeded) {
  const std::vector<VictimJob> jobs = {{5}, {9}, {3}};
  const std::vector<VictimPiece> pieces = {{0}, {1}, {2}};
  const VictimDomain domain = Domain(0, 1, {{0}, {1}, {2}});
  VictimAnswer answer;
  answer.cost = 17;  // and a bound of 0: not known to be the cheapest
  for (int32_t job = 0; job < 3; ++job) answer.victims.push_back({job, Means::kEvict, {}});
  Reprieve(jobs, pieces, domain, 0, kAlways, answer);
  EXPECT_EQ(Jobs(answer), std::vector<int32_t>{2});
  EXPECT_EQ(answer.cost, 3);
}

TEST(Victims, SaysWhenTheStepLimitLeftAGap) {
  Random random(5);
  std::vector<VictimJob> jobs(40);
  std::vector<VictimPiece> pieces(40);
  for (int32_t j = 0; j < 40; ++j) {
    jobs[static_cast<size_t>(j)].cost = static_cast<int64_t>(50 + random.Below(100));
    pieces[static_cast<size_t>(j)].job = j;
  }
  std::vector<std::vector<int32_t>> slots(30);
  for (auto& holders : slots) {
    std::set<int32_t> of_slot;
    while (of_slot.size() < 3) of_slot.insert(static_cast<int32_t>(random.Below(40)));
    holders.assign(of_slot.begin(), of_slot.end());
  }
  const std::vector<VictimDomain> domains = {Domain(0, 10, slots)};
  const VictimAnswer full = FindVictims(jobs, pieces, domains, kAlways);
  ASSERT_TRUE(full.proven);
  const VictimAnswer limited = FindVictims(jobs, pieces, domains, kAlways, {3'000, 100});
  if (limited.found) {
    EXPECT_GE(limited.cost, full.cost);
  }
  EXPECT_FALSE(limited.proven);
  EXPECT_LE(limited.bound, full.cost);
}

// Renumbered jobs cost the same; a victim more or a lower price never makes it dearer; no victim of
// an answer could be spared alone.
TEST(Victims, RenumberingAndMoreChoiceNeverCostMore) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto count = static_cast<int32_t>(2 + random.Below(10));
    std::vector<VictimJob> jobs(static_cast<size_t>(count));
    std::vector<VictimPiece> pieces(jobs.size());
    for (int32_t j = 0; j < count; ++j) {
      jobs[static_cast<size_t>(j)].cost = static_cast<int64_t>(random.Below(50));
      pieces[static_cast<size_t>(j)].job = j;
    }
    std::vector<std::vector<int32_t>> slots(1 + random.Below(8));
    for (auto& holders : slots) {
      std::set<int32_t> of_slot;
      for (uint64_t i = 0; i <= random.Below(3); ++i) {
        of_slot.insert(static_cast<int32_t>(random.Below(static_cast<uint64_t>(count))));
      }
      holders.assign(of_slot.begin(), of_slot.end());
    }
    const auto need = static_cast<int32_t>(1 + random.Below(slots.size()));
    const VictimAnswer plain =
        FindVictims(jobs, pieces, std::vector{Domain(0, need, slots)}, kAlways);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_TRUE(plain.found && plain.proven);
    std::vector<VictimJob> mirrored(jobs.rbegin(), jobs.rend());
    std::vector<std::vector<int32_t>> mirrored_slots(slots.rbegin(), slots.rend());
    for (auto& holders : mirrored_slots) {
      for (int32_t& piece : holders) piece = count - 1 - piece;
    }
    ASSERT_EQ(
        FindVictims(mirrored, pieces, std::vector{Domain(0, need, mirrored_slots)}, kAlways).cost,
        plain.cost);
    std::vector<std::vector<int32_t>> wider = slots;
    wider.push_back({0});
    ASSERT_LE(FindVictims(jobs, pieces, std::vector{Domain(0, need, wider)}, kAlways).cost,
              plain.cost);
    std::vector<VictimJob> cheaper = jobs;
    cheaper[0].cost /= 2;
    ASSERT_LE(FindVictims(cheaper, pieces, std::vector{Domain(0, need, slots)}, kAlways).cost,
              plain.cost);
    for (const Victim& spared : plain.victims) {
      int32_t freed = 0;
      for (const auto& holders : slots) {
        freed += std::all_of(holders.begin(), holders.end(),
                             [&](int32_t piece) {
                               return piece != spared.job &&
                                      std::any_of(plain.victims.begin(), plain.victims.end(),
                                                  [&](const Victim& v) { return v.job == piece; });
                             })
                     ? 1
                     : 0;
      }
      ASSERT_LT(freed, need) << "job " << spared.job << " need not have gone";
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
