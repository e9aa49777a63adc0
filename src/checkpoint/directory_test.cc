#include "checkpoint/directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::ManifestOf;
using testing_support::State;
using testing_support::TinyPlan;

class Directory : public testing::Test {
 protected:
  // Writes and commits a checkpoint of `world` ranks; rank r's state has the seed step * 10 + r.
  void Save(uint64_t step, uint64_t attempt, uint32_t world = 2) {
    Manifest manifest = ManifestOf(step, attempt, world);
    for (uint32_t rank = 0; rank < world; ++rank)
      manifest.files.push_back(Piece(step, attempt, rank));
    const Status status = checkpoints_.Commit(manifest);
    ASSERT_TRUE(status.ok()) << status;
  }
  PieceFile Piece(uint64_t step, uint64_t attempt, uint32_t rank, uint32_t world = 2) {
    const State state(TinyPlan(), step * 10 + rank);
    return *checkpoints_.WritePiece(step, attempt, rank, world, state.plan(), state.Tensors());
  }
  std::vector<std::string> Committed() {
    std::vector<std::string> names;
    const Result<std::vector<Manifest>> manifests = checkpoints_.List();
    for (const Manifest& manifest : *manifests) {
      names.push_back(CheckpointDirectory::NameOf(manifest.step, manifest.attempt));
    }
    return names;
  }
  bool Holds(uint64_t step, uint64_t attempt, uint32_t rank) {
    const Result<LoadedState> state = checkpoints_.ReadPiece(step, attempt, rank);
    return state.ok() && State(TinyPlan(), step * 10 + rank).Equals(state->Tensors());
  }

  sim::CrashFileSystem files_;
  CheckpointDirectory checkpoints_{files_, "/run/checkpoints"};
};

using Names = std::vector<std::string>;

TEST_F(Directory, ListsNothingBeforeTheFirstCheckpoint) { EXPECT_TRUE(Committed().empty()); }

TEST_F(Directory, GivesBackWhatWasCommittedNewestFirst) {
  Save(40, 1);
  Save(120, 2);
  Save(80, 1);
  EXPECT_EQ(Committed(), (Names{"step-000000120.e2", "step-000000080.e1", "step-000000040.e1"}));
  EXPECT_TRUE(Holds(80, 1, 0));
  EXPECT_TRUE(Holds(80, 1, 1));
  EXPECT_EQ(checkpoints_.List()->front().data.samples_consumed, 960u);
  EXPECT_EQ(checkpoints_.ReadPiece(80, 2, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(checkpoints_.ReadPiece(80, 1, 2).status().code(), Code::kNotFound);
}

// Ranks 0 and 2 hold the same, and 1 and 3: one of each writes.
TEST_F(Directory, AFileServesTheRanksThatHoldTheSame) {
  Manifest manifest = ManifestOf(40, 1, 4);
  manifest.files = {Piece(40, 1, 0, 4), Piece(40, 1, 3, 4)};
  EXPECT_EQ(checkpoints_.Commit(manifest).code(), Code::kInvalidArgument) << "ranks 1 and 2";
  manifest.files[0].also = {2};
  manifest.files[1].also = {1};
  ASSERT_TRUE(checkpoints_.Commit(manifest).ok());
  EXPECT_EQ(files_.List("/run/checkpoints/step-000000040.e1")->size(), 3u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const Result<LoadedState> state = checkpoints_.ReadPiece(40, 1, rank);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(State(TinyPlan(), 400 + (rank % 2 == 0 ? 0 : 3)).Equals(state->Tensors()));
  }
  // Who comes late with a rank that is served writes nothing.
  EXPECT_EQ(Piece(40, 1, 1, 4), checkpoints_.Read(40, 1)->files[1]);
  EXPECT_EQ(files_.List("/run/checkpoints/step-000000040.e1")->size(), 3u);
  EXPECT_TRUE(checkpoints_.Verify(*checkpoints_.Read(40, 1)).ok());
}

TEST_F(Directory, WithoutManifestThereIsNoCheckpoint) {
  Piece(40, 1, 0);
  Piece(40, 1, 1);
  EXPECT_TRUE(Committed().empty());
  EXPECT_EQ(checkpoints_.ReadPiece(40, 1, 0).status().code(), Code::kNotFound);
}

TEST_F(Directory, ASurveyTellsDamagedStepsFromThoseNeverCommitted) {
  for (const uint64_t step : {10u, 20u, 30u, 40u}) Save(step, 1);
  const std::string folder = "/run/checkpoints/";
  files_.FlipBit(folder + "step-000000040.e1/MANIFEST", 300);
  ASSERT_TRUE(files_.Remove(folder + "step-000000030.e1/" + PieceName(1, 2)).ok());
  const std::string cut = folder + "step-000000010.e1/" + PieceName(0, 2);
  ASSERT_TRUE(io::WriteTextAtomically(files_, cut, "cut").ok());
  Piece(50, 1, 0);
  Piece(60, 1, 0);
  Piece(60, 1, 1);
  const Result<StepSurvey> survey = checkpoints_.Survey();
  ASSERT_TRUE(survey.ok()) << survey.status();
  ASSERT_EQ(survey->committed.size(), 1u);
  EXPECT_EQ(survey->committed[0].step, 20u);
  ASSERT_EQ(survey->damaged.size(), 3u);
  EXPECT_EQ(survey->damaged[0].step, 40u);
  EXPECT_NE(survey->damaged[0].reason.find("step-000000040.e1/MANIFEST"), std::string::npos);
  EXPECT_NE(survey->damaged[1].reason.find(PieceName(1, 2) + " is absent"), std::string::npos);
  EXPECT_NE(survey->damaged[2].reason.find("has 3 bytes"), std::string::npos);
  ASSERT_EQ(survey->uncommitted.size(), 2u);
  EXPECT_TRUE(survey->uncommitted[0].complete) << "step 60 has the files of both ranks";
  EXPECT_FALSE(survey->uncommitted[1].complete);
}

TEST_F(Directory, ACommitNeedsEveryFileInItsSize) {
  Manifest manifest = ManifestOf(40, 1, 2);
  manifest.files.push_back(Piece(40, 1, 0));
  EXPECT_EQ(checkpoints_.Commit(manifest).code(), Code::kInvalidArgument);
  manifest.files.push_back({PieceName(1, 2), 1, 10, 0});
  EXPECT_EQ(checkpoints_.Commit(manifest).code(), Code::kNotFound);
  manifest.files[1] = Piece(40, 1, 1);
  ++manifest.files[1].bytes;
  EXPECT_EQ(checkpoints_.Commit(manifest).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(Committed().empty());
}

TEST_F(Directory, CommittingAndWritingAgainIsHarmless) {
  Save(40, 1);
  const size_t before = files_.operations();
  const PieceFile again = Piece(40, 1, 1);
  EXPECT_EQ(files_.operations(), before) << "nothing was written";
  Manifest manifest = checkpoints_.List()->front();
  EXPECT_EQ(again, manifest.files[1]);
  EXPECT_TRUE(checkpoints_.Commit(manifest).ok());
  manifest.job = "other";
  EXPECT_EQ(checkpoints_.Commit(manifest).code(), Code::kAlreadyExists);
}

TEST_F(Directory, IsNotConfusedByStrangers) {
  Save(40, 1);
  for (const char* name : {"step-40.e1", "step-000000050.e1", "lost+found", "step-000000041.e01"}) {
    ASSERT_TRUE(files_.MakeDirectories(std::string("/run/checkpoints/") + name).ok());
  }
  ASSERT_TRUE(io::WriteTextAtomically(files_, "/run/checkpoints/step-000000060.e1", "a file").ok());
  // A manifest that was copied from another step.
  const auto manifest = *files_.ReadAll("/run/checkpoints/step-000000040.e1/MANIFEST", 1 << 20);
  ASSERT_TRUE(
      io::WriteFileAtomically(files_, "/run/checkpoints/step-000000050.e1/MANIFEST", manifest)
          .ok());
  EXPECT_EQ(Committed(), Names{"step-000000040.e1"});
}

TEST_F(Directory, NoFlippedBitOfAFileIsEverLoaded) {
  Save(40, 1, 1 + 1);
  const std::string path = "/run/checkpoints/step-000000040.e1/" + PieceName(0, 2);
  const uint64_t bits = *files_.Size(path) * 8;
  Random random(23);
  for (int i = 0; i < 2'000; ++i) {
    const uint64_t bit = random.Below(bits);
    files_.FlipBit(path, bit);
    ASSERT_EQ(checkpoints_.ReadPiece(40, 1, 0).status().code(), Code::kDataLoss) << "bit " << bit;
    files_.FlipBit(path, bit);
  }
  EXPECT_TRUE(Holds(40, 1, 0));
  files_.FlipBit("/run/checkpoints/step-000000040.e1/MANIFEST", 300);
  EXPECT_TRUE(Committed().empty());
  EXPECT_EQ(checkpoints_.ReadPiece(40, 1, 0).status().code(), Code::kDataLoss);
}

TEST_F(Directory, AFileOfAnotherSizeUncommitsAndIsNeverLoaded) {
  Save(40, 1);
  Save(80, 1);
  const std::string path = "/run/checkpoints/step-000000080.e1/" + PieceName(1, 2);
  const auto whole = *files_.ReadAll(path, 1 << 20);
  Random random(29);
  for (int i = 0; i < 200; ++i) {
    const auto cut = std::span(whole).first(random.Below(whole.size()));
    ASSERT_TRUE(io::WriteFileAtomically(files_, path, cut).ok());
    ASSERT_EQ(Committed(), Names{"step-000000040.e1"});
    ASSERT_EQ(checkpoints_.ReadPiece(80, 1, 1).status().code(), Code::kDataLoss);
  }
  ASSERT_TRUE(files_.Remove(path).ok());
  EXPECT_EQ(Committed(), Names{"step-000000040.e1"});
  EXPECT_EQ(checkpoints_.ReadPiece(80, 1, 1).status().code(), Code::kDataLoss);
}

TEST_F(Directory, AFullDiskNamesThePathAndLeavesTheOlderOnes) {
  Save(40, 1);
  const State state(TinyPlan(), 1);
  for (const uint64_t space : {0u, 3'000u, 5'000u}) {  // none, in the header, in the data
    files_.SetFreeBytes(space);
    const Status status =
        checkpoints_.WritePiece(80, 1, 0, 2, state.plan(), state.Tensors()).status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_NE(status.message().find("/run/checkpoints/step-000000080.e1"), std::string::npos);
    EXPECT_EQ(*files_.List("/run/checkpoints"), Names{"step-000000040.e1"}) << "nothing is left";
  }
  EXPECT_TRUE(Holds(40, 1, 0));
  files_.SetFreeBytes(1 << 20);
  Save(80, 1);
  EXPECT_TRUE(Holds(80, 1, 1));
}

}  // namespace
}  // namespace longhaul::checkpoint
