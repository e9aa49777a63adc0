// Snapshots that a worker takes: at once, by a thread or a child while training continues, and
// while others hold its slots.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "io/clock.h"
#include "worker_api/client_fixture.h"

namespace longhaul::worker_api {
namespace {

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

}  // namespace
}  // namespace longhaul::worker_api
