// The double behind a real loopback socket, with faults on command.
//
// HTTP/1.1 with kept connections, on the caller's event loop: a test runs client and server on one
// thread, so that their order is the same in each run. It understands what libcurl sends. TLS is
// left out: the tests of TLS use the real server, and service/http.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/double/api_double.h"
#include "io/event_loop.h"
#include "io/net/socket.h"

namespace longhaul::engines::kubernetes {

// What happens to the next requests that match, instead of their answer.
struct Fault {
  enum class Kind {
    kStatus,     // answer `status`, with Retry-After if `retry_after_s` > 0; nothing is executed
    kDrop,       // close the connection; nothing is executed
    kDropAfter,  // execute, then close the connection without an answer
    kNoAnswer,   // neither execute nor answer; the connection stays open
    kCutStream,  // of a watch: close the connection after `bytes` bytes of its body
    kEndStream,  // of a watch: end it regularly after its first lines
    kEndWithinLine,  // of a watch: end it regularly after `bytes` bytes of its first lines
    kRawLine,        // of a watch: send `text` as a line before anything else
    kRepeat,         // of a watch: send each line twice
    kSilent,         // of a watch: send nothing after the head
  };
  Kind kind = Kind::kStatus;
  std::string method;  // empty: every one
  std::string path;    // a part of the target; empty: every one
  int times = 1;
  int status = 500;
  int retry_after_s = 0;
  size_t bytes = 0;
  std::string text;
};

class HttpDouble {
 public:
  // Listens on a free port of 127.0.0.1. Requires that `loop` outlives this.
  static Result<std::unique_ptr<HttpDouble>> Start(io::EventLoop& loop);
  ~HttpDouble();
  HttpDouble(const HttpDouble&) = delete;
  HttpDouble& operator=(const HttpDouble&) = delete;

  std::string address() const { return "http://127.0.0.1:" + std::to_string(listener_.port); }
  ApiDouble& api() { return api_; }

  void Inject(Fault fault) { faults_.push_back(std::move(fault)); }
  void ClearFaults() { faults_.clear(); }
  // When set, requests with another bearer token answer 401.
  void RequireToken(std::string token) { token_ = std::move(token); }
  // How long a second of `timeoutSeconds` is. Tests of real time-outs need not take seconds.
  void SetSecond(Duration second) { second_ = second; }
  // Sends the events that have happened to the open watches. Requests do this by themselves.
  void Publish();
  // While `hold` is set, the open watches are sent nothing: events arrive late, after replies.
  void HoldEvents(bool hold) { hold_events_ = hold; }
  void SendBookmarks();
  // Closes all connections of watches, in the middle of what they send.
  void BreakWatches();

  size_t requests() const { return targets_.size(); }
  // "GET /api/v1/nodes?watch=1" of each request, in their order.
  const std::vector<std::string>& targets() const { return targets_; }
  size_t connections() const { return connections_.size(); }
  // The largest number of requests that were answered on one connection.
  size_t most_requests_of_a_connection() const { return most_requests_; }

 private:
  struct Connection {
    io::Fd fd;
    std::string in;
    std::string out;
    size_t requests = 0;
    std::optional<ApiWatch> watch;
    std::optional<Fault> fault;  // of the watch
    std::optional<io::EventLoop::TimerId> timer;
    bool close_when_sent = false;
  };

  HttpDouble(io::EventLoop& loop, io::Listener listener)
      : loop_(loop), listener_(std::move(listener)) {}
  void Accept();
  void OnReady(uint64_t id, bool readable);
  // Handles the requests that are complete. Returns false when the connection must be closed.
  bool Advance(uint64_t id, Connection& connection);
  bool Answer(uint64_t id, Connection& connection, const ApiRequest& request,
              const std::string& target, const std::string& token);
  void OpenWatch(uint64_t id, Connection& connection, ApiResponse response,
                 std::optional<Fault> fault);
  static void SendLines(Connection& connection, const std::string& lines);
  void EndStream(Connection& connection);
  std::optional<Fault> TakeFault(const std::string& method, const std::string& target, bool watch);
  void Flush(uint64_t id);
  void Close(uint64_t id);

  io::EventLoop& loop_;
  io::Listener listener_;
  ApiDouble api_;
  std::deque<Fault> faults_;
  std::string token_;
  bool hold_events_ = false;
  Duration second_ = std::chrono::seconds(1);
  std::vector<std::string> targets_;
  size_t most_requests_ = 0;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
};

}  // namespace longhaul::engines::kubernetes
