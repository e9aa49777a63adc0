#include "engines/kubernetes/double/http_double.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

// A head, as libcurl sends it.
struct Head {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
};

Head ParseHead(std::string_view text) {
  Head head;
  const std::vector<std::string_view> lines = Split(text, '\n');
  const std::vector<std::string_view> first = Split(Trim(lines[0]), ' ');
  CHECK(first.size() == 3) << text;
  head.method = first[0];
  head.target = first[1];
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    if (colon == std::string_view::npos) continue;
    std::string name(lines[i].substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    head.headers[name] = Trim(lines[i].substr(colon + 1));
  }
  return head;
}

ApiRequest RequestOf(const Head& head, std::string body) {
  ApiRequest request = RequestFor(head.method, head.target, std::move(body));
  const auto type = head.headers.find("content-type");
  if (type != head.headers.end()) request.content_type = type->second;
  return request;
}

std::string ResponseText(int status, const std::string& body, int retry_after_s) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Status\r\n";
  text += "Content-Type: application/json\r\n";
  if (retry_after_s > 0) text += "Retry-After: " + std::to_string(retry_after_s) + "\r\n";
  return text + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string Chunk(std::string_view bytes) {
  if (bytes.empty()) return "";
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  return size.data() + std::string(bytes) + "\r\n";
}

bool IsOfStreams(Fault::Kind kind) { return kind >= Fault::Kind::kCutStream; }

}  // namespace

Result<std::unique_ptr<HttpDouble>> HttpDouble::Start(io::EventLoop& loop) {
  ASSIGN_OR_RETURN(io::Listener listener, io::ListenTcp("127.0.0.1", 0));
  std::unique_ptr<HttpDouble> server(new HttpDouble(loop, std::move(listener)));
  HttpDouble* const raw = server.get();
  loop.Watch(server->listener_.fd.get(), false, [raw](bool, bool) { raw->Accept(); });
  return server;
}

HttpDouble::~HttpDouble() {
  loop_.Unwatch(listener_.fd.get());
  while (!connections_.empty()) Close(connections_.begin()->first);
}

void HttpDouble::Accept() {
  while (true) {
    Result<std::optional<io::Fd>> accepted = io::Accept(listener_.fd);
    if (!accepted.ok() || !*accepted) return;
    auto connection = std::make_unique<Connection>();
    connection->fd = *std::move(*accepted);
    const uint64_t id = ++last_id_;
    loop_.Watch(connection->fd.get(), false,
                [this, id](bool readable, bool) { OnReady(id, readable); });
    connections_.emplace(id, std::move(connection));
  }
}

void HttpDouble::Close(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second->timer) loop_.Cancel(*found->second->timer);
  loop_.Unwatch(found->second->fd.get());
  connections_.erase(found);
}

void HttpDouble::OnReady(uint64_t id, bool readable) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (readable) {
    std::array<std::byte, 16 << 10> buffer;
    while (true) {
      const Result<std::optional<size_t>> got = io::ReceiveSome(connection.fd, buffer);
      if (!got.ok() || (*got && **got == 0)) return Close(id);
      if (!*got) break;
      connection.in.append(reinterpret_cast<const char*>(buffer.data()), **got);
    }
    // A request may have changed what watches of other connections show.
    if (!Advance(id, connection)) return Close(id);
    Publish();
  }
  Flush(id);
}

bool HttpDouble::Advance(uint64_t id, Connection& connection) {
  while (!connection.watch) {
    const size_t end = connection.in.find("\r\n\r\n");
    if (end == connection.in.npos) return true;
    const Head head = ParseHead(std::string_view(connection.in).substr(0, end));
    const auto length = head.headers.find("content-length");
    const size_t body_bytes =
        length == head.headers.end() ? 0 : static_cast<size_t>(*ParseUint64(length->second));
    if (connection.in.size() < end + 4 + body_bytes) return true;
    const ApiRequest request = RequestOf(head, connection.in.substr(end + 4, body_bytes));
    connection.in.erase(0, end + 4 + body_bytes);
    targets_.push_back(head.method + " " + head.target);
    most_requests_ = std::max(most_requests_, ++connection.requests);
    const auto token = head.headers.find("authorization");
    if (!Answer(id, connection, request, head.target,
                token == head.headers.end() ? "" : token->second)) {
      return false;
    }
  }
  return true;
}

std::optional<Fault> HttpDouble::TakeFault(const std::string& method, const std::string& target,
                                           bool watch) {
  // The first one that matches, so that a test may prepare several.
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if (IsOfStreams(fault->kind) && !watch) continue;
    if (!fault->method.empty() && fault->method != method) continue;
    if (target.find(fault->path) == target.npos) continue;
    Fault taken = *fault;
    if (--fault->times == 0) faults_.erase(fault);
    return taken;
  }
  return std::nullopt;
}

bool HttpDouble::Answer(uint64_t id, Connection& connection, const ApiRequest& request,
                        const std::string& target, const std::string& token) {
  if (!token_.empty() && token != "Bearer " + token_) {
    connection.out +=
        ResponseText(401, StatusJson({401, "Unauthorized", "Unauthorized", Json()}).dump(), 0);
    return true;
  }
  const bool watch = request.query.contains("watch");
  const std::optional<Fault> fault = TakeFault(request.method, target, watch);
  if (fault && fault->kind == Fault::Kind::kDrop) return false;
  if (fault && fault->kind == Fault::Kind::kNoAnswer) return true;
  if (fault && fault->kind == Fault::Kind::kStatus) {
    // The words of RBAC, by which a missing right is recognised.
    const char* message = fault->status == 403 ? "the account cannot do this" : "injected fault";
    const Refusal refusal{fault->status, "Injected", message, Json()};
    connection.out += ResponseText(fault->status, StatusJson(refusal).dump(), fault->retry_after_s);
    return true;
  }
  ApiResponse response = api_.Handle(request);
  if (fault && fault->kind == Fault::Kind::kDropAfter) return false;
  // An ERROR event ends a stream at once.
  if (watch && response.status == 200) {
    OpenWatch(id, connection, std::move(response), fault);
  } else {
    connection.out += ResponseText(response.status, response.body, 0);
  }
  return true;
}

void HttpDouble::OpenWatch(uint64_t id, Connection& connection, ApiResponse response,
                           std::optional<Fault> fault) {
  connection.out +=
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  const bool ends = !response.watch || (fault && (fault->kind == Fault::Kind::kEndStream ||
                                                  fault->kind == Fault::Kind::kEndWithinLine));
  connection.fault = std::move(fault);
  if (connection.fault && connection.fault->kind == Fault::Kind::kRawLine) {
    connection.out += Chunk(connection.fault->text + "\n");
  }
  if (connection.fault && connection.fault->kind == Fault::Kind::kEndWithinLine) {
    response.body.resize(std::min(response.body.size(), connection.fault->bytes));
  }
  SendLines(connection, response.body);
  if (ends) {
    EndStream(connection);
    return;
  }
  const int64_t timeout_s = response.watch->timeout_s;
  connection.watch = std::move(response.watch);
  if (timeout_s <= 0) return;
  connection.timer = loop_.After(timeout_s * second_, [this, id] {
    Connection& expired = *connections_.at(id);
    expired.timer.reset();
    EndStream(expired);
    Flush(id);
  });
}

void HttpDouble::EndStream(Connection& connection) {
  connection.out += "0\r\n\r\n";
  // The connection is kept: its next request must not be ended by this one's time.
  if (connection.timer) loop_.Cancel(*connection.timer);
  connection.timer.reset();
  connection.watch.reset();
  connection.fault.reset();
}

void HttpDouble::SendLines(Connection& connection, const std::string& lines) {
  if (lines.empty() || connection.close_when_sent) return;
  if (!connection.fault) {
    connection.out += Chunk(lines);
    return;
  }
  Fault& fault = *connection.fault;
  if (fault.kind == Fault::Kind::kSilent) return;
  if (fault.kind == Fault::Kind::kCutStream) {
    const std::string part = lines.substr(0, fault.bytes);
    connection.out += Chunk(part);
    fault.bytes -= part.size();
    connection.close_when_sent = part.size() < lines.size();
    return;
  }
  if (fault.kind != Fault::Kind::kRepeat) {
    connection.out += Chunk(lines);
    return;
  }
  for (const std::string_view line : Split(lines, '\n')) {
    if (line.empty()) continue;
    for (int i = 0; i < 2; ++i) connection.out += Chunk(std::string(line) + "\n");
  }
}

void HttpDouble::Publish() {
  if (hold_events_) return;
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (!connection->watch) continue;
    if (api_.Expired(*connection->watch)) {
      SendLines(*connection, ApiDouble::ExpiredLine());
      EndStream(*connection);
    } else {
      SendLines(*connection, api_.NextLines(*connection->watch));
    }
    ids.push_back(id);
  }
  for (const uint64_t id : ids) Flush(id);
}

void HttpDouble::SendBookmarks() {
  Publish();
  if (hold_events_) return;
  for (const auto& [id, connection] : connections_) {
    if (connection->watch) SendLines(*connection, api_.BookmarkLine(*connection->watch));
  }
  Publish();
}

void HttpDouble::BreakWatches() {
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection->watch) ids.push_back(id);
  }
  for (const uint64_t id : ids) Close(id);
}

void HttpDouble::Flush(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  while (!connection.out.empty()) {
    const Result<size_t> sent = io::SendSome(
        connection.fd, std::as_bytes(std::span(connection.out.data(), connection.out.size())));
    if (!sent.ok()) return Close(id);
    if (*sent == 0) break;
    connection.out.erase(0, *sent);
  }
  if (connection.out.empty() && connection.close_when_sent) return Close(id);
  loop_.WantWrite(connection.fd.get(), !connection.out.empty());
}

}  // namespace longhaul::engines::kubernetes
