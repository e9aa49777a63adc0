// The snapshot keeper on a thread of the test, agents as its guests; damage in what an agent
// leaves.
#include "service/agent/snapshot_keeper/snapshot_keeper.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "io/process/process.h"
#include "service/agent/agent_memory.h"
#include "service/agent/snapshot_keeper/adoption.h"
#include "service/agent/snapshot_keeper/snapshot_keeper_link.h"

namespace longhaul::service::snapshot_keeper_test {
namespace {

const checkpoint::StatePlan& Plan() {
  static const checkpoint::StatePlan plan = *checkpoint::StatePlan::Create({{"a", "U8", {5'000}}});
  return plan;
}

uint64_t ArenaBytes() { return checkpoint::ArenaBytesFor(Plan()); }

std::shared_ptr<const io::SharedMemory> Memory(int64_t bytes) {
  return *io::SharedMemory::Open(*io::CreateSharedMemory("longhaul-x", Bytes(bytes), false));
}

void Seal(const io::SharedMemory& arena, uint64_t step, uint64_t attempt) {
  const std::vector<std::byte> bytes(5'000, std::byte(step));
  checkpoint::ArenaWriter writer(arena.bytes());
  ASSERT_TRUE(writer.Begin(step, attempt, Plan()).ok());
  writer.Write(0, bytes);
  writer.Seal();
}

class SnapshotKeeperTest : public testing::Test {
 protected:
  SnapshotKeeperTest() {
    std::string folder = "/tmp/snapshot_keeper_test_XXXXXX";
    // Longer than a socket's name may be.
    directory_ = mkdtemp(folder.data()) + ("/" + std::string(120, 'd'));
    std::filesystem::create_directories(directory_);
  }
  ~SnapshotKeeperTest() override {
    if (thread_.joinable()) {
      (void)SnapshotKeeperLink::Open(directory_, {"/nothing"}, "node-1")->link->End();
      thread_.join();
    }
    std::filesystem::remove_all(std::filesystem::path(directory_).parent_path());
  }

  void StartSnapshotKeeper() {
    std::filesystem::current_path(directory_);
    io::Fd listener = *io::ListenUnix("snapshot-keeper.sock");
    std::filesystem::current_path("/");
    thread_ = std::thread([this, fd = std::move(listener)]() mutable {
      ended_ = SnapshotKeeper(std::move(fd)).Run(std::chrono::hours(1));
    });
  }
  Result<SnapshotKeeperLink::Opened> Open(const std::string& node = "node-1") {
    return SnapshotKeeperLink::Open(directory_, {"/nothing"}, node);
  }
  AgentMemoryOptions Options() { return {"node-1", directory_, {"/nothing"}, 64 << 20, 64 << 20}; }

  std::string directory_;
  std::thread thread_;
  Status ended_;
};

TEST_F(SnapshotKeeperTest, GivesTheNextAgentWhatTheOneBeforeLeft) {
  StartSnapshotKeeper();
  {
    auto first = Open();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(first->kept.empty());
    for (const uint32_t rank : {0u, 1u}) first->link->Put("a", rank, false, Memory(4096));
    first->link->Put("a", 1, true, Memory(8192));
    first->link->Put("a", 0, false, Memory(16384));
    first->link->Put("b", 0, false, Memory(4096));
    first->link->DropJob("b");
    first->link->DropOne("a", 1, false);
  }
  auto second = Open();
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->kept.size(), 2u);
  EXPECT_EQ(second->kept[0].job, "a");
  EXPECT_FALSE(second->kept[0].copy);
  EXPECT_EQ(io::SharedMemorySize(second->kept[0].arena->fd())->count(), 16384) << "replaced";
  EXPECT_EQ(second->kept[1].rank, 1u);
  EXPECT_TRUE(second->kept[1].copy);
  EXPECT_EQ(second->link->process(), getpid());
}

TEST_F(SnapshotKeeperTest, RefusesAnotherNodesAgent) {
  StartSnapshotKeeper();
  ASSERT_TRUE(Open("node-1").ok());
  const auto other = Open("node-2");
  EXPECT_NE(other.status().message().find("node-1"), std::string::npos) << other.status();
}

TEST_F(SnapshotKeeperTest, EndsWithItsAgentOrWhenNobodyComes) {
  StartSnapshotKeeper();
  Open()->link->End();
  thread_.join();
  EXPECT_TRUE(ended_.ok()) << ended_;
  io::Fd listener = *io::ListenUnix("/tmp/snapshot_keeper_alone_" + std::to_string(getpid()));
  EXPECT_TRUE(SnapshotKeeper(std::move(listener)).Run(std::chrono::milliseconds(1)).ok());
  std::filesystem::remove("/tmp/snapshot_keeper_alone_" + std::to_string(getpid()));
}

TEST_F(SnapshotKeeperTest, ThrowsOutWhoSpeaksAnotherLanguage) {
  StartSnapshotKeeper();
  std::filesystem::current_path(directory_);
  const io::Fd stranger = *io::ConnectUnix("snapshot-keeper.sock");
  std::filesystem::current_path("/");
  ASSERT_TRUE(io::SendMessage(stranger, std::vector<std::byte>(40, std::byte{7})).ok());
  pollfd closed{stranger.get(), POLLIN, 0};
  ASSERT_EQ(poll(&closed, 1, 20'000), 1);
  EXPECT_TRUE((*io::ReceiveMessage(stranger, 100))->bytes.empty());
  EXPECT_TRUE(Open().ok());
}

TEST_F(SnapshotKeeperTest, AnAgentAdoptsWhatIsSealedAndGood) {
  StartSnapshotKeeper();
  const JobId job("job-1");
  {
    AgentMemory before(Options());
    for (const uint32_t rank : {0u, 1u, 2u}) {
      const auto arena = *before.Provide(job, rank, ArenaBytes());
      if (rank == 2) continue;  // nothing sealed in it
      Seal(*arena, 10, 3);
      Seal(*arena, 20, 4);
    }
    // A byte of rank 1's newest goes bad.
    const auto arena = before.Find(job, 1);
    const auto view = *checkpoint::ArenaReader(arena->bytes()).Open(20);
    const_cast<std::byte&>(view.tensors[0][77]) ^= std::byte{4};
  }
  AgentMemory after(Options());
  std::string held;
  for (const auto& each : after.held()) {
    held += std::to_string(each.rank) + ":" + std::to_string(each.step) + ".e" +
            std::to_string(each.attempt) + " ";
  }
  EXPECT_EQ(held, "0:20.e4 0:10.e3 1:10.e3 ");
  EXPECT_NE(after.Find(job, 0), nullptr);
  EXPECT_EQ(after.Find(job, 2), nullptr);
  const auto arena = after.Find(job, 1);
  const auto left = checkpoint::ArenaReader(arena->bytes()).ListSealed();
  ASSERT_EQ(left.size(), 1u) << "the damaged one is emptied";
  EXPECT_EQ(left[0].step, 10u);
  after.Drop(job);
  EXPECT_EQ(after.Find(job, 0), nullptr);
}

TEST_F(SnapshotKeeperTest, WhatWasDroppedIsNotAdopted) {
  StartSnapshotKeeper();
  {
    AgentMemory before(Options());
    Seal(**before.Provide(JobId("a"), 0, ArenaBytes()), 10, 1);
    Seal(**before.Provide(JobId("b"), 0, ArenaBytes()), 10, 1);
    before.Drop(JobId("a"));
  }
  AgentMemory after(Options());
  ASSERT_EQ(after.held().size(), 1u);
  EXPECT_EQ(after.held()[0].job, JobId("b"));
}

TEST_F(SnapshotKeeperTest, WithoutOneAnAgentWorksAllTheSame) {
  AgentMemory memory({"node-1", directory_, {"/no/such/program"}, 64 << 20, 64 << 20});
  EXPECT_TRUE(memory.Provide(JobId("a"), 0, ArenaBytes()).ok());
  EXPECT_TRUE(memory.held().empty());
  memory.End();
}

// One flipped bit anywhere in what an agent has left, headers and gaps too: what is adopted is what
// was sealed, and all that wasn't hit is adopted. With LONGHAUL_INJECTIONS (injection_test.cc) a
// tenth as many.
TEST(Adoption, AFlippedBitInWhatWasLeftIsFound) {
  Random random(7);
  const char* given = std::getenv("LONGHAUL_INJECTIONS");
  const Result<uint64_t> wanted = ParseUint64(given == nullptr ? "" : given);
  size_t lost = 0;
  for (uint64_t trial = 0; trial < (wanted.ok() ? (*wanted + 9) / 10 : 100); ++trial) {
    const auto arena = Memory(static_cast<int64_t>(ArenaBytes()));
    for (const uint64_t step : {10u, 20u, 30u}) Seal(*arena, step, 1);
    uint64_t bad = 0;  // the step whose data is hit; 0: any bit of the arena
    if (random.Below(2) == 0) bad = 10 * (1 + random.Below(3));
    const auto all = arena->bytes();
    std::byte& byte =
        bad == 0 ? all[random.Below(all.size())]
                 : const_cast<std::byte&>(
                       checkpoint::ArenaReader(all).Open(bad)->tensors[0][random.Below(5'000)]);
    byte ^= std::byte{static_cast<unsigned char>(1u << random.Below(8))};
    const Adoption adoption = Adopt({{"x", 0, false, arena}}, 2);
    ASSERT_EQ(adoption.adopted.size(), 1u) << trial;
    const auto& sealed = adoption.adopted[0].sealed;
    ASSERT_GE(sealed.size(), 2u) << trial;
    for (const auto& each : sealed) {
      ASSERT_NE(each.step, bad) << trial;
      const auto view = checkpoint::ArenaReader(all).Open(each.step);
      ASSERT_TRUE(view.ok()) << trial;
      for (const std::byte held : view->tensors[0]) ASSERT_EQ(held, std::byte(each.step)) << trial;
    }
    lost += 3 - sealed.size();
    if (bad == 0) continue;
    ASSERT_EQ(sealed.size(), 2u) << trial;
    ASSERT_EQ(adoption.notes.size(), 1u) << trial;
    ASSERT_NE(adoption.notes[0].find("step " + std::to_string(bad)), std::string::npos)
        << adoption.notes[0];
  }
  EXPECT_GT(lost, 0u);
}

TEST(EndUsers, KillsWhoeverMapsOrHoldsAnArenaAndNobodyElse) {
  const auto arena = Memory(8192);
  const auto another = Memory(8192);
  std::vector<io::Fd> outputs;  // open to the end: unbuffered, Python writes a line in two parts
  const auto start = [&outputs](const io::SharedMemory& held, const std::string& before) {
    io::ProcessOptions options;
    // Python's mmap module is the nearest thing at hand that maps a descriptor.
    const std::string script =
        "import mmap,os,time; " + before + "; print('up',flush=True); time.sleep(600)";
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    options.argv = {"python3", "-c", script};
    options.environment = io::CurrentEnvironment();
    options.stdout_fd = out[1];
    options.inherited = {{held.fd().get(), 3}};
    options.signal_on_parent_death = SIGKILL;
    io::Process process = *io::Start(options);
    close(out[1]);
    char up[4];
    EXPECT_GT(read(out[0], up, sizeof(up)), 0);
    outputs.emplace_back(out[0]);
    return process;
  };
  std::vector<io::Process> users;
  users.push_back(start(*arena, "m=mmap.mmap(3,4096); os.close(3)"));
  users.push_back(start(*arena, "pass"));  // holds the descriptor and has not mapped it yet
  const io::Process other = start(*another, "m=mmap.mmap(3,4096)");
  const auto ended = EndUsers({{"x", 0, false, arena}}, 0);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->size(), 2u);
  for (const io::Process& user : users) EXPECT_EQ(io::Reap(user.pidfd)->signal, SIGKILL);
  EXPECT_NE(io::ReadProcessFacts(other.pid)->state, 'Z');
  ASSERT_TRUE(io::Signal(other.pidfd, SIGKILL).ok());
  (void)io::Reap(other.pidfd);
}

TEST(SnapshotKeeperMessage, IsReadAsItWasWrittenAndNothingElseIs) {
  const SnapshotKeeperMessage message{SnapshotKeeperKind::kHeld, 7, true, 3, "job-1"};
  std::vector<std::byte> packet = EncodeSnapshotKeeperMessage(message);
  EXPECT_EQ(*ParseSnapshotKeeperMessage(packet), message);
  for (size_t cut = 0; cut < packet.size(); ++cut) {
    EXPECT_FALSE(ParseSnapshotKeeperMessage(std::span(packet).first(cut)).ok()) << cut;
  }
  for (const size_t at : {0, 4, 12, 20}) {  // magic, kind, copy, bytes of the text
    std::vector<std::byte> changed = packet;
    changed[at] ^= std::byte{64};
    EXPECT_FALSE(ParseSnapshotKeeperMessage(changed).ok()) << at;
  }
}

}  // namespace
}  // namespace longhaul::service::snapshot_keeper_test
