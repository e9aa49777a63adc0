#include "schedule/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/simulate.h"
#include "schedule/verify.h"

namespace longhaul::schedule {
namespace {

using testing::IsEmpty;

// As in the papers the backward of a stage is one piece of twice the forward's time.
const Durations kPapers{{1}, {2}, {0}, 0};

TEST(OneForwardOneBackward, IsCorrectWithTheBubbleAndTheMemoryOfItsFormula) {
  for (uint32_t ranks = 1; ranks <= 16; ++ranks) {
    for (const uint32_t batches : {1u, 2u, ranks, 2 * ranks + 1, 64u}) {
      const Schedule schedule = OneForwardOneBackward(ranks, batches);
      const Verdict verdict = Verify(schedule, {.buffers = 1, .most_activations = ranks});
      ASSERT_THAT(verdict.findings, IsEmpty()) << ranks << " " << batches;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(verdict.activations[rank], std::min(batches, ranks - rank));
      }
      const double bubble = (ranks - 1.0) / (batches + ranks - 1.0);
      EXPECT_NEAR(Simulate(schedule, kPapers).LargestIdleShare(), bubble, 1e-12);
    }
  }
}

TEST(Interleaved, IsCorrectWithTheBubbleOfItsFormula) {
  for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
    for (const uint32_t chunks : {2u, 4u}) {
      for (const uint32_t batches : {ranks, 4 * ranks}) {
        const Schedule schedule = *Interleaved(ranks, batches, chunks);
        const Verdict verdict = Verify(schedule, {.buffers = 2});
        ASSERT_THAT(verdict.findings, IsEmpty()) << ranks << " " << chunks << " " << batches;
        const double ideal = 3.0 * batches * chunks;
        const double step = ideal * (1 + (ranks - 1.0) / (batches * chunks));
        EXPECT_NEAR(Simulate(schedule, kPapers).makespan, step, 1e-9);
      }
    }
  }
}

TEST(Interleaved, RefusesMicroBatchesThatAreNoMultipleOfTheRanks) {
  EXPECT_EQ(Interleaved(4, 6, 2).status().message(),
            "an interleaved schedule of 4 ranks cannot have 6 micro-batches: choose a multiple of "
            "the ranks");
}

}  // namespace
}  // namespace longhaul::schedule
