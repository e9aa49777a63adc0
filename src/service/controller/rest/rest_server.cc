#include "service/controller/rest/rest_server.h"

#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/log/log.h"
#include "service/controller/rest/event_watcher.h"
#include "service/http/web_origin.h"

namespace longhaul::service {
namespace {

constexpr Duration kFeedWait =
    std::chrono::milliseconds(500);  // how often silent streams are looked at
constexpr Duration kStreamsEndTime =
    std::chrono::seconds(2);  // for readers of streams to take the last events
constexpr Duration kStreamsEndPoll = std::chrono::milliseconds(5);
constexpr std::string_view kJson = "application/json";

// nosniff: a browser must not run an answer as a script.
HttpAnswer ToHttp(ApiResponse response) {
  HttpAnswer answer;
  answer.status = response.status;
  if (!response.allow.empty()) answer.headers.emplace_back("Allow", response.allow);
  if (response.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (response.status == 415) answer.headers.emplace_back("Accept-Post", kJson);
  if (response.status == 503) answer.headers.emplace_back("Retry-After", "1");
  for (auto& header : response.headers) answer.headers.push_back(std::move(header));
  answer.headers.emplace_back("Cache-Control", response.cache_control);
  answer.headers.emplace_back("X-Content-Type-Options", "nosniff");
  answer.headers.emplace_back("Content-Type", response.content_type);
  answer.body = std::move(response.body);
  return answer;
}

std::string MethodOf(const HttpRequest& request) {
  return request.method == "HEAD" ? "GET" : request.method;
}

ApiRequest Translate(const HttpRequest& request, Caller caller, bool secure) {
  ApiRequest translated;
  translated.caller = std::move(caller.identity);
  translated.bearer = std::move(caller.bearer);
  translated.host = request.Header("host");
  translated.if_none_match = request.Header("if-none-match");
  translated.page_link = request.Header("longhaul-page-link");
  translated.secure = secure;
  translated.method = MethodOf(request);
  translated.path = request.path;
  translated.query = request.query;
  translated.wants_json = request.Header("accept").find(kJson) != std::string::npos;
  translated.metrics_format = MetricsFormatFor(request.Header("accept"));
  translated.last_event_id = request.Header("last-event-id");
  translated.body = request.body;
  return translated;
}

// The code of the API's errors for what the HTTP server refuses by itself.
const char* ErrorCodeOf(int status) {
  switch (status) {
    case 408:
      return "deadline_exceeded";
    case 413:
    case 431:
      return "resource_exhausted";
    case 414:
      return "out_of_range";
    case 503:
      return "unavailable";
    default:
      return "invalid_argument";
  }
}

}  // namespace

Result<HostPort> ParseHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return InvalidArgument("expected HOST:PORT, not " + Printable(text));
  }
  HostPort parsed;
  parsed.host = text.substr(0, colon);
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  }
  const Result<uint64_t> port = ParseUint64(std::string_view(text).substr(colon + 1));
  if (!port.ok() || *port > 65535)
    return InvalidArgument("expected a port from 0 to 65535, not " + Printable(text));
  parsed.port = static_cast<uint16_t>(*port);
  return parsed;
}

Status RefuseWithoutTls(const std::string& address, const std::string& host, bool tls) {
  if (tls || IsLoopback(host)) return {};
  return PermissionDenied(address +
                          " can be reached from outside, which needs TLS: longhaul controller init "
                          "DIR --name HOST makes certificates, or listen on 127.0.0.1");
}

RestServer::RestServer(const RestServerOptions& options, CoreLoop& loop, NotificationFeed& feed,
                       TokenStore& tokens, AuditLog& audit, PrepareJob prepare)
    : options_(options),
      feed_(feed),
      audit_(audit),
      callers_(tokens, page_, options.external),
      api_(loop, feed, tokens, page_, options.admission, options.checks, options.planner,
           std::move(prepare), [this] { return event_streams_->load(); }) {}

RestServer::~RestServer() { Stop(); }

Result<std::unique_ptr<RestServer>> RestServer::Start(const RestServerOptions& options,
                                                      CoreLoop& loop, NotificationFeed& feed,
                                                      TokenStore& tokens, AuditLog& audit,
                                                      PrepareJob prepare) {
  std::unique_ptr<RestServer> server(
      new RestServer(options, loop, feed, tokens, audit, std::move(prepare)));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

Status RestServer::Listen() {
  ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(options_.address));
  RETURN_IF_ERROR(RefuseWithoutTls(options_.address, address.host, options_.admission != nullptr));
  if (options_.admission != nullptr) {
    const ServerTls& server = options_.admission->server();
    ASSIGN_OR_RETURN(tls_, TlsServerContext::Create(server.certificates, server.key));
  }
  HttpLimits limits = options_.limits;
  limits.body_bytes = kLargestBody;
  Result<std::unique_ptr<HttpServer>> server =
      HttpServer::Start(address.host, address.port, limits, *this, tls_.get());
  if (!server.ok()) {
    return Status(server.status().code(),
                  "cannot listen for REST on " + options_.address + " (" +
                      server.status().message() +
                      "): choose another with --rest HOST:PORT (port 0: any)");
  }
  server_ = *std::move(server);
  feed_thread_ = std::thread([this] { WatchFeed(); });
  return Status();
}

// The thread that wakes the streams uses the server, so it ends first.
void RestServer::Stop() {
  stopping_ = true;
  if (feed_thread_.joinable()) feed_thread_.join();
  if (server_ == nullptr) return;
  if (feed_.closed()) EndStreams();
  server_->Stop();
}

// Sends the last events, which may be that a job has ended.
void RestServer::EndStreams() {
  const Instant deadline = io::MonotonicNow() + kStreamsEndTime;
  server_->WakeStreams();
  while (event_streams() > 0 && io::MonotonicNow() < deadline) {
    std::this_thread::sleep_for(kStreamsEndPoll);
  }
}

void RestServer::WatchFeed() {
  for (uint64_t newest = 0; !stopping_;) {
    newest = feed_.Wait(newest, kFeedWait);
    server_->WakeStreams();
    if (feed_.closed()) return;
  }
}

void RestServer::OnEnded() {
  ended_ = true;
  io::LogError("controller", "REST on " + options_.address + " has ended: restart the controller");
}

// A proxy in front of the server may use TLS where the server does not, and reports it so.
bool RestServer::IsSecure(const HttpRequest& request) const {
  return tls_ != nullptr ||
         (options_.behind_proxy && request.Header("x-forwarded-proto") == "https");
}

RestServer::Authorization RestServer::Authorize(const HttpRequest& request) const {
  const std::string method = MethodOf(request);
  const std::optional<Role> needed = RestApi::RoleFor(method, request.path);
  // Without a token nobody may send a body: there are few places for those.
  if (!needed && request.body_bytes == 0) return {};
  const Result<Caller> caller = callers_.Identify(request, IsSecure(request));
  if (!caller.ok()) {
    const bool denied = caller.status().code() == Code::kPermissionDenied;
    return {{},
            ErrorResponse(denied ? 403 : 401, denied ? "permission_denied" : "unauthenticated",
                          caller.status().message())};
  }
  if (needed && !Permits(caller->identity.role, *needed)) {
    const std::string what = method + " " + Printable(request.path, 80);
    return {*caller, WrongRole(caller->identity, *needed, what)};
  }
  return {*caller, std::nullopt};
}

// The order of the checks: a web page of another origin gets no information, not even whether a
// token is valid. The type of the body is checked last, because its message is for callers that are
// authorised. A web page can send a form or plain text without a preflight request, but not JSON.
std::optional<ApiResponse> RestServer::RefusalOf(const HttpRequest& request, Identity& who) const {
  if (const auto foreign =
          RefuseForeignOrigin(request, tls_ == nullptr && !options_.behind_proxy)) {
    return ErrorResponse(
        foreign->status,
        foreign->status == 403 ? "permission_denied" : ErrorCodeOf(foreign->status),
        foreign->message);
  }
  Authorization given = Authorize(request);
  who = std::move(given.caller.identity);
  if (given.refusal) return given.refusal;
  if (request.body_bytes == 0) return std::nullopt;
  const std::string type = MediaType(request.Header("content-type"));
  if (type == kJson) return std::nullopt;
  return ErrorResponse(
      415, "unsupported_media_type",
      (type.empty() ? std::string("the body has no Content-Type")
                    : "the body's Content-Type is " + Printable(type, 80)) +
          ", expected application/json: send the header \"Content-Type: application/json\" (curl: "
          "-H 'Content-Type: application/json' --data-binary @FILE)");
}

std::optional<HttpAnswer> RestServer::Admit(const HttpRequest& request) {
  Identity who;
  std::optional<ApiResponse> refusal = RefusalOf(request, who);
  if (!refusal) return std::nullopt;
  Audit(request, who, *refusal);
  return ToHttp(*std::move(refusal));
}

// Everything that changes something is recorded, and refusals. Reading is not, except for the
// values of environments, which may be secrets.
void RestServer::Audit(const HttpRequest& request, const Identity& who, const ApiResponse& answer) {
  const std::string method = MethodOf(request);
  const bool refused = answer.status == 401 || answer.status == 403 || answer.status == 415;
  const bool secrets = request.query.contains("environment");
  if (method == "GET" && !refused && !secrets) return;
  RestApi::Wanted wanted = RestApi::Describe(method, request.path);
  AuditEntry entry;
  entry.who = who;
  entry.from = request.peer;
  entry.did = std::move(wanted.route);
  if (secrets) entry.did += " with environment";
  entry.object = answer.object;
  if (entry.object.empty()) entry.object = std::move(wanted.object);
  entry.status = answer.status;
  entry.error = answer.error;
  audit_.Record(entry, io::Now());
}

HttpAnswer RestServer::Handle(const HttpRequest& request) {
  // Again, because the token may have been revoked while the body arrived.
  Authorization given = Authorize(request);
  ApiResponse answer = given.refusal
                           ? *std::move(given.refusal)
                           : api_.Handle(Translate(request, given.caller, IsSecure(request)));
  Audit(request, given.caller.identity, answer);
  if (answer.stream.has_value()) return Stream(*answer.stream);
  return ToHttp(std::move(answer));
}

HttpAnswer RestServer::Refuse(const HttpRefusal& refusal, const std::string& peer) {
  audit_.Record(RefusedEntry(peer, "HTTP request", refusal.status, refusal.message), io::Now());
  return ToHttp(ErrorResponse(refusal.status, ErrorCodeOf(refusal.status), refusal.message));
}

void RestServer::OnEvicted(const std::string& peer) {
  constexpr int kUnavailable = 503;
  audit_.Record(
      RefusedEntry(peer, "HTTP connection", kUnavailable, "closed to make room for another one"),
      io::Now());
}

// Counted before the comparison, so that two requests at the same time cannot both take the last
// place.
HttpAnswer RestServer::Stream(const EventStream& stream) {
  if (++*event_streams_ > kMostEventStreams) {
    --*event_streams_;
    return ToHttp(ErrorResponse(429, "resource_exhausted",
                                "more than " + std::to_string(kMostEventStreams) +
                                    " event streams are open; try again later, or poll with "
                                    "Accept: application/json"));
  }
  HttpAnswer answer;
  answer.headers = {{"Cache-Control", "no-store"}, {"Content-Type", "text/event-stream"}};
  answer.stream = std::make_shared<EventWatcher>(feed_, stream, event_streams_);
  return answer;
}

}  // namespace longhaul::service
