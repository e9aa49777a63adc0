#include "checkpoint/reshard/find_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/directory.h"
#include "checkpoint/formats/testing.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing::HasSubstr;
using testing_support::ManifestOf;
using testing_support::Put;
using testing_support::State;

constexpr const char* kSteps = "/runs/base/checkpoints";

const std::vector<TensorInfo> kWeights = {{"up", "F32", {300, 1000}}, {"norm", "F32", {1000}}};

// The rank's half of the larger weight and of its moment, and the smaller one whole.
StatePlan PlanOf(int64_t rank) {
  const TensorPart half{"up", {300, 1000}, {150 * rank, 0}};
  const TensorPart moment{"optimizer.first_moment.up", {300, 1000}, {150 * rank, 0}};
  return *StatePlan::Create({{"up", "F32", {150, 1000}, half},
                             {"norm", "F32", {1000}},
                             {"optimizer.first_moment.up", "F32", {150, 1000}, moment}});
}

void Save(io::FileSystem& files, uint64_t step) {
  CheckpointDirectory directory(files, kSteps);
  Manifest manifest = ManifestOf(step, 1, 2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const State state(PlanOf(rank), step);
    const auto piece = directory.WritePiece(step, 1, rank, 2, state.plan(), state.Tensors());
    ASSERT_TRUE(piece.ok()) << piece.status();
    manifest.files.push_back(*piece);
  }
  ASSERT_TRUE(directory.Commit(manifest).ok());
}

std::string StepPath(uint64_t step) {
  return std::string(kSteps) + "/" + CheckpointDirectory::NameOf(step, 1);
}

// Flips a bit of the second rank's tensor of this index.
std::string Damage(io::FileSystem& files, uint64_t step, size_t tensor) {
  CheckpointDirectory directory(files, kSteps);
  const Manifest manifest = *directory.Read(step, 1);
  const auto shard = *directory.OpenShard(manifest, manifest.files[1]);
  const auto bytes = *files.ReadAll(shard.path, 1 << 24);
  std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  content[shard.header.offsets[tensor] + 5] ^= 1;
  Put(files, shard.path, content);
  return shard.path;
}

TEST(FindWeights, TellsOfNewerStepsWithADamagedManifestOrAnAbsentFile) {
  sim::CrashFileSystem files;
  for (const uint64_t step : {10u, 20u, 30u}) Save(files, step);
  files.FlipBit(StepPath(30) + "/MANIFEST", 200);
  ASSERT_TRUE(files.Remove(StepPath(20) + "/" + PieceName(0, 2)).ok());
  auto found = FindWeights(files, kSteps, kWeights);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->step, 10u);
  ASSERT_EQ(found->passed_over.size(), 2u);
  EXPECT_THAT(found->passed_over[0], HasSubstr("step-000000030.e1/MANIFEST"));
  EXPECT_THAT(found->passed_over[1], HasSubstr("is absent"));
  files.FlipBit(StepPath(10) + "/MANIFEST", 200);
  found = FindWeights(files, kSteps, kWeights);
  EXPECT_EQ(found.status().code(), Code::kDataLoss) << "damaged is not absent";
}

TEST(FindWeights, TakesTheNewestStepOfARunOrTheOneThatIsNamed) {
  sim::CrashFileSystem files;
  Save(files, 10);
  Save(files, 20);
  const struct {
    std::string path;
    uint64_t step;
  } kRows[] = {{"/runs/base", 20}, {"/runs/base///", 20}, {kSteps, 20}, {StepPath(10), 10}};
  for (const auto& row : kRows) {
    const auto found = FindWeights(files, row.path, kWeights);
    ASSERT_TRUE(found.ok()) << row.path << ": " << found.status();
    EXPECT_EQ(found->folder, kSteps) << row.path;
    EXPECT_EQ(found->step, row.step) << row.path;
    EXPECT_EQ(found->attempt, 1u);
    EXPECT_TRUE(found->passed_over.empty());
  }
}

TEST(FindWeights, PassesOverADamagedStepAndSaysSo) {
  sim::CrashFileSystem files;
  Save(files, 10);
  Save(files, 20);
  const std::string damaged = Damage(files, 20, 0);
  const auto found = FindWeights(files, "/runs/base", kWeights);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->step, 10u);
  ASSERT_EQ(found->passed_over.size(), 1u);
  EXPECT_THAT(found->passed_over[0], HasSubstr(damaged));
}

TEST(FindWeights, RefusesTheNamedStepWhereItIsDamagedAndARunWithoutAGoodOne) {
  sim::CrashFileSystem files;
  Save(files, 10);
  const std::string damaged = Damage(files, 10, 0);
  for (const std::string& path : {StepPath(10), std::string("/runs/base")}) {
    const auto found = FindWeights(files, path, kWeights);
    ASSERT_FALSE(found.ok()) << path;
    EXPECT_EQ(found.status().code(), Code::kDataLoss) << found.status();
    EXPECT_THAT(found.status().message(), HasSubstr(damaged));
  }
}

// What begins anew needs no moments.
TEST(FindWeights, DoesNotMindDamageOutsideOfTheWeights) {
  sim::CrashFileSystem files;
  Save(files, 10);
  Damage(files, 10, 2);
  const auto found = FindWeights(files, "/runs/base", kWeights);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->step, 10u);
}

TEST(FindWeights, TellsHowAnotherModelDiffers) {
  sim::CrashFileSystem files;
  Save(files, 10);
  const struct {
    std::vector<TensorInfo> weights;
    const char* reason;
  } kRows[] = {
      {{{"up", "F32", {300, 1000}}, {"norm", "F32", {1000}}, {"down", "F32", {4}}},
       "of 3 tensors of the model 1 are missing and 0 have another shape or type, 0 of the "
       "checkpoint are not in the model; the first is down, F32 [4] in the model, which the "
       "checkpoint lacks"},
      {{{"up", "F32", {300, 500}}, {"norm", "F64", {1000}}},
       "of 2 tensors of the model 0 are missing and 2 have another shape or type, 0 of the "
       "checkpoint are not in the model; the first is up, F32 [300, 500] in the model, F32 [300, "
       "1000] in the checkpoint"},
      {{{"up", "F32", {300, 1000}}},
       "of 1 tensors of the model 0 are missing and 0 have another shape or type, 1 of the "
       "checkpoint are not in the model; the first is norm, F32 [1000] in the checkpoint, which "
       "the model lacks"},
  };
  for (const auto& row : kRows) {
    const auto found = FindWeights(files, "/runs/base", row.weights);
    ASSERT_FALSE(found.ok()) << row.reason;
    EXPECT_EQ(found.status().code(), Code::kFailedPrecondition);
    EXPECT_EQ(found.status().message(),
              StepPath(10) + " is of another model: " + std::string(row.reason));
  }
}

TEST(FindWeights, SaysWhatIsThereInstead) {
  sim::CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/empty/checkpoints").ok());
  ASSERT_TRUE(files.MakeDirectories("/theirs").ok());
  Put(files, "/theirs/model.safetensors", "x");
  const struct {
    const char* path;
    Code code;
    const char* reason;
  } kRows[] = {
      {"/nowhere", Code::kNotFound, "no checkpoint at /nowhere"},
      {"/empty", Code::kNotFound, "/empty/checkpoints has no committed step"},
      {"/theirs", Code::kInvalidArgument, "longhaul checkpoint convert"},
      {"/theirs/model.safetensors", Code::kInvalidArgument, "longhaul checkpoint convert"},
  };
  for (const auto& row : kRows) {
    const auto found = FindWeights(files, row.path, kWeights);
    ASSERT_FALSE(found.ok()) << row.path;
    EXPECT_EQ(found.status().code(), row.code) << found.status();
    EXPECT_THAT(found.status().message(), HasSubstr(row.reason));
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
