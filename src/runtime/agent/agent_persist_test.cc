// Which snapshot an agent writes when the controller names it.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/agent/agent_core_fixture.h"

namespace longhaul::runtime::agent_persist_test {
namespace {

proto::Command PersistCommand(uint64_t attempt, uint64_t step) {
  proto::Command command;
  command.mutable_persist_snapshot()->set_job_id(kTestJob.value());
  command.mutable_persist_snapshot()->set_attempt(attempt);
  command.mutable_persist_snapshot()->set_step(step);
  return command;
}

proto::Command PersistCommand(uint64_t attempt, uint64_t step, const std::vector<uint32_t>& ranks) {
  proto::Command command = PersistCommand(attempt, step);
  for (const uint32_t rank : ranks) command.mutable_persist_snapshot()->add_ranks(rank);
  return command;
}

PiecesPersisted Persisted(uint64_t step, std::string error = "", bool overtaken = false) {
  return {kTestJob, 1, step, {}, Duration(1), std::move(error), overtaken};
}

// An agent whose controller names the steps, with ranks 2 and 3 of a state in parts.
class AgentPersist : public ::testing::Test {
 protected:
  AgentPersist() {
    agent_.Step(Connected{0});
    Start(1, 0);
  }
  void Start(uint64_t attempt, uint64_t restored) {
    proto::Command command = StartCommand(attempt, 2, 2);
    proto::StartWorkers& start = *command.mutable_start_workers();
    start.mutable_job()->mutable_snapshot()->set_replicated(false);
    start.mutable_restore()->set_step(restored);
    start.set_persist_on_command(true);
    agent_.Give(command);
    agent_.Fork(attempt, 2, 2);
    agent_.TakeSent();
  }
  std::vector<AgentEffect> Seal(uint64_t step, uint64_t attempt = 1) {
    const auto sealed = [&](uint32_t rank) {
      return WorkerSealed{WorkerOf(attempt, rank), step, Duration(5), 10, agent_.now()};
    };
    agent_.Step(sealed(2));
    auto effects = agent_.Step(sealed(3));
    agent_.TakeSent();
    return effects;
  }
  // The step that these effects write; 0: none.
  static uint64_t Written(const std::vector<AgentEffect>& effects) {
    const auto persists = Only<PersistPieces>(effects);
    return persists.empty() ? 0 : persists.at(0).step;
  }

  AgentHarness agent_;
};

TEST_F(AgentPersist, WritesNothingUntilOrderedAndThenWhatWasOrdered) {
  EXPECT_EQ(Written(Seal(10)), 0u);
  EXPECT_EQ(Written(Seal(20)), 0u);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 10u) << "not the newest";
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 0u) << "said again";
  EXPECT_EQ(Written(agent_.Step(Persisted(10))), 0u) << "20 was not named";
  EXPECT_EQ(Kinds(agent_.TakeSent()), "snapshot_persisted");
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 0u) << "said again";
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 20))), 20u);
}

TEST_F(AgentPersist, TakesTheNewestWordOnceItsDiskIsFree) {
  for (const uint64_t step : {10u, 20u, 30u}) Seal(step);
  agent_.Give(PersistCommand(1, 10));
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 20))), 0u) << "one at a time";
  agent_.Give(PersistCommand(1, 30));
  EXPECT_EQ(Written(agent_.Step(Persisted(10))), 30u);
}

TEST_F(AgentPersist, SaysWhatItCanNotWriteSoThatAnotherIsNamed) {
  Seal(10);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 5))), 0u);
  auto sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_TRUE(sent[0].snapshot_failed().overtaken());
  agent_.Give(PersistCommand(1, 10));
  Seal(20);
  agent_.Step(Persisted(10, "slot reused", true));
  sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_TRUE(sent[0].snapshot_failed().overtaken());
  agent_.Give(PersistCommand(1, 20));
  agent_.Step(Persisted(20, "no space left on device"));
  sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_FALSE(sent[0].snapshot_failed().overtaken());
}

// Workers without a step left seal the restored step again, in the slot of the earlier seal.
TEST_F(AgentPersist, OfAStepThatIsSealedAgainOnlyTheNewSealCanBeWritten) {
  Seal(10);
  agent_.End(1, 2);
  agent_.End(1, 3);
  Start(2, 10);
  Seal(10, 2);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 0u);
  const auto sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_failed");
  EXPECT_TRUE(sent[0].snapshot_failed().overtaken());
  EXPECT_EQ(Written(agent_.Give(PersistCommand(2, 10))), 10u);
}

// It waits behind a slow write while memory moves on.
TEST_F(AgentPersist, AWordThatWaitedForTooLongIsAnswered) {
  Seal(10);
  agent_.Give(PersistCommand(1, 10));
  Seal(20);
  agent_.Give(PersistCommand(1, 20));
  for (uint64_t step = 30; step <= 80; step += 10) Seal(step);
  EXPECT_EQ(Written(agent_.Step(Persisted(10))), 0u);
  const auto sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_persisted snapshot_failed");
  EXPECT_EQ(sent[1].snapshot_failed().step(), 20u);
  EXPECT_TRUE(sent[1].snapshot_failed().overtaken());
}

TEST_F(AgentPersist, ANamedOneThatFailedIsTriedOnceMoreWhenTheWorkersHaveEnded) {
  Seal(10);
  agent_.Give(PersistCommand(1, 10));
  EXPECT_EQ(Written(agent_.Step(Persisted(10, "disk full"))), 0u);
  agent_.End(1, 2);
  EXPECT_EQ(Written(agent_.End(1, 3)), 10u);
}

TEST_F(AgentPersist, ANamedOneThatFailedIsTriedOnceMoreWhenItIsNamedAgain) {
  Seal(10);
  agent_.Give(PersistCommand(1, 10));
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 0u) << "it is being written";
  EXPECT_EQ(Written(agent_.Step(Persisted(10, "disk full"))), 0u);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 10u);
}

// Another node writes what rank 3 holds too.
TEST_F(AgentPersist, WritesTheRanksThatAreOrdered) {
  Seal(10);
  const auto writes = Only<PersistPieces>(agent_.Give(PersistCommand(1, 10, {2})));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].ranks, std::vector<uint32_t>{2});
  EXPECT_TRUE(Only<PersistPieces>(agent_.Give(PersistCommand(1, 10, {2}))).empty()) << "said again";
  EXPECT_EQ(Kinds(agent_.TakeSent()), "");
  agent_.Step(Persisted(10));
  EXPECT_EQ(Kinds(agent_.TakeSent()), "snapshot_persisted");
  agent_.Give(PersistCommand(1, 10, {2}));
  EXPECT_EQ(Kinds(agent_.TakeSent()), "") << "said again";
  for (const std::vector<uint32_t>& others : {std::vector<uint32_t>{3}, {2, 4}}) {
    EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10, others))), 0u);
    const auto sent = agent_.TakeSent();
    ASSERT_EQ(Kinds(sent), "snapshot_failed") << "so that another step is named";
    EXPECT_TRUE(sent[0].snapshot_failed().overtaken());
  }
  Seal(20);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 20, {1, 2}))), 0u) << "rank 1 isn't here";
  EXPECT_EQ(Kinds(agent_.TakeSent()), "snapshot_failed");
}

TEST_F(AgentPersist, AnAgentThatEndsWritesAllOfItsRanks) {
  Seal(10);
  agent_.Give(PersistCommand(1, 10, {2}));
  agent_.Step(Persisted(10));
  Seal(11);
  agent_.Step(ShutDownAsked{std::chrono::seconds(5)});
  agent_.End(1, 2);
  const auto writes = Only<PersistPieces>(agent_.End(1, 3));
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].step, 11u);
  EXPECT_EQ(writes[0].ranks, (std::vector<uint32_t>{2, 3}));
}

TEST_F(AgentPersist, TellsWhatEveryRankHolds) {
  for (const uint32_t rank : {2u, 3u}) {
    WorkerSealed sealed{WorkerOf(1, rank), 10, Duration(5), 10, agent_.now()};
    sealed.content.emplace().set_root(100 + rank);
    agent_.Step(sealed);
  }
  auto sent = agent_.TakeSent();
  ASSERT_EQ(Kinds(sent), "snapshot_sealed");
  ASSERT_EQ(sent[0].snapshot_sealed().contents_size(), 2);
  EXPECT_EQ(sent[0].snapshot_sealed().contents(1).root(), 103u);
  WorkerSealed sealed{WorkerOf(1, 2), 20, Duration(5), 10, agent_.now()};
  sealed.content.emplace().set_root(1);
  agent_.Step(sealed);
  agent_.Step(WorkerSealed{WorkerOf(1, 3), 20, Duration(5), 10, agent_.now()});
  sent = agent_.TakeSent();
  EXPECT_EQ(sent.at(0).snapshot_sealed().contents_size(), 0) << "of rank 3 nothing is known";
}

TEST_F(AgentPersist, ARollbackVoidsWhatWasNamedBeyondIt) {
  Seal(10);
  Seal(20);
  agent_.Give(PersistCommand(1, 10));
  agent_.Give(PersistCommand(1, 20));
  Start(2, 10);
  EXPECT_EQ(Written(agent_.Step(Persisted(10))), 0u);
}

// Nobody will name the last one: the controller may be gone before us.
TEST_F(AgentPersist, AnAgentThatEndsSavesTheNewestUnasked) {
  Seal(10);
  agent_.Step(ShutDownAsked{std::chrono::seconds(5)});
  EXPECT_EQ(Written(Seal(11)), 0u) << "its workers still run";
  agent_.End(1, 2);
  EXPECT_EQ(Written(agent_.End(1, 3)), 11u);
  EXPECT_FALSE(agent_.core().Settled());
  agent_.Step(Persisted(11));
  EXPECT_TRUE(agent_.core().Idle());
}

TEST_F(AgentPersist, AnAgentThatEndsWritesTheNamedOneFirst) {
  Seal(10);
  Seal(11);
  agent_.Step(ShutDownAsked{std::chrono::seconds(5)});
  agent_.End(1, 2);
  agent_.End(1, 3);
  EXPECT_EQ(Written(agent_.Give(PersistCommand(1, 10))), 0u) << "11 is under way";
  EXPECT_EQ(Written(agent_.Step(Persisted(11))), 10u);
}

// With the controller gone, the named snapshot and the newest one were written in turns forever.
TEST_F(AgentPersist, AnAgentThatEndsWritesEachSnapshotOnceAndIsDone) {
  for (const std::string error : {"", "no space left on device"}) {
    SCOPED_TRACE(error);
    agent_ = AgentHarness();
    agent_.Step(Connected{0});
    Start(1, 0);
    Seal(10);
    agent_.Give(PersistCommand(1, 10));
    agent_.Step(Persisted(10, error));
    Seal(11);
    agent_.Step(Disconnected{});
    agent_.Step(ShutDownAsked{std::chrono::seconds(5)});
    agent_.End(1, 2);
    std::vector<uint64_t> written;
    uint64_t step = Written(agent_.End(1, 3));
    for (; step != 0 && written.size() < 10; step = Written(agent_.Step(Persisted(step, error)))) {
      written.push_back(step);
    }
    EXPECT_LE(written.size(), error.empty() ? 1u : 2u) << "what failed is tried once more";
    EXPECT_EQ(std::count(written.begin(), written.end(), 11u), 1);
    EXPECT_TRUE(agent_.core().Idle());
  }
}

// Rank 0 and 1 of a replicated state are one piece; ranks 2 and 3 of a state in parts are half of
// it.
TEST(AgentThatEndsWithItsCluster, CommitsWhatItHoldsWhole) {
  for (const bool replicated : {true, false}) {
    for (const bool cluster_ended : {true, false}) {
      for (const bool connected : {true, false}) {
        SCOPED_TRACE(std::to_string(replicated) + std::to_string(cluster_ended) +
                     std::to_string(connected));
        AgentHarness agent;
        agent.Step(Connected{0});
        proto::Command command = StartCommand(1);
        command.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(
            replicated);
        command.mutable_start_workers()->set_persist_on_command(true);
        agent.Give(command);
        agent.Fork(1);
        agent.Seal(1, 10);
        if (!connected) agent.Step(Disconnected{});
        agent.Step(ShutDownAsked{Duration(1), cluster_ended});
        agent.End(1, 0);
        EXPECT_EQ(Only<PersistPieces>(agent.End(1, 1)).size(), 1u);
        PiecesPersisted persisted = Persisted(10);
        for (uint32_t rank = 0; rank < (replicated ? 1u : 2u); ++rank) {
          persisted.files.emplace_back().set_rank(rank);
        }
        const auto writes = Only<WriteManifest>(agent.Step(persisted));
        const bool commits = replicated && cluster_ended && !connected;
        ASSERT_EQ(writes.size(), commits ? 1u : 0u);
        if (!commits) continue;
        EXPECT_EQ(writes[0].commit.step(), 10u);
        EXPECT_EQ(writes[0].commit.world(), 4u);
        EXPECT_FALSE(agent.core().Idle()) << "it waits for the manifest";
        agent.Step(ManifestWritten{kTestJob, 1, 10, ""});
        EXPECT_TRUE(agent.core().Idle());
      }
    }
  }
}

// Its workers started under a controller that names nothing; the next one does.
TEST_F(AgentPersist, AWordEndsItsOwnChoice) {
  proto::Command start = StartCommand(2, 2, 2);
  start.mutable_start_workers()->mutable_job()->mutable_snapshot()->set_replicated(false);
  AgentHarness agent;
  agent.Give(start);
  agent.Fork(2, 2, 2);
  const auto seal = [&agent](uint64_t step) {
    agent.Step(WorkerSealed{WorkerOf(2, 2), step, Duration(5), 10, agent.now()});
    return Written(agent.Step(WorkerSealed{WorkerOf(2, 3), step, Duration(5), 10, agent.now()}));
  };
  EXPECT_EQ(seal(10), 10u);
  seal(20);
  EXPECT_EQ(Written(agent.Give(PersistCommand(2, 20))), 0u);
  EXPECT_EQ(Written(agent.Step(PiecesPersisted{kTestJob, 2, 10, {}, Duration(1), "", false})), 20u);
  EXPECT_EQ(seal(30), 0u);
  EXPECT_EQ(Written(agent.Step(PiecesPersisted{kTestJob, 2, 20, {}, Duration(1), "", false})), 0u);
}

}  // namespace
}  // namespace longhaul::runtime::agent_persist_test
