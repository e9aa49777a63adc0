#include "checkpoint/retention/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint::retention_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ManifestOf;
using testing_support::State;
using testing_support::TinyPlan;

constexpr char kPath[] = "/run/checkpoints";
constexpr uint32_t kRanks = 2;

std::string PathOf(uint64_t step, const std::string& file, uint64_t attempt = 1) {
  return std::string(kPath) + "/" + CheckpointDirectory::NameOf(step, attempt) + "/" + file;
}

class SmallRun {
 public:
  void Save(uint64_t step, std::optional<double> loss = {}, uint64_t attempt = 1) {
    Manifest order = ManifestOf(step, attempt, kRanks);
    order.validation_loss = loss;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      order.files.push_back(Piece(step, rank, attempt));
    const Status status = directory_.Commit(order);
    ASSERT_TRUE(status.ok()) << status;
  }
  PieceFile Piece(uint64_t step, uint32_t rank, uint64_t attempt = 1) {
    const State state(TinyPlan(), step * 10 + rank);
    return *directory_.WritePiece(step, attempt, rank, kRanks, state.plan(), state.Tensors());
  }
  // Flips a random bit of a shard (its manifest stays as it is).
  void Damage(uint64_t step, Random& random) {
    const std::string path =
        PathOf(step, PieceName(static_cast<uint32_t>(random.Below(kRanks)), kRanks));
    files_.FlipBit(path, random.Below(*files_.Size(path) * 8));
  }
  bool Good(uint64_t step) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto state = directory_.ReadPiece(step, 1, rank);
      if (!state.ok() || !State(TinyPlan(), step * 10 + rank).Equals(state->Tensors())) {
        return false;
      }
    }
    return true;
  }
  std::vector<uint64_t> Steps() {
    std::vector<uint64_t> steps;
    const auto committed = directory_.List();
    for (const Manifest& manifest : *committed) steps.push_back(manifest.step);
    return steps;
  }
  Result<Collection> Collect(const RetentionPolicy& policy, uint64_t attempt = 1) {
    return checkpoint::Collect(directory_, policy, attempt);
  }

  sim::CrashFileSystem& files() { return files_; }
  CheckpointDirectory& directory() { return directory_; }

 private:
  sim::CrashFileSystem files_;
  CheckpointDirectory directory_{files_, kPath};
};

Manifest Judged(uint64_t step, std::optional<double> loss = {}) {
  Manifest manifest;
  manifest.step = step;
  manifest.validation_loss = loss;
  return manifest;
}

TEST(Retention, KeepsTheLastTheEveryAndTheBest) {
  const std::vector<Manifest> all = {Judged(90, 2.5), Judged(80, 2.0), Judged(70),
                                     Judged(60, 2.0), Judged(50, 1.5), Judged(40, 9.0)};
  EXPECT_THAT(Stays({.last = 2}, all), ElementsAre(1, 1, 0, 0, 0, 0));
  EXPECT_THAT(Stays({.last = 1, .every = 40}, all), ElementsAre(1, 1, 0, 0, 0, 1));
  EXPECT_THAT(Stays({.last = 1, .best = 1}, all), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(Stays({.last = 1, .best = 2}, all), ElementsAre(1, 1, 0, 0, 1, 0)) << "newer first";
  EXPECT_THAT(Stays({.last = 1, .steps = {70}}, all), ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(Stays({.last = 0}, all), ElementsAre(1, 0, 0, 0, 0, 0)) << "never the newest";
}

TEST(Retention, ALossThatIsNoNumberIsNotTheBest) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Stays({.last = 1, .best = 1}, {Judged(30), Judged(20, kNaN), Judged(10, 3.0)}),
              ElementsAre(1, 0, 1));
}

TEST(Retention, RemovesTheRestAndNamesWhatItRead) {
  SmallRun run;
  for (const uint64_t step : {10u, 20u, 30u, 40u})
    run.Save(step, 100.0 - static_cast<double>(step));
  run.Save(50, 95.0);
  const auto collected = run.Collect({.last = 1, .best = 1});
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_EQ(collected->good, "step-000000050.e1");
  EXPECT_TRUE(collected->notes.empty());
  EXPECT_THAT(run.Steps(), ElementsAre(50, 40));
}

// Attempt 2 began from step 10, so step 30 of attempt 1 is not of the run's history any more.
TEST(Retention, WhatTheRunHasGoneBackBehindIsRemovedFirst) {
  for (const uint64_t last : {2u, 3u, 4u}) {
    SCOPED_TRACE("last " + std::to_string(last));
    SmallRun run;
    run.Save(10);
    run.Save(30);
    run.Save(12, {}, 2);
    run.Save(14, {}, 2);
    const auto collected = run.Collect({.last = last, .begin = AttemptBegin{2, 10}}, 2);
    ASSERT_TRUE(collected.ok()) << collected.status();
    std::vector<uint64_t> kept = {14, 12};
    if (last >= 3) kept.push_back(10);
    if (last >= 4) kept.insert(kept.begin(), 30);
    EXPECT_EQ(run.Steps(), kept);
  }
}

TEST(Retention, AnOlderGoodOneStaysWhenTheNewestIsDamaged) {
  SmallRun run;
  Random random(1);
  for (const uint64_t step : {10u, 20u, 30u, 40u}) run.Save(step);
  run.Damage(40, random);
  run.Damage(30, random);
  const auto collected = run.Collect({.last = 2});
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_THAT(run.Steps(), ElementsAre(40, 30, 20));
  EXPECT_TRUE(run.Good(20));
  ASSERT_EQ(collected->notes.size(), 3u);
  EXPECT_THAT(collected->notes[0], HasSubstr("step-000000040.e1 is no good"));
  EXPECT_THAT(collected->notes[2], HasSubstr("step-000000020.e1 stays"));
}

TEST(Retention, RemovesNothingWhereNothingIsGood) {
  SmallRun run;
  Random random(2);
  for (const uint64_t step : {10u, 20u}) run.Save(step);
  for (const uint64_t step : {10u, 20u}) run.Damage(step, random);
  run.Piece(5, 0);
  const auto collected = run.Collect({.last = 1}, 9);
  ASSERT_TRUE(collected.ok()) << collected.status();
  EXPECT_THAT(run.Steps(), ElementsAre(20, 10));
  EXPECT_EQ(run.files().List(kPath)->size(), 3u) << "nor any remains";
}

TEST(Retention, ReadsNothingWhenNothingGoes) {
  SmallRun run;
  run.Save(10);
  const auto collected = run.Collect({.last = 3});
  ASSERT_TRUE(collected.ok());
  EXPECT_EQ(collected->good, "");
  EXPECT_EQ(collected->kept.size(), 1u);
}

TEST(Retention, StopsOnRequestAndRemovesNothing) {
  SmallRun run;
  for (const uint64_t step : {10u, 20u}) run.Save(step);
  const auto stopped = Collect(run.directory(), {.last = 1}, 1, [](auto, auto) { return false; });
  EXPECT_EQ(stopped.status().code(), Code::kCancelled);
  EXPECT_THAT(run.Steps(), ElementsAre(20, 10));
}

TEST(Retention, RemovesUncommittedRemainsOfOldAttemptsOnly) {
  SmallRun run;
  run.Piece(10, 0, 1);  // of a dead attempt
  run.Piece(20, 0, 3);  // being written now, late
  run.Piece(90, 0, 2);  // newer than what is committed
  ASSERT_TRUE(run.Collect({.last = 1}, 3).ok());
  EXPECT_EQ(run.files().List(kPath)->size(), 3u) << "nothing is committed yet";
  run.Save(40, {}, 3);
  run.Save(30, {}, 3);
  ASSERT_TRUE(run.Collect({.last = 1}, 3).ok());
  EXPECT_THAT(*run.files().List(kPath),
              ElementsAre("step-000000020.e3", "step-000000040.e3", "step-000000090.e2"));
}

// The property that all of it is for. Random histories of saves, losses, flipped bits and policies.
TEST(Retention, AGoodOneIsLeftIfThereWasOne) {
  Random random(3);
  size_t rescued = 0, emptied = 0, removed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SmallRun run;
    uint64_t step = 0;
    for (uint64_t saves = 1 + random.Below(6); saves > 0; --saves) {
      step += 1 + random.Below(5);
      std::optional<double> loss;
      if (random.Below(2) == 0) loss = static_cast<double>(random.Below(4));
      run.Save(step, loss);
      if (random.Below(3) != 0) run.Damage(step, random);
      const RetentionPolicy policy{random.Below(3), random.Below(4), random.Below(3), {}};
      const std::vector<uint64_t> before = run.Steps();
      const auto is_good = [&run](uint64_t one) { return run.Good(one); };
      const bool had = std::any_of(before.begin(), before.end(), is_good);
      const auto collected = run.Collect(policy);
      ASSERT_TRUE(collected.ok()) << collected.status();
      const std::vector<uint64_t> after = run.Steps();
      ASSERT_EQ(std::any_of(after.begin(), after.end(), is_good), had) << "trial " << trial;
      ASSERT_EQ(after.front(), before.front()) << "the newest stays";
      ASSERT_EQ(collected->kept.size() + collected->removed.size(), before.size());
      removed += collected->removed.size();
      for (const std::string& note : collected->notes) {
        rescued += note.find("stays") != std::string::npos;
        emptied += note.find("none is good") != std::string::npos;
      }
    }
  }
  EXPECT_GT(rescued, 20u);
  EXPECT_GT(emptied, 20u);
  EXPECT_GT(removed, 100u);
}

}  // namespace
}  // namespace longhaul::checkpoint::retention_test
