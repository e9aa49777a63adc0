// Events of objects (events.k8s.io/v1), which `kubectl describe` and `kubectl events` show.
//
// What happens again is not a new object: a patch continues the event as a series. The text of an
// event is fixed when it is made: the API refuses to change it. All calls are of the traffic class
// of events, so they delay nothing else. Pure: the time is an argument.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/protocol/call.h"

namespace longhaul::engines::kubernetes {

struct EventObject {
  std::string api_version;
  std::string kind;
  std::string namespace_name;  // empty: it is in none, and its events are in "default"
  std::string name;
  std::string uid;
};

struct EventFields {
  EventObject regarding;
  std::string name;  // of the event: EventName
  bool warning = false;
  std::string_view reason;
  std::string_view action;
  std::string_view controller;  // "longhaul.dev/operator"
  std::string_view instance;
  std::string note;  // is cut to what the API accepts
};

// The name of an event of the object of this name. Equal identities have equal names, so that the
// API server stores an event that is made again once.
std::string EventName(std::string_view object, std::string_view identity);

// `time` begins with "2026-01-31T08:00:00"; the rest is not read.
nlohmann::ordered_json EventJson(const EventFields& event, std::string_view time);

// `event` is what EventJson returned.
Result<Call> CreateEventCall(const nlohmann::ordered_json& event);
// The event has been observed `count` times by now. Requires count >= 2.
Result<Call> ContinueEventCall(const ObjectName& event, int32_t count, std::string_view time);

}  // namespace longhaul::engines::kubernetes
