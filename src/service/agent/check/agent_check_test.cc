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
constexpr Duration kLong = std::chrono::minutes(5);  // that no sanitizer needs

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
  const proto::PairTestResult result = RunPairTest(OrderFor(server->port()), "secret", kLong);
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
