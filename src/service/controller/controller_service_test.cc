#include "service/controller/controller_service.h"

#include <gtest/gtest.h>

#include "io/clock.h"
#include "service/controller/agents/agent_gateway.h"
#include "service/controller/agents/scripted_agent.h"
#include "service/controller/controller_fixture.h"

namespace longhaul::service {
namespace {

class AgentsTest : public ControllerTest {
 protected:
  void SetUp() override { StartService(); }

  // Follows all events until a node's notification reports the state.
  void AwaitConnected(const std::string& node, bool connected) {
    const Status status = client_->Follow("/v1/events", {}, [&](const FeedEvent& event) {
      return !(event.kind == "node" && event.data["node"]["name"] == node &&
               event.data["node"]["connected"] == connected);
    });
    EXPECT_TRUE(status.ok()) << status;
  }
};

TEST_F(AgentsTest, AcknowledgesAnEventOnceItIsLogged) {
  ScriptedAgent agent(service_->endpoint());
  agent.Hello(service_->endpoint().token, "node-1", 7);
  const auto welcome = agent.Read();
  ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
  EXPECT_EQ(welcome->welcome().acknowledged(), 0u);
  EXPECT_EQ(welcome->welcome().heartbeat_period_ns(), 200'000'000);
  const uint64_t before = service_->loop().logged_events();
  agent.Join(1, 2);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  EXPECT_GT(service_->loop().logged_events(), before);
  const auto nodes = client_->Get("/v1/nodes");
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ((*nodes)["nodes"][0]["name"], "node-1");
  EXPECT_EQ((*nodes)["nodes"][0]["slots"], 2);
  EXPECT_EQ((*nodes)["nodes"][0]["connected"], true);
}

TEST(HeartbeatPeriod, GrowsWithTheNumberOfAgentsUpToASecond) {
  using std::chrono::milliseconds;
  EXPECT_EQ(HeartbeatPeriodOf(1, milliseconds(250)), milliseconds(250));
  EXPECT_EQ(HeartbeatPeriodOf(500, milliseconds(250)), milliseconds(250));
  EXPECT_EQ(HeartbeatPeriodOf(1'000, milliseconds(250)), milliseconds(500));
  EXPECT_EQ(HeartbeatPeriodOf(2'048, milliseconds(250)), milliseconds(1'000));
  EXPECT_EQ(HeartbeatPeriodOf(SIZE_MAX, milliseconds(250)), milliseconds(1'000));
  EXPECT_EQ(HeartbeatPeriodOf(1, std::chrono::seconds(100)), std::chrono::seconds(100));
}

TEST_F(AgentsTest, RefusesWhoCannotProveOrNameThemselves) {
  const std::string& token = service_->endpoint().token;
  const struct {
    std::string token;
    const char* node;
    uint64_t incarnation;
    grpc::StatusCode code;
  } kRows[] = {
      {"", "node-1", 1, grpc::StatusCode::UNAUTHENTICATED},
      {token + "x", "node-1", 1, grpc::StatusCode::UNAUTHENTICATED},
      {token, "", 1, grpc::StatusCode::INVALID_ARGUMENT},
      {token, "Node 1", 1, grpc::StatusCode::INVALID_ARGUMENT},
      {token, "node-1", 0, grpc::StatusCode::INVALID_ARGUMENT},
  };
  for (const auto& row : kRows) {
    ScriptedAgent agent(service_->endpoint());
    agent.Hello(row.token, row.node, row.incarnation);
    EXPECT_FALSE(agent.Read().has_value());
    EXPECT_EQ(agent.Finish().error_code(), row.code) << row.node;
  }
}

TEST_F(AgentsTest, NotificationsABrokenAndASilentStream) {
  ScriptedAgent broken(service_->endpoint());
  broken.Hello(service_->endpoint().token, "node-1", 1);
  broken.Join(1, 1);
  ASSERT_TRUE(broken.AwaitAcknowledged(1));
  broken.Break();
  AwaitConnected("node-1", false);
  ScriptedAgent silent(service_->endpoint());
  silent.Hello(service_->endpoint().token, "node-2", 1);
  silent.Join(1, 1);
  AwaitConnected("node-2", false);
}

TEST_F(AgentsTest, TheNewestStreamOfANodeCounts) {
  ScriptedAgent old(service_->endpoint());
  old.Hello(service_->endpoint().token, "node-1", 1);
  old.Join(1, 1);
  ASSERT_TRUE(old.AwaitAcknowledged(1));
  ScriptedAgent newer(service_->endpoint());
  newer.Hello(service_->endpoint().token, "node-1", 2);
  newer.Join(1, 3);
  ASSERT_TRUE(newer.AwaitAcknowledged(1));
  while (old.Read().has_value()) {
  }
  ScriptedAgent stale(service_->endpoint());
  stale.Hello(service_->endpoint().token, "node-1", 1);
  EXPECT_FALSE(stale.Read().has_value());
  EXPECT_EQ(stale.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(AgentsTest, DoesNotLogWhatAnAgentSendsAgain) {
  ScriptedAgent agent(service_->endpoint());
  agent.Hello(service_->endpoint().token, "node-1", 1);
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  const uint64_t logged = service_->loop().logged_events();
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  EXPECT_EQ(service_->loop().logged_events(), logged);
}

// A controller that dies at any moment: its log alone gives the same state.
TEST_F(AgentsTest, TheLogAloneGivesTheSameState) {
  {
    ScriptedAgent agent(service_->endpoint());
    agent.Hello(service_->endpoint().token, "node-1", 1);
    agent.Join(1, 2);
    ASSERT_TRUE(agent.AwaitAcknowledged(1));
    Submit("a");
    Submit("b");
  }
  AwaitConnected("node-1", false);
  uint64_t hash = 0;
  uint64_t events = 0;
  // A tick between the two would be in neither or both: stop first.
  service_->loop().Stop();
  hash = service_->loop().Read([](const runtime::Controller& core) { return core.StateHash(); });
  events = service_->loop().logged_events();
  service_.reset();
  auto log = *EventLog::Open(directory_ + "/events.db");
  NotificationFeed feed(*log);
  const auto replayed = CoreLoop::Create(CoreLoopOptions(), *log, feed);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ((*replayed)->logged_events(), events);
  EXPECT_EQ((*replayed)->Read([](const runtime::Controller& core) { return core.StateHash(); }),
            hash);
}

TEST_F(AgentsTest, ARestartedControllerKnowsItsJobsAndEvents) {
  const std::string id = Submit();
  const auto before = client_->Get("/v1/jobs/" + id + "/events");
  ASSERT_TRUE(before.ok()) << before.status();
  service_.reset();
  StartService();
  const auto after = client_->Get("/v1/jobs/" + id + "/events");
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_GE((*after)["events"].size(), (*before)["events"].size());
  for (size_t i = 0; i < (*before)["events"].size(); ++i) {
    EXPECT_EQ((*after)["events"][i], (*before)["events"][i]);
  }
}

class FullDiskTest : public ControllerTest {
 protected:
  static constexpr const char* kNode = "node-1";

  void SetUp() override {
    heartbeat_period_ = std::chrono::seconds(10);  // the scripted agent sends none
    StartService();
  }

  Json Health() { return *client_->Get("/v1/healthz"); }
  void AwaitHealth(const std::string& wanted) {
    const Instant deadline = io::MonotonicNow() + std::chrono::seconds(20);
    while (Health()["status"] != wanted) ASSERT_LT(io::MonotonicNow(), deadline) << wanted;
  }

  static proto::Event LargeEvent() {
    proto::Event event;
    event.mutable_worker_result()->set_job_id("none");
    event.mutable_worker_result()->set_json(std::string(1 << 20, 'x'));
    return event;
  }
};

TEST_F(FullDiskTest, StopsDecisionsNotTheControllerAndLosesNothing) {
  ScriptedAgent agent(service_->endpoint());
  agent.Hello(service_->endpoint().token, kNode, 1);
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  const std::string id = Submit("before");
  const uint64_t logged = service_->loop().logged_events();

  service_->log().LimitSize(Bytes(64 << 10));
  agent.SendEvent(2, LargeEvent());
  AwaitHealth("degraded");
  EXPECT_NE(Health()["reason"].get<std::string>().find("full"), std::string::npos) << Health();
  const Status refused = client_->Post("/v1/jobs", {{"job", "x"}}).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_NE(refused.message().find("full"), std::string::npos) << refused;
  EXPECT_EQ(client_->Post("/v1/jobs/" + id + "/stop", Json::object()).status().code(),
            Code::kUnavailable);
  EXPECT_EQ((*client_->Get("/v1/jobs"))["jobs"].size(), 1u);
  EXPECT_EQ((*client_->Get("/v1/nodes"))["nodes"].size(), 1u);
  EXPECT_NE(client_->GetText("/metrics")->find("longhaul_log_writable 0\n"), std::string::npos);
  EXPECT_EQ(service_->loop().logged_events(), logged);

  service_->log().LimitSize(Bytes(INT64_MAX));
  ASSERT_TRUE(agent.AwaitAcknowledged(2));
  AwaitHealth("ok");
  EXPECT_EQ(Submit("after"), "after-2");

  service_.reset();
  StartService();
  EXPECT_EQ((*client_->Get("/v1/jobs"))["jobs"].size(), 2u);
  ScriptedAgent again(service_->endpoint());
  again.Hello(service_->endpoint().token, kNode, 1);
  const auto welcome = again.Read();
  ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
  EXPECT_EQ(welcome->welcome().acknowledged(), 2u);
}

TEST_F(FullDiskTest, AControllerThatEndsThenHasLostOnlyWhatItNeverAcknowledged) {
  ScriptedAgent agent(service_->endpoint());
  agent.Hello(service_->endpoint().token, kNode, 1);
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  service_->log().LimitSize(Bytes(64 << 10));
  agent.SendEvent(2, LargeEvent());
  AwaitHealth("degraded");
  service_.reset();  // ends although its last batch can't be written
  EXPECT_FALSE(agent.AwaitAcknowledged(2));
  StartService();
  ScriptedAgent again(service_->endpoint());
  again.Hello(service_->endpoint().token, kNode, 1);
  const auto welcome = again.Read();
  ASSERT_TRUE(welcome.has_value() && welcome->has_welcome());
  EXPECT_EQ(welcome->welcome().acknowledged(), 1u);
  again.SendEvent(2, LargeEvent());
  EXPECT_TRUE(again.AwaitAcknowledged(2));
}

}  // namespace
}  // namespace longhaul::service
