#include "runtime/controller/job/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller::checkpoint_writer_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

const NodeId kA("a");
const NodeId kB("b");
const AttemptShape kTwoNodes{2, 1, false};

proto::SnapshotPersisted Files(uint64_t step, std::vector<uint32_t> ranks, uint64_t attempt = 1) {
  proto::SnapshotPersisted persisted;
  persisted.set_attempt(attempt);
  persisted.set_step(step);
  for (const uint32_t rank : ranks) persisted.add_files()->set_rank(rank);
  return persisted;
}

// What a rank holds; ranks of the same root hold the same.
proto::SnapshotSealed Sealed(uint64_t step, uint64_t root) {
  proto::SnapshotSealed sealed;
  sealed.set_attempt(1);
  sealed.set_step(step);
  auto* contents = sealed.add_contents();
  contents->set_plan(7);
  contents->set_root(root);
  contents->set_bytes(1000);
  return sealed;
}

bool AllAnswer(const NodeId&) { return true; }

TEST(CheckpointWriter, AStepIsOrderedUntilEveryNodeHasIt) {
  CheckpointWriter writer;
  EXPECT_FALSE(writer.IsBusy(AllAnswer));
  ASSERT_TRUE(writer.Order(1, 10, {kA, kB}, kTwoNodes));
  EXPECT_TRUE(writer.IsBusy(AllAnswer));
  writer.NodePersisted(kA, 1, 10);
  EXPECT_THAT(writer.order()->nodes, ElementsAre(Pair(kA, true), Pair(kB, false)));
  writer.NodePersisted(kB, 2, 10);
  EXPECT_TRUE(writer.IsBusy(AllAnswer)) << "another attempt";
  writer.NodePersisted(kB, 1, 10);
  EXPECT_FALSE(writer.IsBusy(AllAnswer));
  EXPECT_FALSE(writer.HasFailed(10));
}

TEST(CheckpointWriter, AnOrderForANodeThatWillNotAnswerIsDropped) {
  CheckpointWriter writer;
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  writer.NodePersisted(kA, 1, 10);
  EXPECT_TRUE(writer.IsBusy([](const NodeId& node) { return node == kB; }));
  EXPECT_FALSE(writer.IsBusy([](const NodeId& node) { return node == kA; }));
  EXPECT_FALSE(writer.order().has_value());
}

TEST(CheckpointWriter, ANodeThatIsLostTakesTheOrderWithItUnlessItHasWritten) {
  CheckpointWriter writer;
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  writer.NodePersisted(kA, 1, 10);
  writer.DropNode(kA);
  EXPECT_TRUE(writer.order().has_value());
  writer.DropNode(kB);
  EXPECT_FALSE(writer.order().has_value());
}

TEST(CheckpointWriter, AFailedStepIsNotOrderedAgain) {
  CheckpointWriter writer;
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  writer.NodeFailed(kA, 1, 9, "disk full");
  EXPECT_TRUE(writer.order().has_value());
  writer.NodeFailed(kA, 1, 10, "disk full");
  EXPECT_FALSE(writer.order().has_value());
  EXPECT_TRUE(writer.HasFailed(10));
  EXPECT_FALSE(writer.HasFailed(11));
}

TEST(CheckpointWriter, ANodeThatWritesALaterStepHasPassedOverTheOrder) {
  CheckpointWriter writer;
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  writer.NodePersisted(kA, 1, 20);
  EXPECT_FALSE(writer.order().has_value());
  EXPECT_TRUE(writer.HasFailed(10));
}

TEST(CheckpointWriter, OfNodesThatHoldTheSameOneWrites) {
  CheckpointWriter writer;
  writer.NoteContents(0, Sealed(10, 5), 1, 2);
  writer.NoteContents(1, Sealed(10, 5), 1, 2);
  ASSERT_TRUE(writer.Order(1, 10, {kA, kB}, kTwoNodes));
  EXPECT_THAT(writer.order()->nodes, ElementsAre(Pair(kA, false)));
  writer.TakeFiles(kA, Files(10, {0}), 2);
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
  EXPECT_THAT(writer.AlsoServedBy(10, kTwoNodes), ElementsAre(ElementsAre(1)));
}

TEST(CheckpointWriter, ACommitIsGrantedOnceWhenEveryNodeHasWritten) {
  CheckpointWriter writer;
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  writer.TakeFiles(kA, Files(10, {0, 99}), 2);
  EXPECT_THAT(writer.pending().at(10).files, ElementsAre(Pair(0, testing::_)));
  EXPECT_FALSE(writer.Grant(10, kTwoNodes));
  writer.TakeFiles(kB, Files(10, {1}), 2);
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
  EXPECT_FALSE(writer.Grant(10, kTwoNodes));
  EXPECT_EQ(writer.pending().at(10).committer, kB);
  EXPECT_THAT(writer.AlsoServedBy(10, kTwoNodes), IsEmpty());
  writer.WithdrawGrants(kA);
  EXPECT_FALSE(writer.Grant(10, kTwoNodes));
  writer.WithdrawGrants(kB);
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
}

TEST(CheckpointWriter, ALateReportDoesNotMoveAGrant) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}), 2);
  writer.TakeFiles(kB, Files(10, {1}), 2);
  ASSERT_TRUE(writer.Grant(10, kTwoNodes));
  writer.TakeFiles(kA, Files(10, {0}), 2);  // a new agent of the node reports again
  EXPECT_EQ(writer.pending().at(10).committer, kB);
  writer.WithdrawGrants(kA);
  EXPECT_FALSE(writer.Grant(10, kTwoNodes)) << "two nodes would commit";
  writer.WithdrawGrants(kB);
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
}

TEST(CheckpointWriter, TheGrantOfALostNodePassesToOneThatAnswers) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}), 2);
  writer.TakeFiles(kB, Files(10, {1}), 2);
  ASSERT_TRUE(writer.Grant(10, kTwoNodes));
  writer.PassGrants(kA, [](const NodeId&) { return true; });
  EXPECT_FALSE(writer.Grant(10, kTwoNodes)) << "another node has the right to commit";
  writer.PassGrants(kB, [](const NodeId&) { return false; });
  EXPECT_FALSE(writer.Grant(10, kTwoNodes)) << "nobody would answer";
  EXPECT_EQ(writer.pending().at(10).committer, kB);
  writer.PassGrants(kB, [](const NodeId&) { return true; });
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
  EXPECT_EQ(writer.pending().at(10).committer, kA);
}

TEST(CheckpointWriter, OneNodeIsEnoughWhenAllRanksHoldTheSame) {
  CheckpointWriter writer;
  const AttemptShape replicated{2, 1, true};
  ASSERT_TRUE(writer.Order(1, 10, {kA}, replicated));
  writer.TakeFiles(kA, Files(10, {0}), 2);
  EXPECT_TRUE(writer.Grant(10, replicated));
}

TEST(CheckpointWriter, FilesOfAnotherAttemptReplaceThoseBefore) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}, 1), 2);
  writer.TakeFiles(kB, Files(10, {1}, 2), 2);
  EXPECT_THAT(writer.pending().at(10).nodes, ElementsAre("b"));
  EXPECT_FALSE(writer.Commit(1, 10));
  EXPECT_TRUE(writer.Commit(2, 10));
  EXPECT_EQ(writer.commits(), 1u);
}

TEST(CheckpointWriter, ACommitEndsThoseOfEarlierSteps) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}), 2);
  writer.TakeFiles(kA, Files(20, {0}), 2);
  writer.TakeFiles(kA, Files(30, {0}), 2);
  EXPECT_TRUE(writer.Commit(1, 20));
  EXPECT_EQ(writer.pending().size(), 1u);
  EXPECT_FALSE(writer.Commit(1, 10));
}

TEST(CheckpointWriter, WhatIsWrittenAlreadyIsNotOrderedAgain) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}), 2);
  writer.TakeFiles(kB, Files(10, {1}), 2);
  EXPECT_FALSE(writer.Order(1, 10, {kA, kB}, kTwoNodes));
  EXPECT_TRUE(writer.Order(2, 10, {kA, kB}, kTwoNodes)) << "of another attempt";
}

TEST(CheckpointWriter, ASaveFailureIsFinalOnceTheWorkersHaveEnded) {
  CheckpointWriter writer;
  proto::SnapshotFailed failed;
  failed.set_step(10);
  failed.set_reason("disk full");
  writer.NoteSaveFailure(failed, /*workers_ended=*/false);
  EXPECT_FALSE(writer.IsLost(10));
  EXPECT_EQ(writer.WhyNotSaved(10), "disk full");
  EXPECT_EQ(writer.WhyNotSaved(11), "");
  writer.NoteSaveFailure(failed, /*workers_ended=*/true);
  EXPECT_TRUE(writer.IsLost(10));
  EXPECT_FALSE(writer.IsLost(11));
  writer.ForgetSaveFailure();
  EXPECT_FALSE(writer.IsLost(10));
}

TEST(CheckpointWriter, AStepIsBeingSavedWhileItsOrderOrItsCommitIsUnderWay) {
  CheckpointWriter writer;
  EXPECT_FALSE(writer.IsSaving(10));
  writer.Order(1, 10, {kA, kB}, kTwoNodes);
  EXPECT_TRUE(writer.IsSaving(10));
  writer.NodeFailed(kA, 1, 10, "disk full");
  EXPECT_FALSE(writer.IsSaving(10));
  EXPECT_EQ(writer.WhyNotSaved(10), "disk full");
  EXPECT_EQ(writer.WhyNotSaved(11), "");
  writer.TakeFiles(kA, Files(10, {0}), 2);
  writer.TakeFiles(kB, Files(10, {1}), 2);
  EXPECT_FALSE(writer.IsSaving(10));
  ASSERT_TRUE(writer.Grant(10, kTwoNodes));
  EXPECT_TRUE(writer.IsSaving(10));
  EXPECT_FALSE(writer.IsSaving(11));
}

// Two attempts have sealed the step, and pieces of the first seal arrive late.
TEST(CheckpointWriter, PiecesOfAnEarlierAttemptDoNotReplaceThoseOfALaterOne) {
  CheckpointWriter writer;
  writer.TakeFiles(kA, Files(10, {0}, 2), 2);
  writer.TakeFiles(kB, Files(10, {1}, 1), 2);
  writer.TakeFiles(kB, Files(10, {1}, 2), 2);
  EXPECT_TRUE(writer.Grant(10, kTwoNodes));
  EXPECT_EQ(writer.pending().at(10).attempt, 2u);
}

TEST(CheckpointWriter, AFailureDoesNotCountOnceTheStepIsSealedAgain) {
  CheckpointWriter writer;
  writer.MarkFailed(10, "disk full");
  proto::SnapshotFailed failed;
  failed.set_step(10);
  failed.set_reason("disk full");
  writer.NoteSaveFailure(failed, /*workers_ended=*/true);
  writer.ForgetFailures(11);
  EXPECT_TRUE(writer.HasFailed(10));
  EXPECT_TRUE(writer.IsLost(10));
  writer.ForgetFailures(10);
  EXPECT_FALSE(writer.HasFailed(10));
  EXPECT_FALSE(writer.IsLost(10));
}

TEST(CheckpointWriter, ARewindForgetsLaterSteps) {
  CheckpointWriter writer;
  writer.Order(1, 20, {kA, kB}, kTwoNodes);
  writer.MarkFailed(15, "disk full");
  writer.Rewind(20);
  EXPECT_TRUE(writer.order().has_value());
  writer.Rewind(10);
  EXPECT_FALSE(writer.order().has_value());
  EXPECT_FALSE(writer.HasFailed(15));
  EXPECT_TRUE(writer.HasFailed(10));
}

TEST(CheckpointWriter, ARewindVoidsAGrantForALaterStep) {
  CheckpointWriter writer;
  for (const uint64_t step : {10u, 20u}) {
    writer.TakeFiles(kA, Files(step, {0}), kTwoNodes.world());
    writer.TakeFiles(kB, Files(step, {1}), kTwoNodes.world());
    ASSERT_TRUE(writer.Grant(step, kTwoNodes));
  }
  writer.Rewind(10);
  EXPECT_FALSE(writer.IsSaving(20));
  EXPECT_FALSE(writer.Commit(1, 20));
  EXPECT_TRUE(writer.Commit(1, 10));
}

}  // namespace
}  // namespace longhaul::runtime::controller::checkpoint_writer_test
