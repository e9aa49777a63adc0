#include "worker_api/client.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/directory.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/net/socket.h"
#include "longhaul.h"
#include "worker_api/client_fixture.h"

extern "C" uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position);

namespace longhaul::worker_api {
namespace {

TEST(Client, IsWelcomedAndAsksForSnapshotsAtTheInterval) {
  WelcomeContent welcome;
  welcome.config = std::string(200'000, 'c');
  welcome.snapshot_interval_steps = 5;
  Agent agent(welcome);
  {
    const auto client = Join(agent, 3);
    EXPECT_EQ(client->welcome(), welcome);
    EXPECT_FALSE(client->SnapshotDue(4));
    EXPECT_TRUE(client->SnapshotDue(5));
    EXPECT_EQ(client->Saved()->size(), 0u);
    EXPECT_EQ(*client->Restore(), 0u);
  }
  const auto& received = agent.Join();
  const Hello& hello = std::get<Hello>(received[0]);
  EXPECT_EQ(hello.attempt, 3u);
  const int64_t age_ns = ToNanoseconds(io::Now()) - hello.started_at_ns;
  EXPECT_GT(age_ns, -20'000'000);
  EXPECT_LT(age_ns, 3600'000'000'000);
}

TEST(Client, ANewProcessGetsItsStateBackFromMemory) {
  Agent agent(WelcomeContent{});
  {
    const auto client = Join(agent, 1);
    Model model;
    model.RegisterWith(*client);
    model.weights[999] = 7;
    ASSERT_TRUE(client->Snapshot(10).ok());
    model.weights[999] = 8;
    ASSERT_TRUE(client->Snapshot(20).ok());
  }
  agent.Restart(FromMemory(10));
  {
    const auto client = Join(agent, 2);
    const auto saved = client->Saved();
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_EQ(saved->size(), 2u);
    EXPECT_EQ(saved->tensors()[0].name, "weights");
    Model model;
    model.RegisterWith(*client);
    const Result<uint64_t> step = client->Restore();
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(*step, 10u);
    EXPECT_EQ(model.weights[999], 7);
  }
  agent.Join();
  const auto left = checkpoint::ArenaReader(agent.arena()).ListSealed();
  ASSERT_EQ(left.size(), 1u) << "the step above is of a gang that was rolled back";
  EXPECT_EQ(left[0].step, 10u);
}

WelcomeContent FromPieces(uint64_t step) {
  WelcomeContent welcome;
  welcome.restore_tier = 5;
  welcome.restore_step = step;
  return welcome;
}

TEST(Client, GetsWhatItsAgentHasPutTogetherFromPieces) {
  Agent agent(FromPieces(10));
  {
    const auto client = Join(agent, 2);
    const auto saved = client->Saved();
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_EQ(saved->size(), 1u);
    EXPECT_EQ(saved->tensors()[0].name, "saved");
    Model model;
    model.RegisterWith(*client);
    const Result<uint64_t> step = client->Restore();
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(*step, 10u);
    EXPECT_EQ(model.step, 0x0303030303030303);
  }
  const auto& received = agent.Join();
  EXPECT_EQ(std::get<RestoredMessage>(received.back()).tier, 5u);
}

TEST(Client, DamagedPiecesAreReportedAndOthersThanItsOwnAreNot) {
  for (const bool of_another_state : {false, true}) {
    Agent agent(FromPieces(10));
    agent.RefusePieces("not to be had", of_another_state);
    {
      const auto client = Join(agent, 2);
      Model model;
      model.RegisterWith(*client);
      const Result<uint64_t> step = client->Restore();
      EXPECT_EQ(step.status().code(),
                of_another_state ? Code::kFailedPrecondition : Code::kDataLoss);
      EXPECT_NE(step.status().message().find("not to be had"), std::string::npos);
    }
    const auto& received = agent.Join();
    const auto* failed = std::get_if<RestoreFailed>(&received.back());
    ASSERT_EQ(failed == nullptr, of_another_state);
    if (failed != nullptr) {
      EXPECT_EQ(failed->message.tier, 5u);
    }
  }
}

TEST(Client, ADamagedArenaIsReportedAndNotLoaded) {
  Agent agent(WelcomeContent{});
  {
    const auto client = Join(agent, 1);
    Model model;
    model.RegisterWith(*client);
    ASSERT_TRUE(client->Snapshot(10).ok());
  }
  agent.Restart(FromMemory(10));
  const auto arena = agent.arena();
  const auto view = checkpoint::ArenaReader(arena).Open(10);
  arena[static_cast<size_t>(view->tensors[0].data() - arena.data()) + 5] ^= std::byte{1};
  {
    const auto client = Join(agent, 2);
    Model model;
    model.RegisterWith(*client);
    EXPECT_EQ(client->Restore().status().code(), Code::kDataLoss);
  }
  const auto& received = agent.Join();
  const RestoreFailed& failed = std::get<RestoreFailed>(received.back());
  EXPECT_EQ(failed.message.step, 10u);
  EXPECT_NE(failed.reason.find("weights"), std::string::npos);
}

TEST(Client, ASavedStateThatIsGoneIsReportedToTheAgent) {
  Agent agent(FromMemory(10));  // which has no arena
  {
    const auto client = Join(agent, 2);
    EXPECT_EQ(client->Saved().status().code(), Code::kDataLoss);
  }
  EXPECT_TRUE(std::holds_alternative<RestoreFailed>(agent.Join().back()));
}

TEST(Client, AReplacedNodeReadsTheCommittedPieceFromDisk) {
  std::string root = testing::TempDir() + "longhaul-worker-api-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  checkpoint::CheckpointDirectory directory(io::PosixFileSystem(), root + "/checkpoints");
  Model saved;
  saved.weights[3] = 9;
  const auto plan =
      *checkpoint::StatePlan::Create({{"weights", "F32", {1000}}, {"step", "I64", {}}});
  const std::span<const std::byte> tensors[] = {std::as_bytes(std::span(saved.weights)),
                                                std::as_bytes(std::span(&saved.step, 1))};
  checkpoint::Manifest manifest;
  manifest.step = 40;
  manifest.attempt = 2;
  manifest.world = 4;
  manifest.replicated = true;
  const auto file = directory.WritePiece(40, 2, 0, 4, plan, tensors);
  ASSERT_TRUE(file.ok()) << file.status();
  manifest.files.push_back(*file);
  ASSERT_TRUE(directory.Commit(manifest).ok());

  WelcomeContent welcome;
  welcome.restore_tier = 2;
  welcome.restore_step = 40;
  welcome.restore_saved_attempt = 2;
  welcome.checkpoint_directory = root + "/checkpoints";
  for (const uint64_t step : {40u, 41u}) {
    welcome.restore_step = step;
    Agent agent(welcome);
    const auto client = Join(agent, 3);
    if (step == 40) {
      const auto plan_on_disk = client->Saved();
      ASSERT_TRUE(plan_on_disk.ok()) << plan_on_disk.status();
      EXPECT_EQ(*plan_on_disk, plan);
    }
    Model model;
    model.RegisterWith(*client);
    const Result<uint64_t> restored = client->Restore();
    EXPECT_EQ(restored.ok(), step == 40) << restored.status();
    EXPECT_EQ(model.weights[3], step == 40 ? 9 : 0.5f);
    EXPECT_TRUE(step == 40 || restored.status().code() == Code::kDataLoss) << "absent";
  }
  std::filesystem::remove_all(root);
}

// Two ranks saved half a tensor each; one rank, and a third of three, want other boxes of it.
TEST(Client, WhatOtherRanksSavedIsReadByBoxesFromDisk) {
  std::string root = testing::TempDir() + "longhaul-worker-api-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  checkpoint::CheckpointDirectory directory(io::PosixFileSystem(), root);
  checkpoint::Manifest manifest;
  manifest.step = 40;
  manifest.attempt = 2;
  manifest.world = 2;
  std::vector<float> whole(600);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const auto half = checkpoint::StatePlan::Create(
        {{"w", "F32", {300}, checkpoint::TensorPart{"w", {600}, {300 * rank}}}});
    const std::span<const std::byte> tensors[] = {
        std::as_bytes(std::span(whole).subspan(300 * rank, 300))};
    const auto file = directory.WritePiece(40, 2, rank, 2, *half, tensors);
    ASSERT_TRUE(file.ok()) << file.status();
    manifest.files.push_back(*file);
  }
  ASSERT_TRUE(directory.Commit(manifest).ok());
  WelcomeContent welcome;
  welcome.restore_tier = 2;
  welcome.restore_step = 40;
  welcome.restore_saved_attempt = 2;
  welcome.checkpoint_directory = root;
  const struct {
    uint32_t rank;
    size_t begin;
    size_t count;
  } kRows[] = {{0, 0, 600}, {1, 200, 200}, {2, 400, 200}};
  for (const auto& row : kRows) {
    welcome.restore_rank = row.rank;
    Agent agent(welcome);
    const auto client = Join(agent, 3);
    EXPECT_TRUE(client->Saved().ok()) << "rank " << row.rank;
    std::vector<float> memory(row.count);
    const auto plan = checkpoint::StatePlan::Create(
        {{"w",
          "F32",
          {static_cast<int64_t>(row.count)},
          checkpoint::TensorPart{"w", {600}, {static_cast<int64_t>(row.begin)}}}});
    client->Register(*plan, {std::as_writable_bytes(std::span(memory))});
    const Result<uint64_t> restored = client->Restore();
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(),
                           whole.begin() + static_cast<ptrdiff_t>(row.begin)));
    // Another tensor's state is the program's fault, and not held against the checkpoint.
    client->Register(*checkpoint::StatePlan::Create({{"other", "F32", {0}}}), {{}});
    EXPECT_EQ(client->Restore().status().code(), Code::kFailedPrecondition);
  }
  std::filesystem::remove_all(root);
}

TEST(Client, AnotherStateThanTheSavedOneIsRefusedByName) {
  Agent agent(WelcomeContent{});
  {
    const auto client = Join(agent, 1);
    Model model;
    model.RegisterWith(*client);
    ASSERT_TRUE(client->Snapshot(10).ok());
  }
  agent.Restart(FromMemory(10));
  const auto client = Join(agent, 2);
  client->Register(*checkpoint::StatePlan::Create({{"other", "F32", {0}}}), {{}});
  const Status status = client->Restore().status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("other"), std::string::npos);
}

TEST(Client, AnAgentThatIsGoneIsUnavailable) {
  Result<std::pair<io::Fd, io::Fd>> pair = io::UnixPair();
  ASSERT_TRUE(pair.ok());
  pair->second.Reset();
  EXPECT_EQ(Client::Join(std::move(pair->first), 0, 1).status().code(), Code::kUnavailable);
}

TEST(WorkerApi, WithoutLonghaulIsNotFound) {
  unsetenv("LONGHAUL_AGENT_SOCKET");
  longhaul_error error;
  EXPECT_EQ(longhaul_open(&error), nullptr);
  EXPECT_EQ(error.code, LONGHAUL_NOT_FOUND);
  EXPECT_EQ(longhaul_snapshot(nullptr, 1, &error), LONGHAUL_INVALID_ARGUMENT);
  longhaul_close(nullptr);
}

TEST(Sample, OfEachPassIsAPermutationOfItsOwn) {
  std::vector<uint64_t> passes[2];
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < 100; ++i) passes[pass].push_back(SampleFromC(100, 7, pass * 100 + i));
    EXPECT_EQ(std::set<uint64_t>(passes[pass].begin(), passes[pass].end()).size(), 100u);
  }
  EXPECT_NE(passes[0], passes[1]);
}

}  // namespace
}  // namespace longhaul::worker_api
