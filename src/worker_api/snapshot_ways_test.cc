#include "worker_api/snapshot_ways.h"

#include <gtest/gtest.h>

namespace longhaul::worker_api {
namespace {

using std::chrono::milliseconds;
using Way = SnapshotWays::Way;

TEST(SnapshotWays, TheFirstIsAsynchronousAndMeasuresACopy) {
  SnapshotWays ways;
  EXPECT_EQ(ways.Next(), Way::kAsynchronous);
  ways.Asynchronous(milliseconds(2), milliseconds(60));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ways.Next(), Way::kAsynchronous) << "no direct copy is tried for its own sake";
    ways.Asynchronous(milliseconds(2), milliseconds(60));
  }
  EXPECT_EQ(ways.InWords(), "asynchronous: 2 ms, direct copy: 60 ms");
}

// A run that writes its state at once waits for the whole copy.
TEST(SnapshotWays, WhatStopsTrainingLongerThanACopyIsTriedAgainNowAndThen) {
  SnapshotWays ways;
  ways.Asynchronous(milliseconds(80), milliseconds(60));
  for (uint64_t i = 0; i < SnapshotWays::kTryAgain; ++i) {
    ASSERT_EQ(ways.Next(), Way::kDirect) << i;
    ways.Direct(milliseconds(61));
  }
  EXPECT_EQ(ways.Next(), Way::kAsynchronous);
  ways.Asynchronous(milliseconds(3), milliseconds(60));
  EXPECT_EQ(ways.Next(), Way::kAsynchronous) << "it was the cheaper one this time";
}

// A forked child doesn't report how long its copy took.
TEST(SnapshotWays, ADirectCopyIsMeasuredOnceWhereItsTimeIsUnknown) {
  SnapshotWays ways;
  ways.Asynchronous(milliseconds(5), std::nullopt);
  EXPECT_EQ(ways.Next(), Way::kDirect);
  ways.Direct(milliseconds(70));
  EXPECT_EQ(ways.Next(), Way::kAsynchronous);
  EXPECT_EQ(ways.InWords(), "direct copy: 70 ms, asynchronous: 5 ms");
}

}  // namespace
}  // namespace longhaul::worker_api
