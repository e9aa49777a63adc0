#include "checkpoint/resume_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "checkpoint/testing.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::HasSubstr;

class ResumePointTest : public testing::Test {
 protected:
  void Save(uint64_t step) {
    CheckpointDirectory directory(files_, steps_);
    const testing_support::State state(testing_support::TinyPlan(), step);
    Manifest manifest = testing_support::ManifestOf(step, 1, 1);
    const auto piece = directory.WritePiece(step, 1, 0, 1, state.plan(), state.Tensors());
    ASSERT_TRUE(piece.ok()) << piece.status();
    manifest.files.push_back(*piece);
    ASSERT_TRUE(directory.Commit(manifest).ok());
  }
  std::string PathOf(uint64_t step) const {
    return steps_ + "/" + CheckpointDirectory::NameOf(step, 1);
  }
  void FlipLastByte(const std::string& path) {
    auto bytes = *files_.ReadAll(path, 1 << 20);
    bytes.back() ^= std::byte{1};
    ASSERT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
  }
  Result<ResumePoint> Find() {
    return FindResumePoint(files_, steps_, [](const Manifest&) { return Status(); });
  }

  TemporaryFolder folder_{testing::TempDir()};
  io::FileSystem& files_ = io::PosixFileSystem();
  const std::string steps_ = folder_.path() + "/checkpoints";
};

TEST_F(ResumePointTest, OfAFolderThatIsAbsentIsNone) {
  const auto point = Find();
  ASSERT_TRUE(point.ok()) << point.status();
  EXPECT_FALSE(point->good.has_value());
  EXPECT_TRUE(point->damaged.empty());
}

// A flipped bit in a tensor, one in the manifest, an absent file: each is another way to be found.
TEST_F(ResumePointTest, NamesEveryDamagedStepAndHowManyStepsAreLost) {
  for (const uint64_t step : {5u, 10u, 20u, 30u, 40u}) Save(step);
  FlipLastByte(PathOf(40) + "/" + PieceName(0, 1));
  FlipLastByte(PathOf(30) + "/MANIFEST");
  std::filesystem::remove(PathOf(20) + "/" + PieceName(0, 1));
  FlipLastByte(PathOf(5) + "/MANIFEST");
  std::filesystem::create_directories(steps_ + "/damaged-step-000000030.e1");
  const auto point = Find();
  ASSERT_TRUE(point.ok()) << point.status();
  ASSERT_TRUE(point->good.has_value());
  EXPECT_EQ(point->good->step, 10u);
  ASSERT_EQ(point->damaged.size(), 4u);

  const auto notes = MoveDamagedAside(files_, steps_, *point, 10);
  ASSERT_TRUE(notes.ok()) << notes.status();
  ASSERT_EQ(notes->size(), 5u);
  EXPECT_THAT((*notes)[0], HasSubstr("checkpoint step-000000040.e1 is damaged ("));
  EXPECT_THAT((*notes)[0],
              HasSubstr("the hash differs) and is now named damaged-step-000000040.e1"));
  EXPECT_THAT((*notes)[1], HasSubstr("step-000000030.e1 is damaged ("));
  EXPECT_THAT((*notes)[1], HasSubstr("is now named damaged-step-000000030.e1.2"));
  EXPECT_THAT((*notes)[2], HasSubstr("rank-00000-of-00001.safetensors is absent"));
  EXPECT_THAT((*notes)[3], HasSubstr("step-000000005.e1 is damaged too"));
  EXPECT_THAT((*notes)[4], HasSubstr("30 steps of training lost"));
  EXPECT_TRUE(std::filesystem::exists(steps_ + "/damaged-step-000000040.e1/MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(PathOf(5))) << "an older one stays where it is";
}

TEST_F(ResumePointTest, WithNoGoodStepLeavesEverythingWhereItIs) {
  for (const uint64_t step : {10u, 20u}) {
    Save(step);
    FlipLastByte(PathOf(step) + "/" + PieceName(0, 1));
  }
  const auto point = Find();
  ASSERT_TRUE(point.ok()) << point.status();
  EXPECT_FALSE(point->good.has_value());
  EXPECT_EQ(point->damaged.size(), 2u);
  EXPECT_THAT(DamagedSteps(point->damaged), HasSubstr("step-000000020.e1 ("));
  EXPECT_TRUE(std::filesystem::exists(PathOf(20)));
}

TEST_F(ResumePointTest, StopsAtTheFirstErrorThatIsNoDamage) {
  Save(10);
  const auto point = FindResumePoint(
      files_, steps_, [](const Manifest&) { return FailedPrecondition("another model"); });
  EXPECT_EQ(point.status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace longhaul::checkpoint
