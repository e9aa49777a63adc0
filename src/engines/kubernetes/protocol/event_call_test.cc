#include "engines/kubernetes/protocol/event_call.h"

#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes::event_call_test {
namespace {

using Json = nlohmann::ordered_json;

EventFields Event() {
  EventFields event;
  event.regarding = {"v1", "Pod", "ns", "train-0", "u1"};
  event.name = EventName("train-0", "u1/bound");
  event.reason = "Scheduled";
  event.action = "Binding";
  event.controller = "longhaul.dev/scheduler";
  event.instance = "longhaul-scheduler";
  event.note = "done";
  return event;
}

TEST(EventCall, MakesAnEventInTheNamespaceOfItsObject) {
  const Result<Call> call = CreateEventCall(EventJson(Event(), "2026-01-31T08:00:00.123Z"));
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->target, "/apis/events.k8s.io/v1/namespaces/ns/events");
  EXPECT_EQ(call->traffic, TrafficClass::kEvent);
  const Json body = Json::parse(call->body);
  EXPECT_EQ(body["eventTime"], "2026-01-31T08:00:00.000000Z");
  EXPECT_EQ(body["regarding"]["uid"], "u1");
  EXPECT_EQ(body["type"], "Normal");
  EXPECT_EQ(body["note"], "done");
}

TEST(EventCall, AnObjectWithoutANamespaceHasItsEventsInDefault) {
  EventFields event = Event();
  event.regarding = {"v1", "Node", "", "n0", "u2"};
  event.warning = true;
  const Json json = EventJson(event, "2026-01-31T08:00:00Z");
  EXPECT_EQ(json["metadata"]["namespace"], "default");
  EXPECT_FALSE(json["regarding"].contains("namespace"));
  EXPECT_EQ(json["type"], "Warning");
}

TEST(EventCall, ContinuesAnEventAsASeries) {
  const Result<Call> call = ContinueEventCall({"ns", "e"}, 7, "2026-01-31T08:00:00Z");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->verb, "patch");
  EXPECT_EQ(call->traffic, TrafficClass::kEvent);
  EXPECT_EQ(call->body,
            R"({"series":{"count":7,"lastObservedTime":"2026-01-31T08:00:00.000000Z"}})");
}

TEST(EventCall, FitsTheLimitsOfTheApi) {
  EventFields event = Event();
  event.note = std::string(5'000, 'a') + "\xff";
  EXPECT_LE(EventJson(event, "")["note"].get<std::string>().size(), 1'024u);
  EXPECT_LE(EventName(std::string(253, 'a'), "x").size(), 253u);
  EXPECT_EQ(EventName("a", "x"), EventName("a", "x"));
  EXPECT_NE(EventName("a", "x"), EventName("a", "y"));
  event.regarding.namespace_name = "a/b";
  EXPECT_FALSE(CreateEventCall(EventJson(event, "")).ok());
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::event_call_test
