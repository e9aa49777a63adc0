// The REST API over HTTP (cpp-httplib): bearer token, limits, server-sent events.
//
// Plain HTTP, so it listens on loopback only, unless told otherwise by somebody who puts TLS in
// front. A fixed number of threads; event streams hold one each and are fewer, so ordinary requests
// always find one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "service/controller/notice_feed.h"
#include "service/controller/rest_api.h"

namespace httplib {
class Server;
struct Request;
struct Response;
}  // namespace httplib

namespace longhaul::service {

struct RestServerOptions {
  std::string address = "127.0.0.1:0";  // HOST:PORT; [::1]:0 for IPv6
  std::string token;
  bool allow_remote = false;
};

// "127.0.0.1:80", "[::1]:80" or "localhost:80" into its two parts.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> ParseHostPort(const std::string& text);
bool IsLoopback(const std::string& host);

class RestServer {
 public:
  static constexpr int kThreads = 48;
  static constexpr uint64_t kMostEventStreams = 32;
  static constexpr size_t kLargestBody = 1 << 20;

  // Listens and serves at once. kAlreadyExists when the port is in use, kPermissionDenied for an
  // address that others can reach without allow_remote. Requires that loop and feed outlive this.
  static Result<std::unique_ptr<RestServer>> Start(const RestServerOptions& options, CoreLoop& loop,
                                                   NoticeFeed& feed, PrepareJob prepare);
  ~RestServer();
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  // Ends all requests; Requires that the feed has been closed before (else streams end late).
  void Stop();

  uint16_t port() const { return port_; }
  bool ended() const { return ended_; }  // listening has, asked for or not
  uint64_t event_streams() const { return event_streams_; }

 private:
  RestServer(const RestServerOptions& options, CoreLoop& loop, NoticeFeed& feed,
             PrepareJob prepare);
  Status Listen();
  void Handle(const httplib::Request& request, httplib::Response& response);
  void Stream(const EventStream& stream, httplib::Response& response);

  const RestServerOptions options_;
  NoticeFeed& feed_;
  RestApi api_;
  std::unique_ptr<httplib::Server> server_;
  uint16_t port_ = 0;
  std::thread thread_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> event_streams_ = 0;
};

}  // namespace longhaul::service
