// The object Status that the API server sends with each refusal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/json_parser.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

struct ApiStatus {
  struct Cause {
    std::string reason;  // FieldValueInvalid, FieldManagerConflict, DisruptionBudget
    std::string field;
    std::string message;
  };

  int32_t code = 0;     // the HTTP status; 0: none
  std::string reason;   // NotFound, AlreadyExists, Conflict, Invalid, Expired, ...
  std::string message;  // for people
  std::vector<Cause> causes;
  int64_t retry_after_seconds = 0;  // 0: none

  bool HasCause(std::string_view cause_reason) const;
};

// Reads a Status. kInvalidArgument when the text is not an object or a field has the wrong type.
Result<ApiStatus> ReadApiStatus(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
