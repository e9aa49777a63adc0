#include "service/controller/rest_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <cstdio>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "service/controller/token.h"

namespace longhaul::service {
namespace {

using std::chrono::seconds;

constexpr size_t kLongestPath = 1024;
constexpr size_t kStreamBatch = 256;
constexpr Duration kKeepAlive = seconds(15);  // a comment, so that dead connections are found
constexpr Duration kStreamWait = seconds(1);  // how soon a watcher that has gone is noticed

void Put(const ApiResponse& answer, httplib::Response& response) {
  response.status = answer.status;
  if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
  if (answer.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_content(answer.body, answer.content_type);
}

ApiRequest Translate(const httplib::Request& request) {
  ApiRequest translated;
  translated.method = request.method == "HEAD" ? "GET" : request.method;
  translated.path = request.path;
  for (const auto& [key, value] : request.params) translated.query.emplace(key, value);
  const std::string accept = request.get_header_value("Accept");
  translated.wants_json = accept.find("application/json") != std::string::npos;
  translated.last_event_id = request.get_header_value("Last-Event-ID");
  translated.body = request.body;
  return translated;
}

// One watcher's place in the feed.
struct Watcher {
  EventStream stream;
  uint64_t through = 0;
  Instant written;
  std::atomic<uint64_t>& open;

  ~Watcher() { --open; }
};

bool Write(httplib::DataSink& sink, const std::string& text) {
  return sink.write(text.data(), text.size());
}

// Writes what there is and waits a little where there is nothing. False: the watcher has gone.
bool StreamSome(NoticeFeed& feed, Watcher& watcher, httplib::DataSink& sink) {
  const auto batch = feed.After(watcher.through, watcher.stream.job, kStreamBatch);
  if (!batch.ok()) return false;
  watcher.through = batch->through;
  bool over = false;
  std::string text;
  for (const RenderedNotice& notice : batch->notices) {
    text += "id: " + std::to_string(notice.id) + "\nevent: " + notice.kind +
            "\ndata: " + notice.json + "\n\n";
    over = over || (notice.last && !watcher.stream.job.empty());
  }
  if (batch->notices.empty()) {
    feed.Wait(watcher.through, kStreamWait);
    // A job that was over at the start, and whatever it had is written.
    over = watcher.stream.job_is_over;
  }
  if (over) text += "event: end\ndata: {}\n\n";
  const Instant now = io::MonotonicNow();
  if (text.empty() && now - watcher.written > kKeepAlive) text = ": still here\n\n";
  if (!text.empty()) {
    if (!Write(sink, text)) return false;
    watcher.written = now;
  }
  if (over || feed.closed()) sink.done();
  return sink.is_writable();
}

}  // namespace

Result<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return InvalidArgument("not HOST:PORT: " + Printable(text));
  }
  HostPort parsed;
  parsed.host = text.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  const Result<uint64_t> port = ParseUint64(std::string_view(text).substr(colon + 1));
  if (!port.ok() || *port > 65535) return InvalidArgument("not a port: " + Printable(text));
  parsed.port = static_cast<uint16_t>(*port);
  return parsed;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

RestServer::RestServer(const RestServerOptions& options, CoreLoop& loop, NoticeFeed& feed,
                       PrepareJob prepare)
    : options_(options),
      feed_(feed),
      api_(loop, feed, std::move(prepare), [this] { return event_streams_.load(); }),
      server_(std::make_unique<httplib::Server>()) {}

RestServer::~RestServer() { Stop(); }

Result<std::unique_ptr<RestServer>> RestServer::Start(const RestServerOptions& options,
                                                      CoreLoop& loop, NoticeFeed& feed,
                                                      PrepareJob prepare) {
  std::unique_ptr<RestServer> server(new RestServer(options, loop, feed, std::move(prepare)));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

Status RestServer::Listen() {
  ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(options_.address));
  if (!IsLoopback(address.host) && !options_.allow_remote) {
    return PermissionDenied(options_.address +
                            " can be reached from outside, and REST is plain HTTP: listen on "
                            "127.0.0.1, or put TLS in front of it and say --allow-remote");
  }
  server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server_->set_payload_max_length(kLargestBody);
  server_->set_tcp_nodelay(true);
  // cpp-httplib's own choice is SO_REUSEPORT: two controllers would share a port.
  server_->set_socket_options([](socket_t socket) {
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
    Handle(request, response);
  };
  const std::string any = R"([\s\S]*)";
  server_->Get(any, handle).Post(any, handle).Put(any, handle).Patch(any, handle);
  server_->Delete(any, handle).Options(any, handle);
  // Before the path meets a regular expression, whose matching is recursive.
  server_->set_pre_routing_handler(
      [](const httplib::Request& request, httplib::Response& response) {
        if (request.path.size() <= kLongestPath) return httplib::Server::HandlerResponse::Unhandled;
        Put(ErrorResponse(414, "out_of_range", "the path is too long"), response);
        return httplib::Server::HandlerResponse::Handled;
      });
  // What cpp-httplib refuses by itself has no body yet.
  server_->set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const bool large = response.status == 413;
    Put(ErrorResponse(response.status, large ? "resource_exhausted" : "invalid_argument",
                      large ? "the body is larger than 1 MiB" : "not a request that is understood"),
        response);
  });
  const int port = address.port == 0 ? server_->bind_to_any_port(address.host)
                   : server_->bind_to_port(address.host, address.port) ? address.port
                                                                       : -1;
  if (port <= 0) {
    return AlreadyExists("cannot listen for REST on " + options_.address +
                         ": the port is in use or the address isn't ours; choose another with "
                         "--rest HOST:PORT (port 0: any)");
  }
  port_ = static_cast<uint16_t>(port);
  thread_ = std::thread([this, host = address.host] {
    server_->listen_after_bind();
    ended_ = true;
    if (stopping_) return;
    std::fprintf(stderr, "REST on %s, port %u, has ended: restart the controller\n", host.c_str(),
                 unsigned{port_});
  });
  return Status();
}

void RestServer::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  // A server that is only about to run doesn't hear a stop.
  while (!server_->is_running() && !ended_) std::this_thread::yield();
  server_->stop();
  thread_.join();
}

void RestServer::Handle(const httplib::Request& request, httplib::Response& response) {
  const bool open_to_all = request.path == "/v1/healthz";
  const std::string given = request.get_header_value("Authorization");
  if (!open_to_all && !EqualInConstantTime("Bearer " + options_.token, given)) {
    return Put(ErrorResponse(401, "unauthenticated",
                             given.empty() ? "this needs the header Authorization: Bearer TOKEN, "
                                             "with the token from the controller's token file"
                                           : "wrong token"),
               response);
  }
  ApiResponse answer = api_.Handle(Translate(request));
  if (answer.stream.has_value()) return Stream(*answer.stream, response);
  Put(answer, response);
}

void RestServer::Stream(const EventStream& stream, httplib::Response& response) {
  if (++event_streams_ > kMostEventStreams) {
    --event_streams_;
    return Put(ErrorResponse(429, "resource_exhausted",
                             "more than " + std::to_string(kMostEventStreams) +
                                 " event streams are open; try again later, or poll with Accept: "
                                 "application/json"),
               response);
  }
  // Shared with the copies that std::function makes; the last one gone frees the place.
  auto watcher = std::shared_ptr<Watcher>(
      new Watcher{stream, stream.after, io::MonotonicNow(), event_streams_});
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      "text/event-stream", [this, watcher = std::move(watcher)](size_t, httplib::DataSink& sink) {
        return StreamSome(feed_, *watcher, sink);
      });
}

}  // namespace longhaul::service
