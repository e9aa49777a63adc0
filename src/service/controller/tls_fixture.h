// A controller with TLS on free ports, and agents that join it, for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "service/agent/identity/agent_identity.h"
#include "service/agent/identity/controller_credentials.h"
#include "service/controller/agents/scripted_agent.h"
#include "service/controller/controller_fixture.h"
#include "service/security/tls_files.h"

namespace longhaul::service {

class TlsTest : public ControllerTest {
 protected:
  void SetUp() override {
    heartbeat_period_ = std::chrono::seconds(100);  // scripted agents send no heartbeats
    const auto made = InitTls(directory_, {}, io::Now());
    ASSERT_TRUE(made.ok()) << made.status();
    StartService();
  }

  std::string JoinToken(const std::string& node = "") {
    Json body = Json::object();
    if (!node.empty()) body["node"] = node;
    const auto answer = client_->Post("/v1/join-tokens", body);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? (*answer)["token"].get<std::string>() : "";
  }

  Status Join(const std::string& node, const std::string& token) {
    return JoinCluster({service_->endpoint().agents, node, token, ""}, FolderOf(node));
  }
  std::string FolderOf(const std::string& node) const { return directory_ + "/agent-" + node; }

  // Joins with a token of its own and returns the identity.
  AgentIdentity Joined(const std::string& node) {
    const Status joined = Join(node, JoinToken(node));
    EXPECT_TRUE(joined.ok()) << joined;
    const auto identity = ReadIdentity(FolderOf(node));
    EXPECT_TRUE(identity.ok()) << identity.status();
    return identity.ok() ? *identity : AgentIdentity();
  }

  // How a stream of `identity` that states to be `node` ends; it must not be welcomed.
  grpc::Status Refusal(const AgentIdentity& identity, const std::string& node,
                       const std::string& token = "") {
    ScriptedAgent agent(service_->endpoint(), CredentialsOf(identity));
    agent.Hello(token, node, 1);
    const bool welcomed = agent.Read().has_value();
    EXPECT_FALSE(welcomed) << "the agent was welcomed";
    if (welcomed) agent.Break();
    return agent.Finish();
  }

  // The refused actions of this kind in the audit log.
  std::vector<Json> Refused(const std::string& did) const {
    std::vector<Json> found;
    std::ifstream file(directory_ + "/audit.log");
    for (std::string line; std::getline(file, line);) {
      Json json = Json::parse(line);
      if (json["did"] == did && json["status"] >= 400) found.push_back(std::move(json));
    }
    return found;
  }
};

}  // namespace longhaul::service
