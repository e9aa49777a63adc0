// Requests and responses of the REST API, without HTTP's details (rest_server.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "service/controller/metrics/metrics_text.h"
#include "service/security/role.h"

namespace longhaul::service {

struct ApiRequest {
  std::string method;
  std::string path;                                           // decoded, without the query
  std::map<std::string, std::string> query;                   // decoded
  bool wants_json = false;                                    // Accept: application/json
  MetricsFormat metrics_format = MetricsFormat::kPrometheus;  // by the header Accept
  std::string last_event_id;                                  // the header
  std::string body;
  Identity caller;            // whose token the request has; kView where none is needed
  std::string bearer;         // that token; empty: a session of the page, or none
  std::string host;           // the header
  std::string if_none_match;  // the header
  std::string page_link;      // the header Longhaul-Page-Link
  bool secure = false;        // the client uses https
};

// A stream of server-sent events instead of a body.
struct EventStream {
  JobId job;  // empty: all
  uint64_t after = 0;
  bool job_is_over = false;  // ends after the logged notifications
  // For the page: instead of a long backlog it gets "reset" and requests a view again, and while
  // nothing happens "alive".
  bool view = false;
};

struct ApiResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::string allow;                                         // with 405: the allowed methods
  std::string error;                                         // the message of an error
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
  std::string cache_control = "no-store";  // answers have the state of jobs, and at times tokens
  std::string object;  // what was made or changed, where the path does not have it
  std::optional<EventStream> stream;
};

// Returns {"error": {"code": "not_found", "message": ...}} with the matching HTTP status.
ApiResponse ErrorResponse(const Status& status);
// Returns 403, which names the caller's role and the one that `what` needs.
ApiResponse WrongRole(const Identity& caller, Role needed, const std::string& what);
ApiResponse ErrorResponse(int http_status, std::string_view code, const std::string& message);

ApiResponse JsonResponse(const nlohmann::ordered_json& json, int status = 200);

}  // namespace longhaul::service
