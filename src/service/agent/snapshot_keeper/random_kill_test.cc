// Workers, agents, both, snapshot keepers before their agents, and whole nodes killed at random
// moments while snapshots are sealed, sent to a peer and written to disk: what is restored is
// always the newest good state, to the bit.
//
//   random_kill_test                          some kills of each kind, for every build
//   LONGHAUL_KILLS=1000 random_kill_test      as many in all
//
// This program plays all parts, each in a process of its own: the snapshot keeper (the real one), a
// worker that seals one step after the other, an agent that adopts, starts the worker, copies to a
// peer and commits to disk (the classes of the real one without a controller), and, in the test
// itself, the peer. What each claims to have done is written to shared memory after it is done;
// that is what a restore is held against.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/directory.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/testing.h"
#include "io/files/direct_file.h"
#include "io/memory/shared_memory.h"
#include "io/process/process.h"
#include "service/agent/agent_memory.h"
#include "service/agent/peer/peer_connection.h"
#include "service/agent/peer/peer_memory.h"
#include "service/agent/peer/peer_server.h"
#include "service/agent/snapshot_keeper/snapshot_keeper.h"

namespace longhaul::service {
namespace {

using checkpoint::testing_support::ManifestOf;
using checkpoint::testing_support::State;

constexpr int kRecordFd = 3;
constexpr int kArenaFd = 4;
constexpr char kJobName[] = "job-1";
const JobId kJob(kJobName);

const checkpoint::StatePlan& Plan() {
  static const checkpoint::StatePlan plan = *checkpoint::StatePlan::Create(
      {{"weights", "F32", {3'000}}, {"bytes", "U8", {20'001}}, {"step", "I64", {}}});
  return plan;
}

// The state after a step: other bytes at every step.
State StateAt(uint64_t step) { return State(Plan(), step); }

// Shared by all processes. Each number is written after what it claims.
struct Record {
  std::atomic<uint64_t> sealed;     // the newest step that the worker has sealed
  std::atomic<uint64_t> copied;     // the newest that the peer has said to hold
  std::atomic<uint64_t> committed;  // the newest on disk
  std::atomic<uint64_t> left;       // the newest that the worker before had reported
  std::atomic<uint64_t> restored;   // what the present worker continued from
  std::atomic<uint64_t> tier;       // where that came from
  std::atomic<uint64_t> starts;     // of workers
  std::atomic<uint64_t> worker;     // its process
  std::atomic<uint64_t> agent;      // the process that started it
  std::atomic<uint64_t> wrong;      // states that were restored and were not what they should be
};
enum Tier : uint64_t { kNothing, kMemory, kPeer, kDisk };

class MappedRecord {
 public:
  explicit MappedRecord(const io::Fd& fd) : mapping_(*io::SharedMapping::Map(fd)) {}
  Record* operator->() const { return reinterpret_cast<Record*>(mapping_.bytes().data()); }

 private:
  io::SharedMapping mapping_;
};

// ------------------------------------------------------------------------------------ the worker

// Restores the newest step in its arena, then seals one after the other until it is killed.
int PlayWorker(uint64_t agent) {
  const io::Fd record_fd(kRecordFd), arena_fd(kArenaFd);
  const MappedRecord record(record_fd);
  const io::SharedMapping arena = *io::SharedMapping::Map(arena_fd);
  uint64_t step = 0;
  const auto sealed = checkpoint::ArenaReader(arena.bytes()).ListSealed();
  if (!sealed.empty()) {
    step = sealed[0].step;
    State state = StateAt(0);
    const Status read =
        checkpoint::ArenaReader(arena.bytes()).CopyInto(step, Plan(), state.Writable());
    if (!read.ok() || !StateAt(step).Equals(state.Tensors())) ++record->wrong;
  }
  checkpoint::ArenaWriter writer(arena.bytes());
  writer.DropAbove(step);
  record->left = record->sealed.load();  // who wrote it is dead
  record->restored = step;
  record->sealed = step;
  record->worker = static_cast<uint64_t>(getpid());
  record->agent = agent;
  ++record->starts;
  for (;;) {
    const State state = StateAt(++step);
    // Everything older is pinned for a moment: it waits rather than skip a step.
    while (!writer.Begin(step, 1, Plan()).ok()) std::this_thread::yield();
    writer.WriteAll(state.Tensors(), 1);
    writer.Seal();
    record->sealed = step;
  }
}

// ------------------------------------------------------------------------------------- the agent

class Agent {
 public:
  Agent(const std::string& directory, uint16_t port, bool orphans)
      : directory_(directory), port_(port), orphans_(orphans), record_fd_(kRecordFd) {}

  int Play() {
    const MappedRecord record(record_fd_);
    AgentMemory memory(
        {"node-1", directory_, {"/proc/self/exe", "snapshot-keeper"}, 1 << 30, 1 << 30});
    const uint64_t bytes = checkpoint::ArenaBytesFor(Plan());
    record->tier = memory.held().empty() ? kNothing : kMemory;
    if (memory.held().empty()) Restore(memory, bytes, record);
    const auto arena = *memory.Provide(kJob, 0, bytes);
    std::thread(&Agent::CopyForEver, this, arena->bytes()).detach();
    std::thread(&Agent::CommitForEver, this, arena->bytes()).detach();
    for (;;) {
      io::ProcessOptions worker;
      worker.argv = {"/proc/self/exe", "worker", std::to_string(getpid())};
      worker.environment = io::CurrentEnvironment();
      worker.inherited = {{record_fd_.get(), kRecordFd}, {arena->fd().get(), kArenaFd}};
      worker.signal_on_parent_death = orphans_ ? 0 : SIGKILL;
      const io::Process process = *io::Start(worker);
      pollfd ended{process.pidfd.get(), POLLIN, 0};
      while (poll(&ended, 1, -1) < 1) {
      }
      (void)io::Reap(process.pidfd);
      record->tier = kMemory;
    }
  }

 private:
  // The newest that a peer or the disk has, into a new arena.
  void Restore(AgentMemory& memory, uint64_t bytes, const MappedRecord& record) {
    checkpoint::CheckpointDirectory disk(io::DirectFileSystem(), directory_ + "/checkpoints");
    const auto committed = *disk.List();
    const uint64_t on_disk = committed.empty() ? 0 : committed[0].step;
    const auto arena = *memory.Provide(kJob, 0, bytes);
    // Which steps the peer has is the controller's knowledge; here it is tried.
    for (uint64_t step = record->copied + 1; step > 0 && step + 1 >= record->copied; --step) {
      if (step <= on_disk || !Fetch(step, arena->bytes()).ok()) continue;
      record->tier = kPeer;
      return;
    }
    if (on_disk == 0) return;
    const auto state = disk.ReadPiece(on_disk, 1, 0);
    if (!state.ok()) {
      ++record->wrong;
      return;
    }
    checkpoint::ArenaWriter writer(arena->bytes());
    CHECK(writer.Begin(on_disk, 1, Plan()).ok());
    writer.WriteAll(state->Tensors(), 1);
    writer.Seal();
    record->tier = kDisk;
  }

  Status Fetch(uint64_t step, std::span<std::byte> arena) {
    ASSIGN_OR_RETURN(PeerConnection peer, PeerConnection::Connect("127.0.0.1", port_, 0));
    ASSIGN_OR_RETURN(const auto announced, AskForCopy(peer, "secret", {kJobName, 0, step, 0},
                                                      /*copy=*/true, checkpoint::PeerKind::kFetch));
    return checkpoint::ReceiveSnapshotData(announced, peer.Reader(), arena);
  }

  static uint64_t Newest(std::span<std::byte> arena) {
    const auto sealed = checkpoint::ArenaReader(arena).ListSealed();
    return sealed.empty() ? 0 : sealed[0].step;
  }

  void CopyForEver(std::span<std::byte> arena) {
    const MappedRecord record(record_fd_);
    for (;;) {
      const uint64_t step = Newest(arena);
      if (step == 0 || step == record->copied) {
        std::this_thread::yield();
        continue;
      }
      auto peer = PeerConnection::Connect("127.0.0.1", port_, 0);
      if (!peer.ok()) continue;
      if (SendCopy(*peer, "secret", {kJobName, 0, step, 1}, arena).ok()) record->copied = step;
    }
  }

  void CommitForEver(std::span<std::byte> arena) {
    const MappedRecord record(record_fd_);
    checkpoint::CheckpointDirectory disk(io::DirectFileSystem(), directory_ + "/checkpoints");
    for (;;) {
      const uint64_t step = Newest(arena);
      if (step == 0 || step == record->committed) {
        std::this_thread::yield();
        continue;
      }
      if (CommitOne(arena, step, disk).ok()) record->committed = step;
    }
  }

  static Status CommitOne(std::span<std::byte> arena, uint64_t step,
                          checkpoint::CheckpointDirectory& disk) {
    ASSIGN_OR_RETURN(const auto pin, checkpoint::SnapshotPin::Take(arena, step, 1));
    ASSIGN_OR_RETURN(const auto snapshot, checkpoint::ArenaReader(arena).InSlot(pin.slot()));
    checkpoint::Manifest order = ManifestOf(step, 1, 1);
    ASSIGN_OR_RETURN(const auto piece, disk.WriteHashedPiece({step, 1, 0, 1}, snapshot.plan,
                                                             snapshot.chunks, snapshot.tensors));
    order.files.push_back(piece);
    RETURN_IF_ERROR(disk.Commit(order));
    return checkpoint::Collect(disk, {.last = 2}, 1).status();
  }

  const std::string directory_;
  const uint16_t port_;
  const bool orphans_;
  const io::Fd record_fd_;
};

// -------------------------------------------------------------------------------------- the test

enum class Victim { kWorker, kAgent, kBoth, kNode, kSnapshotKeeperFirst };
constexpr const char* kVictimNames[] = {"worker", "agent", "agent and worker", "node",
                                        "snapshot keeper, then agent"};

class RandomKill : public testing::Test {
 protected:
  RandomKill() {
    std::string folder = "/tmp/random_kill_XXXXXX";
    folder_ = mkdtemp(folder.data());
    record_fd_ = *io::CreateSharedMemory("record", Bytes(4096), true);
    record_ = std::make_unique<MappedRecord>(record_fd_);
    server_ = *PeerServer::Listen("127.0.0.1", "secret", peer_);
    CHECK(io::BecomeSubreaper().ok());
  }
  ~RandomKill() override {
    KillNode();
    std::filesystem::remove_all(folder_);
  }

  Record& record() { return *record_->operator->(); }

  void StartAgent(bool orphans) {
    io::ProcessOptions agent;
    agent.argv = {"/proc/self/exe", "agent", folder_, std::to_string(server_->port()),
                  orphans ? "orphans" : "children"};
    agent.environment = io::CurrentEnvironment();
    agent.inherited = {{record_fd_.get(), kRecordFd}};
    agent.signal_on_parent_death = SIGKILL;
    agent_ = *io::Start(agent);
  }

  static void KillProcess(uint64_t pid) {
    if (pid == 0) return;
    const auto pidfd = io::OpenPidfd(static_cast<pid_t>(pid));
    if (!pidfd.ok()) return;
    (void)io::Signal(*pidfd, SIGKILL);
    pollfd ended{pidfd->get(), POLLIN, 0};
    while (poll(&ended, 1, -1) < 1) {
    }
  }
  void KillAgent() {
    (void)io::Signal(agent_.pidfd, SIGKILL);
    pollfd ended{agent_.pidfd.get(), POLLIN, 0};
    while (poll(&ended, 1, -1) < 1) {
    }
    (void)io::Reap(agent_.pidfd);
  }
  void KillNode() {
    KillAgent();
    KillProcess(record().worker);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const Result<int64_t> pid = ParseInt64(entry.path().filename().string());
      const auto facts = pid.ok() ? io::ReadProcessFacts(static_cast<pid_t>(*pid))
                                  : Result<io::ProcessFacts>(NotFound(""));
      // Whatever the agent has left is ours now: its snapshot keeper.
      if (facts.ok() && facts->parent == getpid()) {
        KillProcess(static_cast<uint64_t>(*pid));
        (void)io::Reap(*io::OpenPidfd(static_cast<pid_t>(*pid)));
      }
    }
  }

  // The node's snapshot keeper; 0: there is none, or, when it is to hold one, none with an arena.
  uint64_t SnapshotKeeper(bool with_arena) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const Result<int64_t> pid = ParseInt64(entry.path().filename().string());
      const auto facts = pid.ok() ? io::ReadProcessFacts(static_cast<pid_t>(*pid))
                                  : Result<io::ProcessFacts>(NotFound(""));
      if (!facts.ok() || (facts->parent != getpid() && facts->parent != agent_.pid)) continue;
      std::string name;
      std::getline(std::ifstream(entry.path() / "comm"), name);
      if (name != kSnapshotKeeperProcessName || facts->state == 'Z') continue;
      if (!with_arena) return static_cast<uint64_t>(*pid);
      std::error_code error;
      for (const auto& fd : std::filesystem::directory_iterator(entry.path() / "fd", error)) {
        const std::string target = std::filesystem::read_symlink(fd.path(), error).string();
        if (target.find("memfd:longhaul-job") != std::string::npos) {
          return static_cast<uint64_t>(*pid);
        }
      }
    }
    return 0;
  }
  // Kills the snapshot keeper and waits until the agent has given its arena to a new one.
  void KillSnapshotKeeper() {
    const uint64_t old = SnapshotKeeper(false);
    ASSERT_NE(old, 0u);
    KillProcess(old);
    for (uint64_t now = 0; now == 0 || now == old; now = SnapshotKeeper(true)) sched_yield();
  }

  // Waits until somebody has continued by so many steps, and then a random number of turns more.
  void LetItRun(Random& random) {
    const uint64_t target = record().sealed + 1 + random.Below(12);
    while (record().sealed < target) sched_yield();
    for (uint64_t spin = random.Below(200'000); spin > 0; --spin) (void)record().sealed.load();
  }

  std::string folder_;
  io::Fd record_fd_;
  std::unique_ptr<MappedRecord> record_;
  PeerMemory peer_{1 << 30};
  std::unique_ptr<PeerServer> server_;
  io::Process agent_;
};

size_t Kills() {
  const char* wanted = std::getenv("LONGHAUL_KILLS");
  const Result<uint64_t> number = wanted == nullptr ? Result<uint64_t>(24) : ParseUint64(wanted);
  CHECK(number.ok()) << "LONGHAUL_KILLS is no number";
  return *number;
}

TEST_F(RandomKill, TheNewestGoodStateComesBackAfterEach) {
  Random random(29);
  std::map<std::string, size_t> seen;
  StartAgent(false);
  while (record().starts == 0) sched_yield();
  for (size_t i = 0; i < Kills(); ++i) {
    LetItRun(random);
    const auto victim = static_cast<Victim>(random.Below(5));
    const std::string what =
        "kill " + std::to_string(i) + ": " + kVictimNames[static_cast<size_t>(victim)];
    const uint64_t starts = record().starts;
    if (victim == Victim::kWorker) {
      KillProcess(record().worker);
    } else if (victim == Victim::kNode) {
      KillNode();
    } else {
      if (victim == Victim::kSnapshotKeeperFirst) KillSnapshotKeeper();
      if (victim == Victim::kBoth) KillProcess(record().worker);
      KillAgent();
    }
    const bool memory_lost = victim == Victim::kNode;
    if (memory_lost && random.Below(2) == 0) {  // the peer too
      peer_.Drop(kJobName);
      record().copied = 0;
    }
    const uint64_t elsewhere = std::max(record().copied.load(), record().committed.load());
    if (victim != Victim::kWorker) StartAgent(random.Below(2) == 0);
    // One that the dying agent still started doesn't count.
    const auto agent = static_cast<uint64_t>(agent_.pid);
    while (record().starts <= starts || record().agent != agent) sched_yield();
    ASSERT_EQ(record().wrong, 0u) << what;
    if (memory_lost) {
      ASSERT_GE(record().restored, elsewhere) << what;
      ASSERT_NE(record().tier, kMemory) << what;
    } else {
      // It may have died between a seal and saying so.
      ASSERT_GE(record().restored, record().left) << what;
      ASSERT_LE(record().restored, record().left + 1) << what;
      ASSERT_EQ(record().tier, kMemory) << what;
    }
    ++seen[kVictimNames[static_cast<size_t>(victim)]];
    ++seen[memory_lost ? (record().tier == kPeer ? "from the peer" : "from disk") : "from memory"];
  }
  for (const auto& [name, count] : seen) std::printf("%-18s %zu\n", name.c_str(), count);
  EXPECT_EQ(seen["worker"] + seen["agent"] + seen["agent and worker"] + seen["node"] +
                seen["snapshot keeper, then agent"],
            Kills());
  EXPECT_GT(seen["from memory"], 0u);
  EXPECT_GT(seen["from the peer"] + seen["from disk"], 0u);
}

}  // namespace

int PlayPart(int argc, char** argv) {
  const std::string_view part = argv[1];
  if (part == "worker") return PlayWorker(*ParseUint64(argv[2]));
  if (part == "snapshot-keeper") return SnapshotKeeperMain(std::chrono::seconds(60));
  CHECK(part == "agent" && argc == 5);
  return Agent(argv[2], static_cast<uint16_t>(*ParseUint64(argv[3])),
               std::string_view(argv[4]) == "orphans")
      .Play();
}

}  // namespace longhaul::service

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') return longhaul::service::PlayPart(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
