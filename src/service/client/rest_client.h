// The client of a controller's REST API: calls, and following its events over restarts.
//
// Thread-safe: calls may come from several threads, Stop from any. A client that was found through
// endpoint.json reads that file again when it can't connect, so a restarted controller on another
// port is found as well.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "service/client/endpoint.h"

namespace longhaul::service {

using Json = nlohmann::ordered_json;

// One notification of the controller (proto::Notification).
struct FeedEvent {
  uint64_t id = 0;   // ask for what comes after it
  std::string kind;  // state, attempt, step, snapshot, fault, message, node
  Json data;         // {"at_ns":..., "job_id":..., KIND: {...}}
};

struct FollowOptions {
  uint64_t after = 0;  // the last notification already seen
  // Gives up after so long without a connection.
  Duration patience = std::chrono::seconds(60);
  // Told when the connection is lost (with the reason) and when it is back. May be empty.
  std::function<void(bool connected, const std::string& reason)> on_connection;
};

class RestClient {
 public:
  explicit RestClient(Endpoint endpoint);
  ~RestClient();
  RestClient(const RestClient&) = delete;
  RestClient& operator=(const RestClient&) = delete;

  // `path` is like "/v1/jobs/headers-gpt-1?x=1". An error answer becomes a Status with its code and
  // message; kUnavailable when nobody answers.
  Result<Json> Get(const std::string& path);
  Result<Json> Post(const std::string& path, const Json& body);
  Result<std::string> GetText(const std::string& path);

  // Follows an event stream ("/v1/events", "/v1/jobs/ID/events"): calls `take` for each
  // notification after `options.after`, each once and in order, also over lost connections, until
  // `take` returns false or the job is over (both ok), Stop (kCancelled), or patience runs out
  // (kUnavailable). Other refusals (not found, unauthenticated) end it at once.
  Status Follow(const std::string& path, const FollowOptions& options,
                const std::function<bool(const FeedEvent&)>& take);

  // Ends running and later calls of Follow soon.
  void Stop();

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

// A job's name or id as a part of a URL's path.
std::string UrlEncode(const std::string& text);

}  // namespace longhaul::service
