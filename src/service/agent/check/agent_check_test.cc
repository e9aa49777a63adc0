// The tests of a node check as an agent runs them, over real sockets on this machine.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/net/socket.h"
#include "service/agent/check/check_command.h"
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
  NodeChecker checker(*loop, folder.path(), "secret", {}, [&](proto::CheckAnswer answer) {
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
  EXPECT_EQ(answers[2].self_test().command_limit_ns(), 0);
}

// ------------------------------------------------------------------------ the check command

constexpr const char* kLine = R"(echo '{"name": "cuda:0", "value": 600, "unit": "TFLOP/s"}'; )";

proto::DeviceTestResult ResultOf(const std::string& script, Duration limit = kLong) {
  const io::CommandDeadline never;
  const auto result = RunCheckCommand({script, limit}, never);
  EXPECT_TRUE(result.has_value());
  return result.value_or(proto::DeviceTestResult());
}

TEST(CheckCommand, ReportsItsMeasurements) {
  const proto::DeviceTestResult result = ResultOf(kLine);
  EXPECT_EQ(result.failure() + result.mistake(), "");
  ASSERT_EQ(result.measurements_size(), 1);
  EXPECT_EQ(result.measurements(0).value(), 600);
}

TEST(CheckCommand, ThatFailsHasTheLastLineOfItsErrorsAsTheReason) {
  const proto::DeviceTestResult result =
      ResultOf(std::string(kLine) + "echo one >&2; echo no device >&2; exit 3");
  EXPECT_EQ(result.failure(), "the check command failed: it exited with code 3: no device");
  EXPECT_EQ(result.mistake(), "");
  EXPECT_EQ(result.measurements_size(), 1);
  EXPECT_EQ(ResultOf("echo Traceback; kill -9 $$").failure(),
            "the check command failed: it was ended by signal 9");
}

TEST(CheckCommand, ThatDoesNotEndIsKilledWithAllThatItStarted) {
  const TemporaryFolder folder(testing::TempDir());
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // Both have the other end of the pipe open, so that it reaches its end once both have ended.
  const io::Fd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const proto::DeviceTestResult result =
      ResultOf("exec 3> " + fifo + "; sleep 1000 & sleep 1000", std::chrono::milliseconds(200));
  EXPECT_EQ(result.failure(), "the check command did not end within 200 ms and was killed");
  char byte = 0;
  pollfd end{reader.get(), POLLIN, 0};
  ASSERT_EQ(poll(&end, 1, 60'000), 1);
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);
}

TEST(CheckCommand, ThatCannotBeRunOrPrintsSomethingElseIsAMistake) {
  EXPECT_THAT(ResultOf("/nonexistent/program").mistake(),
              testing::AllOf(testing::HasSubstr("the check command cannot be run"),
                             testing::HasSubstr("/nonexistent/program")));
  EXPECT_EQ(ResultOf("echo hello").mistake(),
            "the output of the check command: line 1: it is not a JSON object: hello");
  EXPECT_EQ(ResultOf("head -c 300000 /dev/zero").mistake(),
            "the check command printed more than 262,144 bytes");
  EXPECT_EQ(ResultOf("echo hello").failure(), "");
}

class CheckerWithCommand : public testing::Test {
 protected:
  // Answers stop the loop.
  NodeChecker& Start(const std::string& script) {
    checker_.emplace(*loop_, folder_.path(), "secret", CheckCommand{script, kLong},
                     [this](proto::CheckAnswer answer) {
                       answers_.push_back(std::move(answer));
                       loop_->Stop();
                     });
    return *checker_;
  }

  const std::unique_ptr<io::EventLoop> loop_ = *io::EventLoop::Create();
  const TemporaryFolder folder_{testing::TempDir()};
  std::vector<proto::CheckAnswer> answers_;
  std::optional<NodeChecker> checker_;
};

TEST_F(CheckerWithCommand, StatesTheLimitAndRunsTheCommandInATestOfItsOwn) {
  NodeChecker& checker = Start(kLine);
  proto::CheckOrder order;
  order.mutable_self_test();
  checker.Run(order, /*busy=*/false);
  loop_->Run();
  EXPECT_EQ(answers_[0].self_test().command_limit_ns(), kLong.count());
  order.mutable_device_test();
  checker.Run(order, /*busy=*/false);
  loop_->Run();
  EXPECT_EQ(answers_[1].device_test().measurements_size(), 1);
  EXPECT_FALSE(answers_[1].busy());
}

TEST_F(CheckerWithCommand, TheCommandEndsWhenWorkersStartAndTheNodeIsBusy) {
  NodeChecker& checker = Start("sleep 1000");
  proto::CheckOrder order;
  order.mutable_device_test();
  checker.Run(order, /*busy=*/false);
  checker.EndCommand();
  loop_->Run();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_TRUE(answers_[0].busy());
  EXPECT_FALSE(answers_[0].has_device_test());
}

TEST_F(CheckerWithCommand, TheEndOfTheAgentDoesNotWaitForTheCommand) {
  NodeChecker& checker = Start("sleep 1000");
  proto::CheckOrder order;
  order.mutable_device_test();
  checker.Run(order, /*busy=*/false);
  checker_.reset();
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace longhaul::service
