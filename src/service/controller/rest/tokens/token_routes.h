// The routes of the REST API for tokens of people, for tokens that agents join with, and for the
// certificates that agents have.
#pragma once

#include <string>

#include "service/controller/agents/agent_admission.h"
#include "service/controller/rest/api_response.h"
#include "service/security/token_store.h"

namespace longhaul::service {

class TokenRoutes {
 public:
  // Requires that both outlive this. `admission` is null where the controller has no TLS.
  TokenRoutes(TokenStore& tokens, AgentAdmission* admission)
      : tokens_(tokens), admission_(admission) {}

  // Returns names, roles and times; no secrets.
  ApiResponse List() const;
  // Each answer contains the new token's secret, which is not kept.
  ApiResponse Create(const std::string& body) const;
  ApiResponse CreateJoinToken(const std::string& body) const;
  ApiResponse Revoke(const std::string& name) const;
  // Revokes the certificate of a node's agent.
  ApiResponse RevokeAgent(const std::string& node) const;

 private:
  TokenStore& tokens_;
  AgentAdmission* const admission_;
};

}  // namespace longhaul::service
