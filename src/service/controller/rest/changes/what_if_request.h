// POST /v1/what-if: the question, and its answer as JSON.
//
//   {"changes": [CHANGE, ...], "horizon"?: "24h"}
//
// A CHANGE is a text of the grammar in runtime/scheduling/what_if_change.h, or
// {"submit": "<YAML or JSON text>" | {object}, "source"?, "name"?} for a job that is submitted.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "runtime/scheduling/what_if.h"
#include "service/controller/submission/submission_request.h"

namespace longhaul::service {

struct WhatIfRequest {
  struct Change {
    runtime::scheduling::WhatIfChange change;
    std::optional<SubmissionRequest>
        submission;  // with kSubmit: of the job that is still to be made
  };
  std::vector<Change> changes;
  Duration horizon = std::chrono::hours(24);
};

// Returns kInvalidArgument with the number of the wrong change and what was expected.
Result<WhatIfRequest> ParseWhatIf(std::string_view body);

nlohmann::ordered_json ToJson(const runtime::scheduling::WhatIfAnswer& answer);

}  // namespace longhaul::service
