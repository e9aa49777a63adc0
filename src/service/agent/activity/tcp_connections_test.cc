#include "service/agent/activity/tcp_connections.h"

#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>

#include "io/fd.h"

namespace longhaul::service {
namespace {

template <typename Value>
void Append(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A message of the kernel about a connection to 10.0.0.2.
std::string Message(uint32_t inode, uint64_t bytes, uint64_t busy_us, size_t info_size) {
  inet_diag_msg message{};
  message.idiag_family = AF_INET;
  message.idiag_inode = inode;
  const unsigned char address[4] = {10, 0, 0, 2};
  std::memcpy(message.id.idiag_dst, address, sizeof(address));
  tcp_info info{};
  info.tcpi_bytes_acked = bytes;
  info.tcpi_bytes_received = bytes * 2;
  info.tcpi_busy_time = busy_us;
  info.tcpi_rwnd_limited = busy_us / 4;
  rtattr attribute{};
  attribute.rta_type = INET_DIAG_INFO;
  attribute.rta_len = static_cast<unsigned short>(sizeof(attribute) + info_size);
  std::string body;
  Append(body, message);
  Append(body, attribute);
  body.append(reinterpret_cast<const char*>(&info), info_size);
  body.resize(NLMSG_ALIGN(body.size()));
  nlmsghdr header{};
  header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  header.nlmsg_len = static_cast<uint32_t>(sizeof(header) + body.size());
  std::string whole;
  Append(whole, header);
  return whole + body;
}

std::string End() {
  nlmsghdr header{};
  header.nlmsg_type = NLMSG_DONE;
  header.nlmsg_len = sizeof(header);
  std::string whole;
  Append(whole, header);
  return whole;
}

TEST(TakeSocketMessages, ReadsTheCountsOfEachConnection) {
  TcpConnections connections;
  EXPECT_FALSE(TakeSocketMessages(Message(7, 1'000, 80, sizeof(tcp_info)), connections));
  EXPECT_TRUE(TakeSocketMessages(Message(8, 5, 4, sizeof(tcp_info)) + End(), connections));
  ASSERT_EQ(connections.size(), 2u);
  EXPECT_EQ(connections[7].address, "10.0.0.2");
  EXPECT_EQ(connections[7].bytes_acknowledged, 1'000u);
  EXPECT_EQ(connections[7].bytes_received, 2'000u);
  EXPECT_EQ(connections[7].busy_us, 80u);
  EXPECT_EQ(connections[7].receiver_limited_us, 20u);
}

TEST(TakeSocketMessages, AnOlderKernelWithoutTheTimesIsLeftOut) {
  TcpConnections connections;
  const size_t short_info = offsetof(tcp_info, tcpi_busy_time);
  EXPECT_TRUE(TakeSocketMessages(Message(7, 1'000, 80, short_info) + End(), connections));
  EXPECT_TRUE(connections.empty());
}

TEST(TakeSocketMessages, AnyBytesEndWithoutACrash) {
  const std::string whole = Message(7, 1'000, 80, sizeof(tcp_info)) + End();
  for (size_t size = 0; size <= whole.size(); ++size) {
    TcpConnections connections;
    (void)TakeSocketMessages(whole.substr(0, size), connections);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 4; ++j) damaged[random() % damaged.size()] = static_cast<char>(random());
    TcpConnections connections;
    (void)TakeSocketMessages(damaged, connections);
  }
}

TcpCounts Counts(const std::string& address, uint64_t bytes, uint64_t busy, uint64_t limited) {
  return {address, bytes, 2 * bytes, busy, limited};
}

TEST(BytesOf, SumsBothDirectionsOfOpenConnections) {
  const TcpConnections connections = {{1, Counts("a", 100, 10, 1)}, {2, Counts("b", 7, 0, 0)}};
  EXPECT_EQ(BytesOf({1, 2, 3}, connections), 321u);
  EXPECT_EQ(BytesOf({}, connections), 0u);
}

TEST(SharesNetwork, IsTrueOfThisProcessAndFalseOfNone) {
  EXPECT_TRUE(SharesNetwork(getpid()));
  EXPECT_FALSE(SharesNetwork(999'999'999));
}

TEST(SentBetween, SumsTheConnectionsOfAnAddress) {
  const TcpConnections before = {{1, Counts("a", 100, 10, 1)}, {2, Counts("a", 0, 0, 0)}};
  const TcpConnections after = {{1, Counts("a", 300, 30, 4)},
                                {2, Counts("a", 50, 5, 0)},
                                {3, Counts("b", 7, 1, 0)},
                                {4, Counts("c", 9, 1, 0)}};
  const auto sent = SentBetween({1, 2, 3}, before, after);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].address(), "a");
  EXPECT_EQ(sent[0].bytes(), 250u);
  EXPECT_EQ(sent[0].busy_ns(), 25'000);
  EXPECT_EQ(sent[0].receiver_limited_ns(), 3'000);
  EXPECT_EQ(sent[1].bytes(), 7u) << "it was opened in between";
}

TEST(SentBetween, WhatIsClosedOrCountsAnewIsLeftOut) {
  const TcpConnections before = {{1, Counts("a", 100, 10, 1)}, {2, Counts("a", 100, 10, 1)}};
  const TcpConnections after = {{2, Counts("a", 50, 20, 2)}};
  EXPECT_TRUE(SentBetween({1, 2}, before, after).empty());
}

// A connection of this process to itself over an address of this machine that is not a loopback
// address would need one; so the loopback network is only tested to be left out.
TEST(ReadTcpConnections, LeavesOutTheLoopbackNetwork) {
  const io::Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const io::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  struct stat facts {};
  ASSERT_EQ(fstat(client.get(), &facts), 0);
  EXPECT_TRUE(SocketsOf(getpid()).contains(facts.st_ino));
  const Result<TcpConnections> connections = ReadTcpConnections();
  ASSERT_TRUE(connections.ok()) << connections.status();
  EXPECT_FALSE(connections->contains(facts.st_ino));
}

TEST(SocketsOf, AProcessThatHasEndedHasNone) { EXPECT_TRUE(SocketsOf(999'999'999).empty()); }

}  // namespace
}  // namespace longhaul::service
