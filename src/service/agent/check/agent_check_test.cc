// The tests of a node check as an agent runs them, over real sockets on this machine.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/event_loop.h"
#include "io/net/socket.h"
#include "service/agent/check/node_checker.h"
#include "service/agent/check/pair_test.h"
#include "service/agent/check/self_test.h"
#include "service/agent/peer/peer_memory.h"
#include "service/agent/peer/peer_server.h"

namespace longhaul::service {
namespace {

constexpr Duration kShort = std::chrono::milliseconds(50);

proto::PairTest OrderFor(uint16_t port) {
  proto::PairTest order;
  order.set_node("other");
  order.set_address("127.0.0.1");
  order.set_port(port);
  order.set_seed(99);
  return order;
}

TEST(PairTest, MeasuresRoundTripsAndTransfers) {
  PeerMemory memory(0);
  const auto server = *PeerServer::Listen("127.0.0.1", "secret", memory);
  const proto::PairTestResult result = RunPairTest(OrderFor(server->port()), "secret");
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.node(), "other");
  EXPECT_GT(result.round_trip_ns(), 0);
  EXPECT_GE(result.small_ns(), result.round_trip_ns());
  EXPECT_GT(result.large_ns(), 0);
  EXPECT_EQ(result.large_bytes(), 16u << 20);
}

TEST(PairTest, IsRefusedWithoutTheSecret) {
  PeerMemory memory(0);
  const auto server = *PeerServer::Listen("127.0.0.1", "secret", memory);
  const proto::PairTestResult result = RunPairTest(OrderFor(server->port()), "wrong");
  EXPECT_NE(result.error().find("the secret is wrong"), std::string::npos) << result.error();
}

TEST(PairTest, FailsIfNobodyListens) {
  uint16_t port = 0;
  { port = io::ListenTcp("127.0.0.1", 0)->port; }
  EXPECT_NE(RunPairTest(OrderFor(port), "secret").error(), "");
  EXPECT_NE(RunPairTest(OrderFor(0), "secret").error(), "");
}

// A stopped agent: its kernel accepts the connection, and nobody answers.
TEST(PairTest, EndsAtItsLimitIfTheOtherAgentDoesNotAnswer) {
  const auto listener = *io::ListenTcp("127.0.0.1", 0);
  const proto::PairTestResult result = RunPairTest(OrderFor(listener.port), "secret", kShort);
  EXPECT_NE(result.error().find("time limit"), std::string::npos) << result.error();
}

TEST(SelfTest, MeasuresAll) {
  const TemporaryFolder folder(testing::TempDir());
  const proto::SelfTestResult result = RunSelfTest(folder.path());
  std::map<std::string, proto::Measurement> by_name;
  for (const proto::Measurement& each : result.measurements()) by_name[each.name()] = each;
  ASSERT_EQ(by_name.size(), 4u);
  for (const char* name : {kMatrixProduct, kMemoryCopy, kDiskWrite, kDiskFree}) {
    EXPECT_GT(by_name[name].value(), 0) << name;
    EXPECT_NE(by_name[name].unit(), "") << name;
  }
  for (const char* name : {kMatrixProduct, kMemoryCopy, kDiskWrite}) {
    EXPECT_EQ(by_name[name].verdict(), "good") << by_name[name].detail();
  }
  EXPECT_LE(result.received_at_ns(), result.sent_at_ns());
}

TEST(SelfTest, ReportsAMissingDirectoryAsBad) {
  const proto::SelfTestResult result = RunSelfTest("/nonexistent-directory");
  size_t bad = 0;
  for (const proto::Measurement& each : result.measurements()) {
    if (each.verdict() != "bad") continue;
    ++bad;
    EXPECT_NE(each.detail().find("/nonexistent-directory"), std::string::npos);
  }
  EXPECT_EQ(bad, 2u);
}

TEST(SelfTest, FindsEverySingleWrongElementOfAProduct) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, -8};
  const std::vector<float> b = {1, 0, -1, 2, 2, 2, 0, 1, 3};
  // Worked by hand.
  const std::vector<float> product = {5, 7, 12, 14, 16, 24, 23, 8, -15};
  EXPECT_TRUE(IsProduct(a.data(), b.data(), product.data(), 3));
  for (size_t i = 0; i < product.size(); ++i) {
    for (const float wrong : {product[i] + 1, product[i] + 0.5f, -2e9f, 0.0f / 0.0f}) {
      std::vector<float> damaged = product;
      damaged[i] = wrong;
      EXPECT_FALSE(IsProduct(a.data(), b.data(), damaged.data(), 3)) << i << " " << wrong;
    }
  }
}

TEST(NodeChecker, AnswersWithTheNumbersOfTheOrder) {
  const std::unique_ptr<io::EventLoop> loop = *io::EventLoop::Create();
  const TemporaryFolder folder(testing::TempDir());
  std::vector<proto::CheckAnswer> answers;
  NodeChecker checker(*loop, folder.path(), "secret", [&](proto::CheckAnswer answer) {
    answers.push_back(std::move(answer));
    if (answers.size() == 3) loop->Stop();
  });
  proto::CheckOrder order;
  order.set_check(4);
  order.set_round(2);
  *order.mutable_pair_test() = OrderFor(0);
  checker.Run(order, /*busy=*/true);
  checker.Run(order, /*busy=*/false);
  order.mutable_self_test()->set_sent_at_ns(1);
  checker.Run(order, /*busy=*/false);
  loop->Run();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(answers[0].busy());
  EXPECT_FALSE(answers[0].has_pair_test());
  EXPECT_TRUE(answers[1].has_pair_test());
  EXPECT_TRUE(answers[2].has_self_test());
  for (const proto::CheckAnswer& answer : answers) {
    EXPECT_EQ(answer.check(), 4u);
    EXPECT_EQ(answer.round(), 2u);
  }
}

}  // namespace
}  // namespace longhaul::service
