#include "service/http/web_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace longhaul::service {
namespace {

using testing::HasSubstr;
using Headers = std::map<std::string, std::string>;

// The status of the refusal; 0: none.
int StatusOf(const Headers& headers, bool loopback_only = true) {
  HttpRequest request;
  request.headers = headers;
  const auto refusal = RefuseForeignOrigin(request, loopback_only);
  if (!refusal) return 0;
  EXPECT_FALSE(refusal->message.empty());
  return refusal->status;
}

TEST(WebOrigin, KnowsLoopbackHosts) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1",
        "0.0.0.0", "::", "::2", "1", "2130706433"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(WebOrigin, LetsClientsOutsideOfBrowsersThrough) {
  for (const char* host :
       {"127.0.0.1:8080", "localhost", "localhost:1", "[::1]:8080", "[::1]", "127.9.9.9:80"}) {
    EXPECT_EQ(StatusOf({{"host", host}}), 0) << host;
  }
}

// DNS rebinding: the browser takes the request for one of the same origin.
TEST(WebOrigin, RefusesNamesOfOtherServers) {
  for (const char* host : {"evil.example", "evil.example:8080", "127.evil.example:8080",
                           "localhost.evil.example", "192.168.0.7:8080", "[fe80::1]:80"}) {
    EXPECT_EQ(StatusOf({{"host", host}, {"origin", std::string("http://") + host}}), 403) << host;
    EXPECT_EQ(StatusOf({{"host", host}}, /*loopback_only=*/false), 0) << host;
  }
}

TEST(WebOrigin, RefusesHostsThatAreNone) {
  for (const char* host : {"", "localhost, evil.example", "localhost:x", "[::1", "[::1]x", ":80",
                           "user@localhost", "localhost/x"}) {
    EXPECT_EQ(StatusOf({{"host", host}}), 400) << host;
    EXPECT_EQ(StatusOf({{"host", host}}, /*loopback_only=*/false), 400) << host;
  }
  HttpRequest old;
  old.version_10 = true;
  EXPECT_FALSE(RefuseForeignOrigin(old, true)) << "HTTP/1.0 has no Host";
}

TEST(WebOrigin, RefusesPagesOfOtherOrigins) {
  const std::string host = "127.0.0.1:8080";
  const struct {
    const char* origin;
    int status;
  } kRows[] = {
      {"http://127.0.0.1:8080", 0},
      {"https://127.0.0.1:8080", 0},
      {"HTTP://127.0.0.1:8080", 0},
      {"http://127.0.0.1:3000", 403},  // another server on this machine
      {"http://127.0.0.1", 403},
      {"http://localhost:8080", 403},
      {"https://evil.example", 403},
      {"http://127.0.0.1:8080.evil.example", 403},
      {"null", 403},  // a file, or a sandboxed frame
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(StatusOf({{"host", host}, {"origin", row.origin}}), row.status) << row.origin;
    EXPECT_EQ(StatusOf({{"host", host}, {"origin", row.origin}}, false), row.status) << row.origin;
  }
}

// What a browser sends for an image or a script of this server on another page: no Origin.
TEST(WebOrigin, RefusesWhatOtherPagesLoadFromIt) {
  const auto status = [](const char* site, const char* mode) {
    return StatusOf({{"host", "localhost:80"}, {"sec-fetch-site", site}, {"sec-fetch-mode", mode}});
  };
  EXPECT_EQ(status("cross-site", "no-cors"), 403);
  EXPECT_EQ(status("same-site", "cors"), 403);
  EXPECT_EQ(status("same-origin", "cors"), 0);
  EXPECT_EQ(status("none", "navigate"), 0) << "typed into the address bar";
  EXPECT_EQ(status("cross-site", "navigate"), 0) << "a link was followed";
}

TEST(WebOrigin, NamesTheHeaderAndTheRemedy) {
  HttpRequest request;
  request.headers = {{"host", "gpu-box:8080"}};
  const auto refusal = RefuseForeignOrigin(request, true);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("gpu-box:8080"));
  EXPECT_THAT(refusal->message, HasSubstr("--behind-proxy"));
}

}  // namespace
}  // namespace longhaul::service
