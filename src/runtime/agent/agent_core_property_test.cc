// Random lives of an agent: commands in and out of order and twice, worker deaths, lost links. A
// small model of the node checks what must hold whatever happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime {
namespace {

// The machine and the controller's log, as the core's effects and events make them.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  void Turn() {
    agent_.Advance(Duration(random_.Below(400'000'000)));
    switch (random_.Below(13)) {
      case 0:
      case 1:
        return Do(agent_.Give(StartCommand(RandomAttempt())));
      case 2:
        return Do(
            agent_.Give(KillCommand(RandomAttempt(), Duration(random_.Below(2) * 500'000'000))));
      case 3:
        return Reconnect();
      case 4:
        Do(agent_.Step(TimerFired{}));
        return;
      case 5:
      case 6:
        return ForkOne();
      case 7:
      case 8:
      case 9:
        return EndOne();
      case 10:
        return SealOne();
      case 11:
        return NameOne();
      default:
        return FinishDisk();
    }
  }

  // Lets everything come to its end.
  void Finish() {
    Do(agent_.Give(KillCommand(top_attempt_)));
    while (!spawning_.empty()) ForkOne();
    // Half of the agents receive a request to shut down, with or without a controller.
    if (random_.Below(2) == 0) Do(agent_.Step(ShutDownAsked{Duration(1)}));
    while (!alive_.empty()) EndOne();
    for (int i = 0; persisting_.has_value(); ++i) {
      ASSERT_LT(i, 20) << "the disk's work does not come to an end";
      FinishDisk();
    }
    if (!connected_) Reconnect();
    EXPECT_TRUE(agent_.core().Idle());
    EXPECT_EQ(ends_reported_, ends_) << "every end is reported exactly once";
  }

  size_t spawned() const { return ever_spawned_.size(); }
  size_t resent() const { return resent_; }

 private:
  uint64_t RandomAttempt() {
    if (random_.Below(3) == 0) return ++top_attempt_;
    return 1 + random_.Below(top_attempt_);  // an old command, or one again
  }

  void Reconnect() {
    if (connected_) {
      connected_ = false;
      Do(agent_.Step(Disconnected{}));
      return;
    }
    connected_ = true;
    // The controller may have logged more than it could acknowledge.
    Do(agent_.Step(Connected{logged_}));
  }

  void ForkOne() {
    if (spawning_.empty()) return;
    const WorkerId worker = Pick(spawning_);
    spawning_.erase(worker);
    if (random_.Below(8) == 0) {
      Do(agent_.Step(WorkerForked{worker, 0, "out of processes", false}));
      return;
    }
    alive_.insert(worker);
    Do(agent_.Step(WorkerForked{worker, next_pid_++, "", false}));
  }

  void EndOne() {
    if (alive_.empty()) return;
    const WorkerId worker = Pick(alive_);
    alive_.erase(worker);
    ends_.insert(worker);
    Do(agent_.Step(WorkerGone{worker, 0, 0, "", 0}));
  }

  void SealOne() {
    if (alive_.empty()) return;
    Do(agent_.Step(WorkerSealed{Pick(alive_), ++step_ / 4, Duration(1), 1, agent_.now()}));
  }

  // The controller names one of the last sealed steps, or one that never was.
  void NameOne() {
    proto::Command command;
    proto::PersistSnapshot& persist = *command.mutable_persist_snapshot();
    persist.set_job_id(kTestJob.value());
    persist.set_attempt(RandomAttempt());
    persist.set_step(step_ / 4 - std::min(step_ / 4, random_.Below(4)));
    Do(agent_.Give(command));
  }

  void FinishDisk() {
    if (!persisting_.has_value()) return;
    const PersistPieces work = *std::exchange(persisting_, std::nullopt);
    const std::string error = random_.Below(4) == 0 ? "disk full" : "";
    if (error.empty()) {
      EXPECT_TRUE(saved_.insert({work.attempt, work.step}).second)
          << "attempt " << work.attempt << " step " << work.step << " is written again";
    }
    Do(agent_.Step(
        PiecesPersisted{work.job, work.attempt, work.step, {}, Duration(1), error, false}));
  }

  WorkerId Pick(const std::set<WorkerId>& from) {
    return *std::next(from.begin(), static_cast<std::ptrdiff_t>(random_.Below(from.size())));
  }

  void Do(const std::vector<AgentEffect>& effects) {
    for (const SpawnWorker& spawn : Only<SpawnWorker>(effects)) {
      EXPECT_TRUE(ever_spawned_.insert(spawn.worker).second) << "a rank of an attempt starts once";
      spawning_.insert(spawn.worker);
      for (const auto* others : {&alive_, &spawning_}) {
        for (const WorkerId& other : *others) {
          EXPECT_EQ(other.attempt, spawn.worker.attempt) << "two attempts at once";
        }
      }
    }
    for (const PersistPieces& work : Only<PersistPieces>(effects)) {
      EXPECT_FALSE(persisting_.has_value()) << "two writes at once";
      persisting_ = work;
    }
    for (const proto::Event& event : agent_.TakeSent()) Log(event);
    // Some acknowledgements are on their way for long.
    if (connected_ && random_.Below(2) == 0) agent_.Step(EventsAcknowledged{logged_});
  }

  void Log(const proto::Event& event) {
    EXPECT_TRUE(connected_);
    if (event.sequence() <= logged_) {
      ++resent_;
      return;
    }
    EXPECT_EQ(event.sequence(), logged_ + 1) << "a hole in the log";
    logged_ = event.sequence();
    if (event.has_worker_exited()) {
      const proto::WorkerExited& exited = event.worker_exited();
      EXPECT_TRUE(ends_reported_.insert(WorkerOf(exited.attempt(), exited.rank())).second)
          << "reported twice";
    }
    if (event.has_attempt_closed()) {
      EXPECT_TRUE(closed_.insert(event.attempt_closed().attempt()).second) << "closed twice";
    }
    if (event.has_agent_joined()) {
      // What it says is running is what is running (or starts without another command).
      std::set<WorkerId> running_now;
      for (const auto& running : event.agent_joined().running()) {
        for (const uint32_t rank : running.ranks())
          running_now.insert(WorkerOf(running.attempt(), rank));
      }
      for (const WorkerId& worker : alive_) EXPECT_TRUE(running_now.contains(worker));
      for (const WorkerId& worker : ends_) EXPECT_FALSE(running_now.contains(worker));
    }
  }

  Random random_;
  AgentHarness agent_;
  bool connected_ = false;
  uint64_t top_attempt_ = 1;
  uint64_t step_ = 0;
  int64_t next_pid_ = 100;
  uint64_t logged_ = 0;
  size_t resent_ = 0;
  std::set<WorkerId> spawning_;
  std::set<WorkerId> alive_;
  std::set<WorkerId> ever_spawned_;
  std::set<WorkerId> ends_;
  std::set<WorkerId> ends_reported_;
  std::set<uint64_t> closed_;
  std::optional<PersistPieces> persisting_;
  std::set<std::pair<uint64_t, uint64_t>> saved_;  // attempt and step of what is on disk
};

TEST(AgentCoreProperty, HoldsOverRandomLives) {
  size_t spawned = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int turn = 0; turn < 300; ++turn) world.Turn();
    world.Finish();
    spawned += world.spawned();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(spawned, 1'000u) << "the lives were too quiet to prove anything";
}

}  // namespace
}  // namespace longhaul::runtime
