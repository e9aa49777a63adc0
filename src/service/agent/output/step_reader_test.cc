#include "service/agent/output/step_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::service::step_reader_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kPattern =
    R"(step (?P<step>\d+)(?:/(?P<total>\d+))?(?: loss (?P<loss>\S+))?)";

StepReader Reader(const char* pattern = kPattern) {
  return StepReader(*spec::StepPattern::Parse(pattern));
}

Instant At(int64_t ns) { return InstantFromNanoseconds(ns); }

std::vector<uint64_t> Numbers(const std::vector<OutputStep>& steps) {
  std::vector<uint64_t> numbers;
  for (const OutputStep& step : steps) numbers.push_back(step.step);
  return numbers;
}

TEST(StepReader, ReadsStepsTotalsAndLosses) {
  StepReader reader = Reader();
  EXPECT_THAT(reader.Take("hello\nstep 1/9 loss 2.5\nstep 2/9\n", At(7)),
              ElementsAre(OutputStep{1, 9, 2.5, At(7)}, OutputStep{2, 9, std::nullopt, At(7)}));
}

// The number may be cut in the middle: what counts is the whole line, at the time of its last byte.
TEST(StepReader, ALineCountsOnceItIsWhole) {
  StepReader reader = Reader();
  EXPECT_THAT(reader.Take("st", At(1)), IsEmpty());
  EXPECT_THAT(reader.Take("ep 1", At(2)), IsEmpty());
  EXPECT_THAT(reader.Take("2 loss 0.5", At(3)), IsEmpty());
  EXPECT_THAT(reader.Take("\n", At(9)), ElementsAre(OutputStep{12, 0, 0.5, At(3)}));
}

TEST(StepReader, AProgressBarIsDrawnOverItself) {
  StepReader reader = Reader("huggingface");
  EXPECT_THAT(Numbers(reader.Take("\r  0%|          | 0/50 [00:00<?, ?it/s]", At(1))), IsEmpty());
  EXPECT_THAT(Numbers(reader.Take("\r  2%|#         | 1/50 [00:01<00:49,  1.00s/it]", At(2))),
              ElementsAre(0));
  EXPECT_THAT(Numbers(reader.Take("\r  4%|#         | 2/50 [00:02<00:48,  1.00s/it]", At(3))),
              ElementsAre(1));
  EXPECT_THAT(reader.Take("\n{'loss': 4.5, 'epoch': 0.1}\n", At(4)),
              ElementsAre(OutputStep{2, 50, std::nullopt, At(3)}));
  // An evaluation's bar counts to another number.
  EXPECT_THAT(reader.Take("\r 50%|#####     | 30/60 [00:01<00:01, 30it/s]\r", At(5)), IsEmpty());
  EXPECT_THAT(reader.Take("\r  6%|#         | 3/50 [00:09<00:48,  1.00s/it]\n", At(6)),
              ElementsAre(OutputStep{3, 50, 4.5, At(6)}));
}

TEST(StepReader, StepsOfAnEpochGoOnInTheNext) {
  StepReader reader = Reader("lightning");
  const std::string bar = "|#| ";
  EXPECT_THAT(Numbers(reader.Take("\rEpoch 0: 50%" + bar + "5/10 [00:01<00:01]\rEpoch 0: 100%" +
                                      bar + "10/10 [00:02<00:00]\rEpoch 1: 0%" + bar +
                                      "0/10 [00:00<?]\rEpoch 1: 10%" + bar + "1/10 [00:00<?]\r",
                                  At(1))),
              ElementsAre(5, 10, 11));
}

TEST(StepReader, ColoursDoNotHideAStep) {
  StepReader reader = Reader("torchtitan");
  EXPECT_THAT(
      reader.Take("\x1b[32mINFO\x1b[0m - \x1b[31mstep:  7  \x1b[32mloss:  3.5  \x1b[33m...\n",
                  At(1)),
      ElementsAre(OutputStep{7, 0, 3.5, At(1)}));
}

TEST(StepReader, EscapesAreTakenOut) {
  EXPECT_EQ(WithoutEscapes("a\x1b[1;31mb\x1b[0mc"), "abc");
  EXPECT_EQ(WithoutEscapes("a\x1b]0;title\x07"
                           "b\x1b]0;title\x1b\\c"),
            "abc");
  EXPECT_EQ(WithoutEscapes("a\x1b(Bc"), "ac");
  EXPECT_EQ(WithoutEscapes("a\x1b"), "a");
  EXPECT_EQ(WithoutEscapes("a\x1b[12"), "a");
}

TEST(StepReader, OnlyStepsBeyondAllBeforeAreReported) {
  StepReader reader = Reader();
  EXPECT_THAT(Numbers(reader.Take("step 5\nstep 3\nstep 5\nstep 6\n", At(1))), ElementsAre(5, 6));
}

TEST(StepReader, TheUnfinishedLineCountsAtTheEnd) {
  StepReader reader = Reader();
  EXPECT_THAT(reader.Take("step 8", At(4)), IsEmpty());
  EXPECT_THAT(reader.Finish(), ElementsAre(OutputStep{8, 0, std::nullopt, At(4)}));
  EXPECT_THAT(reader.Finish(), IsEmpty());
}

TEST(StepReader, OfALongLineOnlyTheBeginningCounts) {
  StepReader reader = Reader();
  const std::string filler(10 << 20, 'x');
  EXPECT_THAT(Numbers(reader.Take("step 1 " + filler + "step 2\n", At(1))), ElementsAre(1));
  EXPECT_THAT(Numbers(reader.Take(filler + "step 3\nstep 4\n", At(1))), ElementsAre(4));
}

TEST(StepReader, OfManyStepsAtOnceTheNewestAreReported) {
  std::string text;
  for (int step = 1; step <= 1000; ++step) text += "step " + std::to_string(step) + "\n";
  StepReader reader = Reader();
  const std::vector<uint64_t> steps = Numbers(reader.Take(text, At(1)));
  EXPECT_EQ(steps.size(), StepReader::kMostAtOnce);
  EXPECT_EQ(steps.back(), 1000u);
}

// However the bytes are cut into parts, the same steps are found.
TEST(StepReader, HowTheBytesAreCutDoesNotMatter) {
  std::string text;
  for (int step = 1; step <= 40; ++step) {
    text += (step % 3 == 0 ? "\x1b[1m" : "") + std::string("step ") + std::to_string(step) +
            "/40 loss 1." + std::to_string(step) + (step % 2 == 0 ? "\r" : "\r\n");
  }
  StepReader whole = Reader();
  const std::vector<uint64_t> expected = Numbers(whole.Take(text, At(1)));
  EXPECT_EQ(expected.size(), 40u);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    StepReader reader = Reader();
    std::vector<uint64_t> steps;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + random.Below(30);
      for (const uint64_t step : Numbers(reader.Take(text.substr(at, count), At(1)))) {
        steps.push_back(step);
      }
      at += count;
    }
    EXPECT_EQ(steps, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace longhaul::service::step_reader_test
