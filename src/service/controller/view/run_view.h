// One run as the web page shows it: a compact picture of the present, and the curves of its past.
//
// Numbers are rounded to what a reader can see, times are milliseconds of the controller's clock,
// and lists are cut to their newest entries, beside their whole length. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time.h"
#include "proto/status.pb.h"
#include "service/controller/view/history_cache.h"

namespace longhaul::service {

struct RunViewInput {
  proto::JobStatus status;
  HistoryCache::Snapshot past;
  std::map<std::string, proto::NodeStatus> nodes;  // by name; at least those of the gang that live
  Instant now;
  bool with_series = true;
};

// The version of the form below; a page of another version loads itself again.
constexpr int kViewVersion = 1;

// Returns the answer of GET /v1/view/run/{id}, docs/openapi.yaml.
nlohmann::ordered_json RunViewJson(const RunViewInput& input);

// Returns one entry of GET /v1/view/runs.
nlohmann::ordered_json RunEntryJson(const proto::JobStatus& status);

}  // namespace longhaul::service
