#include "engines/kubernetes/client/client.h"

#include "engines/kubernetes/client/client_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using ClientTest = ClientFixture;

ObjectName Named(const std::string& name) { return {"ns", name}; }

Fault StatusFault(int status, int times = 1) {
  Fault fault;
  fault.status = status;
  fault.times = times;
  return fault;
}

Fault FaultOf(Fault::Kind kind, const std::string& method) {
  Fault fault;
  fault.kind = kind;
  fault.method = method;
  return fault;
}

TEST_F(ClientTest, BindsAGangOverAFewKeptConnections) {
  Connect();
  constexpr int kPods = 200;
  int done = 0;
  for (int i = 0; i < kPods; ++i) {
    const std::string name = "p" + std::to_string(i);
    const std::string uid = MakePod(name);
    ASSERT_TRUE(client_
                    ->Send(BindCall(Named(name), uid, "n1", {}),
                           [&done](const Reply& reply) { done += reply.http_status == 201; })
                    .ok());
  }
  Until([&] { return done == kPods; });
  EXPECT_LE(server_->connections(), 16u);
  EXPECT_GE(server_->most_requests_of_a_connection(), 5u);
  EXPECT_EQ((*server_->api().Find("pods", Named("p7")))["spec"]["nodeName"], "n1");
}

TEST_F(ClientTest, RepeatsWhatTheServerDidNotExecute) {
  for (const int status : {429, 503}) {
    Connect();
    const size_t before = server_->requests();
    const std::string name = "p" + std::to_string(status);
    const std::string uid = MakePod(name);
    server_->Inject(StatusFault(status, 3));
    EXPECT_EQ(Do(BindCall(Named(name), uid, "n1", {})).http_status, 201) << status;
    EXPECT_EQ(server_->requests() - before, 4u);
    EXPECT_EQ(client_->counts().repeated, 3u);
  }
}

TEST_F(ClientTest, GivesUpAfterItsAttempts) {
  Connect();
  server_->Inject(StatusFault(503, 100));
  const Reply reply = Do(GetCall(Pods(), Named("a")));
  EXPECT_EQ(reply.verdict.outcome, Outcome::kRetry);
  EXPECT_EQ(server_->requests(), static_cast<size_t>(settings_.attempts));
}

TEST_F(ClientTest, NeverRepeatsAMistakeOrARefusal) {
  Connect();
  for (const int status : {400, 403, 404, 409, 410, 422, 500}) {
    const size_t before = server_->requests();
    server_->Inject(StatusFault(status));
    const Reply reply = Do(GetCall(Pods(), Named("a")));
    EXPECT_EQ(reply.http_status, status);
    EXPECT_FALSE(reply.ok());
    EXPECT_EQ(server_->requests() - before, 1u) << status;
  }
}

TEST_F(ClientTest, PausesTheClassThatTheServerLimits) {
  Connect();
  Fault fault = StatusFault(429);
  fault.retry_after_s = 60;
  fault.path = "binding";
  server_->Inject(fault);
  int ended = 0;
  const auto count = [&ended](const Reply&) { ++ended; };
  ASSERT_TRUE(client_->Send(BindCall(Named("a"), "u", "n", {}), count).ok());
  Until([&] { return client_->counts().repeated == 1; });
  // The bind is neither repeated nor overtaken by another one; another class is not delayed.
  ASSERT_TRUE(client_->Send(BindCall(Named("b"), "u", "n", {}), count).ok());
  Do(GetCall(Pods(), Named("a")));
  Do(GetCall(Pods(), Named("a")));
  EXPECT_EQ(server_->requests(), 3u);
  EXPECT_EQ(ended, 0);
}

TEST_F(ClientTest, RepeatsAReadWithoutAnAnswer) {
  Connect();
  MakePod("a");
  server_->Inject(FaultOf(Fault::Kind::kDrop, "GET"));
  EXPECT_EQ(Do(GetCall(Pods(), Named("a"))).http_status, 200);
}

TEST_F(ClientTest, ReportsAWriteWithoutAnAnswerInsteadOfRepeatingIt) {
  Connect();
  const std::string uid = MakePod("a");
  server_->Inject(FaultOf(Fault::Kind::kDropAfter, "POST"));
  std::optional<Reply> reply;
  ASSERT_TRUE(
      client_
          ->Send(BindCall(Named("a"), uid, "n1", {}), [&reply](const Reply& got) { reply = got; })
          .ok());
  Until([&] { return reply.has_value(); });
  EXPECT_EQ(reply->verdict.outcome, Outcome::kUnreachable);
  EXPECT_EQ(reply->http_status, 0);
  EXPECT_EQ(server_->requests(), 1u);
  // It was executed, which only the pod shows.
  EXPECT_EQ(TextAt(Do(GetCall(Pods(), Named("a"))), "/spec/nodeName"), "n1");
}

// libcurl repeats a request by itself when a kept connection ends without a byte.
TEST_F(ClientTest, LearnsOfARepeatedWriteByItsConflict) {
  Connect();
  const std::string uid = MakePod("a");
  Do(GetCall(Pods(), Named("a")));  // the connection is kept from now on
  server_->Inject(FaultOf(Fault::Kind::kDropAfter, "POST"));
  EXPECT_EQ(Do(BindCall(Named("a"), uid, "n1", {})).verdict.outcome, Outcome::kConflict);
}

TEST_F(ClientTest, HasTheReplyOfABindBeforeItsLateEvent) {
  Connect();
  const std::string uid = MakePod("a");
  View view;
  Client::WatchOptions options;
  options.resource = Pods();
  const auto watch = client_->Watch(std::move(options), view);
  ASSERT_TRUE(watch.ok());
  Until([&] { return view.synced == 1; });
  server_->HoldEvents(true);
  EXPECT_EQ(Do(BindCall(Named("a"), uid, "n1", {})).http_status, 201);
  EXPECT_EQ(view.changes, 1);
  server_->HoldEvents(false);
  server_->Publish();
  Until([&] { return view.changes == 2; });
}

TEST_F(ClientTest, RefusesACallWhenTheQueueOfItsClassIsFull) {
  TrafficLimit& binds = settings_.traffic.limits[static_cast<size_t>(TrafficClass::kBind)];
  binds.in_progress = 1;
  binds.queued = 2;
  Connect();
  int done = 0;
  int refused = 0;
  for (int i = 0; i < 5; ++i) {
    const auto sent =
        client_->Send(BindCall(Named("a"), "u", "n", {}), [&done](const Reply&) { ++done; });
    if (!sent.ok()) {
      EXPECT_EQ(sent.status().code(), Code::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 2);  // one in progress, two queued
  EXPECT_EQ(client_->room(TrafficClass::kBind), 0u);
  Until([&] { return done == 3; });
  EXPECT_EQ(client_->room(TrafficClass::kBind), 2u);
}

TEST_F(ClientTest, NeverCallsBackWithinSend) {
  Connect(TokenFileCredentials("/no/such/file"));
  bool called = false;
  ASSERT_TRUE(
      client_->Send(GetCall(Pods(), Named("a")), [&called](const Reply&) { called = true; }).ok());
  EXPECT_FALSE(called);
  Until([&] { return called; });
  EXPECT_EQ(server_->requests(), 0u);
}

TEST_F(ClientTest, RefusesACallThatCannotBeDescribed) {
  Connect();
  const auto sent = client_->Send(GetCall(Pods(), {"ns", "../x"}), [](const Reply&) { FAIL(); });
  EXPECT_EQ(sent.status().code(), Code::kInvalidArgument);
}

class LimitTest : public ClientFixture {
 protected:
  // Runs the loop for longer than the limit of any call.
  void PassTheLimit() {
    bool passed = false;
    loop_->After(std::chrono::milliseconds(60), [&passed] { passed = true; });
    while (!passed) loop_->RunOnce(std::chrono::milliseconds(100));
  }
};

// The call of this name with a limit that a test can wait for.
Result<Call> Limited(const std::string& name) {
  Result<Call> call = GetCall(Pods(), Named(name));
  call->limit = std::chrono::milliseconds(20);
  return call;
}

TEST_F(LimitTest, EndsACallWithoutAReplyAtItsLimit) {
  Connect();
  MakePod("a");
  server_->Inject(FaultOf(Fault::Kind::kNoAnswer, "GET"));
  const Reply reply = [this] {
    std::optional<Reply> got;
    EXPECT_TRUE(client_->Send(Limited("a"), [&got](const Reply& each) { got = each; }).ok());
    Until([&got] { return got.has_value(); });
    return *got;
  }();
  EXPECT_EQ(reply.verdict.outcome, Outcome::kUnreachable);
  EXPECT_EQ(reply.verdict.status, DeadlineExceeded("get pods a in namespace ns: no reply within "
                                                   "20 ms"));
  EXPECT_EQ(server_->requests(), 1u);
  // Its connection and its place among the requests in progress are free again.
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Do(GetCall(Pods(), Named("a"))).http_status, 200);
  Until([this] { return server_->connections() == 1; });
}

TEST_F(LimitTest, ForgetsTheLimitOfACallThatHasEnded) {
  Connect();
  MakePod("a");
  EXPECT_EQ(Do(Limited("a")).http_status, 200);
  PassTheLimit();
}

TEST_F(LimitTest, EndsACallInTheQueueAtItsLimit) {
  TrafficLimit& status = settings_.traffic.limits[static_cast<size_t>(TrafficClass::kStatus)];
  status.in_progress = 1;
  Connect();
  MakePod("a");
  server_->Inject(FaultOf(Fault::Kind::kNoAnswer, "GET"));
  std::vector<std::string> ended;
  for (const char* const name : {"a", "b", "c"}) {
    Result<Call> call = Limited(name);
    if (call->object.name == "a") call->limit = std::chrono::milliseconds(60);
    if (call->object.name == "c") call->limit.reset();
    ASSERT_TRUE(client_
                    ->Send(std::move(call),
                           [&ended, name](const Reply& reply) {
                             ended.push_back(name + std::to_string(reply.http_status));
                           })
                    .ok());
  }
  Until([&ended] { return ended.size() == 3; });
  EXPECT_EQ(ended, (std::vector<std::string>{"b0", "a0", "c404"}));
  EXPECT_EQ(server_->requests(), 2u);  // b was never sent
}

TEST_F(LimitTest, EndsACallThatIsToBeRepeatedAtItsLimit) {
  settings_.first_delay = std::chrono::milliseconds(50);  // at least half of it
  Connect();
  server_->Inject(StatusFault(429, 100));
  std::optional<Reply> reply;
  ASSERT_TRUE(client_->Send(Limited("a"), [&reply](const Reply& got) { reply = got; }).ok());
  Until([&reply] { return reply.has_value(); });
  EXPECT_EQ(reply->verdict.outcome, Outcome::kUnreachable);
  PassTheLimit();  // and the time of the repetition
  EXPECT_EQ(server_->requests(), 1u);
}

// A plug-in may take longer than the limit of the call that waits for it.
TEST_F(LimitTest, IgnoresCredentialsThatComeAfterTheLimit) {
  class Late final : public CredentialSource {
   public:
    explicit Late(Done* done) : done_(done) {}
    void Get(Done done) override { *done_ = std::move(done); }
    void Refused(const Shared&) override {}

   private:
    Done* const done_;
  };
  CredentialSource::Done credentials;
  Connect(std::make_unique<Late>(&credentials));
  int ended = 0;
  ASSERT_TRUE(client_->Send(Limited("a"), [&ended](const Reply&) { ++ended; }).ok());
  Until([&ended] { return ended == 1; });
  credentials(std::make_shared<const Credential>());
  for (int i = 0; i < 3; ++i) loop_->RunOnce(std::chrono::milliseconds(2));
  EXPECT_EQ(server_->requests(), 0u);
  EXPECT_EQ(ended, 1);
}

TEST_F(LimitTest, MayBeDestroyedWithLimitedCallsUnderWay) {
  Connect();
  ASSERT_TRUE(client_->Send(Limited("a"), [](const Reply&) { FAIL(); }).ok());
  with_.reset();
  client_.reset();
  PassTheLimit();
}

TEST_F(ClientTest, MayBeDestroyedWithCallsUnderWay) {
  Connect();
  server_->Inject(StatusFault(503));
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(
        client_->Send(BindCall(Named("a"), "u", "n", {}), [](const Reply&) { FAIL(); }).ok());
  }
  with_.reset();
  client_.reset();
  for (int i = 0; i < 5; ++i) loop_->RunOnce(std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
