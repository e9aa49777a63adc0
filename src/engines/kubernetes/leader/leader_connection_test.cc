#include "engines/kubernetes/leader/leader_connection.h"

#include "engines/kubernetes/client/client_fixture.h"

namespace longhaul::engines::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Sink final : public LeaderSink {
 public:
  void OnLeads() override { events.push_back("leads"); }
  void OnStops() override { events.push_back("stops"); }
  void OnTrouble(const Status& status) override { troubles.push_back(status.message()); }

  std::vector<std::string> events;
  std::vector<std::string> troubles;
};

class LeaderTest : public ClientFixture {
 protected:
  using Events = std::vector<std::string>;

  LeaderTest() {
    // The candidates of these tests try a hundred times as often as others.
    TrafficLimit& leases = settings_.traffic.limits[static_cast<size_t>(TrafficClass::kLease)];
    leases.requests_per_second = 1'000;
    leases.burst = 1'000;
    Connect();
  }

  // A lease that somebody has released: it is free at once.
  void MakeReleasedLease() {
    ApiRequest request;
    request.method = "POST";
    request.path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    request.body = R"({"metadata":{"name":"leader"},"spec":{"holderIdentity":"",)"
                   R"("leaseDurationSeconds":1,"leaseTransitions":6}})";
    ASSERT_EQ(server_->api().Handle(request).status, 201);
  }
  static ElectionSettings Settings(Duration renew_deadline, Duration retry_period,
                                   Duration request_limit) {
    ElectionSettings settings;
    settings.lease_duration = seconds(2);
    settings.renew_deadline = renew_deadline;
    settings.retry_period = retry_period;
    settings.request_limit = request_limit;
    return settings;
  }
  // Without settings of its own it keeps the lease even on a slow machine.
  std::unique_ptr<LeaderConnection> Candidate(
      const std::string& identity, Sink& sink,
      ElectionSettings settings = Settings(seconds(1), milliseconds(15), milliseconds(300))) {
    settings.identity = identity;
    return *LeaderConnection::Create(*loop_, *client_, {"ns", "leader"}, settings, 1, sink);
  }
  Json Spec() const {
    const Json* const lease = server_->api().Find("leases", {"ns", "leader"});
    return lease == nullptr ? Json() : lease->value("spec", Json());
  }
};

TEST_F(LeaderTest, LeadsAndRenews) {
  MakeReleasedLease();
  Sink sink;
  const auto candidate = Candidate("a", sink);
  EXPECT_FALSE(candidate->leads());
  Until([&] { return candidate->leads(); });
  EXPECT_EQ(Spec()["holderIdentity"], "a");
  EXPECT_EQ(Spec()["leaseTransitions"], 7);
  const std::string taken = Spec()["renewTime"];
  Until([&] { return Spec()["renewTime"] > taken; });
  EXPECT_EQ(Spec()["acquireTime"], taken);
  EXPECT_EQ(sink.events, Events{"leads"});
  EXPECT_TRUE(sink.troubles.empty());
}

TEST_F(LeaderTest, CreatesAnAbsentLeaseWithoutAHolder) {
  Sink sink;
  const auto candidate = Candidate("a", sink);
  Until([&] { return !Spec().is_null(); });
  EXPECT_EQ(Spec(), (Json{{"leaseDurationSeconds", 2}}));
}

TEST_F(LeaderTest, HandsTheLeaseOverByReleasingIt) {
  MakeReleasedLease();
  Sink first_sink;
  const auto first = Candidate("a", first_sink);
  Until([&] { return first->leads(); });
  Sink second_sink;
  const auto second = Candidate("b", second_sink);
  bool released = false;
  first->Release([&] { released = true; });
  EXPECT_FALSE(first->leads());
  EXPECT_FALSE(released);
  Until([&] { return released && second->leads(); });
  EXPECT_EQ(Spec()["leaseTransitions"], 8);
  EXPECT_EQ(first_sink.events, (Events{"leads", "stops"}));
  EXPECT_EQ(second_sink.events, Events{"leads"});
}

TEST_F(LeaderTest, HasNothingToReleaseWithoutTheLease) {
  Sink sink;
  const auto candidate = Candidate("a", sink);
  bool released = false;
  candidate->Release([&] { released = true; });
  Until([&] { return released; });
  EXPECT_EQ(server_->requests(), 0u);
}

TEST_F(LeaderTest, StopsAtItsDeadlineAndLeadsAgainLater) {
  MakeReleasedLease();
  for (const Fault::Kind kind : {Fault::Kind::kStatus, Fault::Kind::kNoAnswer}) {
    Sink sink;
    const auto candidate =
        Candidate(kind == Fault::Kind::kStatus ? "a" : "b", sink,
                  Settings(milliseconds(150), milliseconds(15), milliseconds(40)));
    Until([&] { return candidate->leads(); });
    Fault fault;
    fault.kind = kind;
    fault.path = "leases";
    fault.times = 1'000'000;
    server_->Inject(fault);
    const Instant until = *candidate->election().leads_until();
    Until([&] { return sink.events.size() == 2; });
    EXPECT_GE(io::MonotonicNow(), until);
    EXPECT_FALSE(candidate->leads());
    EXPECT_EQ(sink.events, (Events{"leads", "stops"}));
    EXPECT_LE(sink.troubles.size(), 4u);  // of a patch and of the GETs after it, not of each
    server_->ClearFaults();
    Until([&] { return candidate->leads(); });
    ASSERT_GE(sink.events.size(), 3u);
    EXPECT_EQ(sink.events[2], "leads");
    bool released = false;
    candidate->Release([&] { released = true; });
    Until([&] { return released; });
  }
}

TEST_F(LeaderTest, ReportsItsEndAtOnceWhileARequestIsInProgress) {
  MakeReleasedLease();
  Sink sink;
  const auto candidate =
      Candidate("a", sink, Settings(milliseconds(250), milliseconds(100), milliseconds(249)));
  Until([&] { return candidate->leads(); });
  Fault fault;
  fault.kind = Fault::Kind::kNoAnswer;
  server_->Inject(fault);
  Until([&] { return sink.events.size() == 2; });
  // The request began 100 ms after the last renewal, and ends so long after the deadline of that.
  EXPECT_TRUE(sink.troubles.empty());
}

TEST_F(LeaderTest, ReportsTheMissingRightOnce) {
  Sink sink;
  Fault fault;
  fault.status = 403;
  fault.times = 4;
  server_->Inject(fault);
  const auto candidate = Candidate("a", sink);
  Until([&] { return server_->requests() >= 6; });
  ASSERT_EQ(sink.troubles.size(), 1u);
  EXPECT_NE(sink.troubles[0].find("the account lacks the rule {apiGroups: [\"coordination.k8s.io\"]"
                                  ", resources: [\"leases\"], verbs: [\"get\"]} in namespace ns"),
            std::string::npos)
      << sink.troubles[0];
}

TEST_F(LeaderTest, TriesAgainWhenTheQueueIsFull) {
  MakeReleasedLease();
  TrafficLimit& leases = settings_.traffic.limits[static_cast<size_t>(TrafficClass::kLease)];
  leases.in_progress = 1;
  leases.queued = 1;
  Connect();
  Fault fault;
  fault.kind = Fault::Kind::kNoAnswer;
  server_->Inject(fault);
  int ended = 0;
  for (int i = 0; i < 2; ++i) {
    Result<Call> call = GetCall(Leases(), {"ns", "other"});
    call->limit = milliseconds(50);
    ASSERT_TRUE(client_->Send(std::move(call), [&ended](const Reply&) { ++ended; }).ok());
  }
  Sink sink;
  const auto candidate = Candidate("a", sink);
  Until([&] { return candidate->leads(); });
  ASSERT_EQ(sink.troubles.size(), 1u);
  EXPECT_NE(sink.troubles[0].find("the queue of leases is full"), std::string::npos);
}

TEST_F(LeaderTest, MayBeDestroyedWithARequestInProgress) {
  MakeReleasedLease();
  Sink sink;
  auto candidate = Candidate("a", sink);
  Until([&] { return server_->requests() == 1; });
  candidate.reset();
  for (int i = 0; i < 5; ++i) loop_->RunOnce(milliseconds(2));
  EXPECT_TRUE(sink.events.empty());
}

TEST_F(LeaderTest, RefusesSettingsAndNames) {
  Sink sink;
  ElectionSettings settings;
  EXPECT_EQ(
      LeaderConnection::Create(*loop_, *client_, {"ns", "l"}, settings, 1, sink).status().message(),
      "identity of the leader election is '', expected 1 to 253 bytes of UTF-8 text");
  settings.identity = "a";
  EXPECT_EQ(
      LeaderConnection::Create(*loop_, *client_, {"ns", "a/b"}, settings, 1, sink).status().code(),
      Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
