#include "runtime/controller/job/hang/slow_links.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class LinkRatesTest : public testing::Test {
 protected:
  void Look() { rates_.Begin(); }
  // What a node has sent to an address within 2 s.
  void Sent(const std::string& node, const std::string& address, uint64_t bytes, int64_t busy_ns,
            int64_t limited_ns = 0) {
    proto::WorkersSampled answer;
    answer.set_period_ns(2 * kSecond);
    auto* connection = answer.add_connections();
    connection->set_address(address);
    connection->set_bytes(bytes);
    connection->set_busy_ns(busy_ns);
    connection->set_receiver_limited_ns(limited_ns);
    rates_.Take(node, answer, {{"10.0.0.1", "a"}, {"10.0.0.2", "b"}, {"10.0.0.3", "c"}});
  }
  void UsuallySent(const std::string& node, const std::string& address, uint64_t bytes) {
    Look();
    Sent(node, address, bytes, kSecond);
    rates_.Learn();
    Look();
  }

  LinkRates rates_;
};

TEST_F(LinkRatesTest, ALinkThatCarriesLessThanHalfOfWhatIsUsualIsSlow) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  Sent("a", "10.0.0.2", 51'000'000, kSecond);
  EXPECT_TRUE(rates_.Slow().empty());
  Look();
  Sent("a", "10.0.0.2", 49'000'000, kSecond);
  ASSERT_EQ(rates_.Slow().size(), 1u);
  EXPECT_EQ(rates_.Slow()[0].link, (Link{"a", "b"}));
  EXPECT_DOUBLE_EQ(rates_.Slow()[0].rate, 49e6);
  EXPECT_DOUBLE_EQ(rates_.Slow()[0].usual, 100e6);
}

TEST_F(LinkRatesTest, AReceiverThatHasNoRoomIsNoSlowLink) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  Sent("a", "10.0.0.2", 10'000'000, kSecond, kSecond * 9 / 10);
  EXPECT_TRUE(rates_.Slow().empty());
}

TEST_F(LinkRatesTest, ADirectionIsALinkOfItsOwn) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  Sent("b", "10.0.0.1", 1'000'000, kSecond);
  EXPECT_TRUE(rates_.Slow().empty()) << "nothing is known of it";
}

TEST_F(LinkRatesTest, ALinkThatIsSeldomBusyDelaysNobody) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  Sent("a", "10.0.0.2", 1'000'000, kSecond / 10);
  EXPECT_TRUE(rates_.Slow().empty());
}

TEST_F(LinkRatesTest, WhatIsNoRateIsLeftOut) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  Sent("a", "10.0.0.2", 1'000, kSecond);
  Sent("a", "10.0.0.9", 1'000'000, kSecond);
  Sent("a", "10.0.0.1", 1'000'000, kSecond);
  Sent("a", "10.0.0.2", 1'000'000, kSecond, 2 * kSecond);
  proto::WorkersSampled answer;
  answer.add_connections()->set_address("10.0.0.2");
  answer.mutable_connections(0)->set_bytes(1'000'000);
  answer.mutable_connections(0)->set_busy_ns(kSecond);
  rates_.Take("a", answer, {{"10.0.0.2", "b"}});
  EXPECT_TRUE(rates_.Slow().empty());
}

TEST_F(LinkRatesTest, WhatIsUsualFollowsLaterLooks) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  for (int i = 0; i < 20; ++i) UsuallySent("a", "10.0.0.2", 20'000'000);
  Sent("a", "10.0.0.2", 15'000'000, kSecond);
  EXPECT_TRUE(rates_.Slow().empty());
}

TEST_F(LinkRatesTest, OfAPairTheDirectionCountsThatHasBecomeSlowerByMore) {
  UsuallySent("a", "10.0.0.2", 100'000'000);
  UsuallySent("b", "10.0.0.1", 100'000'000);
  Sent("a", "10.0.0.2", 20'000'000, kSecond);
  Sent("b", "10.0.0.1", 10'000'000, kSecond);
  ASSERT_EQ(rates_.Slow().size(), 1u);
  EXPECT_EQ(rates_.Slow()[0].link, (Link{"b", "a"}));
}

TEST(DescribeLinks, NamesTheNodeThatAllHaveInCommon) {
  const SlowLink one{{"a", "c"}, 1e6, 8e7}, other{{"b", "c"}, 1e6, 8e7},
      third{{"d", "b"}, 1e6, 8e7};
  const std::string rates =
      "from a it carries 976.56 KiB/s while it sends, and usually 76.29 MiB/s";
  EXPECT_EQ(Describe(std::vector<SlowLink>{one}),
            "the connection between a and c is slow: " + rates);
  EXPECT_EQ(Describe(std::vector<SlowLink>{one, other}),
            "2 connections of c are slow, such as the one between a and c: " + rates);
  EXPECT_EQ(
      Describe(std::vector<SlowLink>{one, other, third}),
      "3 connections are slow: between a and c, b and c, d and b; of the first one, " + rates);
}

}  // namespace
}  // namespace longhaul::runtime::controller
