#include "schedule/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/generate.h"

namespace longhaul::schedule {
namespace {

using testing::HasSubstr;

TEST(ScheduleText, OfEachGeneratedScheduleIsReadBack) {
  for (const uint32_t ranks : {1u, 2u, 4u}) {
    for (const uint32_t chunks : {1u, 3u}) {
      const Schedule schedule = *Interleaved(ranks, 2 * ranks, chunks);
      const Result<Schedule> read = ParseSchedule(ToText(schedule));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, schedule);
    }
  }
}

TEST(ScheduleText, CommentsAndEmptyLinesAreLeftOut) {
  const Result<Schedule> read = ParseSchedule(
      "# one rank\n\nranks 1 micro-batches 1 chunks 1 placement loop  # the shape\n"
      " rank 0:\tF0.0 B0.0 W0.0\r\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ranks[0].size(), 3u);
}

TEST(ScheduleText, WhatIsWrongIsNamed) {
  const std::string shape = "ranks 2 micro-batches 2 chunks 1 placement loop\n";
  const std::pair<std::string, const char*> kRows[] = {
      {"", "the schedule is empty"},
      {"rank 0: F0.0\n", "line 1: expected 'ranks R"},
      {"ranks 0 micro-batches 2 chunks 1 placement loop", "ranks is '0', expected a number from 1"},
      {"ranks 99999999999999999999 micro-batches 2 chunks 1 placement loop", "from 1 to 1024"},
      {"ranks 2 micro-batches 2 chunks 3 placement v", "placement v needs 2 chunks, not 3"},
      {"ranks 2 micro-batches 2 chunks 1 placement w", "placement is 'w', expected loop or v"},
      {shape + "rank 0: F0.0\n", "there is no line 'rank 1:'"},
      {shape + "rank 2: F0.0\n", "line 2: rank is '2', expected a number from 0 to 1"},
      {shape + "rank 0: F0.0\nrank 0: F0.0\n", "line 3: rank 0 has a line already"},
      {shape + "rang 0: F0.0\n", "starts with 'rang', expected 'rank R:'"},
      {shape + "rank 0: F2.0\n", "the micro-batch is '2', expected a number from 0 to 1"},
      {shape + "rank 0: F0.1\n", "the chunk is '1', expected a number from 0 to 0"},
      {shape + "rank 0: X0.0\n", "'X0.0' is no action"},
      {shape + "rank 0: F0\n", "'F0' is no action"},
      {shape + "rank 0: {SendF0.0\n", "a brace is not closed"},
      {shape + "rank 0: {SendF0.0 {RecvB0.0}\n", "opens a brace in a brace"},
      {shape + "rank 0: SendF0.0}\n", "closes a brace that is not open"},
      {shape + "rank 0: {F0.0}\n", "'F0.0' in braces is no transfer"},
      {shape + "rank 0: { }\n", "'' is no action"},
  };
  for (const auto& [text, error] : kRows) {
    const Result<Schedule> read = ParseSchedule(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(read.status().message(), HasSubstr(error));
  }
}

TEST(ScheduleText, DamagedTextEndsWithoutACrash) {
  const std::string whole = ToText(*Interleaved(2, 4, 2));
  for (size_t size = 0; size <= whole.size(); ++size) (void)ParseSchedule(whole.substr(0, size));
  std::mt19937 random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 3; ++j) damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)ParseSchedule(damaged);
  }
}

}  // namespace
}  // namespace longhaul::schedule
