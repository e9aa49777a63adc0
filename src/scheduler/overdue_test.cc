// Jobs that wait for longer than Policy::longest_wait, and the reservations that they rely on.
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler::overdue_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

spec::QueueSpec Queue(const std::string& name, int64_t accelerators) {
  spec::QueueSpec queue;
  queue.name = name;
  queue.guarantee[0] = accelerators * 1000;
  return queue;
}

Policy LongestWait(Duration time) {
  Policy policy;
  policy.longest_wait = time;
  return policy;
}

// Two hosts are guaranteed to `a`; the gang of `b`, which has no guarantee, needs both.
TEST(Overdue, AGangGoesBeforeTheGuaranteeOfAnotherQueue) {
  for (const bool overdue : {true, false}) {
    World world(1, 1, 2, {Queue("a", 16), Queue("b", 0)},
                LongestWait(overdue ? hours(24) : Duration(0)));
    world.Submit("first", 1, 8, "a", Lasts(hours(26), true));
    world.Submit("second", 1, 8, "a", Lasts(hours(30), true));
    world.Submit("gang", 2, 8, "b", Lasts(hours(1)));
    world.Pass(hours(25));
    world.Round();
    world.Submit("within", 1, 8, "a", Lasts(hours(40)));
    world.Pass(hours(1));
    world.End("first");
    EXPECT_EQ(world.Runs("within"), !overdue);
    world.Pass(hours(4));
    world.End("second");
    EXPECT_EQ(world.Runs("gang"), overdue);
  }
}

// The gang lacks a host, which is busy for another 34 hours, and holds the only reservation of its
// queue. A job of the queue that is overdue too and ends before then goes before the guarantee of
// `a` as well.
TEST(Overdue, AJobBehindAGangThatDoesNotFitGoesBeforeGuaranteesToo) {
  Policy policy = LongestWait(hours(24));
  policy.reservations = 1;
  World world(1, 1, 2, {Queue("a", 16), Queue("b", 0)}, policy);
  world.Submit("first", 1, 8, "a", Lasts(hours(26), true));
  world.Submit("second", 1, 8, "a", Lasts(hours(60), true));
  world.Submit("gang", 2, 8, "b", Lasts(hours(1)));
  world.Pass(minutes(1));
  world.Submit("behind", 1, 8, "b", Lasts(hours(1)));
  world.Pass(hours(25));
  world.Round();
  world.Submit("within", 1, 8, "a", Lasts(hours(1)));
  world.Pass(hours(1));
  world.End("first");
  EXPECT_TRUE(world.Runs("behind"));
  EXPECT_FALSE(world.Runs("within"));
}

TEST(Overdue, APlaceIsKeptForAsLongAgainstGuarantees) {
  World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)}, LongestWait(hours(24)));
  world.Submit("before", 1, 8, "a", Lasts(hours(25), true));
  world.Submit("overdue", 1, 8, "b", Lasts(hours(100)));
  world.Pass(hours(25));
  world.End("before");
  ASSERT_TRUE(world.Runs("overdue"));
  world.Submit("within", 1, 8, "a");
  world.Pass(hours(23));
  world.Round();
  EXPECT_TRUE(world.Runs("overdue"));
  EXPECT_TRUE(world.scheduler.CheckGuarantees(world.now).ok());
  world.Pass(hours(2));
  world.Round();
  EXPECT_TRUE(world.Runs("within")) << "the guarantee counts again";
}

TEST(Overdue, TheOlderOfTwoGoesFirst) {
  World world(1, 1, 1, {Queue("a", 0), Queue("b", 8), Queue("c", 0)}, LongestWait(hours(24)));
  world.Submit("before", 1, 8, "c", Lasts(hours(30), true));
  world.Submit("older", 1, 8, "a");
  world.Pass(minutes(1));
  world.Submit("younger", 1, 8, "b");
  world.Pass(hours(26));
  world.Round();
  world.End("before");
  EXPECT_TRUE(world.Runs("older"));
}

// The borrower is stopped after it has run for 25 hours, and has not waited at all.
TEST(Overdue, TheTimeThatAJobHasRunIsNotWaiting) {
  World world(1, 1, 1, {Queue("a", 8), Queue("b", 0)}, LongestWait(hours(24)));
  world.Submit("borrower", 1, 8, "b", Lasts(hours(100)));
  world.Pass(hours(25));
  world.Submit("within", 1, 8, "a", Lasts(hours(1)));
  ASSERT_TRUE(world.Runs("within"));
  world.Submit("within too", 1, 8, "a", Lasts(hours(30), true));
  world.Pass(hours(1));
  world.End("within");
  EXPECT_TRUE(world.Runs("within too"));
  world.Pass(hours(24));
  world.Submit("within at last", 1, 8, "a", Lasts(hours(1)));
  world.End("within too");
  EXPECT_TRUE(world.Runs("borrower")) << "it has waited for longest_wait since it was stopped";
}

TEST(Overdue, ARoundIsDueWhenAJobBecomesOverdue) {
  World world(1, 1, 1, {}, LongestWait(hours(24)));
  world.Submit("running", 1, 8, "", Lasts(hours(1000), true));
  world.Submit("waiting", 1, 1, "", [](JobRequest& job) {
    job.groups[0].shape.share = 500;  // holds no reservation
    job.groups[0].shape.gpus = 0;
  });
  EXPECT_EQ(world.scheduler.NextDeadline(), world.now + hours(24));
  world.Pass(hours(24));
  world.Round();
  EXPECT_EQ(world.scheduler.NextDeadline(), std::nullopt);
}

// `old` could move to the host of `ends`, which is promised, so that `short` starts on its own.
TEST(Reservations, NoJobIsMovedOntoWhatIsPromised) {
  Policy policy;
  policy.shorter_first = Duration(0);  // or "short" would go before the gang
  World world(1, 1, 3, {}, policy);
  const auto submit_on = [&](NodeIndex node, const JobRequest& job) {
    for (NodeIndex other = 0; other < 3; ++other) {
      world.Tell(NodeChanged{world.NodeName(other), other == node
                                                        ? spec::NodeCondition::kReady
                                                        : spec::NodeCondition::kCordoned});
    }
    world.Submit(job);
  };
  const auto make = [&](const std::string& name, int32_t gpus, Duration time, bool stays) {
    JobRequest job = world.Request(name, 1, gpus);
    Lasts(time, stays)(job);
    return job;
  };
  submit_on(0, make("old", 4, hours(400), false));
  submit_on(1, make("ends", 4, hours(42), true));
  submit_on(2, make("ends too", 8, hours(42), true));
  world.Occupy({});
  world.Pass(hours(40));  // a budget for moves is a part of the time gone by
  world.Submit("promised", 2, 8, "", Lasts(hours(10)));
  world.Submit("short", 1, 8, "", Lasts(hours(1)));
  world.Pass(minutes(11));
  world.Round();
  EXPECT_EQ(world.Count(DecisionKind::kMove), 0u);
  world.Pass(hours(2) - minutes(11));
  world.End("ends");
  world.End("ends too");
  EXPECT_TRUE(world.Runs("promised"));
}

}  // namespace
}  // namespace longhaul::scheduler::overdue_test
