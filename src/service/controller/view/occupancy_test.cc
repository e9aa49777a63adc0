#include "service/controller/view/occupancy.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

proto::NodeStatus NodeWith(const std::string& condition, uint32_t slots, double used,
                           bool connected = true) {
  proto::NodeStatus node;
  node.set_condition(condition);
  node.set_connected(connected);
  node.set_slots(slots);
  node.set_used_accelerators(used);
  return node;
}

Occupancy InUse(double accelerators) {
  Occupancy occupancy;
  occupancy.in_use = accelerators;
  return occupancy;
}

const Instant kBegin = InstantFromNanoseconds(1'000'000'000'000);

TEST(Occupancy, DividesWhatIsFreeIntoIdleNodesFragmentsAndNodesThatAreNotReady) {
  const Occupancy occupancy = OccupancyOf(
      {NodeWith("ready", 8, 0), NodeWith("ready", 8, 2.5), NodeWith("ready", 8, 8),
       NodeWith("cordoned", 8, 3), NodeWith("suspect", 8, 0), NodeWith("ready", 4, 0, false)},
      {{"gone", 16}});
  EXPECT_EQ(occupancy.in_use, 2.5 + 8 + 3);
  EXPECT_EQ(occupancy.idle, 8);
  EXPECT_EQ(occupancy.fragments, 5.5);
  EXPECT_EQ(occupancy.unavailable, 5 + 8 + 4 + 16);
  EXPECT_EQ(occupancy.total(), 60);
}

// A report of more use than a node has, and one that is no number of it.
TEST(Occupancy, UseBeyondANodeIsNotCounted) {
  const Occupancy occupancy = OccupancyOf({NodeWith("ready", 2, 3), NodeWith("ready", 2, -1)}, {});
  EXPECT_EQ(occupancy.in_use, 2);
  EXPECT_EQ(occupancy.idle, 2);
}

TEST(OccupancyHistory, HasTheMeanOfEachPeriodAndNullWithoutASample) {
  OccupancyHistory history;
  EXPECT_TRUE(history.ToJson().is_null());
  history.Add(kBegin, InUse(2));
  history.Add(kBegin + std::chrono::seconds(9), InUse(4));
  history.Add(kBegin + std::chrono::seconds(25), InUse(8));
  history.Add(kBegin + std::chrono::seconds(5), InUse(6));  // after a correction of the clock
  const Json json = history.ToJson();
  EXPECT_EQ(json["from_ms"], 1'000'000);
  EXPECT_EQ(json["width_ms"], 10'000);
  EXPECT_EQ(json["in_use"], Json({3.0, nullptr, 7.0}));
  EXPECT_EQ(json["idle"], Json({0.0, nullptr, 0.0}));
}

TEST(OccupancyHistory, DoublesItsWidthAndKeepsTheMeanOfAllSamples) {
  OccupancyHistory history;
  double sum = 0;
  constexpr int kSamples = 241;
  for (int i = 0; i < kSamples; ++i) {
    history.Add(kBegin + i * std::chrono::seconds(10), InUse(i));
    sum += i;
  }
  const Json json = history.ToJson();
  EXPECT_EQ(json["width_ms"], 20'000);
  ASSERT_EQ(json["in_use"].size(), 121u);
  EXPECT_EQ(json["in_use"][0], 0.5);
  EXPECT_EQ(json["in_use"][119], 238.5);
  EXPECT_EQ(json["in_use"][120], 240.0);
  double means = 0;
  for (const Json& each : json["in_use"]) means += 2 * each.get<double>();
  EXPECT_EQ(means - 240, sum);
}

TEST(OccupancyHistory, DropsTheOldestPeriodsAfterFortyTwoHours) {
  OccupancyHistory history;
  const Duration most = OccupancyHistory::kMostWidth;
  for (int i = 0; i < 300; ++i) history.Add(kBegin + i * most, InUse(i));
  const Json json = history.ToJson();
  EXPECT_EQ(json["width_ms"], 640'000);
  EXPECT_EQ(json["from_ms"], 1'000'000 + 60 * 640'000);
  ASSERT_EQ(json["in_use"].size(), OccupancyHistory::kMostPeriods);
  EXPECT_EQ(json["in_use"][0], 60.0);
  EXPECT_EQ(json["in_use"][239], 299.0);
  // A computer that was suspended for a year.
  history.Add(kBegin + std::chrono::hours(24 * 365), InUse(1));
  ASSERT_EQ(history.ToJson()["in_use"].size(), OccupancyHistory::kMostPeriods);
  EXPECT_TRUE(history.ToJson()["in_use"][0].is_null());
  EXPECT_EQ(history.ToJson()["in_use"][239], 1.0);
}

}  // namespace
}  // namespace longhaul::service
