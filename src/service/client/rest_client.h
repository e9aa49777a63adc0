// The client of a controller's REST API: makes calls, and follows notifications over restarts.
//
// Thread-safe: calls may come from several threads, Stop from any. A client that was found through
// endpoint.json reads that file again when it can't connect, so it also finds a restarted
// controller on another port.
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
  uint64_t id = 0;   // for requests of all later ones
  std::string kind;  // state, attempt, step, snapshot, fault, message, node
  Json data;         // {"at_ns":..., "job_id":..., KIND: {...}}
};

struct FollowOptions {
  uint64_t after = 0;  // the last notification already seen
  // Gives up after this long without a connection.
  Duration patience = std::chrono::seconds(60);
  // Called when the connection is lost (with the reason) and when it is restored. May be empty.
  std::function<void(bool connected, const std::string& reason)> on_connection;
};

class RestClient {
 public:
  explicit RestClient(Endpoint endpoint);
  ~RestClient();
  RestClient(const RestClient&) = delete;
  RestClient& operator=(const RestClient&) = delete;

  // `path` is like "/v1/jobs/headers-gpt-1?x=1". An error response becomes a Status with its code
  // and message; kUnavailable when there is no response.
  Result<Json> Get(const std::string& path);
  Result<Json> Post(const std::string& path, const Json& body);
  Result<std::string> GetText(const std::string& path);

  // Returns the URL of the controller that is called next, without a slash at the end.
  std::string address() const;

  // Follows an event stream ("/v1/events", "/v1/jobs/ID/events"). Calls `take` for each
  // notification after `options.after`, each once and in order, also over lost connections. Returns
  // OK when `take` returns false or the job has ended, kCancelled after Stop, kUnavailable when the
  // patience runs out, and other errors (not found, unauthenticated) at once.
  Status Follow(const std::string& path, const FollowOptions& options,
                const std::function<bool(const FeedEvent&)>& take);

  // Ends present and later calls of Follow soon.
  void Stop();

 private:
  class Connection;
  std::unique_ptr<Connection> connection_;
};

// A job's name or id as a part of a URL's path.
std::string UrlEncode(const std::string& text);

}  // namespace longhaul::service
