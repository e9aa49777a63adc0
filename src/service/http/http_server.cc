#include "service/http/http_server.h"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/text.h"
#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr int kAcceptsATurn = 64;
constexpr size_t kReceiveBytes = 16 << 10;
constexpr Duration kSweepPeriod = std::chrono::milliseconds(250);
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
// After the last answer: so long a client may still send what is dropped, so that the answer is not
// lost to a reset of the connection.
constexpr Duration kClosingTime = std::chrono::seconds(1);

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// One chunk of a body in parts (RFC 9112, section 7.1).
std::string Chunk(const std::string& bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string size;
  for (size_t left = bytes.size(); left > 0; left /= 16) size.insert(0, 1, kHex[left % 16]);
  return size + "\r\n" + bytes + "\r\n";
}

// Who counts as one peer: an IPv4 address, or the first four groups of an IPv6 one, because the
// rest is the client's to choose.
std::string PeerOf(const std::string& address) {
  if (address.find(':') == std::string::npos || address == "::1") return address;
  size_t end = 0;
  for (int groups = 0; groups < 4 && end != std::string::npos; ++groups) {
    end = address.find(':', end == 0 ? 0 : end + 1);
  }
  return address.substr(0, end);
}

// The rest of the descriptors is for files, the database and agents.
size_t ConnectionLimit(size_t wanted) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  return std::clamp<size_t>(static_cast<size_t>(files.rlim_cur) / 2, 1, wanted);
}

// A name may have several addresses; the first one on which the server can listen is used.
Result<io::Listener> Listen(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return InvalidArgument("cannot find the address of " + Printable(host) + ": " +
                           gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  Result<io::Listener> listener = NotFound("no address for " + Printable(host));
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> numeric{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, numeric.data(), numeric.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    listener = io::ListenTcp(numeric.data(), port);
    if (listener.ok()) break;
  }
  return listener;
}

HttpLimits Bounded(HttpLimits limits) {
  limits.connections = ConnectionLimit(limits.connections);
  limits.connections_per_peer = std::min(limits.connections_per_peer, limits.connections);
  return limits;
}

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits, HttpHandler& handler, const TlsServerContext* tls)
    : limits_(Bounded(limits)), handler_(handler), tls_(tls) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, uint16_t port,
                                                      const HttpLimits& limits,
                                                      HttpHandler& handler,
                                                      const TlsServerContext* tls) {
  std::unique_ptr<HttpServer> server(new HttpServer(limits, handler, tls));
  ASSIGN_OR_RETURN(server->listener_, Listen(host, port));
  ASSIGN_OR_RETURN(server->loop_, io::EventLoop::Create());
  server->StartThreads();
  return server;
}

void HttpServer::StartThreads() {
  loop_->Watch(listener_.fd.get(), false, [this](bool, bool) { Accept(); });
  loop_->After(kSweepPeriod, [this] { Sweep(); });
  for (size_t i = 0; i < limits_.threads; ++i) pool_.emplace_back([this] { Work(); });
  thread_ = std::thread([this] { loop_->Run(); });
}

HttpServer::~HttpServer() { Stop(); }

// The order matters. First no new connection is accepted, then the pool ends, whose handlers may
// still post answers to the loop, and only then the connections are closed.
void HttpServer::Stop() {
  if (!thread_.joinable()) return;
  loop_->Post([this] {
    stopping_ = true;
    if (!listener_.fd.valid()) return;
    loop_->Unwatch(listener_.fd.get());
    listener_.fd.Reset();
  });
  StopPool();
  // The answers of the pool were posted before: they are sent by now, as far as the sockets take
  // them without blocking.
  loop_->Post([this] {
    while (!connections_.empty()) Close(connections_.begin()->first);
  });
  loop_->Stop();
  thread_.join();
}

// A bounded number in one turn of the loop, so that many new connections at once do not delay the
// ones that are served.
void HttpServer::Accept() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    Result<std::optional<io::Fd>> socket = io::Accept(listener_.fd);
    if (!socket.ok()) {
      return OnAcceptFailed(socket.status());
    }
    if (!socket->has_value()) return;
    Take(*std::move(*socket));
  }
}

void HttpServer::OnAcceptFailed(const Status& reason) {
  // Out of descriptors or memory: closing a connection that only waits makes room.
  if (reason.code() == Code::kResourceExhausted && EvictAny()) return;
  loop_->Unwatch(listener_.fd.get());
  if (reason.code() == Code::kInvalidArgument) {  // it listens no longer
    listener_.fd.Reset();
    handler_.OnEnded();
    return;
  }
  loop_->After(kAcceptPause, [this] {
    if (stopping_ || !listener_.fd.valid()) return;
    loop_->Watch(listener_.fd.get(), false, [this](bool, bool) { Accept(); });
  });
}

// On any failure the socket is closed by its destructor. A connection counts for its peer only once
// it is registered.
void HttpServer::Take(io::Fd socket) {
  const Result<std::string> address = io::PeerAddress(socket);
  if (!address.ok()) return;  // it has gone already
  const std::string peer = PeerOf(*address);
  if (!MakeRoom(peer)) return;
  auto connection = std::make_unique<Connection>();
  const uint64_t id = connection->id = ++last_id_;
  connection->address = *address;
  connection->peer = peer;
  connection->fd = std::move(socket);
  if (tls_ != nullptr) {
    Result<std::unique_ptr<TlsSession>> session = TlsSession::Create(*tls_, connection->fd);
    if (!session.ok()) return;  // out of memory: closes it
    connection->tls = *std::move(session);
  }
  ++peers_[peer].connections;
  loop_->Watch(connection->fd.get(), false,
               [this, id](bool readable, bool writable) { OnReady(id, readable, writable); });
  SetPhase(*connection, Phase::kHead, limits_.head_time);
  connections_.emplace(id, std::move(connection));
  open_ = connections_.size();
}

// Whether there is a place for one more connection of this peer; may close another one for it.
bool HttpServer::MakeRoom(const std::string& peer) {
  const auto own = peers_.find(peer);
  if (own != peers_.end() && own->second.connections >= limits_.connections_per_peer) {
    return EvictOldest(own->second);
  }
  return connections_.size() < limits_.connections || EvictAny();
}

// Only connections that wait for a head, or that are closing, may be evicted: a request that has
// begun is completed.
bool HttpServer::EvictOldest(Peer& peer) {
  if (peer.waiting.empty()) return false;
  const uint64_t oldest = peer.waiting.begin()->second;
  handler_.OnEvicted(connections_.at(oldest)->address);
  Close(oldest);
  return true;
}

bool HttpServer::EvictAny() {
  // The peer with the most waiting connections loses one, so a peer that opens many does not
  // displace others.
  const auto most =
      std::max_element(peers_.begin(), peers_.end(), [](const auto& a, const auto& b) {
        return a.second.waiting.size() < b.second.waiting.size();
      });
  return most != peers_.end() && EvictOldest(most->second);
}

void HttpServer::SetPhase(Connection& connection, Phase phase, Duration limit) {
  Peer& peer = peers_[connection.peer];
  if (connection.waiting_order != 0) peer.waiting.erase(connection.waiting_order);
  connection.waiting_order = 0;
  if (phase == Phase::kHead || phase == Phase::kClosing) {
    connection.waiting_order = ++last_order_;
    peer.waiting.emplace(connection.waiting_order, connection.id);
  }
  connection.phase = phase;
  // The limit covers the whole phase and does not begin anew with each byte, so that a client that
  // sends a byte a second gains nothing.
  connection.deadline = io::MonotonicNow() + limit;
  // Bytes that nothing takes would be reported again and again.
  loop_->WantRead(connection.fd.get(), phase != Phase::kHandling && phase != Phase::kSending);
}

void HttpServer::OnReady(uint64_t id, bool readable, bool writable) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (writable && (connection.phase == Phase::kSending || connection.phase == Phase::kStreaming)) {
    return Send(connection);  // a failure of it closes the connection
  }
  // A handshake that waited until the socket takes more.
  if (writable && connection.tls != nullptr && connection.phase == Phase::kHead) {
    return Receive(connection);
  }
  if (!readable) return;
  switch (connection.phase) {
    case Phase::kHead:
    case Phase::kBody:
      return Receive(connection);
    case Phase::kStreaming:
    case Phase::kClosing:
      return Discard(connection);
    case Phase::kHandling:
    case Phase::kSending:
      return Close(id);  // closed in both directions: nobody is there for the answer
  }
}

// During a handshake, reading may require a write. The loop reports writability only then.
Result<std::optional<size_t>> HttpServer::ReceiveSome(Connection& connection,
                                                      std::span<std::byte> buffer) {
  if (connection.tls == nullptr) return io::ReceiveSome(connection.fd, buffer);
  Result<std::optional<size_t>> got = connection.tls->Receive(buffer);
  if (connection.phase == Phase::kHead) {
    loop_->WantWrite(connection.fd.get(), connection.tls->wants_write());
  }
  return got;
}

Result<size_t> HttpServer::SendSome(Connection& connection, std::string_view bytes) {
  if (connection.tls != nullptr) return connection.tls->Send(BytesOf(bytes));
  return io::SendSome(connection.fd, BytesOf(bytes));
}

void HttpServer::Receive(Connection& connection) {
  std::array<std::byte, kReceiveBytes> buffer;
  const Result<std::optional<size_t>> got = ReceiveSome(connection, buffer);
  if (!got.ok()) return Close(connection.id);
  if (!got->has_value()) return;
  if (**got == 0) return Close(connection.id);
  connection.in.append(reinterpret_cast<const char*>(buffer.data()), **got);
  Advance(connection);
}

void HttpServer::Discard(Connection& connection) {
  std::array<std::byte, kReceiveBytes> buffer;
  const Result<std::optional<size_t>> got = ReceiveSome(connection, buffer);
  if (!got.ok() || (got->has_value() && **got == 0)) Close(connection.id);
}

// Takes what has arrived as far as it goes. May close the connection.
void HttpServer::Advance(Connection& connection) {
  if (connection.phase == Phase::kBody) return TakeBody(connection);
  // Empty lines before a request are skipped (RFC 9112, section 2.2).
  while (connection.in.starts_with("\r\n")) connection.in.erase(0, 2);
  const std::optional<size_t> head = FindHead(connection.in, connection.searched);
  if (head.value_or(connection.in.size()) > limits_.head_bytes) {
    return RefuseAndClose(connection, {431, "the request's head is larger than " +
                                                std::to_string(limits_.head_bytes) + " bytes"});
  }
  if (head.has_value()) return TakeHead(connection, *head);
  constexpr size_t kBorder = 3;  // of the empty line's four bytes
  connection.searched = connection.in.size() - std::min(connection.in.size(), kBorder);
}

void HttpServer::TakeHead(Connection& connection, size_t head_bytes) {
  connection.request = HttpRequest();
  HttpRequest& request = connection.request;
  const std::optional<HttpRefusal> refusal =
      ParseHead(std::string_view(connection.in).substr(0, head_bytes), request);
  connection.in.erase(0, head_bytes);
  connection.searched = 0;
  if (refusal.has_value()) return RefuseAndClose(connection, *refusal);
  request.peer = connection.address;
  connection.keep_alive = request.keep_alive;
  // Before the body is received, so that a client without a valid token cannot make the server
  // store one. A body that is not read makes the rest of the connection unusable, so it is closed
  // then.
  std::optional<HttpAnswer> early = handler_.Admit(request);
  if (early.has_value()) {
    if (request.body_bytes > 0) return AnswerAndClose(connection, *std::move(early));
    return Answer(connection, *std::move(early));
  }
  if (request.body_bytes > limits_.body_bytes) {
    return RefuseAndClose(
        connection,
        {413, "the body has " + std::to_string(request.body_bytes) + " bytes, at most " +
                  std::to_string(limits_.body_bytes) + " are allowed"});
  }
  if (request.body_bytes == 0) return Dispatch(connection);
  if (bodies_ >= limits_.bodies) {
    return RefuseAndClose(connection, {503, "too many requests at a time; try again later"});
  }
  ++bodies_;
  connection.counts_as_body = true;
  SetPhase(connection, Phase::kBody, limits_.body_time);
  if (request.Header("expect") == "100-continue" && connection.in.empty()) {
    // A socket that does not take these few bytes is no worse off: the client sends all the same.
    (void)!SendSome(connection, "HTTP/1.1 100 Continue\r\n\r\n").ok();
  }
  TakeBody(connection);
}

// Called after each receipt until the body is complete. Bytes beyond it belong to the next request
// and stay in `in`.
void HttpServer::TakeBody(Connection& connection) {
  const size_t bytes = connection.request.body_bytes;
  if (connection.in.size() < bytes) return;
  connection.request.body = connection.in.substr(0, bytes);
  connection.in.erase(0, bytes);
  Dispatch(connection);
}

void HttpServer::Dispatch(Connection& connection) {
  // The handler has no deadline; a quarter of the maximum cannot overflow when it is added to the
  // time.
  SetPhase(connection, Phase::kHandling, Duration::max() / 4);
  const auto request = std::make_shared<HttpRequest>(std::move(connection.request));
  connection.request = HttpRequest();
  connection.request.method = request->method;  // the answer's form depends on these two
  connection.request.version_10 = request->version_10;
  const bool queued = Enqueue(
      [this, id = connection.id, request] {
        // Shared, because a function must be copyable; it has one owner all the same.
        const auto answer = std::make_shared<HttpAnswer>(handler_.Handle(*request));
        loop_->Post([this, id, answer] {
          const auto found = connections_.find(id);
          if (found != connections_.end()) Answer(*found->second, std::move(*answer));
        });
      },
      /*bounded=*/true);
  if (queued) return;
  Answer(connection,
         handler_.Refuse({503, "too many requests wait; try again later"}, connection.address));
}

void HttpServer::AnswerAndClose(Connection& connection, HttpAnswer answer) {
  connection.keep_alive = false;
  Answer(connection, std::move(answer));
}

void HttpServer::RefuseAndClose(Connection& connection, const HttpRefusal& refusal) {
  AnswerAndClose(connection, handler_.Refuse(refusal, connection.address));
}

void HttpServer::Answer(Connection& connection, HttpAnswer answer) {
  if (std::exchange(connection.counts_as_body, false)) --bodies_;
  connection.request.body = std::string();
  connection.stream = std::move(answer.stream);
  const bool in_parts = connection.stream != nullptr;
  connection.chunked = in_parts && !connection.request.version_10;
  if (in_parts || stopping_) connection.keep_alive = false;
  std::string& out = connection.out;
  out = "HTTP/1.1 " + std::to_string(answer.status) + " " + std::string(ReasonOf(answer.status)) +
        "\r\n";
  for (const auto& [name, value] : answer.headers) out += name + ": " + value + "\r\n";
  if (connection.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (!in_parts) out += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
  out += connection.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (connection.request.method == "HEAD") {
    connection.stream.reset();
  } else {
    out += answer.body;
  }
  connection.sent = 0;
  if (connection.stream != nullptr) {
    connection.asked = connection.woken = connection.stream_over = false;
    streams_.insert(connection.id);
    SetPhase(connection, Phase::kStreaming, limits_.send_time);
  } else {
    SetPhase(connection, Phase::kSending, limits_.send_time);
  }
  Send(connection);
}

void HttpServer::Send(Connection& connection) {
  while (connection.sent < connection.out.size()) {
    const Result<size_t> sent =
        SendSome(connection, std::string_view(connection.out).substr(connection.sent));
    if (!sent.ok()) return Close(connection.id);
    if (*sent == 0) {
      loop_->WantWrite(connection.fd.get(), true);
      return;
    }
    connection.sent += *sent;
    connection.deadline = io::MonotonicNow() + limits_.send_time;
  }
  loop_->WantWrite(connection.fd.get(), false);
  connection.out = std::string();
  connection.sent = 0;
  OnSent(connection);
}

void HttpServer::OnSent(Connection& connection) {
  if (connection.stream != nullptr && !connection.stream_over) return AskStream(connection);
  connection.stream.reset();
  if (!connection.keep_alive) {
    if (connection.tls != nullptr) connection.tls->Close();
    ::shutdown(connection.fd.get(), SHUT_WR);
    SetPhase(connection, Phase::kClosing, kClosingTime);
    return;
  }
  SetPhase(connection, Phase::kHead, limits_.idle_time);
  if (connection.in.empty()) return;
  // The next request has begun to arrive already. Posted, so that many of them are no recursion.
  loop_->Post([this, id = connection.id] {
    const auto found = connections_.find(id);
    if (found != connections_.end() && found->second->phase == Phase::kHead) {
      Advance(*found->second);
    }
  });
}

// At most one task for each stream, so Next is never called concurrently and the queue stays
// bounded by the number of connections.
void HttpServer::AskStream(Connection& connection) {
  connection.asked = true;
  connection.woken = false;
  Enqueue(
      [this, id = connection.id, stream = connection.stream]() mutable {
        const auto part = std::make_shared<HttpStream::Part>(stream->Next());
        stream.reset();
        loop_->Post([this, id, part] { OnPart(id, std::move(*part)); });
      },
      /*bounded=*/false);  // one a stream at most
}

// The connection may have been closed while the pool computed the part.
void HttpServer::OnPart(uint64_t id, HttpStream::Part part) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  connection.asked = false;
  if (!part.bytes.empty()) {
    connection.out += connection.chunked ? Chunk(part.bytes) : part.bytes;
  }
  if (part.last) {
    connection.stream_over = true;
    if (connection.chunked) connection.out += "0\r\n\r\n";
  }
  connection.deadline = io::MonotonicNow() + limits_.send_time;
  if (!connection.out.empty() || part.last) return Send(connection);
  if (connection.woken) AskStream(connection);
}

// A stream whose part is being computed or sent notes the wake-up and asks again afterwards, so no
// notification is missed.
void HttpServer::WakeStreams() {
  loop_->Post([this] {
    for (const uint64_t id : streams_) {
      Connection& connection = *connections_.at(id);
      if (connection.asked || !connection.out.empty()) {
        connection.woken = true;
      } else if (!connection.stream_over) {
        AskStream(connection);
      }
    }
  });
}

void HttpServer::Sweep() {
  if (stopping_) return;
  const Instant now = io::MonotonicNow();
  std::vector<uint64_t> late;
  for (const auto& [id, connection] : connections_) {
    if (connection->deadline < now) late.push_back(id);
  }
  // Expire may close connections, so the late ones are collected before.
  for (const uint64_t id : late) Expire(*connections_.at(id));
  loop_->After(kSweepPeriod, [this] { Sweep(); });
}

void HttpServer::Expire(Connection& connection) {
  // A stream may be silent for any time; one whose client does not read is closed.
  if (connection.phase == Phase::kStreaming && connection.out.empty()) return;
  const bool answer = connection.phase == Phase::kBody ||
                      (connection.phase == Phase::kHead && !connection.in.empty());
  if (!answer) return Close(connection.id);
  RefuseAndClose(connection, {408, "the request did not arrive in time"});
}

void HttpServer::Close(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  loop_->Unwatch(connection.fd.get());
  if (connection.counts_as_body) --bodies_;
  streams_.erase(id);
  const auto peer = peers_.find(connection.peer);
  if (connection.waiting_order != 0) peer->second.waiting.erase(connection.waiting_order);
  if (--peer->second.connections == 0) peers_.erase(peer);
  connections_.erase(found);
  open_ = connections_.size();
}

bool HttpServer::Enqueue(std::function<void()> task, bool bounded) {
  {
    const std::lock_guard lock(pool_mutex_);
    if (pool_stopping_) return !bounded;  // nothing is answered any more
    if (bounded && tasks_.size() >= limits_.queued_requests) return false;
    tasks_.push_back(std::move(task));
  }
  pool_changed_.notify_one();
  return true;
}

void HttpServer::Work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(pool_mutex_);
      pool_changed_.wait(lock, [this] { return pool_stopping_ || !tasks_.empty(); });
      if (pool_stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void HttpServer::StopPool() {
  {
    const std::lock_guard lock(pool_mutex_);
    pool_stopping_ = true;
    tasks_.clear();
  }
  pool_changed_.notify_all();
  for (std::thread& thread : pool_) thread.join();
  pool_.clear();
}

}  // namespace longhaul::service
