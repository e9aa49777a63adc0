// Messages of proto/*.proto as JSON: for REST, server-sent events and reports.
//
// Unlike protobuf's own mapping, 64-bit integers are JSON numbers, field names stay as written in
// the .proto, enums are their names in lower case, and scalar fields are always there, also when
// zero. Non-finite numbers become null, and what isn't UTF-8 in a text becomes U+FFFD. Maps are
// sorted by key, so equal messages give equal text.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace longhaul::proto {

nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// Reads what ToJson wrote, for clients of a controller. Unknown fields are skipped, so an older
// client understands a newer controller; null becomes NaN. kInvalidArgument when it can't be read.
Status FromJson(std::string_view json, google::protobuf::Message* message);

}  // namespace longhaul::proto
