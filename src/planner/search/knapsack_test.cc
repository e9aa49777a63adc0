#include "planner/search/knapsack.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace longhaul::planner::search::knapsack_test {
namespace {

constexpr RecomputeTime kAny{std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::infinity()};

// Sums over the first layers of one module.
struct Module {
  std::vector<double> device_s = {0};
  std::vector<double> launch_s = {0};
  std::vector<double> bytes = {0};

  void Add(double device, double launch, double freed) {
    device_s.push_back(device_s.back() + device);
    launch_s.push_back(launch_s.back() + launch);
    bytes.push_back(bytes.back() + freed);
  }
  RecomputeItem item() const { return {device_s, launch_s, bytes, LeastRate(device_s, bytes)}; }
};

TEST(ChooseRecompute, IsWhatOneWorksOutByHand) {
  // Norms free 2 for 1 s in each of four layers, the FFN 7 for 3 s in each of two: of 12 bytes, two
  // FFNs (14, 6 s) beat one with three norms (13, a tie), and six norms do not exist.
  Module norms;
  for (int i = 0; i < 4; ++i) norms.Add(1, 0, 2);
  Module ffn;
  for (int i = 0; i < 2; ++i) ffn.Add(3, 0, 7);
  for (int i = 0; i < 2; ++i) ffn.Add(0, 0, 0);
  const RecomputeItem items[] = {norms.item(), ffn.item()};
  const auto plan = ChooseRecompute(items, 12, {}, kAny);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->time.device_s, 6);
  EXPECT_FALSE(ChooseRecompute(items, 23, {}, kAny));
  EXPECT_EQ(ChooseRecompute(items, 22, {}, kAny)->layers[0], 4u);
  EXPECT_EQ(ChooseRecompute(items, 22, {}, kAny)->layers[1], 2u);
  EXPECT_EQ(ChooseRecompute(items, 0, {}, kAny)->time.device_s, 0);
  EXPECT_FALSE(ChooseRecompute(items, 12, {}, {6, 0}));
  // With the first layer settled otherwise, one FFN and three norms are all there is.
  EXPECT_EQ(ChooseRecompute(items, 13, {}, kAny, 1)->time.device_s, 6);
  EXPECT_FALSE(ChooseRecompute(items, 14, {}, kAny, 1));
}

TEST(ChooseRecompute, LooksAtTheLongerOfDeviceAndLaunches) {
  // The host needs 10 s to launch what the device does in 4: what launches less is less, though it
  // computes more.
  Module many;
  many.Add(1, 2, 5);
  Module few;
  few.Add(3, 0.5, 5);
  const RecomputeItem items[] = {many.item(), few.item()};
  EXPECT_EQ(ChooseRecompute(items, 5, {4, 10}, kAny)->layers[1], 1u);
  EXPECT_EQ(ChooseRecompute(items, 5, {10, 4}, kAny)->layers[0], 1u);
}

RecomputeTime Walked(const std::vector<Module>& modules, size_t depth, double needed, uint32_t from,
                     RecomputeTime time) {
  if (depth == modules.size()) return needed <= 0 ? time : kAny;
  RecomputeTime best = kAny;
  const Module& module = modules[depth];
  for (size_t n = from; n < module.bytes.size(); ++n) {
    const RecomputeTime one =
        Walked(modules, depth + 1, needed - (module.bytes[n] - module.bytes[from]), from,
               {time.device_s + module.device_s[n] - module.device_s[from],
                time.launch_s + module.launch_s[n] - module.launch_s[from]});
    if (one < best) best = one;
  }
  return best;
}

TEST(ChooseRecompute, AgreesWithWalkingAllChoices) {
  std::mt19937_64 rng(11);
  int solved = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::vector<Module> modules(1 + rng() % 4);
    const uint64_t layers = 1 + rng() % 5;
    std::vector<RecomputeItem> items;
    for (Module& module : modules) {
      for (uint64_t k = 0; k < layers; ++k) {
        module.Add(static_cast<double>(rng() % 20), static_cast<double>(rng() % 20),
                   static_cast<double>(rng() % 30));
      }
      items.push_back(module.item());
    }
    const auto needed = static_cast<double>(rng() % 200);
    const RecomputeTime without{static_cast<double>(rng() % 50), static_cast<double>(rng() % 50)};
    const auto from = static_cast<uint32_t>(rng() % 2);
    const RecomputeTime want = Walked(modules, 0, needed, from, without);
    const auto plan = ChooseRecompute(items, needed, without, kAny, from);
    ASSERT_EQ(plan.has_value(), want < kAny) << i;
    if (!plan) continue;
    ++solved;
    ASSERT_EQ(plan->time.total(), want.total()) << i;
    ASSERT_EQ(plan->time.device_s, want.device_s) << i;
  }
  EXPECT_GT(solved, 500);
}

// Worked by hand: of {4 s for 2 bytes, 3 s for 3, 9 s for 5} the hull takes 3 bytes at 1 s each and
// 2 more at 3 s each; the first choice lies above it.
TEST(HullOf, LeavesOutWhatAMixOfOthersBeats) {
  const std::vector<FreedAtRate> steps = HullOf({{4, 2}, {3, 3}, {9, 5}, {0, 0}});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_DOUBLE_EQ(steps[0].rate, 1);
  EXPECT_DOUBLE_EQ(steps[0].bytes, 3);
  EXPECT_DOUBLE_EQ(steps[1].rate, 3);
  EXPECT_DOUBLE_EQ(steps[1].bytes, 2);
}

TEST(LeastSeconds, TakesTheCheapestBytesFirst) {
  std::vector<FreedAtRate> steps = {{3, 2}, {1, 3}};
  EXPECT_DOUBLE_EQ(LeastSeconds(steps, 0), 0);
  EXPECT_DOUBLE_EQ(LeastSeconds(steps, 2), 2);
  EXPECT_DOUBLE_EQ(LeastSeconds(steps, 4), 6);
  EXPECT_DOUBLE_EQ(LeastSeconds(steps, 5), 9);
  EXPECT_EQ(LeastSeconds(steps, 5.1), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace longhaul::planner::search::knapsack_test
