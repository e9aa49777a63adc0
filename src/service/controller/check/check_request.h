// The body of POST /v1/checks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::service {

// Returns the names of the nodes to check; none: all without jobs. An empty body is an empty
// object. Refuses more names than a check has nodes.
Result<std::vector<std::string>> ParseCheckRequest(std::string_view body);

}  // namespace longhaul::service
