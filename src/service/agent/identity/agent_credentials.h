// What an agent presents to the controller and to other agents.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "service/agent/agent_options.h"

namespace longhaul::service {

struct AgentCredentials {
  std::vector<std::string> controllers;  // "HOST:PORT" each
  bool tls = false;                      // the certificate in the state directory
  std::string token;                     // without TLS
  std::string peer_secret;               // between agents
};

// Joins if this is the first start with a join token. Refuses to be reached from outside, or to
// connect to a controller elsewhere, without a certificate.
Result<AgentCredentials> OpenCredentials(const AgentOptions& options);

}  // namespace longhaul::service
