// Shared code of the trainer's tests: an agent in memory, a tiny text, ranks as forked processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/corpus.h"
#include "corpus/token_file.h"
#include "io/net/socket.h"
#include "trainer/loop.h"

namespace longhaul::trainer {

// An agent in memory: keeps the last snapshot and returns it to the next Restore.
class MemoryWorkerApi final : public WorkerApi {
 public:
  std::string Config() override { return ""; }
  uint64_t Attempt() override { return 1; }
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
  bool SnapshotDue(uint64_t step) override {
    if (before_sum) before_sum(step);
    return step == snapshot_at;
  }
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

  std::function<void(uint64_t step)> before_sum;  // of the step's gradients over the replicas
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

  // A loop of one rank.
  std::unique_ptr<Loop> MakeLoop(WorkerApi& worker_api) {
    world_ = std::move(*Group::Join({}));
    groups_ = std::move(*Communicators::Create(*world_, *Mesh::Create({}, 1, 0)));
    auto loop = Loop::Create(config_, *groups_, worker_api, stop_);
    EXPECT_TRUE(loop.ok()) << loop.status();
    return std::move(*loop);
  }

  // Runs to the end on one rank; returns the hash of the weights.
  uint64_t Run(MemoryWorkerApi& worker_api, Status* ended = nullptr) {
    const auto loop = MakeLoop(worker_api);
    const Status status = loop->Run();
    if (ended == nullptr) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      *ended = status;
    }
    return loop->WeightsHash();
  }

  // The work of one of several ranks; returns the rank's result.
  using RankWork = std::function<std::vector<float>(Communicators& groups, int rank)>;

  // Runs `work` on ranks in separate processes. Returns every rank's result, by rank.
  static std::vector<std::vector<float>> RunRanks(const MeshSizes& sizes, const RankWork& work) {
    const auto world = static_cast<int>(sizes.data * sizes.tensor * sizes.pipeline);
    // A port that was free a moment ago, outside of any fixed choice.
    const uint16_t port = io::ListenTcp("127.0.0.1", 0)->port;
    std::vector<int> from;
    std::vector<pid_t> children;
    for (int rank = 0; rank < world; ++rank) {
      int ends[2];
      EXPECT_EQ(pipe(ends), 0);
      children.push_back(fork());
      if (children.back() == 0) RunRank(sizes, rank, port, ends[1], work);
      close(ends[1]);
      from.push_back(ends[0]);
    }
    std::vector<std::vector<float>> results;
    for (size_t rank = 0; rank < from.size(); ++rank) {
      std::string bytes;
      char buffer[1 << 16];
      for (ssize_t got = 0; (got = read(from[rank], buffer, sizeof(buffer))) > 0;) {
        bytes.append(buffer, static_cast<size_t>(got));
      }
      close(from[rank]);
      results.emplace_back(bytes.size() / sizeof(float));
      std::memcpy(results.back().data(), bytes.data(), results.back().size() * sizeof(float));
      int status = 0;
      waitpid(children[rank], &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << ": " << status;
    }
    return results;
  }

  TrainerConfig config_;
  std::string directory_;
  std::atomic<bool> stop_ = false;

 private:
  [[noreturn]] static void RunRank(const MeshSizes& sizes, int rank, uint16_t port, int out,
                                   const RankWork& work) {
    alarm(60);
    const auto world = static_cast<int>(sizes.data * sizes.tensor * sizes.pipeline);
    auto group = Group::Join({rank, world, "127.0.0.1", port, rank == 0});
    if (!group.ok()) _exit(3);
    const auto mesh =
        Mesh::Create(sizes, static_cast<uint32_t>(world), static_cast<uint32_t>(rank));
    auto groups = Communicators::Create(**group, *mesh);
    if (!groups.ok()) _exit(4);
    const std::vector<float> result = work(**groups, rank);
    // All must be done before any leaves; otherwise the store would vanish for the others.
    double one = 1;
    if (!(*group)->Sum(std::span(&one, 1)).ok()) _exit(6);
    const char* bytes = reinterpret_cast<const char*>(result.data());
    for (size_t left = result.size() * sizeof(float); left > 0;) {
      const ssize_t written = write(out, bytes, left);
      if (written <= 0) _exit(7);
      bytes += written;
      left -= static_cast<size_t>(written);
    }
    _exit(0);
  }

  std::unique_ptr<Group> world_;
  std::unique_ptr<Communicators> groups_;
};

}  // namespace longhaul::trainer
