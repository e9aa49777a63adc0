// The training loop as a whole, on a tiny model and text.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "corpus/corpus.h"
#include "corpus/sample_record.h"
#include "corpus/token_file.h"
#include "io/file.h"
#include "io/socket.h"
#include "trainer/loop.h"

namespace longhaul::trainer {
namespace {

// An agent made of memory: keeps the last snapshot, gives it back to the next who asks.
class MemoryDoor final : public JobDoor {
 public:
  std::string Config() override { return ""; }
  uint64_t Epoch() override { return 1; }
  Status Enter(Phase phase) override {
    phases.push_back(phase);
    return {};
  }
  Status Register(const std::vector<StateTensor>& tensors) override {
    tensors_ = tensors;
    return {};
  }
  Result<uint64_t> Restore() override {
    for (size_t i = 0; saved_step > 0 && i < tensors_.size(); ++i) {
      std::copy(saved[i].begin(), saved[i].end(), tensors_[i].values.begin());
    }
    return saved_step;
  }
  bool SnapshotDue(uint64_t step) override { return step == snapshot_at; }
  Status Snapshot(uint64_t step) override {
    saved.clear();
    for (const StateTensor& tensor : tensors_) {
      saved.emplace_back(tensor.values.begin(), tensor.values.end());
    }
    saved_step = step;
    return {};
  }
  Status Report(const StepReport& report) override {
    reports.push_back(report);
    return report.step == fail_at ? Unavailable("the agent is gone") : Status();
  }
  Status Finish(const std::string& json) override {
    result = json;
    return {};
  }
  uint64_t Sample(uint64_t position, uint64_t samples) override {
    return position * 7919 % samples;
  }

  uint64_t snapshot_at = 0;
  uint64_t fail_at = 0;
  uint64_t saved_step = 0;
  std::vector<std::vector<float>> saved;
  std::vector<Phase> phases;
  std::vector<StepReport> reports;
  std::string result;

 private:
  std::vector<StateTensor> tensors_;
};

class Trainer : public testing::Test {
 protected:
  Trainer() {
    std::string pattern = testing::TempDir() + "trainer_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    config_.model.layers = 1;
    config_.model.hidden = 32;
    config_.model.heads = 2;
    config_.model.sequence = 16;
    config_.train.steps = 20;
    config_.train.global_batch = 8;
    config_.train.learning_rate = 0.02;
    config_.train.warmup_steps = 2;
    config_.train.evaluate_every = 10;
    config_.train.evaluate_sequences = 8;
    config_.sample.bytes = 8;
    config_.data_directory = directory_;
    config_.run_directory = directory_;
    WriteTokens(corpus::kTrainFile, 4000);
    WriteTokens(corpus::kHeldOutFile, 500);
  }
  ~Trainer() override { std::filesystem::remove_all(directory_); }

  void WriteTokens(const char* name, size_t count) {
    static constexpr std::string_view kText = "for (int i = 0; i < n; ++i) sum += values[i];\n";
    std::vector<uint16_t> tokens;
    for (size_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<unsigned char>(kText[i % kText.size()]));
    }
    auto writer = corpus::TokenWriter::Create(directory_ + "/" + name, corpus::kVocabulary);
    ASSERT_TRUE(writer.ok() && (*writer)->Append(tokens).ok() && (*writer)->Finish().ok());
  }

  // Runs to the end on one rank; returns the hash of the weights.
  uint64_t Run(MemoryDoor& door, Status* ended = nullptr) {
    auto group = Group::Join({});
    auto loop = Loop::Create(config_, **group, door, stop_);
    EXPECT_TRUE(loop.ok()) << loop.status();
    const Status status = (*loop)->Run();
    if (ended == nullptr) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      *ended = status;
    }
    return (*loop)->WeightsHash();
  }

  TrainerConfig config_;
  std::string directory_;
  std::atomic<bool> stop_ = false;
};

TEST_F(Trainer, LearnsATinyText) {
  config_.train.steps = 30;
  MemoryDoor door;
  Run(door);
  ASSERT_EQ(door.reports.size(), 30u);
  EXPECT_NEAR(door.reports.front().loss, std::log(257), 0.1);
  EXPECT_LT(door.reports.back().loss, 2.0);
  EXPECT_LT(door.reports.back().validation_loss, 2.0);
  EXPECT_TRUE(std::isnan(door.reports[0].validation_loss));
  EXPECT_FALSE(std::isnan(door.reports[9].validation_loss));
  EXPECT_EQ(door.reports[0].tokens, 8u * 16);
  EXPECT_EQ(door.saved_step, 30u);
  EXPECT_EQ(door.phases, (std::vector{Phase::kRestore, Phase::kStepping, Phase::kFinishing}));
  EXPECT_NE(door.result.find("\"weights_hash\""), std::string::npos);
}

TEST_F(Trainer, RestoredRunsEndInTheSameBits) {
  MemoryDoor straight;
  const uint64_t want = Run(straight);
  for (const uint64_t step : {1u, 10u, 19u}) {
    MemoryDoor door;
    door.snapshot_at = step;
    door.fail_at = std::min<uint64_t>(step + 3, 20);  // the steps since are lost
    Status ended;
    Run(door, &ended);
    EXPECT_EQ(ended.code(), Code::kUnavailable);
    ASSERT_EQ(door.saved_step, step);
    door.snapshot_at = 0;
    door.fail_at = 0;
    door.reports.clear();
    EXPECT_EQ(Run(door), want) << "restored at step " << step;
    EXPECT_EQ(door.reports.front().step, step + 1);
  }
}

TEST_F(Trainer, ARunRestoredAfterItsLastStepFinishes) {
  MemoryDoor door;
  const uint64_t want = Run(door);
  door.reports.clear();
  door.result.clear();
  EXPECT_EQ(Run(door), want);
  EXPECT_TRUE(door.reports.empty());
  EXPECT_NE(door.result.find("\"validation_loss\":"), std::string::npos);
}

TEST_F(Trainer, SavesAndEndsWhenToldToStop) {
  stop_ = true;
  MemoryDoor door;
  Status ended;
  Run(door, &ended);
  EXPECT_EQ(ended.code(), Code::kCancelled);
  EXPECT_EQ(door.saved_step, 1u);
  EXPECT_EQ(door.reports.size(), 1u);
}

TEST_F(Trainer, RecordsTheSamplesOfEachStep) {
  config_.record_samples = true;
  config_.train.steps = 2;
  MemoryDoor door;
  Run(door);
  const auto bytes = io::PosixFileSystem().ReadAll(directory_ + "/samples/rank-0.e1.bin", 1 << 20);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto records = corpus::ParseSampleRecords(*bytes);
  ASSERT_TRUE(records.ok() && records->size() == 2);
  EXPECT_EQ((*records)[1].step, 2u);
  const uint64_t samples = corpus::SamplesIn(4000, 16);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ((*records)[1].samples[i], (8 + i) * 7919 % samples);
}

TEST_F(Trainer, MicroBatchesDoNotChangeTheGradient) {
  std::vector<std::vector<float>> gradients;
  for (const uint32_t micro : {0u, 3u, 1u}) {
    config_.micro_batch = micro;
    MemoryDoor door;
    auto group = Group::Join({});
    auto loop = Loop::Create(config_, **group, door, stop_);
    ASSERT_TRUE(loop.ok());
    (*loop)->Fresh();
    StepReport report;
    ASSERT_TRUE((*loop)->Step(1, report).ok());
    gradients.emplace_back((*loop)->gradients().begin(), (*loop)->gradients().end());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    ASSERT_NEAR(gradients[0][i], gradients[1][i], 1e-6) << i;
    ASSERT_NEAR(gradients[0][i], gradients[2][i], 1e-6) << i;
  }
}

// What a rank of a world of two ends with, sent through a pipe.
struct RankResult {
  std::vector<float> gradients;
  uint64_t hash = 0;
};

class TwoRanks : public Trainer {
 protected:
  // A port that was free a moment ago, outside of any fixed choice.
  static uint16_t FreePort() { return io::ListenTcp("127.0.0.1", 0)->port; }

  void RunRank(int rank, uint16_t port, int out) {
    auto group = Group::Join({rank, 2, "127.0.0.1", port, rank == 0});
    if (!group.ok()) _exit(3);
    MemoryDoor door;
    auto loop = Loop::Create(config_, **group, door, stop_);
    if (!loop.ok()) _exit(4);
    (*loop)->Fresh();
    StepReport report;
    if (!(*loop)->Step(1, report).ok()) _exit(5);
    const std::vector<float> gradients((*loop)->gradients().begin(), (*loop)->gradients().end());
    for (uint64_t step = 2; step <= 5; ++step) {
      if (!(*loop)->Step(step, report).ok()) _exit(5);
    }
    // Both are done before either leaves, or the store would vanish under the other.
    double one = 1;
    if (!(*group)->Sum(std::span(&one, 1)).ok()) _exit(6);
    const uint64_t hash = (*loop)->WeightsHash();
    const auto bytes = static_cast<ssize_t>(gradients.size() * sizeof(float));
    const bool sent = write(out, gradients.data(), static_cast<size_t>(bytes)) == bytes &&
                      write(out, &hash, sizeof(hash)) == sizeof(hash);
    _exit(sent ? 0 : 7);
  }

  std::array<RankResult, 2> RunBoth(size_t floats) {
    const uint16_t port = FreePort();
    std::array<int, 2> from{};
    std::array<pid_t, 2> children{};
    for (int rank = 0; rank < 2; ++rank) {
      int ends[2];
      EXPECT_EQ(pipe(ends), 0);
      children[static_cast<size_t>(rank)] = fork();
      if (children[static_cast<size_t>(rank)] == 0) RunRank(rank, port, ends[1]);
      close(ends[1]);
      from[static_cast<size_t>(rank)] = ends[0];
    }
    std::array<RankResult, 2> results;
    for (size_t rank = 0; rank < 2; ++rank) {
      results[rank].gradients.resize(floats);
      std::vector<char> bytes(floats * 4 + 8);
      size_t filled = 0;
      ssize_t got = 0;
      while ((got = read(from[rank], bytes.data() + filled, bytes.size() - filled)) > 0) {
        filled += static_cast<size_t>(got);
      }
      EXPECT_EQ(filled, bytes.size());
      std::memcpy(results[rank].gradients.data(), bytes.data(), floats * 4);
      std::memcpy(&results[rank].hash, bytes.data() + floats * 4, 8);
      close(from[rank]);
      int status = 0;
      waitpid(children[rank], &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << ": " << status;
    }
    return results;
  }
};

TEST_F(TwoRanks, GiveTheGradientOfOneAndTheSameBitsEachTime) {
  MemoryDoor door;
  auto group = Group::Join({});
  auto loop = Loop::Create(config_, **group, door, stop_);
  ASSERT_TRUE(loop.ok());
  (*loop)->Fresh();
  StepReport report;
  ASSERT_TRUE((*loop)->Step(1, report).ok());
  const auto want = (*loop)->gradients();

  const auto first = RunBoth(want.size());
  const auto second = RunBoth(want.size());
  EXPECT_EQ(first[0].gradients, first[1].gradients);
  EXPECT_EQ(first[0].hash, first[1].hash);
  EXPECT_EQ(first[0].hash, second[0].hash);
  EXPECT_EQ(first[0].hash, second[1].hash);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(want[i], first[0].gradients[i], 1e-6) << i;
  }
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
