#include "runtime/controller/job/hang/start_times.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kMemory = proto::Restore::TIER_MEMORY;
constexpr auto kDisk = proto::Restore::TIER_DISK;
constexpr Duration kLongest = minutes(10);

// An attempt that makes its first step after `time`.
void Pass(StartTimes& times, proto::Restore::Tier tier, Duration time) {
  times.Begin(tier, Instant());
  times.NoteFirstStep(Instant() + time);
  times.NoteFirstStep(Instant() + minutes(30));  // a later step
}

TEST(StartTimes, AnUnknownStartMayTakeTheLongest) {
  StartTimes times;
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, AKnownStartMayTakeThreeTimesTheSlowest) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  Pass(times, kMemory, seconds(40));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), seconds(150));
}

TEST(StartTimes, TheLimitIsTwoMinutesAtLeast) {
  StartTimes times;
  Pass(times, kMemory, seconds(1));
  EXPECT_EQ(times.Limit(kLongest), minutes(2));
}

TEST(StartTimes, TheLimitIsTheLongestAtMost) {
  StartTimes times;
  Pass(times, kMemory, minutes(4));
  EXPECT_EQ(times.Limit(kLongest), kLongest);
  Pass(times, kMemory, Duration::max() / 2);
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, ARestoreFromDiskIsNotJudgedByOnesFromMemory) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  times.Begin(kDisk, Instant());
  EXPECT_EQ(times.Limit(kLongest), kLongest);
}

TEST(StartTimes, TheSlowestStartCountsWhateverItRestoredFrom) {
  StartTimes times;
  Pass(times, proto::Restore::TIER_NONE, seconds(90));  // it has compiled
  Pass(times, kMemory, seconds(20));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), seconds(270));
}

TEST(StartTimes, TheLimitDoublesWhileNoAttemptMakesAStep) {
  StartTimes times;
  Pass(times, kMemory, seconds(50));
  for (const Duration limit : {seconds(300), seconds(600), seconds(600)}) {
    times.Begin(kMemory, Instant());
    times.NoteOverdue();
    EXPECT_EQ(times.Limit(kLongest), limit);
  }
  Pass(times, kMemory, seconds(50));
  EXPECT_EQ(times.Limit(kLongest), seconds(150));
}

using Phase = proto::PhaseEntered;

// An attempt whose phases take so long, the first of them in START_UP.
void PassPhases(StartTimes& times, proto::Restore::Tier tier, Duration start_up, Duration rest) {
  Instant now;
  times.Begin(tier, now);
  times.EnterPhase(Phase::RENDEZVOUS, now += start_up);
  times.EnterPhase(Phase::RESTORE, now += rest);
  times.EnterPhase(Phase::STEPPING, now += rest);
  times.NoteFirstStep(now + rest);
}

TEST(StartTimes, APhaseMayTakeThreeTimesTheSlowestOfItsKind) {
  StartTimes times;
  PassPhases(times, kMemory, seconds(20), seconds(40));
  PassPhases(times, kMemory, seconds(15), seconds(30));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.PhaseLimit(), seconds(60));
  times.EnterPhase(Phase::RENDEZVOUS, Instant() + seconds(1));
  EXPECT_EQ(times.PhaseLimit(), seconds(120));
  times.EnterPhase(Phase::STEPPING, Instant() + seconds(2));  // the restore was nothing
  EXPECT_EQ(times.PhaseLimit(), seconds(120));
}

TEST(StartTimes, APhaseMayTakeHalfAMinute) {
  StartTimes times;
  PassPhases(times, kMemory, seconds(1), seconds(1));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.PhaseLimit(), seconds(30));
}

TEST(StartTimes, APhaseIsKnownOnceAnAttemptHasMadeAStep) {
  StartTimes times;
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.PhaseLimit(), std::nullopt);
  times.EnterPhase(Phase::RENDEZVOUS, Instant() + seconds(50));
  EXPECT_EQ(times.PhaseLimit(), std::nullopt);
  times.Begin(kMemory, Instant() + seconds(300));  // the first one failed
  EXPECT_EQ(times.PhaseLimit(), std::nullopt);
  times.NoteFirstStep(Instant() + seconds(310));
  EXPECT_EQ(times.PhaseLimit(), std::nullopt) << "it has made a step";
}

TEST(StartTimes, OnlyTheRestoreDependsOnItsSource) {
  StartTimes times;
  PassPhases(times, kMemory, seconds(20), seconds(40));
  times.Begin(kDisk, Instant());
  EXPECT_EQ(times.PhaseLimit(), seconds(60));
  times.EnterPhase(Phase::RESTORE, Instant() + seconds(1));
  EXPECT_EQ(times.PhaseLimit(), std::nullopt);
  times.Begin(proto::Restore::TIER_SHARED, Instant());
  EXPECT_EQ(times.PhaseLimit(), std::nullopt) << "it is fetched first";
}

TEST(StartTimes, TheTimeWithoutAControllerCountsForNothing) {
  StartTimes times;
  times.Begin(kMemory, Instant());
  times.CountFrom(Instant() + seconds(500));
  EXPECT_EQ(times.Elapsed(Instant() + seconds(510)), seconds(10));
  times.NoteFirstStep(Instant() + seconds(510));
  times.CountFrom(Instant() + seconds(600));
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.Limit(kLongest), kLongest) << "nothing is learned";
  EXPECT_EQ(times.PhaseLimit(), std::nullopt);
}

TEST(StartTimes, TheLimitOfAPhaseDoublesWhileNoAttemptMakesAStep) {
  StartTimes times;
  PassPhases(times, kMemory, seconds(20), seconds(40));
  times.Begin(kMemory, Instant());
  times.NoteOverdue();
  times.Begin(kMemory, Instant());
  EXPECT_EQ(times.PhaseLimit(), seconds(120));
  EXPECT_EQ(times.Elapsed(Instant() + seconds(7)), seconds(7));
}

}  // namespace
}  // namespace longhaul::runtime::controller
