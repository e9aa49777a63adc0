#include "engines/kubernetes/pod/service_account_identity.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engines/kubernetes/pod/token_signer.h"

namespace longhaul::engines::kubernetes::service_account_identity_test {
namespace {

using Json = nlohmann::json;
using service::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kIssued = 1'700'000'000;
const Instant kNow = Instant(seconds(kIssued));
const std::string kOperator = "system:serviceaccount:longhaul-system:longhaul-operator";

class ServiceAccountIdentityTest : public testing::Test {
 protected:
  ServiceAccountIdentityTest() {
    std::string pattern = testing::TempDir() + "/identity_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    settings_ = {directory_ + "/token-keys.json", "longhaul.dev/job/1", "research", kOperator,
                 "tune-worker-"};
    Write(KeySet({first_.Jwk()}));
  }
  ~ServiceAccountIdentityTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& text) { std::ofstream(settings_.keys_file) << text; }
  void Open() {
    auto made = ServiceAccountIdentity::Create(settings_, kNow);
    ASSERT_TRUE(made.ok()) << made.status();
    identity_ = *std::move(made);
  }

  static Json Claims(const std::string& subject, const std::string& place, const std::string& pod) {
    return {{"aud", {"longhaul.dev/job/1"}},
            {"exp", kIssued + 3600},
            {"sub", subject},
            {"kubernetes.io", {{"namespace", place}, {"pod", {{"name", pod}, {"uid", "u"}}}}}};
  }
  static Json OfPod(const std::string& pod, const std::string& place = "research") {
    return Claims("system:serviceaccount:" + place + ":default", place, pod);
  }
  static Json OfOperator() { return Claims(kOperator, "longhaul-system", "operator-5f"); }

  const TokenSigner first_ = TokenSigner::Ec("first", "P-256");
  const TokenSigner second_ = TokenSigner::Ec("second", "P-256");
  std::string directory_;
  ServiceAccountSettings settings_;
  std::unique_ptr<ServiceAccountIdentity> identity_;
};

TEST_F(ServiceAccountIdentityTest, LetsTheOperatorViewAndNobodyElseCall) {
  Open();
  const auto who = identity_->Caller(first_.Token(OfOperator()), kNow);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(who->name, kOperator);
  EXPECT_EQ(who->role, Role::kView);
  for (const std::string& subject :
       {std::string("system:serviceaccount:research:default"), kOperator + "x",
        kOperator.substr(0, kOperator.size() - 1),
        std::string("system:serviceaccount:research:longhaul-operator")}) {
    Json claims = OfOperator();
    claims["sub"] = subject;
    const Status refused = identity_->Caller(first_.Token(claims), kNow).status();
    EXPECT_EQ(refused.code(), Code::kPermissionDenied) << subject;
    EXPECT_NE(refused.message().find(subject + ", expected "), std::string::npos) << refused;
  }
}

TEST_F(ServiceAccountIdentityTest, LetsAWorkerPodJoinUnderItsOwnNameOnly) {
  Open();
  const std::string token = first_.Token(OfPod("tune-worker-0"));
  EXPECT_TRUE(identity_->Node(token, "tune-worker-0", kNow).ok());
  EXPECT_TRUE(identity_->Node(token, "tune-worker-0", kNow + seconds(3600)).ok()) << "used up";
  const struct {
    Json claims;
    const char* node;
    const char* reason;
  } kRows[] = {
      {OfPod("tune-worker-0"), "tune-worker-1", "pod 'tune-worker-0', not of tune-worker-1"},
      {OfPod("tune-worker-0"), "", "not of "},
      {OfPod("tune-worker-0"), "tune-worker-00", "not of "},
      {OfPod("tune-worker-0", "other"), "tune-worker-0", "namespace 'other', expected research"},
      {OfPod("tune-worker-0", ""), "tune-worker-0", "namespace '', expected research"},
      {OfPod("tune-controller"), "tune-controller", "is no worker of this job"},
      {OfPod("big-tune-worker-0"), "big-tune-worker-0", "is no worker of this job"},
      {OfPod(""), "", "is no worker of this job"},
      {OfOperator(), "tune-worker-0", "namespace 'longhaul-system'"},
  };
  for (const auto& row : kRows) {
    const Status refused = identity_->Node(first_.Token(row.claims), row.node, kNow);
    EXPECT_EQ(refused.code(), Code::kPermissionDenied) << row.claims;
    EXPECT_NE(refused.message().find(row.reason), std::string::npos) << refused;
  }
}

TEST_F(ServiceAccountIdentityTest, RefusesTokensOfAnotherJobOrTimeOrKeyForBoth) {
  Open();
  for (Json claims : {OfOperator(), OfPod("tune-worker-0")}) {
    const auto refused = [&](const std::string& token, Instant now, const char* reason) {
      const Status of_caller = identity_->Caller(token, now).status();
      const Status of_node = identity_->Node(token, "tune-worker-0", now);
      for (const Status& status : {of_caller, of_node}) {
        EXPECT_EQ(status.code(), Code::kUnauthenticated) << status;
        EXPECT_NE(status.message().find(reason), std::string::npos) << status;
        EXPECT_EQ(status.message().find(token.substr(token.rfind('.') + 1)), std::string::npos);
      }
    };
    refused(first_.Token(claims), kNow + seconds(3630), "expired");
    refused(second_.Token(claims), kNow, "no key has the id 'second'");
    claims["aud"] = {"longhaul.dev/job/2"};
    refused(first_.Token(claims), kNow, "another audience");
  }
}

TEST_F(ServiceAccountIdentityTest, ReadsTheKeysAgainForAnUnknownOneAtMostOnceASecond) {
  Open();
  const std::string token = second_.Token(OfPod("tune-worker-0"));
  const auto joins = [&](Instant at) { return identity_->Node(token, "tune-worker-0", at).ok(); };
  Write(KeySet({first_.Jwk(), second_.Jwk()}));
  EXPECT_FALSE(joins(kNow + milliseconds(999)));
  EXPECT_TRUE(joins(kNow + milliseconds(1000)));
  EXPECT_TRUE(joins(kNow + milliseconds(1001))) << "the new keys were not kept";
}

// A refused reading counts, too: the rate of readings does not depend on what tokens name.
TEST_F(ServiceAccountIdentityTest, ReadsNoMoreOftenForTokensThatStayUnknown) {
  Open();
  const std::string token = second_.Token(OfPod("tune-worker-0"));
  const auto joins = [&](Instant at) { return identity_->Node(token, "tune-worker-0", at).ok(); };
  EXPECT_FALSE(joins(kNow + milliseconds(1500)));
  Write(KeySet({second_.Jwk()}));
  EXPECT_FALSE(joins(kNow + milliseconds(2400)));
  EXPECT_TRUE(joins(kNow + milliseconds(2500)));
}

TEST_F(ServiceAccountIdentityTest, ForgetsARemovedKeyWithinAMinute) {
  Open();
  const std::string token = first_.Token(OfPod("tune-worker-0"));
  const auto joins = [&](Instant at) { return identity_->Node(token, "tune-worker-0", at).ok(); };
  Write(KeySet({second_.Jwk()}));
  EXPECT_TRUE(joins(kNow + milliseconds(59'999)));
  EXPECT_FALSE(joins(kNow + milliseconds(60'000)));
}

TEST_F(ServiceAccountIdentityTest, ReadsAgainAfterAClockWasSetBack) {
  Open();
  Write(KeySet({second_.Jwk()}));
  EXPECT_TRUE(
      identity_->Node(second_.Token(OfPod("tune-worker-0")), "tune-worker-0", kNow - seconds(5))
          .ok());
}

TEST_F(ServiceAccountIdentityTest, KeepsTheKeysWhenTheFileIsDamagedOrGone) {
  Open();
  const std::string token = first_.Token(OfPod("tune-worker-0"));
  Write("{");
  EXPECT_TRUE(identity_->Node(token, "tune-worker-0", kNow + seconds(60)).ok());
  std::filesystem::remove(settings_.keys_file);
  EXPECT_TRUE(identity_->Node(token, "tune-worker-0", kNow + seconds(120)).ok());
}

TEST_F(ServiceAccountIdentityTest, DoesNotStartWithoutKeysOrWithAnEmptySetting) {
  for (std::string ServiceAccountSettings::*setting :
       {&ServiceAccountSettings::audience, &ServiceAccountSettings::namespace_name,
        &ServiceAccountSettings::operator_subject, &ServiceAccountSettings::worker_prefix}) {
    ServiceAccountSettings settings = settings_;
    (settings.*setting).clear();
    const Status refused = ServiceAccountIdentity::Create(settings, kNow).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find("needs the "), std::string::npos) << refused;
  }
  Write("{}");
  const Status damaged = ServiceAccountIdentity::Create(settings_, kNow).status();
  EXPECT_TRUE(damaged.message().starts_with(settings_.keys_file)) << damaged;
  settings_.keys_file += "x";
  EXPECT_EQ(ServiceAccountIdentity::Create(settings_, kNow).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes::service_account_identity_test
