// The transport against servers on this machine that answer, refuse, stall and hang up.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "objects/store.h"

namespace longhaul::objects {
namespace {

// One connection, as a server has it.
class Peer {
 public:
  explicit Peer(int socket) : socket_(socket) {}

  // The next request's head, without its body; empty when the client has gone.
  std::string Head() {
    for (;;) {
      const size_t end = read_.find("\r\n\r\n");
      if (end != std::string::npos) {
        std::string head = read_.substr(0, end + 4);
        read_.erase(0, end + 4);
        return head;
      }
      if (!More()) return "";
    }
  }
  std::string Body(size_t bytes) {
    while (read_.size() < bytes && More()) continue;
    std::string body = read_.substr(0, bytes);
    read_.erase(0, body.size());
    return body;
  }
  void Send(const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t now = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return;
      sent += static_cast<size_t>(now);
    }
  }
  void Answer(int status, const std::string& body) {
    Send("HTTP/1.1 " + std::to_string(status) + " Said\r\nETag: \"x\"\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  }

 private:
  bool More() {
    char part[65536];
    const ssize_t got = recv(socket_, part, sizeof(part), 0);
    if (got > 0) read_.append(part, static_cast<size_t>(got));
    return got > 0;
  }

  const int socket_;
  std::string read_;
};

// Gives each connection to `serve` on a thread of its own, and closes it when that returns.
class Server {
 public:
  explicit Server(std::function<void(Peer&)> serve) : serve_(std::move(serve)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    CHECK(listen(listener_, 64) == 0);
    CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  // Requires that the clients have gone.
  ~Server() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    for (std::thread& thread : connections_) thread.join();
  }

  StoreOptions Options() const {
    StoreOptions options;
    options.scheme = "http";
    options.host = "127.0.0.1:" + std::to_string(port_);
    return options;
  }
  size_t accepted() const { return accepted_; }

 private:
  void Accept() {
    for (;;) {
      const int socket = accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      ++accepted_;
      connections_.emplace_back([this, socket] {
        Peer peer(socket);
        serve_(peer);
        close(socket);
      });
    }
  }

  const std::function<void(Peer&)> serve_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<size_t> accepted_ = 0;
  std::thread acceptor_;
  std::vector<std::thread> connections_;
};

Outgoing Get() {
  Outgoing request;
  request.method = "GET";
  request.target = "/bucket/key";
  request.limit = 1 << 20;
  return request;
}

Outgoing Put(const std::string& body) {
  Outgoing request = Get();
  request.method = "PUT";
  request.body = std::as_bytes(std::span(body));
  return request;
}

constexpr const char* kRefusal = "<Error><Code>InvalidBucketName</Code></Error>";

TEST(HttpTransport, SendsARequestAsItIsAndGivesTheAnswer) {
  std::string head, body;
  {
    Server server([&](Peer& peer) {
      head = peer.Head();
      body = peer.Body(5);
      peer.Answer(200, "fine");
    });
    const auto transport = HttpTransport(server.Options());
    const std::string sent = "hello";
    Outgoing request = Put(sent);
    request.target = "/bucket/a%20b/../c?x=%2F&y=";
    request.headers = {{"host", "store.test"}, {"x-amz-date", "today"}};
    const Result<Answer> answer = transport->Send(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->headers.at("etag"), "\"x\"");
    EXPECT_EQ(answer->body, "fine");
  }
  EXPECT_TRUE(head.starts_with("PUT /bucket/a%20b/../c?x=%2F&y= HTTP/1.1\r\n")) << head;
  EXPECT_NE(head.find("Host: store.test\r\n"), std::string::npos) << head;
  EXPECT_NE(head.find("Content-Length: 5\r\n"), std::string::npos) << head;
  EXPECT_EQ(head.find("Content-Type"), std::string::npos) << head;
  EXPECT_EQ(body, "hello");
}

// The server sends an error status before it has read the whole body, and closes the connection.
TEST(HttpTransport, ARefusalWhileTheBodyIsSentIsTheServersOwn) {
  Server server([](Peer& peer) {
    if (!peer.Head().empty()) peer.Answer(400, kRefusal);
  });
  {
    const auto transport = HttpTransport(server.Options());
    for (const size_t bytes : {100u << 10, 900u << 10, 16u << 20}) {
      const std::string body(bytes, 'x');
      const Result<Answer> answer = transport->Send(Put(body));
      ASSERT_TRUE(answer.ok()) << bytes << ": " << answer.status();
      EXPECT_EQ(answer->status, 400) << bytes;
      EXPECT_EQ(answer->body, kRefusal) << bytes;
    }
  }
}

// Its answer may be lost with the connection: then it is asked before the body is sent.
TEST(HttpTransport, ARefusalThatWasLostIsAskedForAgain) {
  std::atomic<int> lost = 0;
  Server server([&](Peer& peer) {
    const std::string head = peer.Head();
    if (head.empty()) return;
    if (head.find("Expect: 100-continue") == std::string::npos) {
      ++lost;
      return;
    }
    peer.Answer(400, kRefusal);
  });
  {
    const auto transport = HttpTransport(server.Options());
    const std::string body(500u << 10, 'x');
    const Result<Answer> answer = transport->Send(Put(body));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 400);
    EXPECT_EQ(answer->body, kRefusal);
  }
  EXPECT_EQ(lost, 1);
}

// Each answer is held back until all requests are there.
TEST(HttpTransport, RequestsAtTheSameTimeHaveConnectionsOfTheirOwn) {
  constexpr int kRequests = 4;
  std::mutex mutex;
  std::condition_variable changed;
  int there = 0;
  Server server([&](Peer& peer) {
    while (!peer.Head().empty()) {
      {
        std::unique_lock lock(mutex);
        ++there;
        changed.notify_all();
        changed.wait(lock, [&] { return there >= kRequests; });
      }
      peer.Answer(200, "");
    }
  });
  {
    StoreOptions options = server.Options();
    options.connections = kRequests;
    const auto transport = HttpTransport(options);
    std::vector<std::thread> threads;
    std::atomic<int> good = 0;
    for (int i = 0; i < kRequests; ++i) {
      threads.emplace_back([&] {
        for (int each = 0; each < 5; ++each) good += transport->Send(Get()).ok() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good, 5 * kRequests);
  }
  EXPECT_EQ(server.accepted(), static_cast<size_t>(kRequests)) << "they stay open";
}

TEST(HttpTransport, NoMoreConnectionsThanAllowedAreOpen) {
  std::atomic<int> now = 0, most = 0;
  Server server([&](Peer& peer) {
    const int open = ++now;
    int seen = most;
    while (open > seen && !most.compare_exchange_weak(seen, open)) continue;
    while (!peer.Head().empty()) peer.Answer(200, "");
    --now;
  });
  {
    StoreOptions options = server.Options();
    options.connections = 2;
    const auto transport = HttpTransport(options);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        for (int each = 0; each < 20; ++each) EXPECT_TRUE(transport->Send(Get()).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(most, 2);
}

TEST(HttpTransport, AConnectionThatEndsInMidBodyIsNoAnswer) {
  Server server([](Peer& peer) {
    if (!peer.Head().empty()) peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
  });
  {
    const auto transport = HttpTransport(server.Options());
    std::vector<std::byte> room(1000);
    Outgoing request = Get();
    EXPECT_EQ(transport->Send(request).status().code(), Code::kUnavailable);
    request.into = room;
    const Status cut = transport->Send(request).status();
    EXPECT_EQ(cut.code(), Code::kUnavailable);
    EXPECT_NE(cut.message().find("no answer from http://127.0.0.1:"), std::string::npos) << cut;
  }
}

TEST(HttpTransport, AServerThatStallsIsGivenUp) {
  Server server([](Peer& peer) {
    if (peer.Head().empty()) return;
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    (void)peer.Head();  // until the client goes
  });
  {
    StoreOptions options = server.Options();
    options.stall_timeout = std::chrono::seconds(1);
    const auto transport = HttpTransport(options);
    const Status stalled = transport->Send(Get()).status();
    EXPECT_EQ(stalled.code(), Code::kUnavailable) << stalled;
    EXPECT_NE(stalled.message().find("too slow"), std::string::npos) << stalled;
  }
}

// It was open for the next request, and the server has closed it since.
TEST(HttpTransport, AConnectionThatWasClosedMeanwhileIsReplaced) {
  Server server([](Peer& peer) {
    const std::string head = peer.Head();
    if (head.empty()) return;
    if (head.starts_with("PUT")) (void)peer.Body(5);
    peer.Answer(200, "once");
  });
  {
    StoreOptions options = server.Options();
    options.connections = 1;
    const auto transport = HttpTransport(options);
    const std::string body = "hello";
    for (int i = 0; i < 20; ++i) {
      const Result<Answer> answer = transport->Send(i % 2 == 0 ? Get() : Put(body));
      ASSERT_TRUE(answer.ok()) << answer.status();
    }
  }
}

TEST(HttpTransport, ABodyGoesWhereItIsWantedAndARefusalBeside) {
  Server server([](Peer& peer) {
    for (std::string head = peer.Head(); !head.empty(); head = peer.Head()) {
      if (head.starts_with("GET /there")) {
        peer.Answer(206, "0123456789");
      } else {
        peer.Answer(404, kRefusal);
      }
    }
  });
  {
    const auto transport = HttpTransport(server.Options());
    std::string room(10, '.');
    Outgoing request = Get();
    request.into = std::as_writable_bytes(std::span(room));
    EXPECT_EQ(transport->Send(request)->body, kRefusal);
    EXPECT_EQ(room, "..........");
    request.target = "/there";
    const Result<Answer> answer = transport->Send(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->received, 10u);
    EXPECT_EQ(room, "0123456789");
    request.into = request.into.first(9);
    EXPECT_EQ(transport->Send(request).status().code(), Code::kResourceExhausted);
    request.into = {};
    request.limit = 9;
    EXPECT_EQ(transport->Send(request).status().code(), Code::kResourceExhausted);
  }
}

TEST(HttpTransport, NobodyThereIsSaid) {
  StoreOptions options;
  {
    Server server([](Peer&) {});
    options = server.Options();
  }
  const Status none = HttpTransport(options)->Send(Get()).status();
  EXPECT_EQ(none.code(), Code::kUnavailable);
  EXPECT_NE(none.message().find("no answer from http://127.0.0.1:"), std::string::npos) << none;
}

}  // namespace
}  // namespace longhaul::objects
