// How long a reservation keeps accelerators idle while others could use them.
#include <gtest/gtest.h>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

Policy IdleLimit(int64_t milli) {
  Policy policy;
  policy.reservation_idle_milli = milli;
  policy.shorter_first = Duration(0);  // or the short job would go before the gang
  return policy;
}

// Two hosts of 8: `running` keeps one of them for longer than it said, `gang` needs both, and
// `short` fits beside `running` but not before the time at which the gang is expected to start.
struct Scene {
  explicit Scene(int64_t milli, Duration gang = hours(10)) : world(1, 1, 2, {}, IdleLimit(milli)) {
    world.Submit("running", 1, 8, "", Lasts(hours(1), true));
    world.Submit("gang", 2, 8, "", Lasts(gang));
    world.Submit("short", 1, 8, "", Lasts(hours(2)));
  }
  World world;
};

// 16 accelerators for 10 hours, of which a quarter is 40 accelerator-hours: 8 are idle for 5 hours.
TEST(ReservationIdle, EndsWhenAQuarterOfTheGangsOwnTimeWasIdle) {
  Scene scene(250);
  World& world = scene.world;
  for (int i = 0; i < 9; ++i) {
    world.Pass(minutes(30));
    world.Round();
  }
  EXPECT_FALSE(world.Runs("short"));
  world.Pass(minutes(30));
  world.Round();
  EXPECT_TRUE(world.Runs("short"));
}

TEST(ReservationIdle, ARoundIsDueAtTheLimit) {
  Scene scene(250);
  World& world = scene.world;
  const Instant begin = world.now;
  while (!world.Runs("short") && world.now < begin + hours(20)) {
    const auto next = world.scheduler.NextDeadline();
    ASSERT_TRUE(next.has_value());
    world.Pass(*next - world.now);
    world.Round();
  }
  EXPECT_EQ(world.now, begin + hours(5));
}

TEST(ReservationIdle, HasNoLimitWhereNoneIsSet) {
  Scene scene(0);
  World& world = scene.world;
  for (int i = 0; i < 13; ++i) {
    world.Pass(minutes(30));
    world.Round();
  }
  EXPECT_FALSE(world.Runs("short"));
}

// Nothing is kept idle before another job wants it.
TEST(ReservationIdle, CountsOnlyWhileAJobIsForbidden) {
  World world(1, 1, 2, {}, IdleLimit(250));
  world.Submit("running", 1, 8, "", Lasts(hours(1), true));
  world.Submit("gang", 2, 8, "", Lasts(hours(10)));
  world.Pass(hours(12));
  world.Round();
  world.Submit("short", 1, 8, "", Lasts(hours(20)));
  world.Pass(hours(4));
  world.Round();
  EXPECT_FALSE(world.Runs("short"));
  world.Pass(hours(1));
  world.Round();
  EXPECT_TRUE(world.Runs("short"));
}

TEST(ReservationIdle, DoesNotLimitAnOverdueGang) {
  World world(1, 1, 2, {}, IdleLimit(250));
  world.Submit("running", 1, 8, "", Lasts(hours(1), true));
  world.Submit("gang", 2, 8, "", Lasts(hours(1)));
  world.Pass(hours(24));
  world.Round();
  world.Submit("short", 1, 8, "", Lasts(hours(100)));
  for (int i = 0; i < 40; ++i) {
    world.Pass(hours(1));
    world.Round();
  }
  EXPECT_FALSE(world.Runs("short"));
}

TEST(ReservationIdle, CountsAnewAfterTheGangHasRun) {
  Scene scene(250);
  World& world = scene.world;
  world.Pass(hours(4));
  world.Round();
  world.End("running");
  ASSERT_TRUE(world.Runs("gang"));
  world.Submit("urgent", 1, 8, "", [](JobRequest& job) {
    Lasts(hours(1), true)(job);
    job.priority = 10;
  });
  ASSERT_TRUE(world.Runs("urgent"));
  world.Pass(hours(4));
  world.Round();
  EXPECT_FALSE(world.Runs("short"));
}

// With a takeover the count goes on.
TEST(ReservationIdle, IsCountedOverATakeover) {
  Scene scene(250);
  World& world = scene.world;
  world.Pass(hours(4));
  world.Round();
  world.scheduler =
      *Scheduler::Rebuild(world.scheduler, world.scheduler.topology(), {}, IdleLimit(250));
  world.Pass(minutes(59));
  world.Round();
  EXPECT_FALSE(world.Runs("short"));
  world.Pass(minutes(1));
  world.Round();
  EXPECT_TRUE(world.Runs("short"));
}

// Nothing is known of any job's duration, and one accelerator job fits beside what runs.
TEST(UnknownDurations, AJobStartsBesideTheReservationOnceWhatRunsHasRunForLonger) {
  World world(1, 1, 2, {}, IdleLimit(0));
  world.Submit("running", 1, 8);
  world.Submit("gang", 2, 8);
  world.Pass(minutes(1));
  world.Submit("short", 1, 8);
  EXPECT_FALSE(world.Runs("short"));
  // Half an hour is assumed of the short job, and as much again as it has run of the running one.
  world.Pass(minutes(45));
  world.Round();
  EXPECT_TRUE(world.Runs("short"));
}

}  // namespace
}  // namespace longhaul::scheduler
