#include "engines/kubernetes/protocol/traffic.h"

#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart = InstantFromNanoseconds(5'000'000'000);

TrafficSettings Small() {
  TrafficSettings settings;
  settings.limits.fill({.requests_per_second = 10, .burst = 2, .in_progress = 3, .queued = 4});
  return settings;
}

TEST(TrafficQueues, SendsTheMoreImportantClassFirst) {
  TrafficQueues queues(Small());
  ASSERT_TRUE(queues.Add(TrafficClass::kEvent, 1).ok());
  ASSERT_TRUE(queues.Add(TrafficClass::kStatus, 2).ok());
  ASSERT_TRUE(queues.Add(TrafficClass::kLease, 3).ok());
  ASSERT_TRUE(queues.Add(TrafficClass::kBind, 4).ok());
  for (const uint64_t want : {4u, 3u, 2u, 1u}) EXPECT_EQ(queues.Take(kStart), want);
  EXPECT_EQ(queues.Take(kStart), std::nullopt);
}

TEST(TrafficQueues, DelaysOneClassOnly) {
  TrafficQueues queues(Small());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queues.Add(TrafficClass::kStatus, i).ok());
  EXPECT_EQ(queues.Take(kStart), 0u);
  EXPECT_EQ(queues.Take(kStart), 1u);
  EXPECT_EQ(queues.Take(kStart), std::nullopt);  // the burst is used
  EXPECT_EQ(queues.NextAt(kStart), kStart + milliseconds(100) + std::chrono::nanoseconds(1));
  ASSERT_TRUE(queues.Add(TrafficClass::kBind, 9).ok());
  EXPECT_EQ(queues.Take(kStart), 9u);
  EXPECT_EQ(queues.Take(*queues.NextAt(kStart)), 2u);
}

TEST(TrafficQueues, KeepsToTheRateOverTime) {
  TrafficSettings settings = Small();
  settings.limits[0].in_progress = 1'000;
  settings.limits[0].queued = 1'000;
  TrafficQueues queues(settings);
  for (uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(queues.Add(TrafficClass::kBind, i).ok());
  int sent = 0;
  for (Instant now = kStart; now < kStart + seconds(10); now += milliseconds(7)) {
    while (queues.Take(now)) ++sent;
  }
  EXPECT_GE(sent, 100);
  EXPECT_LE(sent, 102);  // 10 s of 10 a second, and the burst of 2
}

TEST(TrafficQueues, SavesNoMoreThanTheBurst) {
  TrafficQueues queues(Small());
  ASSERT_TRUE(queues.Add(TrafficClass::kBind, 1).ok());
  EXPECT_EQ(queues.Take(kStart), 1u);
  queues.Finished(TrafficClass::kBind);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queues.Add(TrafficClass::kBind, i).ok());
  const Instant later = kStart + std::chrono::hours(1);
  EXPECT_EQ(queues.Take(later), 0u);
  EXPECT_EQ(queues.Take(later), 1u);
  EXPECT_EQ(queues.Take(later), std::nullopt);
}

TEST(TrafficQueues, LimitsTheRequestsInProgress) {
  TrafficSettings settings = Small();
  settings.limits[0].burst = 100;
  TrafficQueues queues(settings);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queues.Add(TrafficClass::kBind, i).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queues.Take(kStart).has_value());
  EXPECT_EQ(queues.Take(kStart), std::nullopt);
  EXPECT_EQ(queues.NextAt(kStart), std::nullopt);  // time alone does not help
  queues.Finished(TrafficClass::kBind);
  EXPECT_EQ(queues.Take(kStart), 3u);
}

TEST(TrafficQueues, RefusesWhatDoesNotFit) {
  TrafficQueues queues(Small());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queues.Add(TrafficClass::kBind, i).ok());
  EXPECT_EQ(queues.room(TrafficClass::kBind), 0u);
  EXPECT_EQ(queues.Add(TrafficClass::kBind, 5).code(), Code::kResourceExhausted);
  // A call that is repeated was admitted before, and goes first.
  queues.AddAgain(TrafficClass::kBind, 7);
  EXPECT_EQ(queues.room(TrafficClass::kBind), 0u);
  EXPECT_EQ(queues.Take(kStart), 7u);
  EXPECT_TRUE(queues.Remove(TrafficClass::kBind, 0));
  EXPECT_FALSE(queues.Remove(TrafficClass::kBind, 0));
  EXPECT_EQ(queues.room(TrafficClass::kBind), 1u);
}

TEST(TrafficQueues, PausesAClassAsLongAsTheServerWants) {
  TrafficQueues queues(Small());
  ASSERT_TRUE(queues.Add(TrafficClass::kBind, 1).ok());
  queues.Pause(TrafficClass::kBind, kStart + seconds(2));
  queues.Pause(TrafficClass::kBind, kStart + seconds(1));
  EXPECT_EQ(queues.Take(kStart + seconds(1)), std::nullopt);
  EXPECT_EQ(queues.NextAt(kStart), kStart + seconds(2));
  EXPECT_EQ(queues.Take(kStart + seconds(2)), 1u);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
