#include "io/net/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace longhaul::io {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A folder of its own for socket files.
class SocketFile : public testing::Test {
 protected:
  SocketFile() {
    std::string pattern = testing::TempDir() + "lh_socket_XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    path_ = folder_ + "/worker_api";
  }
  ~SocketFile() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  std::string folder_;
  std::string path_;
};

TEST(Tcp, CarriesBytesBothWaysOnAnEphemeralPort) {
  for (const std::string address : {"127.0.0.1", "::1"}) {
    auto listener = ListenTcp(address, 0);
    if (address == "::1" && !listener.ok()) continue;  // a machine without IPv6
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_NE(listener->port, 0);
    auto none = Accept(listener->fd);
    ASSERT_TRUE(none.ok());
    EXPECT_FALSE(none->has_value());

    auto client = ConnectTcp(address, listener->port);
    ASSERT_TRUE(client.ok()) << client.status();
    auto server = Accept(listener->fd);
    ASSERT_TRUE(server.ok() && server->has_value());
    EXPECT_EQ(*PeerAddress(**server), address);

    std::array<std::byte, 16> buffer{};
    auto empty = ReceiveSome(**server, buffer);
    ASSERT_TRUE(empty.ok());
    EXPECT_FALSE(empty->has_value()) << "an accepted connection must not block";
    EXPECT_EQ(*SendSome(**server, AsBytes("pong")), 4u);
    EXPECT_EQ(AsText(std::span(buffer).first(**ReceiveSome(*client, buffer))), "pong");
    client->Reset();
    // Loopback delivers the end of the stream before close returns.
    EXPECT_EQ(**ReceiveSome(**server, buffer), 0u);
  }
}

TEST(Tcp, NamesAPortThatIsInUse) {
  auto first = ListenTcp("127.0.0.1", 0);
  ASSERT_TRUE(first.ok());
  const Status second = ListenTcp("127.0.0.1", first->port).status();
  EXPECT_EQ(second.code(), Code::kAlreadyExists);
  EXPECT_NE(second.message().find("127.0.0.1:" + std::to_string(first->port)), std::string::npos);
}

TEST(Tcp, RefusesAnAddressThatIsNotNumeric) {
  EXPECT_EQ(ListenTcp("localhost", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ConnectTcp("", 1).status().code(), Code::kInvalidArgument);
}

TEST(Tcp, ConnectToAClosedPortIsUnavailable) {
  auto listener = ListenTcp("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  listener->fd.Reset();
  EXPECT_EQ(ConnectTcp("127.0.0.1", listener->port).status().code(), Code::kUnavailable);
}

TEST(UnixPair, KeepsMessageBorders) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("one")).ok());
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("two!")).ok());
  EXPECT_EQ(AsText((*ReceiveMessage(pair->second, 64))->bytes), "one");
  EXPECT_EQ(AsText((*ReceiveMessage(pair->second, 4))->bytes), "two!");
}

TEST(UnixPair, PassesDescriptorsCloseOnExec) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  Fd reader(pipe_fds[0]);
  Fd writer(pipe_fds[1]);
  const int sent[] = {writer.get()};
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("fd"), sent).ok());
  writer.Reset();

  auto message = ReceiveMessage(pair->second, 64);
  ASSERT_TRUE(message.ok() && message->has_value());
  ASSERT_EQ((*message)->fds.size(), 1u);
  EXPECT_NE(fcntl((*message)->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(write((*message)->fds[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 1);
}

TEST(UnixPair, AClosedPeerIsAMessageOfZeroBytes) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  // Unread data in the closing end makes the kernel say "reset" instead of "end".
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("never read")).ok());
  pair->second.Reset();
  auto message = ReceiveMessage(pair->first, 64);
  ASSERT_TRUE(message.ok()) << message.status();
  ASSERT_TRUE(message->has_value());
  EXPECT_TRUE((*message)->bytes.empty());
  EXPECT_EQ(SendMessage(pair->first, AsBytes("x")).code(), Code::kUnavailable);
}

// A worker that ends before it has read an order: its last message, the result, must arrive.
TEST(UnixPair, MessagesOfAPeerThatClosedWithoutReadingOursAreRead) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok()) << pair.status();
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("order")).ok());
  ASSERT_TRUE(SendMessage(pair->second, AsBytes("result")).ok());
  pair->second.Reset();
  const auto result = ReceiveMessage(pair->first, 100);
  ASSERT_TRUE(result.ok() && result->has_value()) << result.status();
  EXPECT_EQ(AsText((*result)->bytes), "result");
  const auto end = ReceiveMessage(pair->first, 100);
  ASSERT_TRUE(end.ok() && end->has_value()) << end.status();
  EXPECT_TRUE((*end)->bytes.empty());
}

TEST(UnixPair, DropsAMessageOverTheLimitAndGoesOn) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("12345")).ok());
  ASSERT_TRUE(SendMessage(pair->first, AsBytes("ok")).ok());
  EXPECT_EQ(ReceiveMessage(pair->second, 4).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(AsText((*ReceiveMessage(pair->second, 4))->bytes), "ok");
}

TEST(UnixPair, CarriesTheWorkerApisLargestMessage) {
  auto pair = UnixPair();
  ASSERT_TRUE(pair.ok());
  const std::string large(128 * 1024, 'x');
  ASSERT_TRUE(SendMessage(pair->first, AsBytes(large)).ok());
  EXPECT_EQ((*ReceiveMessage(pair->second, large.size()))->bytes.size(), large.size());
  const std::string huge(64 << 20, 'x');
  EXPECT_EQ(SendMessage(pair->first, AsBytes(huge)).code(), Code::kInvalidArgument);
}

TEST_F(SocketFile, ListensForItsUserOnly) {
  auto listener = ListenUnix(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat facts {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);

  auto client = ConnectUnix(path_);
  ASSERT_TRUE(client.ok()) << client.status();
  auto server = Accept(*listener);
  ASSERT_TRUE(server.ok() && server->has_value());
  auto nothing = ReceiveMessage(**server, 64);
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->has_value());
  ASSERT_TRUE(SendMessage(*client, AsBytes("hello")).ok());
  EXPECT_EQ(AsText((*ReceiveMessage(**server, 64))->bytes), "hello");
}

TEST_F(SocketFile, ReplacesAStaleSocketButNotAFile) {
  ASSERT_TRUE(ListenUnix(path_).ok());  // closed at once; the file stays
  ASSERT_TRUE(ListenUnix(path_).ok());
  unlink(path_.c_str());
  Fd file(open(path_.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(ListenUnix(path_).status().code(), Code::kAlreadyExists);
}

TEST_F(SocketFile, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(ConnectUnix(path_).status().code(), Code::kNotFound);
  EXPECT_EQ(ListenUnix(std::string(108, 'x')).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ListenUnix("").status().code(), Code::kInvalidArgument);
}

TEST(Socket, ResolvesNamesAndKeepsNumericAddresses) {
  EXPECT_EQ(*ResolveHost("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*ResolveHost("::1"), "::1");
  EXPECT_EQ(*ResolveHost("localhost"), "127.0.0.1");
  const auto none = ResolveHost("no host has blanks");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("no host has blanks"), std::string::npos);
}

TEST(Socket, KnowsItsOwnAddressOnTheWayToAnother) {
  EXPECT_EQ(*LocalAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_FALSE(LocalAddressTowards("localhost").ok()) << "numeric addresses only";
}

}  // namespace
}  // namespace longhaul::io
