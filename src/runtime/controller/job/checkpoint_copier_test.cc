#include "runtime/controller/job/checkpoint_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::runtime::controller::checkpoint_copier_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

proto::SnapshotPolicy Policy(uint32_t every = 0) {
  proto::SnapshotPolicy policy;
  policy.set_copy_to("/shared");
  policy.set_copy_every(every);
  return policy;
}

TEST(CheckpointCopier, WithoutASecondTierNothingIsDue) {
  EXPECT_FALSE(CheckpointCopier().IsDue({}, 10, 1, true));
}

TEST(CheckpointCopier, OneCopyIsUnderWayAtATime) {
  CheckpointCopier copier;
  ASSERT_TRUE(copier.IsDue(Policy(), 10, 1, false));
  copier.Begin({2, 10, NodeId("a")}, 1);
  EXPECT_FALSE(copier.IsDue(Policy(), 20, 2, true));
  EXPECT_FALSE(copier.Finish(10, 1, 2)) << "another attempt";
  EXPECT_FALSE(copier.Finish(20, 2, 2)) << "another step";
  EXPECT_TRUE(copier.Finish(10, 2, 2));
  EXPECT_EQ(copier.copied_step(), 10u);
  EXPECT_FALSE(copier.IsDue(Policy(), 10, 2, true)) << "it is there";
  EXPECT_TRUE(copier.IsDue(Policy(), 20, 2, false));
}

TEST(CheckpointCopier, CopiesEverySoManyCommitsAndTheLastOne) {
  CheckpointCopier copier;
  EXPECT_FALSE(copier.IsDue(Policy(3), 20, 2, false));
  EXPECT_TRUE(copier.IsDue(Policy(3), 30, 3, false));
  copier.Begin({1, 30, NodeId("a")}, 3);
  copier.Finish(30, 1, 9);
  EXPECT_FALSE(copier.IsDue(Policy(3), 50, 5, false));
  EXPECT_TRUE(copier.IsDue(Policy(3), 50, 5, true));
}

TEST(CheckpointCopier, ACopyThatFailedIsNotTriedAgain) {
  CheckpointCopier copier;
  copier.Begin({1, 10, NodeId("a")}, 1);
  EXPECT_FALSE(copier.Fail(20, "full"));
  EXPECT_TRUE(copier.Fail(10, "full"));
  EXPECT_EQ(copier.failure(), "full");
  EXPECT_FALSE(copier.IsDue(Policy(), 10, 2, true));
  EXPECT_TRUE(copier.IsDue(Policy(), 20, 2, true));
}

TEST(CheckpointCopier, ACopyOfALostNodeIsTriedAgain) {
  CheckpointCopier copier;
  copier.Begin({1, 10, NodeId("a")}, 1);
  EXPECT_FALSE(copier.DropNode(NodeId("b")));
  EXPECT_TRUE(copier.DropNode(NodeId("a")));
  EXPECT_TRUE(copier.IsDue(Policy(), 10, 2, false));
}

TEST(CheckpointCopier, TheNewestCopiesAreKept) {
  CheckpointCopier copier;
  copier.Add(10, 1);
  copier.Add(20, 1);
  copier.Begin({2, 30, NodeId("a")}, 1);
  copier.Finish(30, 2, 2);
  EXPECT_THAT(copier.copies(), ElementsAre(Pair(20, 1), Pair(30, 2)));
  copier.Forget(30);
  EXPECT_THAT(copier.copies(), ElementsAre(Pair(20, 1)));
  EXPECT_EQ(copier.copied_step(), 30u);
}

}  // namespace
}  // namespace longhaul::runtime::controller::checkpoint_copier_test
