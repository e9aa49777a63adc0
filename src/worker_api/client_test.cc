#include "worker_api/client.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/directory.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "longhaul.h"

extern "C" uint64_t SampleFromC(uint64_t samples, uint64_t seed, uint64_t position);

namespace longhaul::worker_api {
namespace {

// The agent's end: answers Hello and arena requests in a thread and keeps the reports.
class Agent {
 public:
  explicit Agent(WelcomeContent welcome, bool gives_arena = true)
      : welcome_(std::move(welcome)), gives_arena_(gives_arena) {
    Result<std::pair<io::Fd, io::Fd>> pair = io::UnixPair();
    CHECK(pair.ok());
    worker_ = std::move(pair->first);
    socket_ = std::move(pair->second);
    Start();
  }
  ~Agent() {
    worker_.Reset();
    if (thread_.joinable()) thread_.join();
  }

  io::Fd TakeWorkerEnd() { return std::move(worker_); }
  // A new worker meets the same arena. Requires that the old one has closed its end.
  void Restart(WelcomeContent welcome) {
    thread_.join();
    welcome_ = std::move(welcome);
    Result<std::pair<io::Fd, io::Fd>> pair = io::UnixPair();
    worker_ = std::move(pair->first);
    socket_ = std::move(pair->second);
    Start();
  }
  void RefusePieces(std::string reason, bool of_another_state) {
    refuses_ = std::move(reason);
    of_another_state_ = of_another_state;
  }
  // What was received, once the worker's end is closed.
  const std::vector<FromWorker>& Join() {
    thread_.join();
    return received_;
  }
  std::span<std::byte> arena() {
    mapping_ = io::SharedMapping::Map(arena_).value();
    return mapping_.bytes();
  }

 private:
  void Start() {
    thread_ = std::thread([this] { Serve(); });
  }
  void Serve() {
    while (true) {
      Result<std::optional<io::UnixMessage>> message =
          io::ReceiveMessage(socket_, kMaxMessageBytes);
      if (!message.ok() || !*message || (*message)->bytes.empty()) return;
      Result<FromWorker> parsed = ParseFromWorker((*message)->bytes);
      CHECK(parsed.ok()) << parsed.status().message();
      received_.push_back(*parsed);
      if (std::holds_alternative<Hello>(*parsed)) {
        for (const auto& packet : EncodeWelcome(welcome_))
          CHECK(io::SendMessage(socket_, packet).ok());
      } else if (const auto* request = std::get_if<ArenaRequest>(&*parsed)) {
        Answer(request->bytes);
      } else if (const auto* pieces = std::get_if<PiecesRequest>(&*parsed)) {
        GivePieces(pieces->plan_bytes, (*message)->fds);
      }
    }
  }
  // Every byte of what is asked for is 3, as are those of its plan when none is.
  void GivePieces(uint64_t plan_bytes, const std::vector<io::Fd>& fds) {
    if (!refuses_.empty()) {
      const auto refusal = EncodePiecesRefused(refuses_, of_another_state_);
      CHECK(io::SendMessage(socket_, refusal).ok());
      return;
    }
    if (plan_bytes == 0) {
      const std::string plan =
          checkpoint::StatePlan::Create({{"saved", "F32", {3}}}).value().Encode();
      return Send(plan.size(), [&plan](std::span<std::byte> memory) {
        std::memcpy(memory.data(), plan.data(), plan.size());
      });
    }
    CHECK(fds.size() == 1);
    const io::SharedMapping encoded = io::SharedMapping::Map(fds[0]).value();
    const auto plan = checkpoint::StatePlan::Decode(
        {reinterpret_cast<const char*>(encoded.bytes().data()), plan_bytes});
    CHECK(plan.ok()) << plan.status().message();
    Send(checkpoint::ArenaBytesFor(*plan), [&plan](std::span<std::byte> memory) {
      checkpoint::ArenaWriter writer(memory);
      CHECK(writer.Begin(10, 1, *plan).ok());
      for (size_t i = 0; i < plan->size(); ++i) {
        writer.Write(i, std::vector<std::byte>(plan->bytes(i), std::byte{3}));
      }
      writer.Seal();
    });
  }
  template <typename Fill>
  void Send(uint64_t bytes, Fill fill) {
    const io::Fd memory =
        io::CreateSharedMemory("pieces", Bytes(static_cast<int64_t>(bytes)), true).value();
    fill(io::SharedMapping::Map(memory).value().bytes());
    const int given[] = {memory.get()};
    CHECK(io::SendMessage(socket_, EncodePieces(bytes), given).ok());
  }
  void Answer(uint64_t bytes) {
    if (!gives_arena_ || (bytes == 0 && !arena_.valid())) {
      CHECK(io::SendMessage(socket_, EncodeArenaRefused("none here")).ok());
      return;
    }
    if (!arena_.valid()) {
      arena_ = io::CreateSharedMemory("arena", Bytes(static_cast<int64_t>(bytes)), true).value();
    }
    const int fds[] = {arena_.get()};
    CHECK(io::SendMessage(socket_, EncodeArena(bytes), fds).ok());
  }

  WelcomeContent welcome_;
  bool gives_arena_;
  std::string refuses_;  // pieces, with this reason
  bool of_another_state_ = false;
  io::Fd worker_, socket_, arena_;
  io::SharedMapping mapping_;
  std::vector<FromWorker> received_;
  std::thread thread_;
};

struct Model {
  std::vector<float> weights = std::vector<float>(1000, 0.5f);
  int64_t step = 0;

  void RegisterWith(Client& client) {
    client.Register(
        *checkpoint::StatePlan::Create({{"weights", "F32", {1000}}, {"step", "I64", {}}}),
        {std::as_writable_bytes(std::span(weights)), std::as_writable_bytes(std::span(&step, 1))});
  }
};

std::unique_ptr<Client> Join(Agent& agent, uint64_t attempt) {
  Result<std::unique_ptr<Client>> client = Client::Join(agent.TakeWorkerEnd(), 0, attempt);
  CHECK(client.ok()) << client.status().message();
  return std::move(client).value();
}

WelcomeContent FromMemory(uint64_t step) {
  WelcomeContent welcome;
  welcome.restore_tier = 1;
  welcome.restore_step = step;
  return welcome;
}

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

// Persistence slower than the interval: the save waits, and none is skipped.
TEST(Client, ASaveWaitsForAPinRatherThanBeSkipped) {
  Agent agent(WelcomeContent{});
  {
    const auto client = Join(agent, 1);
    Model model;
    model.RegisterWith(*client);
    for (const uint64_t step : {10u, 20u, 30u}) ASSERT_TRUE(client->Snapshot(step).ok());
    const std::span<std::byte> arena = agent.arena();
    auto first = checkpoint::SnapshotPin::Take(arena, 10, 1);
    auto second = checkpoint::SnapshotPin::Take(arena, 20, 1);
    ASSERT_TRUE(first.ok() && second.ok());
    std::atomic<bool> let_go = false;
    std::thread disk([&] {
      for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
      let_go = true;
      const checkpoint::SnapshotPin released = *std::move(second);
    });
    const Status taken = client->Snapshot(40);
    EXPECT_TRUE(taken.ok()) << taken;
    EXPECT_TRUE(let_go) << "a pinned slot was written to";
    disk.join();
  }
  std::vector<uint64_t> reported;
  for (const FromWorker& message : agent.Join()) {
    if (const auto* sealed = std::get_if<Sealed>(&message))
      reported.push_back(sealed->message.step);
  }
  EXPECT_EQ(reported, (std::vector<uint64_t>{10, 20, 30, 40}));
  const checkpoint::ArenaReader reader(agent.arena());
  for (const uint64_t step : {10u, 30u, 40u}) EXPECT_TRUE(reader.Open(step).ok()) << step;
}

TEST(Client, ASnapshotInAChildHoldsTheStateOfItsBeginning) {
  Agent agent(WelcomeContent{});
  {
    Model model;  // outlives the client, which waits for the copy
    const auto client = Join(agent, 1);
    model.RegisterWith(*client);
    EXPECT_TRUE(client->WaitSnapshot().ok()) << "none was begun";
    for (const uint64_t step : {10u, 20u}) {
      model.weights[999] = static_cast<float>(step);
      const Status begun = client->BeginSnapshot(step);
      ASSERT_TRUE(begun.ok()) << begun;
      model.weights[999] = -1;
    }
    // The end of the client waits for the second one.
  }
  std::vector<uint64_t> reported;
  for (const FromWorker& message : agent.Join()) {
    if (const auto* sealed = std::get_if<Sealed>(&message))
      reported.push_back(sealed->message.step);
  }
  EXPECT_EQ(reported, (std::vector<uint64_t>{10, 20}));
  const checkpoint::ArenaReader reader(agent.arena());
  for (const uint64_t step : {10u, 20u}) {
    const auto view = reader.Open(step);
    ASSERT_TRUE(view.ok()) << view.status();
    float last = 0;
    std::memcpy(&last, view->tensors[0].data() + 999 * sizeof(float), sizeof(float));
    EXPECT_EQ(last, static_cast<float>(step));
  }
}

TEST(Client, SharedMemoryIsNotSnapshotInAChild) {
  Agent agent(WelcomeContent{});
  const auto client = Join(agent, 1);
  const Result<io::Fd> fd = io::CreateSharedMemory("state", Bytes(4096), true);
  ASSERT_TRUE(fd.ok());
  const Result<io::SharedMapping> state = io::SharedMapping::Map(*fd);
  ASSERT_TRUE(state.ok());
  client->Register(*checkpoint::StatePlan::Create({{"a", "U8", {4096}}}), {state->bytes()});
  EXPECT_EQ(client->BeginSnapshot(10).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(client->Snapshot(10).ok());
}

TEST(Client, AStagedSnapshotIsCopiedWhenItsMemoryIsReadyAndReportedByLaterCalls) {
  WelcomeContent welcome;
  welcome.snapshot_interval_steps = 1;
  Agent agent(welcome);
  {
    const auto client = Join(agent, 1);
    // Shared memory, as of a device, will do.
    const Result<io::Fd> fd = io::CreateSharedMemory("state", Bytes(4096), true);
    const io::SharedMapping state = io::SharedMapping::Map(*fd).value();
    client->Register(*checkpoint::StatePlan::Create({{"a", "U8", {4096}}}), {state.bytes()});
    std::promise<void> arrived;
    const Status begun =
        client->BeginStagedSnapshot(10, std::chrono::milliseconds(40), [&]() -> Status {
          arrived.get_future().wait();
          state.bytes()[4095] = std::byte{7};
          return {};
        });
    ASSERT_TRUE(begun.ok()) << begun;
    EXPECT_FALSE(client->SnapshotDue(11)) << "one at a time";
    StepMessage step;
    step.step = 10;
    EXPECT_TRUE(client->ReportStep(step).ok());
    arrived.set_value();
    bool due = false;  // once it has reported the first
    for (int i = 0; i < 30'000 && !due; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      due = client->SnapshotDue(11);
    }
    EXPECT_TRUE(due);
    step.step = 11;
    EXPECT_TRUE(client->ReportStep(step).ok());
  }
  std::vector<std::string> order;
  for (const FromWorker& message : agent.Join()) {
    if (const auto* sealed = std::get_if<Sealed>(&message)) {
      order.push_back("sealed " + std::to_string(sealed->message.step));
      EXPECT_EQ(sealed->message.way, 2u);
      EXPECT_GE(sealed->message.blocked_ns, 40'000'000);
    } else if (const auto* step = std::get_if<StepMessage>(&message)) {
      order.push_back("step " + std::to_string(step->step));
    }
  }
  EXPECT_EQ(order, (std::vector<std::string>{"step 10", "sealed 10", "step 11"}));
  const checkpoint::ArenaReader reader(agent.arena());
  const auto view = reader.Open(10);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->tensors[0][4095], std::byte{7});
}

TEST(Client, AStagedSnapshotWhoseStateNeverArrivesLeavesTheOlderOnes) {
  Agent agent(WelcomeContent{});
  Model model;
  {
    const auto client = Join(agent, 1);
    model.RegisterWith(*client);
    ASSERT_TRUE(client->Snapshot(10).ok());
    const auto never = [] { return Aborted("no copy"); };
    ASSERT_TRUE(client->BeginStagedSnapshot(20, {}, never).ok());
    EXPECT_EQ(client->WaitSnapshot().code(), Code::kAborted);
    EXPECT_TRUE(client->WaitSnapshot().ok()) << "told once";
    EXPECT_TRUE(checkpoint::ArenaReader(agent.arena()).Open(10).ok());
    ASSERT_TRUE(client->BeginStagedSnapshot(30, {}, {}).ok());
    EXPECT_TRUE(client->WaitSnapshot().ok());
    EXPECT_EQ(client->BeginStagedSnapshot(40, Duration(-1), {}).code(), Code::kInvalidArgument);
  }
  agent.Join();
  const checkpoint::ArenaReader reader(agent.arena());
  EXPECT_FALSE(reader.Open(20).ok());
  EXPECT_TRUE(reader.Open(30).ok());
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

TEST(Client, WithoutAnArenaTheSnapshotFailsAndTrainingGoesOn) {
  Agent agent(WelcomeContent{}, /*gives_arena=*/false);
  const auto client = Join(agent, 1);
  Model model;
  model.RegisterWith(*client);
  EXPECT_EQ(client->Snapshot(10).code(), Code::kResourceExhausted);
  EXPECT_TRUE(client->EnterPhase(5).ok());
}

// The pages are mapped by a thread while training begins; the first snapshot waits for it rather
// than stand still for a fault a page.
TEST(Client, TheFirstSnapshotFindsItsPagesMapped) {
  constexpr int64_t kFloats = 4 << 20;
  Agent agent(WelcomeContent{});
  const auto client = Join(agent, 1);
  std::vector<float> weights(kFloats, 0.5f);
  client->Register(*checkpoint::StatePlan::Create({{"weights", "F32", {kFloats}}}),
                   {std::as_writable_bytes(std::span(weights))});
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  ASSERT_TRUE(client->Snapshot(1).ok());
  getrusage(RUSAGE_THREAD, &after);
#if !defined(LONGHAUL_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
  // Sanitizers take faults of their own for the shadow of each page.
  constexpr int64_t kPages = kFloats * sizeof(float) / 4096;
  EXPECT_LT(after.ru_minflt - before.ru_minflt, kPages / 10);
#endif
}

TEST(Client, ASnapshotWaitsForWhoHoldsTheSlotsAndSaysWhoDoes) {
  Agent agent(WelcomeContent{});
  {
    const auto client = Join(agent, 1);
    client->ReportWaitsEvery(std::chrono::milliseconds(5));
    Model model;
    model.RegisterWith(*client);
    for (const uint64_t step : {10u, 20u, 30u}) ASSERT_TRUE(client->Snapshot(step).ok());
    auto arena = agent.arena();
    std::optional<checkpoint::SnapshotPin> oldest =
        *checkpoint::SnapshotPin::Take(arena, 10, 1, checkpoint::PinUse::kDisk);
    const auto second = *checkpoint::SnapshotPin::Take(arena, 20, 1, checkpoint::PinUse::kPeer);
    std::thread disk([&oldest] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      oldest.reset();
    });
    EXPECT_TRUE(client->Snapshot(40).ok());
    disk.join();
    const checkpoint::ArenaReader reader(arena);
    EXPECT_TRUE(reader.Open(40).ok() && reader.Open(20).ok());
    EXPECT_FALSE(reader.Open(10).ok());
  }
  const std::string process = "process " + std::to_string(getpid());
  size_t reported = 0;
  for (const FromWorker& message : agent.Join()) {
    const auto* waits = std::get_if<Waits>(&message);
    if (waits == nullptr) continue;
    ++reported;
    EXPECT_EQ(waits->message.step, 40u);
    EXPECT_EQ(waits->holders, "step 10: " + process + " writes it to disk; step 20: " + process +
                                  " sends it to another node");
  }
  EXPECT_GT(reported, 0u);
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
