// The commit protocol against every legal state of the disk after a loss of power.

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/directory.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint::directory_crash_test {
namespace {

using testing_support::ManifestOf;
using testing_support::State;
using testing_support::TinyPlan;

constexpr char kPath[] = "/run/checkpoints";

State StateOf(uint64_t step, uint32_t rank) { return State(TinyPlan(), step * 10 + rank); }

Status Save(io::FileSystem& files, uint64_t step, uint64_t attempt, uint32_t world) {
  CheckpointDirectory checkpoints(files, kPath);
  Manifest manifest = ManifestOf(step, attempt, world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    const State state = StateOf(step, rank);
    ASSIGN_OR_RETURN(const PieceFile file, checkpoints.WritePiece(step, attempt, rank, world,
                                                                  state.plan(), state.Tensors()));
    manifest.files.push_back(file);
  }
  return checkpoints.Commit(manifest);
}

// What a loader takes: the step of the newest committed checkpoint, 0 without one. Fails the test
// unless every committed one is exact on every rank.
uint64_t Load(io::FileSystem& files, uint32_t world) {
  CheckpointDirectory checkpoints(files, kPath);
  const Result<StepSurvey> survey = checkpoints.Survey();
  EXPECT_TRUE(survey.ok()) << survey.status();
  EXPECT_TRUE(survey->damaged.empty()) << "a crash looks like damage";
  const std::vector<Manifest>* committed = &survey->committed;
  for (const Manifest& manifest : *committed) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Result<LoadedState> state =
          checkpoints.ReadPiece(manifest.step, manifest.attempt, rank);
      EXPECT_TRUE(state.ok()) << state.status();
      EXPECT_TRUE(state.ok() && StateOf(manifest.step, rank).Equals(state->Tensors()));
    }
  }
  return committed->empty() ? 0 : committed->front().step;
}

TEST(CheckpointCrash, ALoaderFindsTheLastOrTheNewCommittedStepAndNeverAnother) {
  sim::CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/run").ok());
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  constexpr uint32_t kWorld = 3;
  ASSERT_TRUE(Save(files, 40, 1, kWorld).ok());
  const size_t first = files.operations();
  ASSERT_TRUE(Save(files, 80, 1, kWorld).ok());
  const size_t second = files.operations();
  ASSERT_TRUE(Save(files, 120, 2, kWorld).ok());
  const size_t third = files.operations();

  int found[4] = {};
  const auto check = [&](size_t done, sim::CrashFileSystem& survivor) {
    const uint64_t step = Load(survivor, kWorld);
    ASSERT_FALSE(testing::Test::HasFailure()) << "crash after operation " << done;
    // What was committed before the operation that the crash hit, and what may be just after it.
    const uint64_t last = done < first ? 0 : done < second ? 40 : done < third ? 80 : 120;
    const uint64_t next = done < third ? last + 40 : last;
    ASSERT_TRUE(step == last || step == next) << step << " after operation " << done;
    ++found[step / 40];
  };
  const size_t states = files.ForEachCrash(2'000, 7, check);
  EXPECT_GT(states, 1'500u);
  for (const int times : found) EXPECT_GT(times, 0) << "an outcome was never seen";
}

TEST(CheckpointCrash, ASaveAfterTheCrashWorksWhateverItLeft) {
  sim::CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/run").ok());
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  ASSERT_TRUE(Save(files, 40, 1, 1).ok());
  files.ForEachCrash(50, 9, [&](size_t done, sim::CrashFileSystem& survivor) {
    if (!survivor.List("/run").ok()) return;  // before the run's directory was durable
    for (const uint64_t attempt : {1u, 2u}) {
      const Status status = Save(survivor, 40 + attempt - 1, attempt, 1);
      ASSERT_TRUE(status.ok()) << "crash after operation " << done << ": " << status;
    }
    ASSERT_EQ(Load(survivor, 1), 41u);
  });
}

TEST(CheckpointCrash, PruningNeverLosesTheNewest) {
  sim::CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/run").ok());
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  for (const uint64_t step : {10u, 20u, 30u}) ASSERT_TRUE(Save(files, step, 1, 1).ok());
  const size_t saved = files.operations();
  CheckpointDirectory directory(files, kPath);
  const auto collected = Collect(directory, {.last = 1}, 1);
  ASSERT_TRUE(collected.ok()) << collected.status();
  ASSERT_EQ(collected->removed.size(), 2u);
  files.ForEachCrash(300, 11, [&](size_t done, sim::CrashFileSystem& survivor) {
    if (done < saved) return;
    ASSERT_EQ(Load(survivor, 1), 30u) << "crash after operation " << done;
  });
}

// Not a crash but an error of any one operation: reported, and the older checkpoint stays.
TEST(CheckpointCrash, AFailureOfAnyOperationIsReportedAndLeavesTheOlderCheckpoint) {
  for (size_t fail_at = 0;; ++fail_at) {
    sim::CrashFileSystem files;
    ASSERT_TRUE(Save(files, 40, 1, 1).ok());
    const size_t before = files.operations();
    files.FailOperation(fail_at);
    const Status status = Save(files, 80, 1, 1);
    const uint64_t found = Load(files, 1);
    if (status.ok()) {
      EXPECT_EQ(found, 80u);
      EXPECT_GT(fail_at, 10u);
      EXPECT_EQ(files.operations() - before, fail_at);
      break;
    }
    // The one after the manifest's rename is visible already; trying again settles it.
    ASSERT_TRUE(found == 40 || found == 80) << fail_at;
    const Status again = Save(files, 80, 1, 1);
    ASSERT_TRUE(again.ok()) << fail_at << ": " << again;
    ASSERT_EQ(Load(files, 1), 80u);
  }
}

}  // namespace
}  // namespace longhaul::checkpoint::directory_crash_test
