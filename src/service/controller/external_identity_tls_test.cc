// A controller with TLS that accepts the tokens of an external identity besides its own.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "io/event_loop.h"
#include "service/agent/agent_service.h"
#include "service/controller/tls_fixture.h"
#include "service/security/external_identity.h"

namespace longhaul::service {
namespace {

using std::chrono::hours;

constexpr const char* kViewer = "eyJ2aWV3ZXI.eyJ2aWV3ZXI.c2lnbmF0dXJlLW9mLXZpZXdlcg";
constexpr const char* kNode = "eyJub2RlLTE.eyJub2RlLTE.c2lnbmF0dXJlLW9mLW5vZGUtMQ";
constexpr const char* kUnknown = "eyJvdGhlcg.eyJvdGhlcg.c2lnbmF0dXJlLW9mLW90aGVy";

// Knows the first two tokens above, and counts what it was asked.
class FakeIdentity final : public ExternalIdentity {
 public:
  Result<Identity> Caller(const std::string& token, Instant now) override {
    ++calls_;
    EXPECT_GT(now, Instant());
    if (token == kViewer) return Identity{"cluster:viewer", Role::kView};
    return Unauthenticated("the fake one does not know this caller");
  }
  Status Node(const std::string& token, const std::string& node, Instant now) override {
    ++calls_;
    EXPECT_GT(now, Instant());
    if (token != kNode) return Unauthenticated("the fake one does not know this token");
    if (node == "node-1") return {};
    return PermissionDenied("the fake one gave this token to node-1");
  }
  int calls() const { return calls_; }

 private:
  std::atomic<int> calls_ = 0;
};

class ExternalIdentityTest : public TlsTest {
 protected:
  void SetUp() override {
    fake_ = std::make_shared<FakeIdentity>();
    external_ = fake_;
    TlsTest::SetUp();
  }

  RestClient ClientWith(const std::string& token) const {
    Endpoint endpoint = service_->endpoint();
    endpoint.token = token;
    return RestClient(endpoint);
  }
  Status JoinWith(const std::string& token, const std::string& node, const std::string& folder) {
    return JoinCluster({service_->endpoint().agents, node, token, service_->endpoint().ca_file},
                       FolderOf(folder));
  }
  std::string AuditText() const {
    std::ifstream file(directory_ + "/audit.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // No part of a token may be in the audit log.
  void ExpectNoTokenLogged() const {
    const std::string text = AuditText();
    EXPECT_FALSE(text.empty());
    for (const std::string token : {kViewer, kNode, kUnknown}) {
      EXPECT_EQ(text.find(token.substr(0, token.find('.'))), std::string::npos) << text;
      EXPECT_EQ(text.find(token.substr(token.rfind('.') + 1)), std::string::npos) << text;
    }
  }

  std::shared_ptr<FakeIdentity> fake_;
};

TEST_F(ExternalIdentityTest, GivesARestCallerItsRoleAndNoMore) {
  Submit("mine");
  RestClient viewer = ClientWith(kViewer);
  EXPECT_TRUE(viewer.Get("/v1/jobs").ok());
  EXPECT_EQ(viewer.Post("/v1/jobs/mine/stop", Json::object()).status().code(),
            Code::kPermissionDenied);
  const Status refused = ClientWith(kUnknown).Get("/v1/jobs").status();
  EXPECT_EQ(refused.code(), Code::kUnauthenticated);
  EXPECT_NE(refused.message().find("the fake one does not know"), std::string::npos) << refused;
  ASSERT_EQ(Refused("POST /v1/jobs/{id}/stop").size(), 1u);
  EXPECT_EQ(Refused("POST /v1/jobs/{id}/stop")[0]["who"], "cluster:viewer");
  ASSERT_EQ(Refused("GET /v1/jobs").size(), 1u);
  EXPECT_FALSE(Refused("GET /v1/jobs")[0].contains("who"));
  ExpectNoTokenLogged();
}

TEST_F(ExternalIdentityTest, IsNotConsultedForTheControllersOwnTokens) {
  EXPECT_TRUE(client_->Get("/v1/jobs").ok());
  EXPECT_EQ(ClientWith("lht_" + std::string(64, 'a')).Get("/v1/jobs").status().code(),
            Code::kUnauthenticated);
  EXPECT_EQ(ClientWith("a.b").Get("/v1/jobs").status().code(), Code::kUnauthenticated);
  EXPECT_TRUE(JoinWith(JoinToken("node-2"), "node-2", "node-2").ok());
  EXPECT_EQ(fake_->calls(), 0);
}

// Two pods with one name cannot exist at the same time; the one that starts again has no other
// token.
TEST_F(ExternalIdentityTest, LetsAnAgentJoinAgainWithTheSameToken) {
  for (const std::string folder : {"first", "second"}) {
    const Status joined = JoinWith(kNode + std::string("\n"), "node-1", folder);
    ASSERT_TRUE(joined.ok()) << joined;
    const auto identity = ReadIdentity(FolderOf(folder));
    ASSERT_TRUE(identity.ok()) << identity.status();
    const auto facts = ReadCertificate(identity->certificate);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->common_name, "node-1");
    EXPECT_GT(facts->not_after, io::Now() + hours(24 * 29));
    ScriptedAgent agent(service_->endpoint(), CredentialsOf(*identity));
    agent.Hello("", "node-1", folder == "first" ? 1 : 2);
    EXPECT_TRUE(agent.Read().has_value());
  }
  ExpectNoTokenLogged();
}

TEST_F(ExternalIdentityTest, RefusesAnAgentThatItDoesNotKnowOrOfAnotherNode) {
  const Status other = JoinWith(kNode, "node-2", "node-2");
  EXPECT_EQ(other.code(), Code::kPermissionDenied) << other;
  const Status unknown = JoinWith(kUnknown, "node-1", "node-1");
  EXPECT_EQ(unknown.code(), Code::kUnauthenticated) << unknown;
  EXPECT_EQ(JoinWith(kViewer, "node-1", "node-1").code(), Code::kUnauthenticated);
  EXPECT_EQ(ReadIdentity(FolderOf("node-2")).status().code(), Code::kNotFound);
  ASSERT_EQ(Refused("join agent").size(), 3u);
  EXPECT_EQ(Refused("join agent")[0]["object"], "node-2");
  EXPECT_EQ(Refused("join agent")[0]["error"], "the fake one gave this token to node-1");
  ExpectNoTokenLogged();
}

TEST_F(ExternalIdentityTest, KeepsTheNameOfItsNodeFromATokenForAnyNode) {
  ASSERT_TRUE(JoinWith(kNode, "node-1", "node-1").ok());
  service_.reset();
  StartService();
  EXPECT_EQ(JoinWith(JoinToken(), "node-1", "thief").code(), Code::kPermissionDenied);
  EXPECT_TRUE(JoinWith(kNode, "node-1", "again").ok());
}

// It has no fingerprint, so nothing would verify the controller.
TEST_F(ExternalIdentityTest, IsNotPresentedWithoutAnAuthority) {
  const Status refused =
      JoinCluster({service_->endpoint().agents, "node-1", kNode, ""}, FolderOf("node-1"));
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("--ca-file"), std::string::npos) << refused;
  EXPECT_EQ(fake_->calls(), 0);
}

TEST_F(ExternalIdentityTest, IsNotPresentedToAFalseController) {
  const std::string ca_file = directory_ + "/other.crt";
  std::ofstream(ca_file) << MakeAuthority("other", io::Now(), hours(1))->certificate;
  EXPECT_EQ(JoinCluster({service_->endpoint().agents, "node-1", kNode, ca_file}, FolderOf("node-1"))
                .code(),
            Code::kUnavailable);
  EXPECT_EQ(fake_->calls(), 0);
}

TEST_F(ExternalIdentityTest, AreNoTokensOfAControllerWithoutOne) {
  service_.reset();
  external_.reset();
  StartService();
  EXPECT_EQ(ClientWith(kViewer).Get("/v1/jobs").status().code(), Code::kUnauthenticated);
  const Status refused = JoinWith(kNode, "node-1", "node-1");
  EXPECT_EQ(refused.code(), Code::kUnauthenticated);
  EXPECT_NE(refused.message().find("unknown join token"), std::string::npos) << refused;
  EXPECT_EQ(fake_->calls(), 0);
}

// The kubelet makes TOKEN a link to ..data/TOKEN, and replaces the link ..data.
TEST_F(ExternalIdentityTest, IsReadByAnAgentFromAVolumeAtEachAttempt) {
  const std::string volume = directory_ + "/volume";
  const auto write = [&](const std::string& version, const std::string& token) {
    std::filesystem::create_directories(volume + "/" + version);
    std::ofstream(volume + "/" + version + "/token") << token;
    ASSERT_EQ(::chmod((volume + "/" + version + "/token").c_str(), 0644), 0);
    std::filesystem::remove(volume + "/..data");
    std::filesystem::create_symlink(version, volume + "/..data");
  };
  write("..1", kUnknown);
  std::filesystem::create_symlink("..data/token", volume + "/token");
  const auto loop = *io::EventLoop::Create();
  AgentOptions options;
  options.node = "node-1";
  options.controller = service_->endpoint().agents;
  options.ca_file = service_->endpoint().ca_file;
  options.state_directory = FolderOf("node-1");
  options.join_token_file = volume + "/token";
  const auto refusal = [&] { return AgentService::Create(*loop, options).status(); };
  const Status open = refusal();
  EXPECT_EQ(open.code(), Code::kPermissionDenied) << open;
  EXPECT_NE(open.message().find("other users may read"), std::string::npos) << open;
  options.external_join_token = true;
  EXPECT_EQ(refusal().code(), Code::kUnauthenticated) << refusal();
  write("..2", "lhj_x\n");
  EXPECT_NE(refusal().message().find("is no JSON Web Token"), std::string::npos) << refusal();
  write("..3", kNode);
  EXPECT_TRUE(refusal().ok()) << refusal();
  EXPECT_TRUE(ReadIdentity(FolderOf("node-1")).ok());
}

}  // namespace
}  // namespace longhaul::service
