// An agent's certificate: how the agent gets it with a join token, where it keeps it, and when it
// renews it. docs/security.md describes the protocol (rpc Join in commands.proto).
//
// The files are in DIR/tls of the agent's folder, keys and secrets with mode 0600:
//   ca.crt      verifies the controller
//   agent.pem   the client certificate, whose common name is the node, and its key, which never
//               leaves this machine: in one file, so that both are replaced together
//   peer.secret the secret between agents
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::service {

struct AgentIdentity {
  std::string authority;    // PEM
  std::string certificate;  // PEM
  std::string key;          // PEM
  std::string peer_secret;
};

// Reads the files; kNotFound if the agent has not joined.
Result<AgentIdentity> ReadIdentity(const std::string& directory);

struct JoinOptions {
  std::string controller;  // "HOST:PORT"
  std::string node;
  // Text of a join token of the controller, or a token of an external identity that it accepts
  // (service/security/external_identity.h), which needs a ca_file.
  std::string token;
  std::string ca_file;  // empty: the authority is fetched and compared with the token's fingerprint
};

// Joins: makes a key, verifies the controller, presents the token and a certificate request, and
// writes the files in `directory`.
Status JoinCluster(const JoinOptions& options, const std::string& directory);

// Gets a new certificate with a new key for the present one and replaces the files.
Status RenewIdentity(const std::string& controller, const std::string& node,
                     const std::string& directory);

// Whether two thirds of the certificate's time are over at `now`, so that a third is left for
// attempts to renew it.
Result<bool> RenewalIsDue(const std::string& certificate, Instant now);

}  // namespace longhaul::service
