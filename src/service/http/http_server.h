// An HTTP/1.1 server that needs no thread for each connection.
//
// One thread accepts connections, receives requests and sends responses, without blocking. A fixed
// pool of threads runs the handler, only for complete requests that HttpHandler::Admit has
// admitted. So a client that sends nothing, sends a byte a second, or does not read its response
// uses a descriptor and at most a few times head_bytes of memory.
//
// Everything is bounded (HttpLimits). When there is no room for another connection, the server
// closes the one that has waited longest without a complete head, of the peer with the most such
// connections. So one peer can't keep others out.
//
// With a TlsServerContext all connections use TLS. Leaves out chunked request bodies (refused with
// 411) and pipelining beyond one request at a time. Start, Stop, WakeStreams and the getters may be
// called from any thread.
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
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "io/net/socket.h"
#include "service/http/http_request.h"
#include "service/http/tls.h"

namespace longhaul::service {

// A response body that is sent in parts, as long as the client is connected.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  struct Part {
    std::string bytes;
    bool last = false;
  };
  // Returns the next part; without bytes if there is nothing to send yet. Called on a thread of the
  // pool, one call at a time: at the start, after each part that was sent, and after WakeStreams.
  virtual Part Next() = 0;
};

struct HttpAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to those of the framing
  std::string body;
  std::shared_ptr<HttpStream> stream;  // instead of the body; shared with the pool
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Called on the server's thread with the head of a request; must not block. If it returns an
  // answer, the request ends before its body is received.
  virtual std::optional<HttpAnswer> Admit(const HttpRequest& request) = 0;
  // Called on a thread of the pool with the whole request.
  virtual HttpAnswer Handle(const HttpRequest& request) = 0;
  // Returns the answer to a request of this peer that the server itself refuses. Called on the
  // server's thread; must not block.
  virtual HttpAnswer Refuse(const HttpRefusal& refusal, const std::string& peer) = 0;
  // Called on the server's thread when a connection was closed to make room for another one.
  virtual void OnEvicted(const std::string& /*peer*/) {}
  // Called on the server's thread when the system has closed the listening socket.
  virtual void OnEnded() {}
};

struct HttpLimits {
  size_t head_bytes = 16 << 10;
  size_t body_bytes = 1 << 20;
  size_t bodies = 64;  // concurrent requests with a body
  // Never more than half of the descriptors that the process may open.
  size_t connections = 2048;
  size_t connections_per_peer = 1024;  // a peer is an IPv4 address or an IPv6 /64
  size_t queued_requests = 256;        // that wait for a thread of the pool
  size_t threads = 32;
  Duration head_time = std::chrono::seconds(5);   // for the whole head
  Duration body_time = std::chrono::seconds(30);  // for the whole body
  Duration idle_time = std::chrono::seconds(15);  // between two requests
  Duration send_time = std::chrono::seconds(30);  // for any progress with a part of an answer
};

class HttpServer {
 public:
  // Starts to listen and serve. `host` is a name or a numeric address. Returns kAlreadyExists when
  // the port is in use. Without `tls` it is plain HTTP. Requires that `handler` and `tls` outlive
  // this.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& host, uint16_t port,
                                                   const HttpLimits& limits, HttpHandler& handler,
                                                   const TlsServerContext* tls = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Finishes the requests that the pool handles, sends what can be sent at once, and closes all
  // connections. May be called twice.
  void Stop();

  // Calls Next soon for each stream that has nothing to send.
  void WakeStreams();

  uint16_t port() const { return listener_.port; }
  size_t connections() const { return open_; }

 private:
  // kHead: no request yet; kClosing: all is sent, further input is dropped.
  enum class Phase { kHead, kBody, kHandling, kSending, kStreaming, kClosing };
  struct Connection {
    uint64_t id = 0;
    io::Fd fd;
    std::unique_ptr<TlsSession> tls;  // none: plain
    std::string address;              // of the client
    std::string peer;                 // who it counts as
    Phase phase = Phase::kHead;
    uint64_t waiting_order = 0;  // its key in Peer::waiting; 0: none
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
    bool woken = false;  // WakeStreams was called during it
    bool stream_over = false;
  };
  struct Peer {
    size_t connections = 0;
    std::map<uint64_t, uint64_t> waiting;  // order -> connection: the oldest may be closed
  };

  HttpServer(const HttpLimits& limits, HttpHandler& handler, const TlsServerContext* tls);
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
  // Receives into the buffer and sends, with TLS if the connection has it.
  Result<std::optional<size_t>> ReceiveSome(Connection& connection, std::span<std::byte> buffer);
  static Result<size_t> SendSome(Connection& connection, std::string_view bytes);
  void Receive(Connection& connection);
  void Discard(Connection& connection);
  void Advance(Connection& connection);
  void TakeHead(Connection& connection, size_t head_bytes);
  void TakeBody(Connection& connection);
  void Dispatch(Connection& connection);
  void Answer(Connection& connection, HttpAnswer answer);
  void AnswerAndClose(Connection& connection, HttpAnswer answer);
  void RefuseAndClose(Connection& connection, const HttpRefusal& refusal);
  void Send(Connection& connection);
  void OnSent(Connection& connection);
  void AskStream(Connection& connection);
  void OnPart(uint64_t id, HttpStream::Part part);
  void Sweep();
  void Expire(Connection& connection);
  void Close(uint64_t id);

  // Runs the task on the pool. Returns false when the queue is full.
  bool Enqueue(std::function<void()> task, bool bounded);
  void Work();
  void StopPool();

  const HttpLimits limits_;
  HttpHandler& handler_;
  const TlsServerContext* const tls_;
  io::Listener listener_;
  std::unique_ptr<io::EventLoop> loop_;
  std::thread thread_;

  // Used on the loop's thread only.
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
