#include "runtime/rendezvous/store_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>

#include "io/clock.h"
#include "runtime/rendezvous/client_bytes.h"

namespace longhaul::runtime {
namespace {

using namespace std::chrono_literals;

class Server : public testing::Test {
 protected:
  Server() : loop_(std::move(io::EventLoop::Create()).value()) {}

  void Listen(StoreServerOptions options = {}) {
    options.on_hang_up = [this](const Status& reason) { hang_ups_.push_back(reason); };
    auto server = StoreServer::Listen(*loop_, "127.0.0.1", 0, std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
  }
  io::Fd Connect() {
    io::Fd fd = std::move(io::ConnectTcp("127.0.0.1", server_->port())).value();
    CHECK(fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
    return fd;
  }
  // Runs the loop until the client has `bytes` bytes, or nullopt when the server has hung up.
  std::optional<std::string> Read(const io::Fd& client, size_t bytes) {
    std::string text;
    std::vector<std::byte> buffer(64 * 1024);
    const Instant give_up = io::MonotonicNow() + 10s;
    Duration wait = 1ms;
    while (text.size() < bytes && io::MonotonicNow() < give_up) {
      loop_->RunOnce(wait);
      const auto got = io::ReceiveSome(client, buffer);
      if (!got.ok() || *got == size_t{0}) return std::nullopt;
      wait = got->has_value() ? 0ms : 1ms;
      text.append(reinterpret_cast<const char*>(buffer.data()), got->value_or(0));
    }
    return text;
  }
  void Send(const io::Fd& client, std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = io::SendSome(client, AsBytes(bytes));
      ASSERT_TRUE(sent.ok()) << sent.status();
      bytes.remove_prefix(*sent);
      if (!bytes.empty()) loop_->RunOnce(0ms);
    }
  }

  std::unique_ptr<io::EventLoop> loop_;
  std::unique_ptr<StoreServer> server_;
  std::vector<Status> hang_ups_;
};

const std::string kZero(1, '\0');

TEST_F(Server, AnswersAWaitWhenAnotherClientSets) {
  Listen();
  const io::Fd waiter = Connect();
  const io::Fd setter = Connect();
  Send(waiter, ListRequestBytes(5, 1, {"/k"}));
  Send(setter, RequestBytes(2, {"/k"}));
  EXPECT_EQ(Read(setter, 8), TextBytes(""));
  Send(setter, RequestBytes(0, {"/k", "v"}));
  EXPECT_EQ(Read(waiter, 1), kZero);
  EXPECT_TRUE(hang_ups_.empty());
}

// Far more than a socket's buffers hold: the server must wait for the client, not spin or drop.
TEST_F(Server, SendsAnAnswerLargerThanTheSocketsBuffer) {
  Listen();
  const io::Fd client = Connect();
  const std::string value(8 << 20, 'v');
  Send(client, RequestBytes(0, {"/k", value}));
  for (int i = 0; i < 3; ++i) Send(client, RequestBytes(2, {"/k"}));
  const std::optional<std::string> answers = Read(client, 3 * (8 + value.size()));
  ASSERT_TRUE(answers.has_value());
  EXPECT_TRUE(*answers == TextBytes(value) + TextBytes(value) + TextBytes(value));
}

TEST_F(Server, HangsUpOnAClientThatBreaksTheProtocolAndOnNobodyElse) {
  Listen();
  const io::Fd good = Connect();
  const io::Fd bad = Connect();
  Send(bad, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(Read(bad, 1), std::nullopt);
  ASSERT_EQ(hang_ups_.size(), 1u);
  EXPECT_EQ(hang_ups_[0].code(), Code::kInvalidArgument);
  Send(good, RequestBytes(3, {"init/"}) + NumberBytes(int64_t{1}));
  EXPECT_EQ(Read(good, 8), NumberBytes(int64_t{1}));
}

TEST_F(Server, ForgetsAClientThatLeaves) {
  Listen();
  {
    const io::Fd client = Connect();
    Send(client, ListRequestBytes(5, 1, {"/k"}));
    while (server_->store().connections() == 0) loop_->RunOnce(1s);
  }
  while (server_->store().connections() > 0) loop_->RunOnce(1s);
  EXPECT_EQ(server_->store().memory(), Bytes(0));
  EXPECT_TRUE(hang_ups_.empty());
}

TEST_F(Server, KeepsItsLimitOfConnections) {
  StoreServerOptions options;
  options.connections = 1;
  Listen(options);
  const io::Fd first = Connect();
  Send(first, RequestBytes(6, {}));
  EXPECT_EQ(Read(first, 8), NumberBytes(int64_t{0}));
  const io::Fd second = Connect();
  EXPECT_EQ(Read(second, 1), std::nullopt);
  ASSERT_EQ(hang_ups_.size(), 1u);
  EXPECT_EQ(hang_ups_[0].code(), Code::kResourceExhausted);
}

TEST_F(Server, TakesOnlyTheAddressesItIsGiven) {
  StoreServerOptions options;
  options.allowed_addresses = {"192.0.2.1"};
  Listen(options);
  const io::Fd stranger = Connect();
  EXPECT_EQ(Read(stranger, 1), std::nullopt);
  ASSERT_EQ(hang_ups_.size(), 1u);
  EXPECT_EQ(hang_ups_[0].code(), Code::kPermissionDenied);

  options.allowed_addresses = {"192.0.2.1", "127.0.0.1"};
  Listen(options);
  const io::Fd node = Connect();
  Send(node, RequestBytes(6, {}));
  EXPECT_EQ(Read(node, 8), NumberBytes(int64_t{0}));
}

TEST_F(Server, ItsDestructorClosesThePortAndAllConnections) {
  Listen();
  const io::Fd client = Connect();
  Send(client, RequestBytes(6, {}));
  EXPECT_TRUE(Read(client, 8).has_value());
  const uint16_t port = server_->port();
  server_.reset();
  EXPECT_EQ(Read(client, 1), std::nullopt);
  EXPECT_EQ(io::ConnectTcp("127.0.0.1", port).status().code(), Code::kUnavailable);
}

TEST_F(Server, NamesAPortThatIsInUse) {
  Listen();
  const auto second = StoreServer::Listen(*loop_, "127.0.0.1", server_->port());
  EXPECT_EQ(second.status().code(), Code::kAlreadyExists);
}

}  // namespace
}  // namespace longhaul::runtime
