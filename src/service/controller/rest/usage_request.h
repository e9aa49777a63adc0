// GET /v1/usage: the query, and the report as JSON.
//
//   by=user,kind      the keys to group by: user, project, queue, kind, job; default: user
//   since=30d         a duration before now, a date, or an instant in UTC; default: 30d
//   until=2026-01-31  the same; default: now
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "runtime/goodput/usage_ledger.h"

namespace longhaul::service {

// Returns kInvalidArgument for an unknown parameter or key, a key given twice, a text that is no
// time, and a `since` that is not before `until`.
Result<runtime::UsageQuery> ParseUsageQuery(const std::map<std::string, std::string>& query,
                                            Instant now);

nlohmann::ordered_json ToJson(const runtime::UsageQuery& query, const runtime::UsageReport& report);

}  // namespace longhaul::service
