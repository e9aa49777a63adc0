#include "schedule/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/generate.h"
#include "schedule/verify.h"

namespace longhaul::schedule {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Found {
  double idle = 0;
  double makespan = 0;
};

Found SearchFor(const Shape& shape, uint32_t activations, const Durations& durations = {}) {
  const Result<Schedule> schedule = Search(shape, {durations, activations});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  const Verdict verdict =
      Verify(*schedule, {.buffers = shape.micro_batches, .most_activations = activations});
  EXPECT_THAT(verdict.findings, IsEmpty()) << shape.ranks << " " << shape.micro_batches;
  const Timeline timeline = Simulate(*schedule, durations);
  return {timeline.LargestIdleShare(), timeline.makespan};
}

// ZB-1P: the bubble is (p - 1) (F + B - W), a third of that of one forward, one backward.
TEST(Search, WithTheMemoryOfOneForwardOneBackwardTheBubbleIsAThird) {
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    const uint32_t batches = 3 * ranks;
    const Found found = SearchFor({ranks, batches, 1, Placement::kLoop}, ranks);
    EXPECT_LE(found.makespan, 3.0 * batches + (ranks - 1)) << ranks;
  }
}

// ZB-2P: no rank is idle between its first and its last computation.
TEST(Search, WithTwiceThatMemoryNoRankIsIdle) {
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    const Found found = SearchFor({ranks, 3 * ranks, 1, Placement::kLoop}, 2 * ranks - 1);
    EXPECT_NEAR(found.idle, 0, 1e-12) << ranks;
  }
}

// ZB-V has no bubble with the memory of one forward, one backward, which is two chunks for each of
// the ranks. The search comes close: one forward, one backward is idle for 20 to 23 %.
TEST(Search, InAVRanksAreHardlyIdleWithTheMemoryOfOneForwardOneBackward) {
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    const Found found = SearchFor({ranks, 3 * ranks, 2, Placement::kV}, 2 * ranks);
    EXPECT_LE(found.idle, 0.05) << ranks;
  }
}

TEST(Search, MoreMemoryNeverCostsTimeAndUnevenStagesAreCorrect) {
  const Durations uneven{{1, 1.3, 0.8, 2}, {2, 2.2, 1.7, 3}, {0.9, 1, 1.1, 1.2}, 0.1};
  double before = 1e9;
  for (const uint32_t activations : {1u, 2u, 4u, 8u}) {
    const Found found = SearchFor({4, 12, 1, Placement::kLoop}, activations, uneven);
    EXPECT_LE(found.makespan, before);
    before = found.makespan;
  }
  const Schedule plain = OneForwardOneBackward(4, 12);
  EXPECT_LT(before, Simulate(plain, uneven).makespan);
}

TEST(Search, RefusesALimitBelowTheChunks) {
  EXPECT_THAT(Search({4, 8, 2, Placement::kV}, {{}, 1}).status().message(),
              HasSubstr("a rank may hold 1 activations, expected at least 2"));
}

}  // namespace
}  // namespace longhaul::schedule
