// The client of one API server: sends calls within limits, repeats them, and keeps watches.
//
// All calls and callbacks are on the loop's thread; callbacks never run within Send, and must not
// destroy the client. A call waits in
// the queue of its traffic class (protocol/traffic.h). The client repeats a call when the server
// states that it did not execute it (429, 503), once after 401 with credentials that were read
// again, and a read that got no response; never more than `attempts` times. It does not repeat a
// write that got no response: the caller reads the object and decides. Calls that are repeated
// although they were executed answer 409, because names, uids and versions are part of them.
// A call that has a limit (Call::limit) and no reply within it ends as one without a response:
// a write may have been executed, and may still be executed later.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "base/status.h"
#include "engines/kubernetes/client/credentials.h"
#include "engines/kubernetes/client/http_client.h"
#include "engines/kubernetes/protocol/call.h"
#include "engines/kubernetes/protocol/response.h"
#include "engines/kubernetes/protocol/traffic.h"
#include "engines/kubernetes/protocol/watch_state.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

struct ClientSettings {
  TrafficSettings traffic;
  int attempts = 6;                                      // of one call
  Duration first_delay = std::chrono::milliseconds(50);  // before the second attempt; then doubled
  Duration longest_delay = std::chrono::seconds(10);
  uint64_t seed = 1;  // of the jitter; different for each client
};

struct Reply {
  Verdict verdict;
  int http_status = 0;  // 0: no response
  std::string body;

  bool ok() const { return verdict.outcome == Outcome::kDone; }
};

// What the client has done, for metrics and tests.
struct ClientCounts {
  uint64_t requests = 0;
  uint64_t repeated = 0;
  uint64_t refreshed_credentials = 0;
};

class WatchConnection;

class Client {
 public:
  using Done = std::function<void(const Reply&)>;
  using CallId = uint64_t;

  // Requires that `loop` outlives this.
  static Result<std::unique_ptr<Client>> Create(io::EventLoop& loop, Access access,
                                                const ClientSettings& settings);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Queues a call; `done` is called once, later. Returns kResourceExhausted, and calls nothing,
  // when the queue of its class is full.
  Result<CallId> Send(Call call, Done done);
  // A call that could not be described is its error.
  Result<CallId> Send(Result<Call> call, Done done);

  // Keeps a view of a resource (protocol/watch_state.h) until the result is destroyed, which must
  // not happen in a callback of `sink`. Requires that `sink` and this outlive it.
  struct WatchOptions {
    Resource resource;
    std::string namespace_name;  // empty: all
    WatchSettings settings;      // without a path
  };
  Result<std::unique_ptr<WatchConnection>> Watch(WatchOptions options, WatchSink& sink);

  // How many more calls of this class can be queued: at 0 the caller must stop deciding.
  size_t room(TrafficClass traffic) const { return queues_.room(traffic); }
  const ClientCounts& counts() const { return counts_; }

 private:
  friend class WatchConnection;
  struct Pending {
    Call call;
    Done done;
    int attempts = 0;
    bool reauthenticated = false;
    bool started = false;                          // counted as in progress by the queues
    std::optional<HttpClient::RequestId> request;  // the one that has no response yet
    std::optional<io::EventLoop::TimerId> timer;   // until it is queued again
    std::optional<io::EventLoop::TimerId> limit_timer;
  };

  Client(io::EventLoop& loop, const ClientSettings& settings);
  // Sends what the limits permit now, and sets the timer for the rest.
  void Pump();
  void Start(CallId id);
  void OnCredential(CallId id, const Result<CredentialSource::Shared>& credential);
  void OnResponse(CallId id, const CredentialSource::Shared& credential,
                  const Result<HttpResponse>& response);
  Verdict VerdictOn(const Call& call, const Result<HttpResponse>& response);
  // Queues the call again if it may be repeated. Returns false when it has ended.
  bool Repeat(CallId id, Pending& pending, const Verdict& verdict);
  void OnLimit(CallId id);
  void End(CallId id, const Reply& reply);

  io::EventLoop& loop_;
  const ClientSettings settings_;
  Random random_;
  JsonParser parser_;
  TrafficQueues queues_;
  ClientCounts counts_;
  std::map<CallId, Pending> pending_;
  CallId last_id_ = 0;
  bool pumping_ = false;
  std::optional<io::EventLoop::TimerId> timer_;
  // Destroyed first: their callbacks refer to the rest.
  std::unique_ptr<HttpClient> http_;
  std::unique_ptr<CredentialSource> credentials_;
};

}  // namespace longhaul::engines::kubernetes
