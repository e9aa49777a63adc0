// POST /v1/reservations and the list of reservations, as JSON.
//
//   {"name": NAME, "nodes": [NODE or DOMAIN, ...], "from"?: TIME, "until"?: TIME, "for"?: "4h",
//    "queues"?: [NAME, ...], "users"?: [NAME, ...], "reason"?: TEXT}
//
// A TIME is "now", a time from now on ("+2h"), a date, or an instant in UTC. "from" is now if it is
// absent; one of "until" and "for" states the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::service {

// Returns kInvalidArgument with the key, the value and the expected form. The controller checks
// names and the period (runtime/scheduling/reservations/node_reservations.h).
Result<proto::NodeReservation> ParseReservation(std::string_view body, Instant now);

nlohmann::ordered_json ToJson(const proto::NodeReservation& reservation, Instant now);

}  // namespace longhaul::service
