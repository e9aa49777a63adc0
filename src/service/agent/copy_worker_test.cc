// A run's checkpoints to the second tier and back, through real files.
//
// LONGHAUL_COPY_TO names another place than a directory, such as s3://BUCKET/PREFIX of a real store
// (its keys in the environment): what is damaged by hand is left out then.
#include "service/agent/copy_worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "checkpoint/directory.h"
#include "checkpoint/testing.h"
#include "io/clock.h"
#include "io/event_loop.h"
#include "io/files/file.h"
#include "objects/files.h"

namespace longhaul::service {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::testing_support::ManifestOf;
using checkpoint::testing_support::SmallPlan;
using checkpoint::testing_support::State;

class CopyWorkerTest : public ::testing::Test {
 protected:
  CopyWorkerTest() {
    char name[] = "/tmp/copy-worker-test-XXXXXX";
    folder_ = mkdtemp(name);
    run_ = folder_ + "/runs/gpt" + folder_.substr(folder_.rfind('-'));
    const char* given = std::getenv("LONGHAUL_COPY_TO");
    real_ = given != nullptr;
    to_ = real_ ? given : folder_ + "/shared";
  }
  ~CopyWorkerTest() override { std::filesystem::remove_all(folder_); }

  void Save(uint64_t step) {
    CheckpointDirectory local(io::PosixFileSystem(), run_ + "/checkpoints");
    const State state(SmallPlan(), step);
    const auto piece = local.WritePiece(step, 1, 0, 1, SmallPlan(), state.Tensors());
    ASSERT_TRUE(piece.ok()) << piece.status();
    checkpoint::Manifest order = ManifestOf(step, 1, 1);
    order.files.push_back(*piece);
    ASSERT_TRUE(local.Commit(order).ok());
  }
  runtime::StartOrder Start(uint64_t bytes_per_second = 0) {
    proto::StartWorkers start;
    start.set_attempt(2);
    proto::SnapshotPolicy& policy = *start.mutable_job()->mutable_snapshot();
    policy.set_copy_to(to_);
    policy.set_keep(2);
    policy.set_copy_bytes_per_second(bytes_per_second);
    policy.set_copy_compressed(packed_);
    return std::make_shared<const proto::StartWorkers>(start);
  }
  // Runs one piece of work to its answer.
  template <typename Answer>
  Answer Do(const std::function<void(CopyWorker&)>& work) {
    std::optional<Answer> got;
    CopyWorker worker(*loop_, [&](runtime::AgentInput input) {
      got = std::get<Answer>(input);
      loop_->Stop();
    });
    work(worker);
    loop_->Run();
    return *got;
  }
  runtime::CheckpointCopied Copy(uint64_t step, uint64_t bytes_per_second = 0) {
    return Do<runtime::CheckpointCopied>([&](CopyWorker& worker) {
      worker.Copy({JobId("job-1"), 1, step, Start(bytes_per_second)}, run_);
    });
  }
  std::string Fetch(uint64_t step) {
    proto::Restore restore;
    restore.set_tier(proto::Restore::TIER_SHARED);
    restore.set_step(step);
    restore.set_saved_attempt(1);
    return Do<runtime::CheckpointFetched>([&](CopyWorker& worker) {
             worker.Fetch({JobId("job-1"), 2, restore, Start()}, run_);
           })
        .error;
  }
  std::vector<uint64_t> StepsThere() {
    const auto place = objects::Place::Open(CopyPlace(to_, run_));
    CheckpointDirectory there(place->files(), place->path());
    std::vector<uint64_t> steps;
    const auto listed = there.List();
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const auto& manifest : *listed) {
      steps.push_back(manifest.step);
      const Status whole = there.Verify(manifest);
      EXPECT_TRUE(whole.ok()) << whole;
    }
    return steps;
  }
  bool IsThere(uint64_t step) {
    CheckpointDirectory local(io::PosixFileSystem(), run_ + "/checkpoints");
    const auto loaded = local.ReadPiece(step, 1, 0);
    return loaded.ok() && State(SmallPlan(), step).Equals(loaded->Tensors());
  }
  void FlipAByte(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-100, std::ios::end);
    const char byte = static_cast<char>(file.get());
    file.seekp(-100, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  std::string folder_, run_, to_;
  bool real_ = false;
  bool packed_ = false;
};

constexpr char kShard[] = "/step-000000030.e1/rank-00000-of-00001.safetensors";

TEST_F(CopyWorkerTest, WhatTheDiskLosesComesBackBitForBit) {
  for (const uint64_t step : {10u, 20u, 30u}) {
    Save(step);
    const auto copied = Copy(step);
    ASSERT_EQ(copied.error, "");
    EXPECT_GT(copied.bytes, SmallPlan().total_bytes());
  }
  EXPECT_EQ(StepsThere(), (std::vector<uint64_t>{30, 20})) << "the newest two are kept";
  std::filesystem::remove_all(run_);
  EXPECT_EQ(Fetch(30), "");
  EXPECT_TRUE(IsThere(30));
  FlipAByte(run_ + "/checkpoints" + kShard);
  EXPECT_FALSE(IsThere(30));
  EXPECT_EQ(Fetch(30), "") << "a damaged one on disk is replaced";
  EXPECT_TRUE(IsThere(30));
  EXPECT_NE(Fetch(40), "");
}

// Packed from one copy to the next, and no more after that: what is there stays readable.
TEST_F(CopyWorkerTest, PackedCopiesComeBackBitForBit) {
  for (const uint64_t step : {20u, 30u}) {
    packed_ = step == 30;
    Save(step);
    ASSERT_EQ(Copy(step).error, "");
  }
  packed_ = false;
  EXPECT_EQ(StepsThere(), (std::vector<uint64_t>{30, 20}));
  if (!real_) {
    EXPECT_TRUE(std::filesystem::exists(CopyPlace(to_, run_) + kShard + ".zst"));
    EXPECT_FALSE(std::filesystem::exists(CopyPlace(to_, run_) + kShard));
  }
  std::filesystem::remove_all(run_);
  for (const uint64_t step : {20u, 30u}) {
    EXPECT_EQ(Fetch(step), "");
    EXPECT_TRUE(IsThere(step));
  }
  if (real_) return;
  EXPECT_TRUE(std::filesystem::exists(run_ + "/checkpoints" + kShard)) << "as any on disk";
  FlipAByte(CopyPlace(to_, run_) + kShard + ".zst");
  std::filesystem::remove_all(run_);
  const std::string error = Fetch(30);
  EXPECT_NE(error.find("differs"), std::string::npos) << error;
  EXPECT_FALSE(IsThere(30));
  EXPECT_EQ(Fetch(20), "");
}

TEST_F(CopyWorkerTest, ADamagedCopyIsReportedAndLeavesNothingOnDisk) {
  if (real_) GTEST_SKIP();
  Save(30);
  ASSERT_EQ(Copy(30).error, "");
  FlipAByte(CopyPlace(to_, run_) + kShard);
  std::filesystem::remove_all(run_);
  const std::string error = Fetch(30);
  EXPECT_NE(error.find("the hash differs"), std::string::npos) << error;
  EXPECT_FALSE(std::filesystem::exists(run_ + "/checkpoints/step-000000030.e1/MANIFEST"));
}

TEST_F(CopyWorkerTest, KeepsToItsBandwidth) {
  packed_ = true;  // then what is sent counts
  Save(30);
  ASSERT_EQ(Copy(30).error, "");
  Save(40);
  const Instant begin = io::MonotonicNow();
  {
    CopyWorker worker(*loop_, [](const runtime::AgentInput&) {});
    worker.Copy({JobId("job-1"), 1, 40, Start(1)}, run_);  // for days
  }
  EXPECT_LT(io::MonotonicNow() - begin, std::chrono::seconds(5)) << "its end ends the copy";
  EXPECT_EQ(StepsThere(), std::vector<uint64_t>{30});
}

TEST(CopyPlace, IsNamedAsTheRun) {
  EXPECT_EQ(CopyPlace("s3://models/a", "/home/me/runs/gpt-1"), "s3://models/a/gpt-1");
  EXPECT_EQ(CopyPlace("/shared/", "runs/gpt/"), "/shared/gpt");
}

}  // namespace
}  // namespace longhaul::service
