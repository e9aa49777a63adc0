// The training loop as a whole, on a tiny model and text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "checkpoint/directory.h"
#include "corpus/sample_record.h"
#include "io/files/file.h"
#include "trainer/trainer_fixture.h"

namespace longhaul::trainer {
namespace {

TEST_F(Trainer, LearnsATinyText) {
  config_.train.steps = 30;
  MemoryWorkerApi worker_api;
  Run(worker_api);
  ASSERT_EQ(worker_api.reports.size(), 30u);
  EXPECT_NEAR(worker_api.reports.front().loss, std::log(257), 0.1);
  EXPECT_LT(worker_api.reports.back().loss, 2.0);
  EXPECT_LT(worker_api.reports.back().validation_loss, 2.0);
  EXPECT_TRUE(std::isnan(worker_api.reports[0].validation_loss));
  EXPECT_FALSE(std::isnan(worker_api.reports[9].validation_loss));
  EXPECT_EQ(worker_api.reports[0].tokens, 8u * 16);
  EXPECT_EQ(worker_api.saved_step, 30u);
  EXPECT_EQ(worker_api.phases, (std::vector{Phase::kRestore, Phase::kStepping, Phase::kFinishing}));
  EXPECT_NE(worker_api.result.find("\"weights_hash\""), std::string::npos);
}

TEST_F(Trainer, RestoredRunsEndInTheSameBits) {
  MemoryWorkerApi straight;
  const uint64_t want = Run(straight);
  for (const uint64_t step : {1u, 10u, 19u}) {
    MemoryWorkerApi worker_api;
    worker_api.snapshot_at = step;
    worker_api.fail_at = std::min<uint64_t>(step + 3, 20);  // the steps since are lost
    Status ended;
    Run(worker_api, &ended);
    EXPECT_EQ(ended.code(), Code::kUnavailable);
    ASSERT_EQ(worker_api.saved_step, step);
    worker_api.snapshot_at = 0;
    worker_api.fail_at = 0;
    worker_api.reports.clear();
    EXPECT_EQ(Run(worker_api), want) << "restored at step " << step;
    EXPECT_EQ(worker_api.reports.front().step, step + 1);
  }
}

TEST_F(Trainer, ARunRestoredAfterItsLastStepFinishes) {
  MemoryWorkerApi worker_api;
  const uint64_t want = Run(worker_api);
  worker_api.reports.clear();
  worker_api.result.clear();
  EXPECT_EQ(Run(worker_api), want);
  EXPECT_TRUE(worker_api.reports.empty());
  EXPECT_NE(worker_api.result.find("\"validation_loss\":"), std::string::npos);
}

TEST_F(Trainer, SavesAndEndsWhenStopIsRequested) {
  stop_ = true;
  MemoryWorkerApi worker_api;
  Status ended;
  Run(worker_api, &ended);
  EXPECT_EQ(ended.code(), Code::kCancelled);
  EXPECT_EQ(worker_api.saved_step, 1u);
  EXPECT_EQ(worker_api.reports.size(), 1u);
}

TEST_F(Trainer, RecordsTheSamplesOfEachStep) {
  config_.record_samples = true;
  config_.train.steps = 2;
  MemoryWorkerApi worker_api;
  Run(worker_api);
  const auto bytes = io::PosixFileSystem().ReadAll(directory_ + "/samples/rank-0.e1.bin", 1 << 20);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto records = corpus::ParseSampleRecords(*bytes);
  ASSERT_TRUE(records.ok() && records->size() == 2);
  EXPECT_EQ((*records)[1].step, 2u);
  const uint64_t samples = corpus::SamplesIn(4000, 16);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ((*records)[1].samples[i], (8 + i) * 7919 % samples);
}

// Once a rank has its sum it can save the step, and the run can continue from there: the others
// must have written down theirs before they gave their part of the sum.
TEST_F(Trainer, RecordsSamplesBeforeTheGradientsAreSummed) {
  config_.record_samples = true;
  config_.train.steps = 3;
  MemoryWorkerApi worker_api;
  std::vector<uint64_t> recorded;
  worker_api.before_sum = [&](uint64_t) {
    const auto bytes =
        io::PosixFileSystem().ReadAll(directory_ + "/samples/rank-0.e1.bin", 1 << 20);
    const auto records = corpus::ParseSampleRecords(*bytes);
    recorded.push_back(records->empty() ? 0 : records->back().step);
  };
  Run(worker_api);
  EXPECT_EQ(recorded, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(Trainer, MicroBatchesDoNotChangeTheGradient) {
  std::vector<std::vector<float>> gradients;
  for (const uint32_t micro : {0u, 3u, 1u}) {
    config_.micro_batch = micro;
    MemoryWorkerApi worker_api;
    const auto loop = MakeLoop(worker_api);
    EXPECT_TRUE(loop->Fresh().ok());
    StepReport report;
    ASSERT_TRUE(loop->Step(1, report).ok());
    gradients.emplace_back(loop->gradients().begin(), loop->gradients().end());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    ASSERT_NEAR(gradients[0][i], gradients[1][i], 1e-6) << i;
    ASSERT_NEAR(gradients[0][i], gradients[2][i], 1e-6) << i;
  }
}

TEST_F(Trainer, TwoReplicasGiveTheGradientOfOneAndTheSameBitsEachTime) {
  MemoryWorkerApi worker_api;
  const auto loop = MakeLoop(worker_api);
  EXPECT_TRUE(loop->Fresh().ok());
  StepReport report;
  ASSERT_TRUE(loop->Step(1, report).ok());
  const auto want = loop->gradients();

  // The first gradient, and the weights after five steps.
  const auto work = [&](Communicators& groups, int) {
    MemoryWorkerApi own_api;
    auto own = Loop::Create(config_, groups, own_api, stop_);
    if (!own.ok()) _exit(8);
    if (!(*own)->Fresh().ok()) _exit(9);
    StepReport own_report;
    if (!(*own)->Step(1, own_report).ok()) _exit(5);
    std::vector<float> result((*own)->gradients().begin(), (*own)->gradients().end());
    for (uint64_t step = 2; step <= 5; ++step) {
      if (!(*own)->Step(step, own_report).ok()) _exit(5);
    }
    const auto weights = (*own)->weights();
    result.insert(result.end(), weights.begin(), weights.end());
    return result;
  };
  const auto first = RunRanks({2, 1, 1}, work);
  const auto second = RunRanks({2, 1, 1}, work);
  ASSERT_EQ(first[0].size(), want.size() + loop->weights().size());
  EXPECT_EQ(first[0], first[1]);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_EQ(first[0], second[1]);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(want[i], first[0][i], 1e-6) << i;
  }
}

// Commits what a loop holds as step 3 of a run in `folder`.
void Commit(Loop& loop, const std::string& folder) {
  std::vector<checkpoint::TensorInfo> infos;
  std::vector<std::span<const std::byte>> memory;
  for (const StateTensor& tensor : loop.State()) {
    infos.push_back({tensor.name, "F32", tensor.shape});
    memory.push_back(std::as_bytes(tensor.values));
  }
  checkpoint::CheckpointDirectory directory(io::PosixFileSystem(), folder);
  checkpoint::Manifest manifest;
  manifest.job = "base";
  manifest.step = 3;
  manifest.attempt = 2;
  manifest.world = 1;
  const auto plan = *checkpoint::StatePlan::Create(std::move(infos));
  const auto piece = directory.WritePiece(3, 2, 0, 1, plan, memory);
  ASSERT_TRUE(piece.ok()) << piece.status();
  manifest.files.push_back(*piece);
  ASSERT_TRUE(directory.Commit(manifest).ok());
}

TEST_F(Trainer, BeginsWithACheckpointsWeightsAndMomentsOfZero) {
  MemoryWorkerApi worker_api;
  const auto base = MakeLoop(worker_api);
  ASSERT_TRUE(base->Fresh().ok());
  StepReport report;
  for (uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(base->Step(step, report).ok());
  Commit(*base, directory_ + "/base");

  config_.from = StartingWeights{directory_ + "/base", 3, 2};
  config_.train.seed = 77;  // not these
  const auto tuned = MakeLoop(worker_api);
  ASSERT_TRUE(tuned->Fresh().ok());
  EXPECT_EQ(tuned->WeightsHash(), base->WeightsHash());
  size_t moments = 0;
  for (const StateTensor& tensor : tuned->State()) {
    if (!tensor.name.starts_with("optimizer.")) continue;
    ++moments;
    EXPECT_TRUE(std::all_of(tensor.values.begin(), tensor.values.end(), [](float value) {
      return value == 0;
    })) << tensor.name;
  }
  EXPECT_EQ(moments, 2 * tuned->table().parameters().size());
}

// Not with other weights, and without the word for damaged snapshots of this run's own.
TEST_F(Trainer, DoesNotBeginWhereTheWeightsAreGone) {
  config_.from = StartingWeights{directory_ + "/base", 3, 2};
  MemoryWorkerApi worker_api;
  Status ended;
  Run(worker_api, &ended);
  EXPECT_EQ(ended.code(), Code::kFailedPrecondition) << ended;
  EXPECT_NE(ended.message().find("step 3 in " + directory_ + "/base"), std::string::npos) << ended;
  EXPECT_TRUE(worker_api.reports.empty());
}

// A restart after a snapshot has nothing to do with where the run began.
TEST_F(Trainer, GoesOnFromItsSnapshotWhereTheWeightsAreGone) {
  MemoryWorkerApi worker_api;
  worker_api.snapshot_at = 5;
  worker_api.fail_at = 7;
  Status ended;
  Run(worker_api, &ended);
  ASSERT_EQ(worker_api.saved_step, 5u);
  worker_api.fail_at = 0;
  config_.from = StartingWeights{directory_ + "/base", 3, 2};
  const uint64_t restored = Run(worker_api);
  config_.from.reset();
  MemoryWorkerApi straight;
  EXPECT_EQ(restored, Run(straight));
}

}  // namespace
}  // namespace longhaul::trainer

// BLAS is single-threaded from its loading on, and libtorch is ready before the first fork.
int main(int argc, char** argv) {
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  longhaul::trainer::PrepareTorch();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
