// From sealed arenas to a committed checkpoint: what ranks hold, which of them is written.
#include "service/agent/disk_worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/arena.h"
#include "checkpoint/directory.h"
#include "checkpoint/testing.h"
#include "io/event_loop.h"
#include "io/memory/shared_memory.h"
#include "service/agent/snapshot_check.h"

namespace longhaul::service::disk_worker_test {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::testing_support::State;

const JobId kJob("job-1");

// Whole numbers: random bits of others are NaN now and then, and such a snapshot is non-finite.
checkpoint::StatePlan Plan() {
  return *checkpoint::StatePlan::Create({{"weight", "I32", {320, 1027}}, {"step", "I64", {}}});
}

class DiskWorkerTest : public ::testing::Test {
 protected:
  DiskWorkerTest() {
    char name[] = "/tmp/disk-worker-test-XXXXXX";
    folder_ = mkdtemp(name);
    proto::StartWorkers start;
    start.set_world(4);
    start_ = std::make_shared<const proto::StartWorkers>(start);
  }
  ~DiskWorkerTest() override { std::filesystem::remove_all(folder_); }

  // An arena that holds a state as step 10.
  std::shared_ptr<const io::SharedMemory> Sealed(uint64_t seed) {
    const State state(Plan(), seed);
    const auto bytes = static_cast<int64_t>(checkpoint::ArenaBytesFor(Plan()));
    const auto arena =
        *io::SharedMemory::Open(*io::CreateSharedMemory("arena", Bytes(bytes), false));
    checkpoint::ArenaWriter writer(arena->bytes());
    EXPECT_TRUE(writer.Begin(10, 1, Plan()).ok());
    for (size_t i = 0; i < Plan().size(); ++i) writer.Write(i, state.tensor(i));
    writer.Seal();
    return arena;
  }
  proto::RankContent ContentOf(const std::shared_ptr<const io::SharedMemory>& arena) {
    proto::RankContent content;
    SnapshotCheck check(*loop_, [&](const runtime::AgentInput& reported) {
      const auto& sealed = std::get<runtime::WorkerSealed>(reported);
      EXPECT_TRUE(sealed.content.has_value());
      content = sealed.content.value_or(proto::RankContent());
      loop_->Stop();
    });
    check.Sealed({{kJob, 1, 0}, 10, Duration(5), 100, Instant{}}, arena);
    loop_->Run();
    return content;
  }
  template <typename Answer>
  Answer Do(const std::function<void(DiskWorker&)>& work) {
    std::optional<Answer> got;
    DiskWorker worker(*loop_, io::PosixFileSystem(), [&](runtime::AgentInput input) {
      got = std::get<Answer>(input);
      loop_->Stop();
    });
    work(worker);
    loop_->Run();
    return *got;
  }
  std::string Commit(const proto::CommitSnapshot& grant) {
    return Do<runtime::ManifestWritten>([&](DiskWorker& worker) {
             worker.Commit({grant, start_, 1, {}}, folder_ + "/checkpoints");
           })
        .error;
  }

  std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  std::string folder_;
  runtime::StartOrder start_;
};

TEST_F(DiskWorkerTest, RanksThatHoldTheSameSaySo) {
  const proto::RankContent first = ContentOf(Sealed(1)), same = ContentOf(Sealed(1));
  const proto::RankContent other = ContentOf(Sealed(2));
  EXPECT_EQ(first.bytes(), Plan().total_bytes());
  EXPECT_NE(first.plan(), 0u);
  EXPECT_EQ(first.plan(), same.plan());
  EXPECT_EQ(first.root(), same.root());
  EXPECT_EQ(first.plan(), other.plan());
  EXPECT_NE(first.root(), other.root());
}

// Changes of size give the ranks of a node other numbers, and the node keeps the arena.
TEST_F(DiskWorkerTest, RanksThatUseAnArenaInTurnKeepOneSnapshotPinned) {
  const auto arena = Sealed(1);
  checkpoint::ArenaWriter writer(arena->bytes());
  int reported = 0;
  SnapshotCheck check(*loop_, [&](const runtime::AgentInput&) {
    ++reported;
    loop_->Stop();
  });
  for (uint32_t rank = 0; rank < 6; ++rank) {
    const uint64_t step = 10 + rank;
    if (rank > 0) {
      ASSERT_TRUE(writer.Begin(step, 1, Plan()).ok()) << writer.holders();
      const State state(Plan(), rank);
      for (size_t i = 0; i < Plan().size(); ++i) writer.Write(i, state.tensor(i));
      writer.Seal();
    }
    check.Sealed({{kJob, 1, rank}, step, Duration(5), 100, Instant{}}, arena);
    loop_->Run();
  }
  EXPECT_EQ(reported, 6);
}

// Ranks 0 and 2 hold the same, and 1 and 3: what is written is restored by all four.
TEST_F(DiskWorkerTest, OneOfTheRanksThatHoldTheSameIsWritten) {
  const auto persisted = Do<runtime::PiecesPersisted>([&](DiskWorker& worker) {
    worker.Persist({kJob, 1, 10, {0, 3}, start_}, {Sealed(1), Sealed(2)}, folder_ + "/checkpoints");
  });
  ASSERT_EQ(persisted.error, "");
  ASSERT_EQ(persisted.files.size(), 2u);
  proto::CommitSnapshot grant;
  grant.set_step(10);
  grant.set_attempt(1);
  grant.set_world(4);
  for (const auto& file : persisted.files) *grant.add_files() = file;
  EXPECT_NE(Commit(grant).find("2 ranks of 4"), std::string::npos) << Commit(grant);
  grant.mutable_files(0)->add_also(2);
  grant.mutable_files(1)->add_also(1);
  ASSERT_EQ(Commit(grant), "");
  CheckpointDirectory directory(io::PosixFileSystem(), folder_ + "/checkpoints");
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto loaded = directory.ReadPiece(10, 1, rank);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(State(Plan(), 1 + rank % 2).Equals(loaded->Tensors())) << "rank " << rank;
  }
  uint64_t bytes = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(folder_ + "/checkpoints/step-000000010.e1")) {
    if (file.path().filename() != "MANIFEST") bytes += file.file_size();
  }
  EXPECT_EQ(bytes, 2 * (Plan().total_bytes() + 4096));
  // An agent that ends writes what was served already: nothing more.
  const auto late = Do<runtime::PiecesPersisted>([&](DiskWorker& worker) {
    worker.Persist({kJob, 1, 10, {2}, start_}, {Sealed(1)}, folder_ + "/checkpoints");
  });
  EXPECT_EQ(late.error, "");
  EXPECT_FALSE(std::filesystem::exists(
      folder_ + "/checkpoints/step-000000010.e1/rank-00002-of-00004.safetensors"));
}

// The folder of a run that continues is not always safe from its user.
TEST_F(DiskWorkerTest, CheckpointsThatSomebodyRemovesAreReportedOnce) {
  const std::string folder = folder_ + "/checkpoints";
  std::vector<runtime::CheckpointsMissing> missing;
  std::optional<runtime::PiecesPersisted> persisted;
  size_t commits = 0;
  DiskWorker worker(*loop_, io::PosixFileSystem(), [&](runtime::AgentInput input) {
    if (auto* gone = std::get_if<runtime::CheckpointsMissing>(&input)) missing.push_back(*gone);
    if (auto* done = std::get_if<runtime::PiecesPersisted>(&input)) persisted = *done;
    if (auto* written = std::get_if<runtime::ManifestWritten>(&input)) {
      EXPECT_EQ(written->error, "");
      ++commits;
    }
    loop_->Stop();
  });
  const auto save = [&] {
    worker.Persist({kJob, 1, 10, {0, 1, 2, 3}, start_},
                   {Sealed(1), Sealed(2), Sealed(3), Sealed(4)}, folder);
    loop_->Run();
    proto::CommitSnapshot grant;
    grant.set_step(10);
    grant.set_attempt(1);
    grant.set_world(4);
    for (const auto& file : persisted->files) *grant.add_files() = file;
    worker.Commit({grant, start_, 1, {}}, folder);
    for (const size_t before = commits; commits == before;) loop_->Run();
  };
  save();
  EXPECT_TRUE(missing.empty());
  std::filesystem::remove_all(folder);
  worker.Check(kJob, folder);
  loop_->Run();
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].job, kJob);
  EXPECT_EQ(missing[0].folder, folder);
  ASSERT_EQ(missing[0].lost.size(), 1u);
  EXPECT_EQ(missing[0].lost[0].step, 10u);
  EXPECT_EQ(missing[0].lost[0].attempt, 1u);
  save();
  EXPECT_EQ(missing.size(), 1u) << "reported once";
  // Removed and written again before anybody looked.
  std::filesystem::remove_all(folder);
  save();
  EXPECT_EQ(missing.size(), 2u);
}

}  // namespace
}  // namespace longhaul::service::disk_worker_test
