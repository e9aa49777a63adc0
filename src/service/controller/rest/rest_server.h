// The REST API over HTTP: bearer tokens and their roles, origins, media types, limits, server-sent
// events.
//
// Without TLS it listens on loopback only. http_server.h handles the connections: neither an idle
// one nor an event stream uses a thread, and a request with a wrong token is refused before its
// body is received.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/page/page_access.h"
#include "service/controller/rest/caller.h"
#include "service/controller/rest/rest_api.h"
#include "service/http/http_server.h"
#include "service/security/audit_log.h"
#include "service/security/external_identity.h"

namespace longhaul::service {

struct RestServerOptions {
  std::string address = "127.0.0.1:0";  // HOST:PORT; [::1]:0 for IPv6
  // A proxy on this machine is in front of the server, so Host may be any name.
  bool behind_proxy = false;
  AgentAdmission* admission = nullptr;  // none: without TLS; must outlive the server
  NodeCheckService* checks = nullptr;   // none: no node checks; must outlive the server
  std::string planner;                  // the program longhaul-tools; empty: there is none
  // Identifies callers by tokens of its form. Shared with the admission of agents. None: there are
  // no tokens but the controller's.
  std::shared_ptr<ExternalIdentity> external;
  HttpLimits limits;
};

// Splits "127.0.0.1:80", "[::1]:80" or "localhost:80" into its two parts.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> ParseHostPort(const std::string& text);

// Returns kPermissionDenied, with the remedy, for an address beyond loopback without TLS.
Status RefuseWithoutTls(const std::string& address, const std::string& host, bool tls);

class RestServer : private HttpHandler {
 public:
  static constexpr uint64_t kMostEventStreams = 32;
  static constexpr size_t kLargestBody = 1 << 20;

  // Starts to listen and serve. Returns kAlreadyExists when the port is in use, and
  // kPermissionDenied for an address that others can reach without TLS. Requires that
  // loop, feed, tokens and audit outlive this.
  static Result<std::unique_ptr<RestServer>> Start(const RestServerOptions& options, CoreLoop& loop,
                                                   NotificationFeed& feed, TokenStore& tokens,
                                                   AuditLog& audit, PrepareJob prepare);
  ~RestServer() override;
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  // Ends all requests and event streams. If the feed is closed, the streams get its last events
  // first, as far as their readers take them within two seconds.
  void Stop();

  uint16_t port() const { return server_->port(); }
  bool ended() const { return ended_; }  // listening has ended, for any reason
  uint64_t event_streams() const { return *event_streams_; }

 private:
  RestServer(const RestServerOptions& options, CoreLoop& loop, NotificationFeed& feed,
             TokenStore& tokens, AuditLog& audit, PrepareJob prepare);
  Status Listen();
  std::optional<HttpAnswer> Admit(const HttpRequest& request) override;
  HttpAnswer Handle(const HttpRequest& request) override;
  HttpAnswer Refuse(const HttpRefusal& refusal, const std::string& peer) override;
  void OnEvicted(const std::string& peer) override;
  void OnEnded() override;
  // Returns who sends the request; 401 or 403 if they may not do what it wants.
  struct Authorization {
    Caller caller;
    std::optional<ApiResponse> refusal;
  };
  bool IsSecure(const HttpRequest& request) const;  // the browser uses https
  Authorization Authorize(const HttpRequest& request) const;
  std::optional<ApiResponse> RefusalOf(const HttpRequest& request, Identity& who) const;
  // Writes what a request did, or why it was refused, to the audit log. Leaves out reads that
  // anybody with its role may do.
  void Audit(const HttpRequest& request, const Identity& who, const ApiResponse& answer);
  HttpAnswer Stream(const EventStream& stream);
  void WatchFeed();
  void EndStreams();

  const RestServerOptions options_;
  std::unique_ptr<TlsServerContext> tls_;  // none: plain HTTP
  NotificationFeed& feed_;
  AuditLog& audit_;
  PageAccess page_;
  const CallerCheck callers_;
  RestApi api_;
  // Shared with the streams, which a thread of the server may use a little longer.
  std::shared_ptr<std::atomic<uint64_t>> event_streams_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  std::unique_ptr<HttpServer> server_;
  std::thread feed_thread_;  // wakes the streams when there are new notifications
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> ended_ = false;
};

}  // namespace longhaul::service
