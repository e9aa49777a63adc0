// Which agents a controller with TLS admits: it gives certificates to agents with a join token,
// renews those of agents that have one, and verifies that an agent is the node that it states.
//
// The authority of agents' certificates is the controller's own and signs nothing else.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/time.h"
#include "proto/commands.pb.h"
#include "service/security/audit_log.h"
#include "service/security/certificate.h"
#include "service/security/external_identity.h"
#include "service/security/join_store.h"
#include "service/security/tls_files.h"

namespace longhaul::service {

struct AgentAdmissionOptions {
  std::string directory;  // the controller's
  // Returns where the join tokens are; empty: join-tokens.json in the directory.
  std::function<std::unique_ptr<SecretDocument>()> join_tokens;
  ServerTls server;
  Duration validity = std::chrono::hours(24 * 30);  // of an agent's certificate
  // Decides about join tokens of its form. Shared with the REST server. None: there are no others
  // than the controller's.
  std::shared_ptr<ExternalIdentity> external;
};

class AgentAdmission {
 public:
  // Reads the authority, the secret between agents and the join tokens, or makes them. Requires
  // that `audit` outlives this.
  static Result<std::unique_ptr<AgentAdmission>> Open(const AgentAdmissionOptions& options,
                                                      AuditLog& audit, Instant now);

  // Returns a certificate for the request's node, and logs it or the refusal. `certificate` is what
  // the agent presented in TLS, empty if it has none: then the request needs a join token.
  Result<proto::JoinAnswer> Join(const proto::JoinRequest& request, const std::string& certificate,
                                 const std::string& peer, Instant now);

  // Returns until when the agent with this certificate may be connected as `node`.
  Result<Instant> Verify(const std::string& certificate, const std::string& node,
                         Instant now) const;

  // Makes the certificates that the agent of this node has invalid, also for a controller that
  // starts again, and ends its connection. A join token for the node lets it join again.
  // kNotFound: no such agent has joined; kFailedPrecondition: it was revoked before.
  Status Revoke(const std::string& node, Instant now);
  // Calls this with the node of each revocation. Requires that no other call is under way.
  void OnRevoked(std::function<void(const std::string& node)> handler) {
    on_revoked_ = std::move(handler);
  }

  // Returns the text of a new join token.
  Result<std::string> CreateJoinToken(const std::string& node, Instant expires, Instant now);

  const ServerTls& server() const { return options_.server; }
  const std::string& authority() const { return authority_.certificate; }

 private:
  AgentAdmission(AgentAdmissionOptions options, AuditLog& audit)
      : options_(std::move(options)), audit_(audit) {}
  Status Authorize(const proto::JoinRequest& request, const std::string& certificate, Instant now);

  const AgentAdmissionOptions options_;
  AuditLog& audit_;
  CertificateAndKey authority_;
  std::string fingerprint_;  // of the server's authority
  std::string peer_secret_;
  std::unique_ptr<JoinStore> tokens_;
  std::function<void(const std::string&)> on_revoked_;
};

}  // namespace longhaul::service
