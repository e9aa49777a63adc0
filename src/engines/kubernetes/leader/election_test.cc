#include "engines/kubernetes/leader/election.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::json;
using Kind = Election::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kWall = InstantFromNanoseconds(1'769'846'400'123'456'789);
const char* const kTime = "2026-01-31T08:00:00.123456Z";

Verdict Refused(Outcome outcome) {
  Verdict verdict;
  verdict.outcome = outcome;
  verdict.status = Unavailable("refused");
  return verdict;
}

// A lease of version "7"; `spec` is the inside of its spec.
std::string LeaseText(const std::string& spec, const std::string& version = "7",
                      const std::string& uid = "u") {
  return R"({"metadata":{"name":"leader","uid":")" + uid + R"(","resourceVersion":")" + version +
         R"("},"spec":{)" + spec + "}}";
}
const char* const kOther =
    R"("holderIdentity":"b","leaseDurationSeconds":15,"renewTime":"x","leaseTransitions":4)";

class ElectionTest : public testing::Test {
 protected:
  ElectionTest() { Begin(); }

  void Begin(uint64_t seed = 1) {
    ElectionSettings settings;
    settings.lease_name = "leader";
    settings.identity = "a";
    election_ = std::make_unique<Election>(settings, seed);
  }
  Election::Action Next() { return election_->Next(now_, wall_); }
  // The action after the present wait.
  Election::Action NextRequest() {
    const Election::Action action = Next();
    if (action.kind != Kind::kWait) return action;
    now_ = action.at;
    return Next();
  }
  Status Reply(const std::string& body) { return election_->OnReply({}, body, now_); }
  Status Reply(Outcome outcome) { return election_->OnReply(Refused(outcome), "", now_); }
  bool leads() const { return election_->leads(now_); }

  // What the API server would answer to a patch of the lease.
  static std::string Patched(const Election::Action& action, const std::string& version) {
    Json lease = Json::parse(LeaseText("", version));
    lease["spec"] = Json::parse(action.body)["spec"];
    return lease.dump();
  }
  // Reads this lease and takes it.
  void Take(const std::string& spec = R"("leaseDurationSeconds":1)") {
    ASSERT_EQ(NextRequest().kind, Kind::kGet);
    ASSERT_TRUE(Reply(LeaseText(spec)).ok());
    const Election::Action patch = Next();
    ASSERT_EQ(patch.kind, Kind::kPatch);
    ASSERT_TRUE(Reply(Patched(patch, "8")).ok());
    ASSERT_TRUE(leads());
  }

  Instant now_ = InstantFromNanoseconds(5'000'000'000);
  Instant wall_ = kWall;
  std::unique_ptr<Election> election_;
};

TEST_F(ElectionTest, TakesAReleasedLeaseAtOnceWithItsVersion) {
  EXPECT_EQ(Next().kind, Kind::kGet);
  EXPECT_EQ(Next().kind, Kind::kBusy);
  ASSERT_TRUE(Reply(LeaseText(R"("holderIdentity":"","leaseDurationSeconds":1,)"
                              R"("leaseTransitions":4)"))
                  .ok());
  const Election::Action patch = Next();
  EXPECT_EQ(patch.kind, Kind::kPatch);
  EXPECT_EQ(Json::parse(patch.body), (Json{{"metadata", {{"resourceVersion", "7"}}},
                                           {"spec",
                                            {{"holderIdentity", "a"},
                                             {"leaseDurationSeconds", 15},
                                             {"acquireTime", kTime},
                                             {"renewTime", kTime},
                                             {"leaseTransitions", 5}}}}));
  EXPECT_FALSE(leads());  // a write alone makes nobody the leader
  now_ += milliseconds(300);
  ASSERT_TRUE(Reply(Patched(patch, "8")).ok());
  EXPECT_TRUE(leads());
  EXPECT_EQ(election_->terms(), 1u);
  EXPECT_EQ(election_->holder(), "a");
}

TEST_F(ElectionTest, LeadsFromTheReplyUntilTheDeadlineAfterTheRequest) {
  Next();
  ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":1)")).ok());
  const Instant sent = now_;
  const Election::Action patch = Next();
  now_ += seconds(3);
  ASSERT_TRUE(Reply(Patched(patch, "8")).ok());
  EXPECT_EQ(election_->leads_until(), sent + seconds(10));
  EXPECT_TRUE(election_->leads(sent + seconds(10) - Duration(1)));
  EXPECT_FALSE(election_->leads(sent + seconds(10)));
}

TEST_F(ElectionTest, DoesNotLeadByAReplyThatComesAfterTheDeadline) {
  Next();
  ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":1)")).ok());
  const Election::Action patch = Next();
  now_ += seconds(10);
  ASSERT_TRUE(Reply(Patched(patch, "8")).ok());
  EXPECT_FALSE(leads());
  EXPECT_EQ(election_->terms(), 0u);
  // The record is its own: it is renewed at once.
  EXPECT_EQ(Next().kind, Kind::kPatch);
}

TEST_F(ElectionTest, RenewsWithTheNewVersionAndKeepsTheTermOfItsRecord) {
  Take();
  const Instant taken = now_;
  const Election::Action renewal = NextRequest();
  EXPECT_GE(now_ - taken, seconds(2));
  EXPECT_LE(now_ - taken, milliseconds(2'400));
  EXPECT_EQ(Json::parse(renewal.body), (Json{{"metadata", {{"resourceVersion", "8"}}},
                                             {"spec",
                                              {{"holderIdentity", "a"},
                                               {"leaseDurationSeconds", 15},
                                               {"renewTime", "2026-01-31T08:00:00.123457Z"}}}}));
  ASSERT_TRUE(Reply(Patched(renewal, "9")).ok());
  EXPECT_EQ(election_->leads_until(), now_ + seconds(10));
  EXPECT_EQ(election_->terms(), 1u);
}

// Others see a renewal as a change of the record only: the time must not come again.
TEST_F(ElectionTest, WritesATimeThatRisesWhateverTheTimeOfDay) {
  Take();
  std::string last = kTime;
  for (const Duration step : {Duration(0), Duration(-seconds(60)), Duration(1), Duration(999)}) {
    wall_ += step;
    const Election::Action renewal = NextRequest();
    const std::string time = Json::parse(renewal.body)["spec"]["renewTime"];
    EXPECT_GT(time, last);
    last = time;
    ASSERT_TRUE(Reply(Patched(renewal, "v" + last)).ok());
  }
}

TEST_F(ElectionTest, TakesTheLeaseOfAnotherWhenItHasSeenNoChangeForItsDuration) {
  std::string record = kOther;
  ASSERT_EQ(Next().kind, Kind::kGet);
  ASSERT_TRUE(Reply(LeaseText(record)).ok());
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(NextRequest().kind, Kind::kGet);
    ASSERT_TRUE(Reply(LeaseText(record)).ok());
  }
  // A renewal; its time is one of another clock, and may even be in the past.
  record = R"("holderIdentity":"b","leaseDurationSeconds":15,"renewTime":"w","leaseTransitions":4)";
  ASSERT_EQ(NextRequest().kind, Kind::kGet);
  ASSERT_TRUE(Reply(LeaseText(record, "8")).ok());
  const Instant renewed = now_;
  int version = 8;
  while (true) {
    const Election::Action action = NextRequest();
    if (action.kind == Kind::kPatch) break;
    // A new version with the same record is no renewal.
    ASSERT_TRUE(Reply(LeaseText(record, std::to_string(++version))).ok());
    ASSERT_LT(now_ - renewed, seconds(30));
  }
  EXPECT_GE(now_ - renewed, seconds(15));
  EXPECT_LE(now_ - renewed, milliseconds(17'400));
}

TEST_F(ElectionTest, WaitsForTheLongerOneOfBothDurations) {
  const struct {
    const char* spec;
    Duration wait;
  } kRows[] = {
      {R"("holderIdentity":"b","leaseDurationSeconds":40)", seconds(40)},
      // Shortened by somebody, without the holder's knowledge.
      {R"("holderIdentity":"b","leaseDurationSeconds":1)", seconds(15)},
      {R"("holderIdentity":"b")", seconds(15)},
      {R"("holderIdentity":"","leaseDurationSeconds":15)", seconds(15)},
      {R"("leaseDurationSeconds":20)", seconds(20)},
      {"", seconds(15)},
  };
  for (const auto& row : kRows) {
    Begin();
    const Instant start = now_;
    Election::Action action = Next();
    while (action.kind == Kind::kGet && now_ - start < seconds(60)) {
      ASSERT_TRUE(Reply(LeaseText(row.spec)).ok());
      action = NextRequest();
    }
    EXPECT_EQ(action.kind, Kind::kPatch) << row.spec;
    EXPECT_GE(now_ - start, row.wait) << row.spec;
    EXPECT_LE(now_ - start, row.wait + milliseconds(2'400)) << row.spec;
  }
}

TEST_F(ElectionTest, CreatesAnAbsentLeaseWithoutAHolderAndWaits) {
  ASSERT_EQ(Next().kind, Kind::kGet);
  ASSERT_TRUE(Reply(Outcome::kNotFound).ok());
  const Election::Action create = Next();
  EXPECT_EQ(create.kind, Kind::kCreate);
  EXPECT_EQ(Json::parse(create.body), (Json{{"apiVersion", "coordination.k8s.io/v1"},
                                            {"kind", "Lease"},
                                            {"metadata", {{"name", "leader"}}},
                                            {"spec", {{"leaseDurationSeconds", 15}}}}));
  const std::string lease = LeaseText(R"("leaseDurationSeconds":15)");
  ASSERT_TRUE(Reply(lease).ok());
  const Instant created = now_;
  Election::Action action = NextRequest();
  while (action.kind == Kind::kGet) {
    ASSERT_TRUE(Reply(lease).ok());
    action = NextRequest();
  }
  EXPECT_GE(now_ - created, seconds(15));
  EXPECT_EQ(Json::parse(action.body)["spec"]["leaseTransitions"], 0);
}

TEST_F(ElectionTest, ReadsTheLeaseThatAnotherHasCreated) {
  Next();
  ASSERT_TRUE(Reply(Outcome::kNotFound).ok());
  ASSERT_EQ(Next().kind, Kind::kCreate);
  EXPECT_TRUE(Reply(Outcome::kAlreadyExists).ok());
  EXPECT_EQ(NextRequest().kind, Kind::kGet);
}

// Otherwise the deletion of the Lease would make a leader of a candidate that finds none, while the
// holder of the deleted one leads.
TEST_F(ElectionTest, KeepsLeadingWhenItsLeaseIsDeleted) {
  Take();
  ASSERT_EQ(NextRequest().kind, Kind::kPatch);
  ASSERT_TRUE(Reply(Outcome::kNotFound).ok());
  ASSERT_EQ(Next().kind, Kind::kGet);  // at once
  ASSERT_TRUE(Reply(Outcome::kNotFound).ok());
  ASSERT_EQ(Next().kind, Kind::kCreate);
  ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":15)", "20", "u2")).ok());
  const Election::Action patch = Next();
  EXPECT_EQ(patch.kind, Kind::kPatch);
  EXPECT_EQ(Json::parse(patch.body)["metadata"]["resourceVersion"], "20");
  EXPECT_TRUE(leads());
  EXPECT_EQ(election_->terms(), 1u);
}

TEST_F(ElectionTest, CeasesToLeadWhenItReadsAnotherHolder) {
  Take();
  NextRequest();
  ASSERT_TRUE(Reply(Outcome::kConflict).ok());
  EXPECT_TRUE(leads());  // the change may have been one of its metadata
  ASSERT_EQ(Next().kind, Kind::kGet);
  ASSERT_TRUE(Reply(LeaseText(kOther, "9")).ok());
  EXPECT_FALSE(leads());
  EXPECT_EQ(Next().kind, Kind::kWait);
}

// The reply to its write was lost.
TEST_F(ElectionTest, RenewsItsOwnRecordWhenItReadsIt) {
  Take();
  const Instant until = *election_->leads_until();
  const Election::Action renewal = NextRequest();
  EXPECT_FALSE(Reply(Outcome::kUnreachable).ok());
  EXPECT_EQ(Next().kind, Kind::kWait);
  ASSERT_EQ(NextRequest().kind, Kind::kGet);
  ASSERT_TRUE(Reply(Patched(renewal, "9")).ok());
  EXPECT_EQ(election_->leads_until(), until);  // reading is no renewal
  const Election::Action again = Next();
  EXPECT_EQ(again.kind, Kind::kPatch);
  EXPECT_EQ(Json::parse(again.body)["metadata"]["resourceVersion"], "9");
  EXPECT_FALSE(Json::parse(again.body)["spec"].contains("leaseTransitions"));
}

TEST_F(ElectionTest, TakesNoRecordForItsOwnThatItCannotHaveWritten) {
  const std::string record = R"("holderIdentity":"a","leaseDurationSeconds":15)";
  // Of an earlier process with the same identity.
  Next();
  ASSERT_TRUE(Reply(LeaseText(record)).ok());
  EXPECT_EQ(Next().kind, Kind::kWait);
  // Restored from a backup after another Lease was written.
  Begin();
  Take();
  NextRequest();
  ASSERT_TRUE(Reply(Outcome::kNotFound).ok());
  Next();
  ASSERT_TRUE(Reply(LeaseText(record, "30", "u2")).ok());
  EXPECT_EQ(Next().kind, Kind::kWait);
  EXPECT_FALSE(leads());
}

// So that candidates that started together do not write together.
TEST_F(ElectionTest, SpreadsItsAttempts) {
  std::set<Duration> waits;
  for (int i = 0; i < 20; ++i) {
    const Instant start = now_;
    ASSERT_EQ(Next().kind, Kind::kGet);
    const std::string renewed = R"("holderIdentity":"b","renewTime":")" + std::to_string(i) + '"';
    ASSERT_TRUE(Reply(LeaseText(renewed)).ok());
    now_ = Next().at;
    waits.insert(now_ - start);
  }
  EXPECT_EQ(waits.size(), 20u);
  EXPECT_GE(*waits.begin(), seconds(2));
  EXPECT_LE(*waits.rbegin(), milliseconds(2'400));
  EXPECT_GT(*waits.rbegin() - *waits.begin(), milliseconds(200));
}

TEST_F(ElectionTest, ReadsOnlyOnceInAnAttempt) {
  Next();
  ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":1)")).ok());
  ASSERT_EQ(Next().kind, Kind::kPatch);
  ASSERT_TRUE(Reply(Outcome::kConflict).ok());
  EXPECT_EQ(Next().kind, Kind::kWait);
}

TEST_F(ElectionTest, ReportsARefusalAndTriesAgain) {
  for (const Outcome outcome : {Outcome::kForbidden, Outcome::kFailed, Outcome::kUnreachable,
                                Outcome::kUnauthenticated, Outcome::kInvalid}) {
    const Instant start = now_;
    ASSERT_EQ(NextRequest().kind, Kind::kGet);
    EXPECT_EQ(Reply(outcome), Unavailable("refused"));
    const Election::Action wait = Next();
    EXPECT_EQ(wait.kind, Kind::kWait);
    EXPECT_GE(wait.at - start, seconds(2));
  }
}

TEST_F(ElectionTest, ReportsALeaseThatItCannotRead) {
  for (const char* const body : {"", "<html>", "[]", "{}", R"({"metadata":{"name":"leader"}})"}) {
    NextRequest();
    const Status status = Reply(body);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << body;
    EXPECT_TRUE(status.message().starts_with("the reply of the API server about lease leader: "))
        << status;
  }
  NextRequest();
  EXPECT_EQ(Reply(LeaseText(R"("leaseDurationSeconds":-1)")).message(),
            "the reply of the API server about lease leader: lease.spec.leaseDurationSeconds is "
            "-1, expected at least 1");
  EXPECT_EQ(Next().kind, Kind::kWait);
}

TEST_F(ElectionTest, ReportsADurationThatBlocksIt) {
  const std::string record = R"("holderIdentity":"b","leaseDurationSeconds":)";
  NextRequest();
  EXPECT_TRUE(Reply(LeaseText(record + "3600")).ok());
  NextRequest();
  EXPECT_EQ(Reply(LeaseText(record + "2147483647")),
            FailedPrecondition("lease leader of holder 'b' lasts 24855 d 3 h after each renewal, "
                               "expected at most 1 h 0 min: delete the Lease if this holder does "
                               "not exist any more"));
  // It is respected all the same.
  now_ += std::chrono::hours(1'000);
  ASSERT_EQ(NextRequest().kind, Kind::kGet);
  EXPECT_FALSE(Reply(LeaseText(record + "2147483647")).ok());
  EXPECT_EQ(Next().kind, Kind::kWait);
}

TEST_F(ElectionTest, DoesNotLeadByAReplyThatHasAnotherRecord) {
  for (const bool same_version : {true, false}) {
    Begin();
    NextRequest();
    ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":1)")).ok());
    const Election::Action patch = Next();
    const Status status =
        Reply(same_version ? Patched(patch, "7") : LeaseText(R"("leaseDurationSeconds":1)", "8"));
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_FALSE(leads());
  }
}

TEST_F(ElectionTest, CountsTransitionsUpToTheLargestNumber) {
  Next();
  ASSERT_TRUE(Reply(LeaseText(R"("leaseDurationSeconds":1,"leaseTransitions":2147483647)")).ok());
  EXPECT_EQ(Json::parse(Next().body)["spec"]["leaseTransitions"], 2147483647);
}

TEST_F(ElectionTest, ReleasesItsLease) {
  Take();
  election_->Release(now_);
  EXPECT_FALSE(leads());
  const Election::Action release = Next();
  EXPECT_EQ(release.kind, Kind::kPatch);
  EXPECT_EQ(Json::parse(release.body), (Json{{"metadata", {{"resourceVersion", "8"}}},
                                             {"spec",
                                              {{"holderIdentity", ""},
                                               {"leaseDurationSeconds", 1},
                                               {"renewTime", "2026-01-31T08:00:00.123457Z"}}}}));
  ASSERT_TRUE(Reply(Patched(release, "9")).ok());
  EXPECT_EQ(Next().kind, Kind::kEnded);
  EXPECT_FALSE(leads());
}

TEST_F(ElectionTest, ReleasesWhatARenewalInProgressHasWritten) {
  Take();
  const Election::Action renewal = NextRequest();
  election_->Release(now_);
  EXPECT_EQ(Next().kind, Kind::kBusy);
  ASSERT_TRUE(Reply(Patched(renewal, "9")).ok());
  EXPECT_FALSE(leads());
  const Election::Action release = Next();
  EXPECT_EQ(Json::parse(release.body)["spec"]["holderIdentity"], "");
  EXPECT_EQ(Json::parse(release.body)["metadata"]["resourceVersion"], "9");
  // Of a release whose reply was lost, too, the record is read first.
  EXPECT_FALSE(Reply(Outcome::kUnreachable).ok());
  ASSERT_EQ(NextRequest().kind, Kind::kGet);
  ASSERT_TRUE(Reply(Patched(renewal, "9")).ok());
  EXPECT_EQ(Next().kind, Kind::kPatch);
}

TEST_F(ElectionTest, ReleasesNothingOfAnother) {
  // What was never written.
  Next();
  ASSERT_TRUE(Reply(LeaseText(kOther)).ok());
  election_->Release(now_);
  EXPECT_EQ(Next().kind, Kind::kEnded);
  // What was lost.
  Begin();
  Take();
  NextRequest();
  ASSERT_TRUE(Reply(Outcome::kConflict).ok());
  election_->Release(now_);
  ASSERT_EQ(Next().kind, Kind::kGet);
  ASSERT_TRUE(Reply(LeaseText(kOther, "9")).ok());
  EXPECT_EQ(Next().kind, Kind::kEnded);
}

TEST_F(ElectionTest, GivesUpAReleaseAtTheRenewDeadline) {
  Take();
  const Instant start = now_;
  election_->Release(now_);
  Election::Action action = Next();
  while (action.kind != Kind::kEnded && now_ - start < seconds(60)) {
    EXPECT_FALSE(Reply(Outcome::kUnreachable).ok());
    action = NextRequest();
  }
  EXPECT_GE(now_ - start, seconds(10));
  EXPECT_LE(now_ - start, milliseconds(12'400));
}

TEST(ElectionSettings, AreCheckedByName) {
  const auto check = [](auto&& change) {
    ElectionSettings settings;
    settings.identity = "a";
    change(settings);
    return Check(settings);
  };
  EXPECT_TRUE(check([](ElectionSettings&) {}).ok());
  const struct {
    void (*change)(ElectionSettings&);
    const char* message;
  } kRows[] = {
      {[](ElectionSettings& s) { s.identity = ""; },
       "identity of the leader election is '', expected 1 to 253 bytes of UTF-8 text"},
      {[](ElectionSettings& s) { s.identity = "\xff"; },
       "identity of the leader election is '\\xff', expected 1 to 253 bytes of UTF-8 text"},
      // A duration of a second is the mark of a release.
      {[](ElectionSettings& s) { s.lease_duration = seconds(1); },
       "lease_duration of the leader election is 1 s, expected whole seconds, from 2 s to 1 h"},
      {[](ElectionSettings& s) { s.lease_duration = milliseconds(15'500); },
       "lease_duration of the leader election is 15.5 s, expected whole seconds, from 2 s to 1 h"},
      {[](ElectionSettings& s) { s.renew_deadline = seconds(15); },
       "renew_deadline of the leader election is 15 s, expected less than lease_duration, which "
       "is 15 s"},
      {[](ElectionSettings& s) { s.retry_period = seconds(5); },
       "retry_period of the leader election is 5 s, expected less than half of renew_deadline, "
       "which is 10 s"},
      {[](ElectionSettings& s) { s.request_limit = seconds(10); },
       "request_limit of the leader election is 10 s, expected less than renew_deadline, which "
       "is 10 s"},
      {[](ElectionSettings& s) { s.jitter = std::nan(""); },
       "jitter of the leader election is nan, expected 0 to 1"},
  };
  for (const auto& row : kRows) EXPECT_EQ(check(row.change), InvalidArgument(row.message));
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
