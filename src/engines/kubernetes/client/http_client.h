// HTTP requests to one API server, on an event loop's thread.
//
// libcurl does TLS (1.2 and newer, with the server's certificate and name verified), proxies and
// kept connections; its multi interface is driven by io::EventLoop, so nothing blocks. HTTP/1.1
// only: binds over one HTTP/2 connection are slower than over several (measured: 916 against 1,642
// a second). A request that is a stream (a watch) has a connection of its own by this.
//
// Redirects are not followed. No error text contains a header or a body. Callbacks run on the
// loop's thread, never within a call of this class; they may call it, but not destroy it.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/client/tls_trust.h"
#include "engines/kubernetes/protocol/access/exec_credential.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

struct HttpSettings {
  std::string server;                  // "https://host:port"
  std::string certificate_authority;   // PEM; empty: the system's authorities
  std::string tls_server_name;         // the name in the certificate; empty: the host of `server`
  bool skip_tls_verification = false;  // loopback only
  std::string proxy_url;               // empty: as the environment has it (HTTPS_PROXY, NO_PROXY)
  bool direct = false;                 // without a proxy, whatever the environment has
  std::string user_agent = "longhaul";
  Duration connect_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(60);  // not of streams
  size_t max_body_bytes = size_t{256} << 20;            // a list of 50,000 pods in one page
  size_t kept_connections = 64;
};

struct HttpRequest {
  std::string method;
  std::string target;
  std::string content_type;
  std::string accept = "application/json";
  std::string body;
  // Shared with the source, which may replace its own before the request has ended.
  std::shared_ptr<const Credential> credential;  // null: anonymous
};

struct HttpResponse {
  int status = 0;
  std::string retry_after;  // the header, as it was sent
  std::string body;         // of a stream with status 2xx: empty
};

class HttpClient {
 public:
  using RequestId = uint64_t;
  // A response, or why there is none: kUnavailable, kDeadlineExceeded, kResourceExhausted (a body
  // over the limit), kFailedPrecondition (the server's certificate).
  using Done = std::function<void(Result<HttpResponse>)>;
  using OnBytes = std::function<void(std::string_view)>;

  // Ignores SIGPIPE in this process, because OpenSSL writes to sockets that the peer may have
  // closed. Requires that `loop` outlives this.
  static Result<std::unique_ptr<HttpClient>> Create(io::EventLoop& loop, HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  RequestId Send(HttpRequest request, Done done);
  // Passes the body of a response with status 2xx to `on_bytes` as it arrives; `done` is called at
  // its end. The bodies of other responses are in `done`'s response.
  RequestId Open(HttpRequest request, OnBytes on_bytes, Done done);
  // Ends a request without calling it again. Does nothing for one that has ended.
  void Cancel(RequestId request);

  size_t open_requests() const { return transfers_.size(); }

 private:
  struct Transfer;

  HttpClient(io::EventLoop& loop, HttpSettings settings, std::unique_ptr<TlsTrust> trust,
             CURLM* multi);
  RequestId Start(HttpRequest request, OnBytes on_bytes, Done done);
  // A handle with the options that all requests have in common.
  CURL* NewHandle();
  void Prepare(Transfer& transfer);
  void PrepareBody(const Transfer& transfer);
  void PrepareAddress(Transfer& transfer);

  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* socket_data);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);
  void UseSocket(curl_socket_t socket, bool want_write);
  void Forget(curl_socket_t socket);
  static int OnClose(void* self, curl_socket_t socket);
  static size_t OnHeader(char* data, size_t size, size_t count, void* transfer);
  static size_t OnBody(char* data, size_t size, size_t count, void* transfer);
  void Act(curl_socket_t socket, int events);
  // Calls the callbacks of what libcurl has reported.
  void Deliver();
  void Release(std::unique_ptr<Transfer> transfer);
  Status Failure(CURLcode code, const Transfer& transfer) const;

  io::EventLoop& loop_;
  const HttpSettings settings_;
  // Destroyed after the handles.
  const std::unique_ptr<TlsTrust> trust_;
  const bool loopback_;
  CURLM* const multi_;
  std::set<curl_socket_t> watched_;
  // Of these, the sockets of kept connections that no request uses. They stay watched, because the
  // next request begins soon where it matters: two system calls a request are saved.
  std::set<curl_socket_t> idle_;
  std::optional<io::EventLoop::TimerId> timer_;
  std::map<RequestId, std::unique_ptr<Transfer>> transfers_;
  std::vector<RequestId> with_bytes_;  // streams whose bytes have not been delivered
  std::vector<CURL*> free_;            // handles to use again
  RequestId last_id_ = 0;
};

}  // namespace longhaul::engines::kubernetes
