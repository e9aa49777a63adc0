#include "runtime/controller/job/snapshot_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller::snapshot_tracker_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const NodeId kA("a");
const NodeId kB("b");
const NodeId kC("c");

// A job of two nodes with one rank each, in attempt 1 from the beginning, and a third node beside
// it.
class Tracker {
 public:
  explicit Tracker(bool replicated = false, uint32_t peer_port = 7000) {
    spec.set_nodes(2);
    spec.set_processes_per_node(1);
    spec.mutable_snapshot()->set_replicated(replicated);
    for (const NodeId& id : {kA, kB, kC}) Join(id, 1, peer_port);
    snapshots.ChangeRanks(1);
    Place({kA, kB});
    Begin(1);
  }

  void Join(const NodeId& id, uint64_t life, uint32_t peer_port = 7000) {
    proto::AgentJoined facts;
    facts.set_slots(1);
    facts.set_address(id.value());
    facts.set_peer_port(peer_port);
    nodes.BeginJoin(id, life, 1);
    nodes.BeginLife(id, life);
    nodes.Join(id, 1, facts);
  }
  void Place(const std::vector<NodeId>& target) {
    snapshots.RememberSpreads(View());
    snapshots.ChangeGang(View(), target);
    group.Replace(target);
  }
  void Begin(uint64_t number) {
    attempt = number;
    snapshots.BeginAttempt(attempt, static_cast<uint32_t>(group.size()), Choose());
  }
  void SealAll(uint64_t step) {
    for (size_t i = 0; i < group.size(); ++i) snapshots.Seal(View(), i, step);
    snapshots.Complete(step, attempt);
  }
  GangView View() const { return {spec, group, nodes}; }
  proto::Restore Choose() const { return snapshots.ChooseRestore(View(), copies); }
  // The step and tier that would be chosen now.
  std::pair<uint64_t, proto::Restore::Tier> Chosen() const {
    return {Choose().step(), Choose().tier()};
  }

  proto::Job spec;
  WorkerGroup group;
  NodeTable nodes;
  SnapshotTracker snapshots;
  std::map<uint64_t, uint64_t> copies;
  uint64_t attempt = 0;
};

TEST(SnapshotTracker, AStepIsCompleteWhenEveryPlaceHasSealedIt) {
  Tracker tracker;
  EXPECT_FALSE(tracker.snapshots.Seal(tracker.View(), 0, 10));
  EXPECT_TRUE(tracker.snapshots.Seal(tracker.View(), 1, 10));
  tracker.snapshots.Complete(10, 1);
  EXPECT_EQ(tracker.snapshots.memory_step(), 10u);
  EXPECT_EQ(tracker.snapshots.snapshots(), 1u);
  EXPECT_EQ(tracker.snapshots.AttemptOfComplete(10), 1u);
  EXPECT_FALSE(tracker.snapshots.AttemptOfComplete(9).has_value());
}

TEST(SnapshotTracker, TheNewestStepThatEveryNodeHasIsChosen) {
  Tracker tracker;
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{0}, proto::Restore::TIER_NONE));
  tracker.SealAll(10);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_MEMORY));
  tracker.snapshots.Seal(tracker.View(), 0, 20);
  EXPECT_EQ(tracker.Chosen().first, 10u) << "the other place has no 20";
  tracker.SealAll(20);
  EXPECT_EQ(tracker.Chosen().first, 20u);
}

TEST(SnapshotTracker, ACopyInThePeersMemoryServesALostNode) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.snapshots.NoteCopy(0, *tracker.nodes.Find(kB), 1, 10, 1);
  tracker.snapshots.LosePlace(0);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_PEER));
  tracker.Begin(2);
  const proto::Restore restore = tracker.snapshots.RestoreFor(tracker.View(), 0);
  EXPECT_EQ(restore.tier(), proto::Restore::TIER_PEER);
  EXPECT_EQ(restore.source_address(), "b");
  EXPECT_EQ(tracker.snapshots.RestoreFor(tracker.View(), 1).tier(), proto::Restore::TIER_MEMORY);
}

TEST(SnapshotTracker, ACopyOfAnEarlierLifeOfItsHolderIsGone) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.snapshots.NoteCopy(0, *tracker.nodes.Find(kB), 1, 10, 1);
  tracker.snapshots.LosePlace(0);
  tracker.Join(kB, 2);
  EXPECT_EQ(tracker.Chosen().first, 0u);
}

// The peer of a place changes with the gang. An earlier one keeps its copies, for which the places
// of others may still have the same step.
TEST(SnapshotTracker, CopiesForAPlaceCanBeInSeveralMemories) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.snapshots.NoteCopy(0, *tracker.nodes.Find(kB), 1, 10, 1);
  tracker.snapshots.NoteCopy(0, *tracker.nodes.Find(kC), 1, 20, 1);
  tracker.snapshots.LosePlace(0);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_PEER));
  tracker.snapshots.Seal(tracker.View(), 1, 20);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{20}, proto::Restore::TIER_PEER));
  tracker.Join(kC, 2);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_PEER));
}

TEST(SnapshotTracker, ACopyThatWasNoGoodIsNotOfferedAgain) {
  Tracker tracker;
  tracker.snapshots.Commit(5, 1, 2);
  tracker.SealAll(10);
  tracker.snapshots.NoteCopy(0, *tracker.nodes.Find(kB), 1, 10, 1);
  tracker.snapshots.ForgetOwn(tracker.View(), 0, 10);
  EXPECT_EQ(tracker.Chosen().second, proto::Restore::TIER_PEER);
  tracker.snapshots.ForgetCopy(tracker.View(), 0, 10);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{5}, proto::Restore::TIER_DISK));
  tracker.copies[7] = 1;
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{7}, proto::Restore::TIER_SHARED));
}

TEST(SnapshotTracker, WhereNodesAreAlikeAnyMemoryServesAll) {
  Tracker tracker(/*replicated=*/true);
  tracker.SealAll(10);
  tracker.snapshots.LosePlace(0);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_PEER));
  EXPECT_THAT(tracker.snapshots.WritersOf(tracker.View(), 10), IsEmpty())
      << "place 0 writes for all, and has it no more";
}

TEST(SnapshotTracker, StepsAboveTheRestoredOneAreVoid) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.SealAll(20);
  tracker.snapshots.ForgetOwn(tracker.View(), 0, 20);
  tracker.Begin(2);
  EXPECT_EQ(tracker.snapshots.restore().step(), 10u);
  EXPECT_EQ(tracker.snapshots.memory_step(), 10u);
  EXPECT_FALSE(tracker.snapshots.Holds(1, 20));
  EXPECT_TRUE(tracker.snapshots.IsOfHistory(1, 10, 2));
  EXPECT_FALSE(tracker.snapshots.IsOfHistory(1, 20, 2));
  EXPECT_TRUE(tracker.snapshots.IsOfHistory(2, 20, 2));
  EXPECT_FALSE(tracker.snapshots.IsOfHistory(3, 5, 2));
}

// Node b holds step 20 of attempt 1 when the job leaves it. Attempt 2 begins from step 10 and takes
// another step 20, of which b has nothing.
TEST(SnapshotTracker, AVoidStepOfANodeThatReturnsIsNotTakenForTheNewOne) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.SealAll(20);
  tracker.snapshots.ForgetOwn(tracker.View(), 0, 20);
  tracker.Place({kA, kC});
  tracker.snapshots.NoteInMemory(tracker.View(), 1, 10);  // c has read it from disk
  tracker.Begin(2);
  ASSERT_EQ(tracker.snapshots.restore().step(), 10u);
  EXPECT_EQ(tracker.snapshots.left().at(kB).sealed.newest(), 10u);
  tracker.SealAll(20);
  tracker.Place({kA, kB});
  EXPECT_FALSE(tracker.snapshots.Holds(1, 20));
  EXPECT_NE(tracker.Chosen(), std::pair(uint64_t{20}, proto::Restore::TIER_MEMORY));
}

// A memory has room for two steps, also if one of them serves ranks of another layout.
TEST(SnapshotTracker, APieceThatNewerSnapshotsHaveReplacedIsNotOffered) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.SealAll(20);
  tracker.Place({kA, kB, kC});
  tracker.snapshots.ChangeRanks(2);
  tracker.Begin(2);
  ASSERT_EQ(tracker.snapshots.restore().tier(), proto::Restore::TIER_PIECES);
  tracker.snapshots.Seal(tracker.View(), 0, 30);
  EXPECT_THAT(tracker.snapshots.spreads().at(20).places.at(0), SizeIs(1));
  EXPECT_THAT(tracker.snapshots.spreads().at(10).places.at(0), IsEmpty());
  EXPECT_THAT(tracker.snapshots.spreads().at(10).places.at(1), SizeIs(1));
}

TEST(SnapshotTracker, ALostNodeThatIsReplacedHasNothingAndIsToReleaseItsMemory) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.nodes.Lose(kB);
  tracker.snapshots.LosePlace(1);
  tracker.Place({kA, kC});
  ASSERT_TRUE(tracker.snapshots.HasLeft(kB));
  EXPECT_EQ(tracker.snapshots.left().at(kB).sealed.newest(), 0u);
  EXPECT_FALSE(tracker.snapshots.SomeLeftAlive(tracker.nodes));
}

// Workers that have no step left to do seal the restored state again, in the slot of the earlier
// seal.
TEST(SnapshotTracker, TheRestoredStepIsOfTheAttemptThatSealsItAgain) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.Begin(2);
  ASSERT_EQ(tracker.snapshots.AttemptOfComplete(10), 1u);
  EXPECT_FALSE(tracker.snapshots.Seal(tracker.View(), 0, 10));
  EXPECT_FALSE(tracker.snapshots.Seal(tracker.View(), 0, 10)) << "a repeated report counts once";
  EXPECT_FALSE(tracker.snapshots.AttemptOfComplete(10).has_value()) << "it is of two attempts";
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_MEMORY));
  EXPECT_TRUE(tracker.snapshots.Seal(tracker.View(), 1, 10));
  tracker.snapshots.Complete(10, 2);
  EXPECT_EQ(tracker.snapshots.AttemptOfComplete(10), 2u);
  EXPECT_TRUE(tracker.snapshots.IsSealedAgain(1, 10));
  EXPECT_FALSE(tracker.snapshots.IsSealedAgain(2, 10));
}

TEST(SnapshotTracker, AStepThatOnlyOnePlaceHasSealedAgainIsOfNoAttempt) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.Begin(2);
  tracker.snapshots.Seal(tracker.View(), 0, 10);
  tracker.Begin(3);
  EXPECT_EQ(tracker.snapshots.restore().step(), 10u);
  EXPECT_FALSE(tracker.snapshots.AttemptOfComplete(10).has_value());
}

TEST(SnapshotTracker, ANodeThatTheJobLeavesKeepsItsMemoryForItsReturn) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.Place({kA, kC});
  ASSERT_TRUE(tracker.snapshots.HasLeft(kB));
  EXPECT_EQ(tracker.snapshots.left().at(kB).sealed.newest(), 10u);
  EXPECT_FALSE(tracker.snapshots.Holds(1, 10));
  tracker.Place({kA, kB});
  EXPECT_FALSE(tracker.snapshots.HasLeft(kB));
  EXPECT_TRUE(tracker.snapshots.Holds(1, 10));
  EXPECT_TRUE(tracker.snapshots.HasLeft(kC));
}

TEST(SnapshotTracker, AGangThatHasLeftStillWritesItsStep) {
  Tracker tracker;
  tracker.SealAll(10);
  EXPECT_THAT(tracker.snapshots.WritersOf(tracker.View(), 10), ElementsAre(kA, kB));
  tracker.snapshots.LeaveAll(tracker.View());
  tracker.group.Clear();
  EXPECT_THAT(tracker.snapshots.places(), IsEmpty());
  EXPECT_THAT(tracker.snapshots.WritersOf(tracker.View(), 10), ElementsAre(kA, kB));
  EXPECT_TRUE(tracker.snapshots.SomeLeftAlive(tracker.nodes));
  tracker.snapshots.LoseLeft(kB);
  EXPECT_THAT(tracker.snapshots.WritersOf(tracker.View(), 10), IsEmpty());
}

TEST(SnapshotTracker, TheDiskIsNeededUnlessTheNextNodesHaveTheStep) {
  Tracker tracker(/*replicated=*/false, /*peer_port=*/0);
  EXPECT_FALSE(tracker.snapshots.NeedsDisk(tracker.View(), {kA, kC})) << "there is no step";
  tracker.SealAll(10);
  EXPECT_FALSE(tracker.snapshots.NeedsDisk(tracker.View(), {kA, kB}));
  EXPECT_TRUE(tracker.snapshots.NeedsDisk(tracker.View(), {kA, kC}));
  EXPECT_TRUE(tracker.snapshots.NeedsDisk(tracker.View(), {kB, kA}));
  tracker.snapshots.Commit(10, 1, 2);
  EXPECT_FALSE(tracker.snapshots.NeedsDisk(tracker.View(), {kA, kC}));
}

TEST(SnapshotTracker, AfterAResizeTheStepComesFromPieces) {
  Tracker tracker;
  tracker.SealAll(10);
  EXPECT_FALSE(tracker.snapshots.NeedsDisk(tracker.View(), {kA, kC}))
      << "b keeps its piece and serves it";
  tracker.Place({kC});
  tracker.snapshots.ChangeRanks(2);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_PIECES));
  tracker.Begin(2);
  EXPECT_THAT(tracker.snapshots.RestoreFor(tracker.View(), 0).pieces(), SizeIs(2));
  tracker.snapshots.ForgetLeft(kB);
  EXPECT_EQ(tracker.Chosen().first, 0u) << "a piece is gone";
}

TEST(SnapshotTracker, OnePieceThatIsNoGoodSpoilsTheStep) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.Place({kC});
  tracker.snapshots.ChangeRanks(2);
  tracker.Begin(2);
  proto::SnapshotFailed failed;
  failed.set_step(10);
  failed.set_while_restoring(true);
  auto* bad = failed.add_bad();
  bad->set_node("a");
  bad->set_name(0);
  tracker.snapshots.ForgetPieces(tracker.View(), failed);
  EXPECT_EQ(tracker.Chosen().first, 0u);
}

proto::AgentJoined::HeldSnapshot Held(uint32_t rank, uint64_t step, bool copy = false) {
  proto::AgentJoined::HeldSnapshot held;
  held.set_rank(rank);
  held.set_step(step);
  held.set_attempt(1);
  held.set_copy(copy);
  return held;
}

TEST(SnapshotTracker, ANewAgentAdoptsWhatBelongsToThePresentState) {
  Tracker tracker;
  tracker.SealAll(10);
  tracker.snapshots.NoteCopy(1, *tracker.nodes.Find(kA), 1, 10, 1);
  tracker.snapshots.LosePlace(0);
  tracker.Join(kA, 2);
  const auto own = Held(0, 10);
  const auto of_another_place = Held(1, 10);
  const auto copy = Held(1, 10, true);
  const Node& node = *tracker.nodes.Find(kA);
  EXPECT_EQ(tracker.snapshots.Adopt(tracker.View(), 0, node, 1, 1, {&of_another_place}), 0u);
  EXPECT_EQ(tracker.snapshots.Adopt(tracker.View(), 0, node, 1, 1, {&own, &copy}), 10u);
  EXPECT_EQ(tracker.Chosen(), std::pair(uint64_t{10}, proto::Restore::TIER_MEMORY));
}

TEST(SnapshotTracker, CheckpointsOnDiskAreKeptByNumber) {
  Tracker tracker;
  EXPECT_TRUE(tracker.snapshots.Commit(10, 1, 2));
  EXPECT_TRUE(tracker.snapshots.Commit(30, 1, 2));
  EXPECT_FALSE(tracker.snapshots.Commit(20, 1, 2)) << "a newer one is there";
  EXPECT_EQ(tracker.snapshots.committed_step(), 30u);
  tracker.snapshots.DropCommitted(30);
  EXPECT_EQ(tracker.snapshots.committed_step(), 20u);
  tracker.snapshots.DropCommitted(20);
  EXPECT_EQ(tracker.snapshots.committed_step(), 0u);
}

TEST(SnapshotTracker, AFetchedCheckpointIsOnDisk) {
  Tracker tracker;
  tracker.copies[40] = 1;
  tracker.Begin(2);
  EXPECT_EQ(tracker.snapshots.restore().tier(), proto::Restore::TIER_SHARED);
  tracker.snapshots.NoteFetched();
  EXPECT_EQ(tracker.snapshots.restore().tier(), proto::Restore::TIER_DISK);
  EXPECT_EQ(tracker.snapshots.committed_step(), 40u);
}

}  // namespace
}  // namespace longhaul::runtime::controller::snapshot_tracker_test
