#include "service/http/http_request.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

TEST(FindHead, NeedsTheEmptyLineWherever) {
  const std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\nbody";
  const size_t head = text.size() - 4;
  for (size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const auto found = FindHead(std::string_view(text).substr(0, bytes), 0);
    EXPECT_EQ(found.has_value(), bytes >= head) << bytes;
    EXPECT_EQ(found.value_or(head), head);
  }
}

TEST(ParseHead, TakesARequestApart) {
  HttpRequest request;
  const auto refusal = ParseHead(
      "POST /v1/jobs/a%20b%2fc?after=7&x=%41+b&bare&after=9 HTTP/1.1\r\n"
      "Host: x\r\nAUTHORIZATION:  Bearer abc \r\nAccept: a\r\naccept: b\r\n"
      "Content-Length: 12\r\n\r\n",
      request);
  ASSERT_FALSE(refusal.has_value()) << refusal->message;
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/jobs/a b/c");
  EXPECT_EQ(request.query.at("after"), "7");
  EXPECT_EQ(request.query.at("x"), "A b");
  EXPECT_EQ(request.query.at("bare"), "");
  EXPECT_EQ(request.Header("authorization"), "Bearer abc");
  EXPECT_EQ(request.Header("accept"), "a, b");
  EXPECT_EQ(request.Header("absent"), "");
  EXPECT_EQ(request.body_bytes, 12u);
  EXPECT_TRUE(request.keep_alive);
}

TEST(ParseHead, TakesTheWholeAddressThatProxiesSend) {
  HttpRequest request;
  EXPECT_FALSE(ParseHead("GET http://host:80/metrics?a=b HTTP/1.1\r\n\r\n", request).has_value());
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.query.at("a"), "b");
}

TEST(ParseHead, KeepsNoConnectionThatTheClientWantsClosed) {
  for (const char* head :
       {"GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"}) {
    HttpRequest request;
    EXPECT_FALSE(ParseHead(head, request).has_value());
    EXPECT_FALSE(request.keep_alive) << head;
  }
}

TEST(ParseHead, RefusesWhatItMustNotGuessAbout) {
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 200; ++i) many += "A: b\r\n";
  const struct {
    std::string head;
    int status;
  } kRows[] = {
      {"\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\n\r\n", 400},
      {"G(T / HTTP/1.1\r\n\r\n", 400},
      {"GET nowhere HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/2\r\n\r\n", 505},
      {"GET /" + std::string(2000, 'x') + " HTTP/1.1\r\n\r\n", 414},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nSpace : x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 25), 400},
      {"GET / HTTP/1.1\r\nA: bare\nline\r\n\r\n", 400},
      {many + "\r\n", 431},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
  };
  for (const auto& row : kRows) {
    HttpRequest request;
    const auto refusal = ParseHead(row.head, request);
    ASSERT_TRUE(refusal.has_value()) << row.head.substr(0, 80);
    EXPECT_EQ(refusal->status, row.status) << row.head.substr(0, 80);
    EXPECT_FALSE(refusal->message.empty());
  }
}

TEST(MediaType, IsWithoutParametersAndInLowerCase) {
  EXPECT_EQ(MediaType("Application/JSON; charset=utf-8"), "application/json");
  EXPECT_EQ(MediaType(" text/plain "), "text/plain");
  EXPECT_EQ(MediaType(""), "");
}

}  // namespace
}  // namespace longhaul::service
