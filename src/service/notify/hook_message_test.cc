#include "service/notify/hook_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "service/notify/hook_queue.h"

namespace longhaul::service {
namespace {

using spec::HookEvent;

const std::set<HookEvent> kAllEvents = {
    HookEvent::kState,   HookEvent::kAttempt, HookEvent::kFault, HookEvent::kRecovered,
    HookEvent::kWarning, HookEvent::kNode,    HookEvent::kEnd};

proto::Notification StateOf(proto::JobState state) {
  proto::Notification notification;
  notification.set_job_id("a-1");
  notification.mutable_state()->set_state(state);
  notification.mutable_state()->set_reason("because\nof this");
  return notification;
}

std::vector<HookEvent> EventsOf(const std::vector<HookMessage>& messages) {
  std::vector<HookEvent> events;
  for (const HookMessage& message : messages) events.push_back(message.event);
  return events;
}

TEST(HookMessages, AFaultIsSentWhenItIsNewAndWhenItIsOver) {
  HookMessages messages("/runs/a", kAllEvents);
  proto::Notification notification;
  notification.set_job_id("a-1");
  proto::Fault& fault = *notification.mutable_fault();
  fault.set_number(1);
  fault.set_what("worker 1 was ended by signal 9\nmore");
  EXPECT_THAT(EventsOf(messages.Take(notification)), testing::ElementsAre(HookEvent::kFault));
  fault.set_decided_at_ns(5);
  EXPECT_TRUE(messages.Take(notification).empty()) << "only a stage of the same fault";
  fault.set_new_step_at_ns(9);
  EXPECT_THAT(EventsOf(messages.Take(notification)), testing::ElementsAre(HookEvent::kRecovered));
  EXPECT_TRUE(messages.Take(notification).empty());
  fault.set_number(2);
  fault.set_new_step_at_ns(0);
  const auto second = messages.Take(notification);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].text, "a-1: fault 2: worker 1 was ended by signal 9 ... more");
  const auto json = nlohmann::json::parse(second[0].json);
  EXPECT_EQ(json["event"], "fault");
  EXPECT_EQ(json["run_directory"], "/runs/a");
  EXPECT_EQ(json["data"]["fault"]["number"], 2);
}

TEST(HookMessages, TheLastStateIsTheEnd) {
  HookMessages messages("", kAllEvents);
  EXPECT_THAT(EventsOf(messages.Take(StateOf(proto::RUNNING))),
              testing::ElementsAre(HookEvent::kState));
  const auto end = messages.Take(StateOf(proto::FAILED));
  EXPECT_THAT(EventsOf(end), testing::ElementsAre(HookEvent::kState, HookEvent::kEnd));
  EXPECT_EQ(end[1].text, "a-1 is failed: because ... of this");
}

TEST(HookMessages, AnInformationIsNoWarning) {
  HookMessages messages("", kAllEvents);
  proto::Notification notification;
  notification.mutable_message()->set_text("hm");
  EXPECT_TRUE(messages.Take(notification).empty());
  notification.mutable_message()->set_severity(proto::MessageNotification::WARNING);
  EXPECT_THAT(EventsOf(messages.Take(notification)), testing::ElementsAre(HookEvent::kWarning));
}

TEST(HookMessages, OnlyWantedEventsAreMade) {
  HookMessages messages("", {HookEvent::kEnd});
  EXPECT_THAT(EventsOf(messages.Take(StateOf(proto::FAILED))),
              testing::ElementsAre(HookEvent::kEnd));
  EXPECT_TRUE(messages.Take(StateOf(proto::RUNNING)).empty());
}

TEST(HookMessages, AreBounded) {
  HookMessages messages("", kAllEvents);
  proto::Notification notification = StateOf(proto::RUNNING);
  notification.mutable_state()->set_reason(std::string(1'000'000, 'x'));
  const auto sent = messages.Take(notification);
  EXPECT_LE(sent.at(0).json.size(), size_t{64} << 10);
  EXPECT_EQ(nlohmann::json::parse(sent[0].json)["event"], "state");
}

TEST(HookQueue, DropsTheOldestAndCountsIt) {
  HookQueue queue(2);
  for (const char* text : {"a", "b", "c"}) {
    HookMessage message;
    message.text = text;
    queue.Push(message);
  }
  EXPECT_EQ(queue.dropped(), 1U);
  EXPECT_EQ(queue.Pop()->text, "b");
  queue.Abandon();
  EXPECT_EQ(queue.dropped(), 2U);
  EXPECT_FALSE(queue.Pop().has_value());
}

}  // namespace
}  // namespace longhaul::service
