#include "service/http/http_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"

namespace longhaul::service {
namespace {

// Answers with what it was sent; a stream counts up to three parts.
class Echo : public HttpHandler {
 public:
  std::optional<HttpAnswer> Admit(const HttpRequest& request) override {
    if (request.Header("authorization") == "no") return HttpAnswer{401, {}, "refused", nullptr};
    return std::nullopt;
  }
  HttpAnswer Handle(const HttpRequest& request) override {
    HttpAnswer answer;
    if (request.path == "/large") {
      answer.body = std::string(4 << 20, 'x');
    } else if (request.path == "/stream") {
      answer.stream = std::make_shared<Counter>();
    } else {
      answer.body = request.method + " " + request.path + " " + request.body;
    }
    return answer;
  }
  HttpAnswer Refuse(const HttpRefusal& refusal, const std::string&) override {
    return HttpAnswer{refusal.status, {}, refusal.message, nullptr};
  }

 private:
  class Counter : public HttpStream {
   public:
    Part Next() override { return {std::to_string(++count_) + "\n", count_ == 3}; }

   private:
    int count_ = 0;
  };
};

class HttpServerTest : public testing::Test {
 protected:
  // Nothing runs out of time during a test.
  HttpServerTest() {
    limits_.head_time = limits_.body_time = limits_.idle_time = limits_.send_time =
        std::chrono::hours(1);
    limits_.threads = 2;
  }

  void Start() {
    auto server = HttpServer::Start("127.0.0.1", 0, limits_, echo_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  io::Fd Connect() {
    auto socket = io::ConnectTcp("127.0.0.1", server_->port());
    CHECK(socket.ok()) << socket.status().message();
    return *std::move(socket);
  }

  static void Write(const io::Fd& socket, const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t some =
          ::send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return;  // closed by the server: what it has said shows why
      sent += static_cast<size_t>(some);
    }
  }

  static std::string ReadToEnd(const io::Fd& socket) {
    std::string text;
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) return text;
      text.append(buffer.data(), static_cast<size_t>(got));
    }
  }

  // A whole exchange on a connection of its own.
  std::string Ask(const std::string& head, const std::string& body = "") {
    const io::Fd socket = Connect();
    Write(socket, head + "\r\nConnection: close\r\n\r\n" + body);
    return ReadToEnd(socket);
  }

  HttpLimits limits_;
  Echo echo_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
  Start();
  const io::Fd socket = Connect();
  // The second request arrives with the first one's body, and the last one in single bytes.
  Write(socket, "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyzGET /b HTTP/1.1\r\n\r\n");
  for (const char c : std::string("GET /c HTTP/1.1\r\nConnection: close\r\n\r\n")) {
    Write(socket, std::string(1, c));
  }
  const std::string answers = ReadToEnd(socket);
  const size_t first = answers.find("POST /a xyz");
  const size_t second = answers.find("GET /b ");
  const size_t third = answers.find("GET /c ");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, answers.size());
}

// Far more connections than threads, some of which have begun a request that they never end.
TEST_F(HttpServerTest, AnswersWhateverTheNumberOfIdleConnections) {
  Start();
  std::vector<io::Fd> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(Connect());
    if (i % 2 == 0) Write(idle.back(), "GET /v1/jobs HTTP/1.1\r\nHost: ");
    if (i % 3 == 0) Write(idle.back(), "x\r\nX-Slow: ");
  }
  EXPECT_NE(Ask("GET /alive HTTP/1.1").find("GET /alive"), std::string::npos);
  EXPECT_EQ(server_->connections() >= 200, true);
}

TEST_F(HttpServerTest, ClosesTheLongestWaitingConnectionWhereThePlacesAreTaken) {
  limits_.connections = limits_.connections_per_peer = 8;
  Start();
  std::vector<io::Fd> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(Connect());
  EXPECT_NE(Ask("GET /alive HTTP/1.1").find("GET /alive"), std::string::npos);
  EXPECT_LE(server_->connections(), 8u);
  EXPECT_EQ(ReadToEnd(idle.front()), "") << "the oldest is closed";
}

TEST_F(HttpServerTest, ClosesAConnectionWithoutARequestAfterItsTime) {
  limits_.head_time = std::chrono::milliseconds(1);
  Start();
  EXPECT_EQ(ReadToEnd(Connect()), "");
}

TEST_F(HttpServerTest, TellsAClientWhoseBodyIsTooSlow) {
  limits_.body_time = std::chrono::milliseconds(1);
  Start();
  const io::Fd socket = Connect();
  Write(socket, "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(ReadToEnd(socket).starts_with("HTTP/1.1 408 Request Timeout\r\n"));
}

TEST_F(HttpServerTest, RefusesBeforeTheBodyArrives) {
  limits_.body_bytes = 100;
  Start();
  const struct {
    const char* head;
    const char* status;
  } kRows[] = {
      {"POST / HTTP/1.1\r\nAuthorization: no\r\nContent-Length: 50", "401"},
      {"POST / HTTP/1.1\r\nContent-Length: 101", "413"},
      {"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615", "413"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked", "411"},
      {"nonsense", "400"},
  };
  for (const auto& row : kRows) {
    EXPECT_TRUE(Ask(row.head).starts_with("HTTP/1.1 " + std::string(row.status))) << row.head;
  }
}

TEST_F(HttpServerTest, RefusesAHeadWithoutEnd) {
  Start();
  const std::string answer = Ask("GET / HTTP/1.1\r\nX: " + std::string(limits_.head_bytes, 'x'));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 431 ")) << answer.substr(0, 60);
}

TEST_F(HttpServerTest, LetsAClientAskBeforeItSendsABody) {
  Start();
  const io::Fd socket = Connect();
  Write(socket,
        "POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
        "Connection: close\r\n\r\n");
  std::array<char, 25> go{};
  ASSERT_EQ(::recv(socket.get(), go.data(), go.size(), MSG_WAITALL), 25);
  EXPECT_EQ(std::string(go.data(), go.size()), "HTTP/1.1 100 Continue\r\n\r\n");
  Write(socket, "ab");
  EXPECT_TRUE(ReadToEnd(socket).ends_with("POST /x ab"));
}

TEST_F(HttpServerTest, SendsLargeAnswersToSlowReadersWithoutAThread) {
  Start();
  std::vector<io::Fd> readers;
  for (size_t i = 0; i < 4 * limits_.threads; ++i) {
    readers.push_back(Connect());
    Write(readers.back(), "GET /large HTTP/1.1\r\nConnection: close\r\n\r\n");
  }
  EXPECT_NE(Ask("GET /alive HTTP/1.1").find("GET /alive"), std::string::npos);
  for (const io::Fd& reader : readers) EXPECT_GT(ReadToEnd(reader).size(), size_t{4} << 20);
}

TEST_F(HttpServerTest, StreamsPartsInChunks) {
  Start();
  EXPECT_TRUE(Ask("GET /stream HTTP/1.1")
                  .ends_with("\r\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n2\r\n3\n\r\n0\r\n\r\n"));
  EXPECT_TRUE(Ask("GET /stream HTTP/1.0").ends_with("\r\n\r\n1\n2\n3\n"));
}

TEST_F(HttpServerTest, AnswersAHeadRequestWithoutABody) {
  Start();
  EXPECT_TRUE(Ask("HEAD /x HTTP/1.1").ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, SaysThatAPortIsTaken) {
  Start();
  const Status status = HttpServer::Start("127.0.0.1", server_->port(), limits_, echo_).status();
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
}

TEST_F(HttpServerTest, StopsWithOpenConnections) {
  Start();
  const io::Fd idle = Connect();
  server_->Stop();
  server_->Stop();
  EXPECT_EQ(ReadToEnd(idle), "");
}

}  // namespace
}  // namespace longhaul::service
