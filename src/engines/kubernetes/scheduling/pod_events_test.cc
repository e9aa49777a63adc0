#include "engines/kubernetes/scheduling/pod_events.h"

#include <gtest/gtest.h>

#include <variant>

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class PodEventsTest : public testing::Test {
 protected:
  PodEventsTest() { unit_.key = unit_.group = "group:ns/g"; }

  // The events that the pod's message leads to at this time.
  std::vector<RecordPodEvent> Wait(const std::string& pod, const std::string& message,
                                   Duration after) {
    events_.OnWait(unit_, {"ns", pod, "uid-" + pod}, message, start_ + after);
    return Taken();
  }
  std::vector<RecordPodEvent> Taken() {
    std::vector<PodAction> actions;
    events_.Take(actions);
    std::vector<RecordPodEvent> taken;
    for (const PodAction& action : actions) taken.push_back(std::get<RecordPodEvent>(action));
    return taken;
  }

  const Instant start_ = InstantFromNanoseconds(1'000'000'000'000);
  PodUnit unit_;
  PodEvents events_{minutes(1)};
};

TEST_F(PodEventsTest, AReasonIsRepeatedAfterTimesThatDouble) {
  int32_t last = 0;
  std::vector<int64_t> told;
  for (int minute = 0; minute < 5 * 60; ++minute) {
    for (const RecordPodEvent& event : Wait("g-0", "It waits: 11 fit.", minutes(minute))) {
      EXPECT_EQ(event.count, ++last);
      EXPECT_EQ(event.note.empty(), event.count > 1) << "the note of an event never changes";
      told.push_back(minute);
    }
  }
  EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 3, 7, 15, 31, 63, 95, 127, 159, 191, 223, 255, 287}));
}

TEST_F(PodEventsTest, PodsOfAUnitWithOneReasonHaveOneEvent) {
  EXPECT_EQ(Wait("g-0", "It waits: 11 fit.", minutes(0)).size(), 1u);
  EXPECT_TRUE(Wait("g-1", "It waits: 11 fit.", minutes(0)).empty());
  EXPECT_TRUE(Wait("g-0", "It waits: 1022 fit.", minutes(0)).empty()) << "numbers do not count";
  const std::vector<RecordPodEvent> other = Wait("g-1", "It has a host port.", minutes(0));
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].pod.name, "g-1");
  const std::vector<RecordPodEvent> again = Wait("g-1", "It waits: 12 fit.", minutes(1));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].pod.name, "g-0") << "the series stays where it began";
}

TEST_F(PodEventsTest, AUnitHasFewSeriesWhateverItsMessages) {
  for (int i = 0; i < 1'000; ++i) Wait("g-0", std::string(static_cast<size_t>(i), 'a'), minutes(0));
  Taken();
  size_t continued = 0;
  for (int i = 0; i < 1'000; ++i) {
    for (const auto& event : Wait("g-0", std::string(static_cast<size_t>(999 - i), 'a'), hours(1)))
      continued += event.count > 1 ? 1 : 0;
  }
  EXPECT_EQ(continued, PodEvents::kMostSeries);
}

TEST_F(PodEventsTest, ASeriesEndsWithItsPod) {
  const std::string first = Wait("g-0", "It waits.", minutes(0)).at(0).identity;
  events_.OnPodGone(unit_.key, {"ns", "g-0", "uid-g-0"});
  const std::vector<RecordPodEvent> next = Wait("g-1", "It waits.", minutes(0));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].pod.name, "g-1");
  EXPECT_EQ(next[0].count, 1);
}

TEST_F(PodEventsTest, AnEventThatWasLostIsMadeAnew) {
  const RecordPodEvent lost = Wait("g-0", "It waits.", minutes(0)).at(0);
  events_.OnLost(lost);
  const std::vector<RecordPodEvent> next = Wait("g-0", "It waits.", minutes(1));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].count, 1);
  EXPECT_NE(next[0].identity, lost.identity);
  events_.OnLost({});
}

TEST_F(PodEventsTest, APreemptedUnitHasOneEvent) {
  events_.OnPreempted(unit_, {"ns", "g-0", "u0"}, "pod:ns/high");
  events_.OnPreempted(unit_, {"ns", "g-1", "u1"}, "pod:ns/high");
  const std::vector<RecordPodEvent> taken = Taken();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].note, "Preempted by pod ns/high, with the other pods of PodGroup ns/g");
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
