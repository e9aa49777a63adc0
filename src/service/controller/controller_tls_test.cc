// The controller with TLS, attacked: over both protocols, with certificates of all kinds.
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <utility>

#include "io/clock.h"
#include "io/event_loop.h"
#include "io/files/private_files.h"
#include "io/net/socket.h"
#include "service/agent/agent_service.h"
#include "service/agent/identity/agent_identity.h"
#include "service/agent/identity/controller_credentials.h"
#include "service/controller/agents/scripted_agent.h"
#include "service/controller/tls_fixture.h"

namespace longhaul::service {
namespace {

using std::chrono::hours;

TEST_F(TlsTest, ServesRestToClientsThatVerifyIt) {
  const Endpoint& endpoint = service_->endpoint();
  EXPECT_TRUE(endpoint.rest.starts_with("https://")) << endpoint.rest;
  EXPECT_TRUE(client_->Get("/v1/jobs").ok());
  Endpoint unverified = endpoint;
  unverified.ca_file.clear();
  const Status refused = RestClient(unverified).Get("/v1/jobs").status();
  EXPECT_EQ(refused.code(), Code::kUnauthenticated);
  EXPECT_NE(refused.message().find("--ca-file"), std::string::npos) << refused;
  httplib::Client plain("http://" + endpoint.rest.substr(8));
  EXPECT_FALSE(plain.Get("/v1/healthz")) << "plain HTTP was answered";
}

TEST_F(TlsTest, GivesThePageACookieThatIsForTlsAndThisHostOnly) {
  const auto made = client_->Post("/v1/page/links", Json::object());
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string link = (*made)["link"].get<std::string>().substr(4);
  const std::string& rest = service_->endpoint().rest;
  httplib::Client browser(rest);
  browser.enable_server_certificate_verification(false);
  const auto opened =
      browser.Post("/v1/page/session", {{"Longhaul-Page-Link", link}, {"Origin", rest}}, "", "");
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->status, 201) << opened->body;
  const std::string set = opened->get_header_value("Set-Cookie");
  EXPECT_TRUE(set.starts_with("__Host-longhaul_")) << set;
  EXPECT_NE(set.find("; Secure"), std::string::npos) << set;
  const std::string cookie = set.substr(0, set.find(';'));
  EXPECT_EQ(browser.Get("/v1/view/runs", {{"Cookie", cookie}})->status, 200);
  // The name that a controller without TLS would look for.
  EXPECT_EQ(browser.Get("/v1/view/runs", {{"Cookie", cookie.substr(7)}})->status, 401);
}

// Larger than a record of TLS and than a socket's buffer, in both directions.
TEST_F(TlsTest, CarriesLargeBodies) {
  const std::string large(900'000, 'x');
  EXPECT_EQ(client_->Post("/v1/jobs", {{"job", large}, {"nonsense", 1}}).status().code(),
            Code::kInvalidArgument);
  secret_ = std::string(500'000, 'y');
  for (int i = 0; i < 4; ++i) Submit();
  const auto jobs = client_->Get("/v1/jobs?environment=true");
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ((*jobs)["jobs"].size(), 4u);
  EXPECT_EQ((*jobs)["jobs"][3]["job"]["workload"]["environment"]["KEY"], secret_);
}

// The certificate is for 127.0.0.1 and localhost, not for the address that is used.
TEST_F(TlsTest, IsRefusedByClientsUnderAnotherName) {
  service_.reset();
  ControllerServiceOptions options;
  options.state_directory = directory_;
  options.rest = "0.0.0.0:0";
  auto service = ControllerService::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  Endpoint endpoint = (*service)->endpoint();
  EXPECT_TRUE(RestClient(endpoint).Get("/v1/jobs").ok());
  endpoint.rest.replace(endpoint.rest.find("localhost"), 9, "127.0.0.2");
  EXPECT_EQ(RestClient(endpoint).Get("/v1/jobs").status().code(), Code::kUnauthenticated);
}

TEST_F(TlsTest, RefusesToStartWithAnExpiredCertificate) {
  service_.reset();
  ASSERT_TRUE(InitTls(directory_, {}, io::Now() - 2 * kServerValidity).ok());
  ControllerServiceOptions options;
  options.state_directory = directory_;
  const Status refused = ControllerService::Start(options).status();
  EXPECT_NE(refused.message().find("expired"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("longhaul controller init"), std::string::npos) << refused;
}

TEST_F(TlsTest, WelcomesAnAgentThatHasJoined) {
  const AgentIdentity identity = Joined("node-1");
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(identity));
  agent.Hello("", "node-1", 1);
  const auto message = agent.Read();
  ASSERT_TRUE(message.has_value()) << agent.Finish().error_message();
  EXPECT_TRUE(message->has_welcome());
  EXPECT_EQ(RenewalIsDue(identity.certificate, io::Now()).value(), false);
  EXPECT_EQ(RenewalIsDue(identity.certificate, io::Now() + hours(24 * 21)).value(), true);
}

TEST_F(TlsTest, RefusesAReplayedJoinTokenAlsoAfterARestart) {
  const std::string token = JoinToken();
  ASSERT_TRUE(Join("node-1", token).ok());
  EXPECT_EQ(Join("node-2", token).code(), Code::kUnauthenticated);
  service_.reset();
  StartService();
  const Status replayed = Join("node-3", token);
  EXPECT_EQ(replayed.code(), Code::kUnauthenticated);
  EXPECT_NE(replayed.message().find("was used by node node-1"), std::string::npos) << replayed;
  EXPECT_EQ(ReadIdentity(FolderOf("node-3")).status().code(), Code::kNotFound);
  ASSERT_EQ(Refused("join agent").size(), 2u);
  EXPECT_EQ(Refused("join agent")[1]["object"], "node-3");
}

TEST_F(TlsTest, RefusesAnAgentThatStatesAnothersNameWhileItsOwnerGoesOn) {
  const AgentIdentity owner = Joined("node-1");
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(owner));
  agent.Hello("", "node-1", 1);
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  const grpc::Status refused = Refusal(Joined("node-2"), "node-1");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(refused.error_message().find("its certificate is of node node-2"), std::string::npos)
      << refused.error_message();
  ASSERT_EQ(Refused("connect agent").size(), 1u);
  EXPECT_EQ(Refused("connect agent")[0]["object"], "node-1");
  agent.Join(2, 1);
  EXPECT_TRUE(agent.AwaitAcknowledged(2)) << "the refused agent replaced the owner";
}

TEST_F(TlsTest, RefusesAnAgentWithoutACertificateEvenWithTheToken) {
  AgentIdentity none;
  none.authority = Joined("node-1").authority;
  const grpc::Status refused = Refusal(none, "node-1", service_->endpoint().token);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Refused("connect agent").size(), 1u);
}

TEST_F(TlsTest, RefusesCertificatesThatAreExpiredOrOfAnotherAuthority) {
  const std::string server_authority = Joined("node-1").authority;
  const CertificateAndKey own = *AgentAuthority(directory_, io::Now());
  const CertificateAndKey other = *MakeAuthority("longhaul agents", io::Now(), hours(24));
  const struct {
    CertificateAndKey authority;
    Instant from;
    const char* reason;
  } kRows[] = {{own, io::Now() - hours(48), "certificate has expired"},
               {own, io::Now() + hours(48), "certificate is not yet valid"},
               {other, io::Now(), "is refused"}};
  for (const auto& row : kRows) {
    AgentIdentity identity{server_authority, "", *MakeKey(), ""};
    identity.certificate =
        *SignRequest(row.authority, *MakeRequest(identity.key), "node-1", row.from, hours(24));
    const grpc::Status refused = Refusal(identity, "node-1");
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_NE(refused.error_message().find(row.reason), std::string::npos)
        << refused.error_message();
  }
  EXPECT_EQ(Refused("connect agent").size(), 3u);
}

TEST_F(TlsTest, RenewsACertificateForItsOwnNodeOnly) {
  const AgentIdentity before = Joined("node-1");
  const std::string& address = service_->endpoint().agents;
  EXPECT_EQ(RenewIdentity(address, "node-2", FolderOf("node-1")).code(), Code::kPermissionDenied);
  const Status renewed = RenewIdentity(address, "node-1", FolderOf("node-1"));
  ASSERT_TRUE(renewed.ok()) << renewed;
  const auto after = ReadIdentity(FolderOf("node-1"));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE(after->certificate, before.certificate);
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(*after));
  agent.Hello("", "node-1", 1);
  EXPECT_TRUE(agent.Read().has_value());
}

TEST_F(TlsTest, EndsTheStreamOfARevokedAgentAndRefusesItAlsoAfterARestart) {
  const AgentIdentity revoked = Joined("node-1");
  const AgentIdentity other = Joined("node-2");
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(revoked));
  agent.Hello("", "node-1", 1);
  ASSERT_TRUE(agent.Read().has_value());
  ScriptedAgent neighbour(service_->endpoint(), CredentialsOf(other));
  neighbour.Hello("", "node-2", 1);
  neighbour.Join(1, 1);
  ASSERT_TRUE(neighbour.AwaitAcknowledged(1));
  ASSERT_TRUE(client_->Post("/v1/nodes/node-1/revoke", Json::object()).ok());
  EXPECT_FALSE(agent.Read().has_value()) << "the stream goes on";
  neighbour.Join(2, 1);
  EXPECT_TRUE(neighbour.AwaitAcknowledged(2)) << "another agent's stream was ended";
  for (int start = 0; start < 2; ++start) {
    const grpc::Status refused = Refusal(revoked, "node-1");
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_NE(refused.error_message().find("was revoked"), std::string::npos)
        << refused.error_message();
    const Status renewed = RenewIdentity(service_->endpoint().agents, "node-1", FolderOf("node-1"));
    EXPECT_EQ(renewed.code(), Code::kUnauthenticated) << "a revoked certificate was renewed";
    neighbour.Break();
    service_.reset();
    StartService();
  }
  EXPECT_EQ(Refused("connect agent").size(), 2u);
  EXPECT_EQ(Refused("renew agent").size(), 2u);
}

TEST_F(TlsTest, LetsARevokedAgentJoinAgainByATokenOfItsNameOnly) {
  const AgentIdentity before = Joined("node-1");
  ASSERT_TRUE(client_->Post("/v1/nodes/node-1/revoke", Json::object()).ok());
  EXPECT_EQ(Join("node-1", JoinToken()).code(), Code::kPermissionDenied);
  const AgentIdentity after = Joined("node-1");
  EXPECT_EQ(Refusal(before, "node-1").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(after));
  agent.Hello("", "node-1", 1);
  EXPECT_TRUE(agent.Read().has_value());
  EXPECT_TRUE(RenewIdentity(service_->endpoint().agents, "node-1", FolderOf("node-1")).ok());
  EXPECT_EQ(Refusal(before, "node-1").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  // Each revocation ends the certificates of the one before, too.
  ASSERT_TRUE(client_->Post("/v1/nodes/node-1/revoke", Json::object()).ok());
  EXPECT_EQ(Refusal(before, "node-1").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Refusal(after, "node-1").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(TlsTest, RevokesAnAgentThatHasJoinedAndOnce) {
  const auto revoke = [&](const std::string& node) {
    return client_->Post("/v1/nodes/" + node + "/revoke", Json::object()).status();
  };
  EXPECT_EQ(revoke("node-1").code(), Code::kNotFound);
  Joined("node-1");
  EXPECT_TRUE(revoke("node-1").ok());
  const Status again = revoke("node-1");
  EXPECT_EQ(again.code(), Code::kFailedPrecondition);
  EXPECT_NE(again.message().find("and it has not joined again"), std::string::npos) << again;
}

TEST_F(TlsTest, IsNotJoinedByAnAgentWhoseTokenIsOfAnotherAuthority) {
  const std::string token = JoinToken("node-1");
  std::string forged = token;
  forged.replace(forged.find('.') + 1, 64, std::string(64, 'a'));
  EXPECT_EQ(Join("node-1", forged).code(), Code::kUnauthenticated);
  EXPECT_TRUE(Join("node-1", token).ok()) << "the secret was sent to an unverified server";
}

// The certificate is for 127.0.0.1 and localhost, not for 127.0.0.2.
TEST_F(TlsTest, IsNotJoinedUnderAnotherName) {
  service_.reset();
  ControllerServiceOptions options;
  options.state_directory = directory_;
  options.agents = "0.0.0.0:0";
  auto service = ControllerService::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  const auto token = RestClient((*service)->endpoint()).Post("/v1/join-tokens", Json::object());
  ASSERT_TRUE(token.ok()) << token.status();
  const std::string agents = (*service)->endpoint().agents;
  const std::string secret = (*token)["token"].get<std::string>();
  const std::string other = "127.0.0.2" + agents.substr(agents.rfind(':'));
  const Status refused = JoinCluster({other, "node-1", secret, ""}, FolderOf("node-1"));
  EXPECT_NE(refused.message().find("127.0.0.2"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("longhaul controller init STATE_DIR --name HOST"),
            std::string::npos)
      << refused;
}

// The limits of http_server.h, from outside: the agent's stream and REST go on meanwhile.
TEST_F(TlsTest, GoesOnAmongAThousandIdleConnectionsAndABodyOfOneGibibyte) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlim_t before = std::exchange(files.rlim_cur, std::min<rlim_t>(files.rlim_max, 4096));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  ScriptedAgent agent(service_->endpoint(), CredentialsOf(Joined("node-1")));
  agent.Hello("", "node-1", 1);
  agent.Join(1, 1);
  ASSERT_TRUE(agent.AwaitAcknowledged(1));
  const Result<HostPort> rest = ParseHostPort(service_->endpoint().rest.substr(8));
  std::vector<io::Fd> idle;
  for (int i = 0; i < 1000; ++i) {
    auto socket = io::ConnectTcp(rest->host, rest->port);
    ASSERT_TRUE(socket.ok()) << i << ": " << socket.status();
    // Every second one has begun a handshake that it does not end.
    if (i % 2 == 0) ::send(socket->get(), "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL);
    idle.push_back(*std::move(socket));
  }
  httplib::SSLClient large(rest->host, rest->port);
  large.set_ca_cert_path(service_->endpoint().ca_file.c_str());
  large.set_bearer_token_auth(service_->endpoint().token);
  const auto refused = large.Post(
      "/v1/jobs", {}, size_t{1} << 30,
      [](size_t, size_t, httplib::DataSink& sink) {
        const std::string block(64 << 10, ' ');
        return sink.write(block.data(), block.size());
      },
      "application/json");
  EXPECT_TRUE(!refused || refused->status == 413) << refused->status;
  ASSERT_EQ(Refused("HTTP request").size(), 1u);
  EXPECT_EQ(Refused("HTTP request")[0]["status"], 413);
  EXPECT_TRUE(client_->Get("/v1/jobs").ok());
  agent.Join(2, 1);
  EXPECT_TRUE(agent.AwaitAcknowledged(2));
  idle.clear();
  files.rlim_cur = before;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

// Nothing is sent and nothing is listened on.
TEST(Agent, DoesNotStartBeyondLoopbackWithoutACertificate) {
  std::string pattern = testing::TempDir() + "/agent_XXXXXX";
  const std::string directory = ::mkdtemp(pattern.data());
  const auto loop = *io::EventLoop::Create();
  AgentOptions options;
  options.node = "node-1";
  options.state_directory = directory;
  for (const auto& [controller, address] :
       {std::pair("10.0.0.1:8701", "127.0.0.1"), std::pair("controller.example:1", "127.0.0.1"),
        std::pair("127.0.0.1:8701", "10.0.0.7"), std::pair("127.0.0.1.evil.example:1", "::1")}) {
    options.controller = controller;
    options.address = address;
    const Status refused = AgentService::Create(*loop, options).status();
    EXPECT_EQ(refused.code(), Code::kPermissionDenied) << controller << " " << address;
    EXPECT_NE(refused.message().find("--join-token-file"), std::string::npos) << refused;
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace longhaul::service
