// An HTTP/1.1 server whose connections cost no thread.
//
// One thread accepts connections, receives requests and sends answers, all without blocking. A
// fixed pool of threads runs the handler, only for requests that have arrived whole and that
// HttpHandler::Admit has let through. So a client that sends nothing, sends a byte a second, or
// does not read its answer holds a descriptor and a few times head_bytes of memory at most.
//
// Everything is bounded (HttpLimits). When all places for connections are taken, the connection
// that has been without a whole head for the longest time is closed, of the peer that has the most
// of them; so new requests find a place whoever holds the others.
//
// Leaves out TLS, chunked request bodies (refused with 411) and pipelining beyond one request at a
// time. Start, Stop, WakeStreams and the getters may be called from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "io/net/socket.h"
#include "service/http/http_request.h"

namespace longhaul::service {

// An answer's body that comes in parts, for as long as the client stays.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  struct Part {
    std::string bytes;
    bool last = false;
  };
  // What is to be sent now; no bytes: nothing yet. Called on a thread of the pool, one call at a
  // time: once at the start, after each part that was sent, and after WakeStreams.
  virtual Part Next() = 0;
};

struct HttpAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // beside those of the framing
  std::string body;
  std::shared_ptr<HttpStream> stream;  // instead of the body; shared with the pool
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called on the server's thread with the head of a request; must not block. An answer ends the
  // request before its body is received.
  virtual std::optional<HttpAnswer> Admit(const HttpRequest& request) = 0;
  // Called on a thread of the pool with the whole request.
  virtual HttpAnswer Handle(const HttpRequest& request) = 0;
  // The answer to what the server itself refuses.
  virtual HttpAnswer Refuse(const HttpRefusal& refusal) = 0;
  // The system has ended the listening socket. Called on the server's thread.
  virtual void OnEnded() {}
};

struct HttpLimits {
  size_t head_bytes = 16 << 10;
  size_t body_bytes = 1 << 20;
  size_t bodies = 64;  // requests with a body at a time
  // Never more than half of the descriptors that the process may open.
  size_t connections = 2048;
  size_t connections_per_peer = 1024;  // a peer is an IPv4 address or an IPv6 /64
  size_t queued_requests = 256;        // that wait for a thread of the pool
  size_t threads = 32;
  Duration head_time = std::chrono::seconds(5);   // for the whole head
  Duration body_time = std::chrono::seconds(30);  // for the whole body
  Duration idle_time = std::chrono::seconds(15);  // between two requests
  Duration send_time = std::chrono::seconds(30);  // for a part of an answer to make progress
};

class HttpServer {
 public:
  // Listens and serves at once. `host` is a name or a numeric address. kAlreadyExists when the port
  // is in use. Requires that `handler` outlives this.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& host, uint16_t port,
                                                   const HttpLimits& limits, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Finishes the requests that the pool works on, sends what can be sent at once, and closes all
  // connections. May be called twice.
  void Stop();

  // Calls Next of each stream that has nothing to send, soon.
  void WakeStreams();

  uint16_t port() const { return listener_.port; }
  size_t connections() const { return open_; }

 private:
  // kHead: no request yet; kClosing: all is sent, what still arrives is dropped.
  enum class Phase { kHead, kBody, kHandling, kSending, kStreaming, kClosing };
  struct Connection {
    uint64_t id = 0;
    io::Fd fd;
    std::string peer;
    Phase phase = Phase::kHead;
    uint64_t waiting_order = 0;  // its key in Peer::waiting; 0: not there
    Instant deadline;
    std::string in;
    size_t searched = 0;  // of `in`, for the end of the head
    HttpRequest request;
    std::string out;
    size_t sent = 0;
    bool keep_alive = false;
    bool counts_as_body = false;
    // While streaming.
    std::shared_ptr<HttpStream> stream;
    bool chunked = false;
    bool asked = false;  // a call of Next is under way
    bool woken = false;  // and WakeStreams came meanwhile
    bool stream_over = false;
  };
  struct Peer {
    size_t connections = 0;
    std::map<uint64_t, uint64_t> waiting;  // order -> connection: may be closed, oldest first
  };

  HttpServer(const HttpLimits& limits, HttpHandler& handler);
  void StartThreads();

  // All of these on the loop's thread.
  void Accept();
  void OnAcceptFailed(const Status& reason);
  void Take(io::Fd socket);
  bool MakeRoom(const std::string& peer);
  bool EvictOldest(Peer& peer);
  bool EvictAny();
  void SetPhase(Connection& connection, Phase phase, Duration limit);
  void OnReady(uint64_t id, bool readable, bool writable);
  void Receive(Connection& connection);
  void Discard(Connection& connection);
  void Advance(Connection& connection);
  void TakeHead(Connection& connection, size_t head_bytes);
  void TakeBody(Connection& connection);
  void Dispatch(Connection& connection);
  void Answer(Connection& connection, HttpAnswer answer);
  void AnswerAndClose(Connection& connection, HttpAnswer answer);
  void Send(Connection& connection);
  void OnSent(Connection& connection);
  void AskStream(Connection& connection);
  void OnPart(uint64_t id, HttpStream::Part part);
  void Sweep();
  void Expire(Connection& connection);
  void Close(uint64_t id);

  // The pool. False when the queue is full.
  bool Enqueue(std::function<void()> task, bool bounded);
  void Work();
  void StopPool();

  const HttpLimits limits_;
  HttpHandler& handler_;
  io::Listener listener_;
  std::unique_ptr<io::EventLoop> loop_;
  std::thread thread_;

  // Of the loop's thread.
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::map<std::string, Peer> peers_;
  std::set<uint64_t> streams_;
  uint64_t last_id_ = 0;
  uint64_t last_order_ = 0;
  size_t bodies_ = 0;
  bool stopping_ = false;
  std::atomic<size_t> open_ = 0;

  std::mutex pool_mutex_;  // guards the three below
  std::condition_variable pool_changed_;
  std::deque<std::function<void()>> tasks_;
  bool pool_stopping_ = false;
  std::vector<std::thread> pool_;
};

}  // namespace longhaul::service
