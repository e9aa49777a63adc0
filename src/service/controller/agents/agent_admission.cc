#include "service/controller/agents/agent_admission.h"

#include <utility>

#include "base/text.h"

namespace longhaul::service {

Result<std::unique_ptr<AgentAdmission>> AgentAdmission::Open(const AgentAdmissionOptions& options,
                                                             AuditLog& audit, Instant now) {
  std::unique_ptr<AgentAdmission> made(new AgentAdmission(options, audit));
  ASSIGN_OR_RETURN(made->authority_, AgentAuthority(options.directory, now));
  ASSIGN_OR_RETURN(made->fingerprint_, Fingerprint(options.server.ca));
  ASSIGN_OR_RETURN(made->peer_secret_, PeerSecret(options.directory));
  std::unique_ptr<SecretDocument> tokens;
  if (options.join_tokens) {
    tokens = options.join_tokens();
  } else {
    tokens = std::make_unique<SecretFile>(options.directory + "/join-tokens.json");
  }
  ASSIGN_OR_RETURN(made->tokens_, JoinStore::Open(std::move(tokens)));
  return made;
}

// A join token of the controller admits a new node and is used up. One of an external identity may
// be presented again: an agent that starts again in the same place has no other. A certificate that
// is still valid admits only its own node, for a renewal.
Status AgentAdmission::Authorize(const proto::JoinRequest& request, const std::string& certificate,
                                 Instant now) {
  if (!IsNodeName(request.node())) {
    return InvalidArgument("a node's name has 1 to 63 of a-z, 0-9 and '-', not " +
                           Printable(request.node(), 70));
  }
  if (options_.external != nullptr && IsSignedToken(request.token())) {
    RETURN_IF_ERROR(options_.external->Node(request.token(), request.node(), now));
    // So a join token for any node cannot take the name of this one.
    return tokens_->NoteJoined(request.node());
  }
  if (!request.token().empty()) return tokens_->Use(request.token(), request.node(), now);
  if (certificate.empty()) {
    return Unauthenticated(
        "an agent without a certificate needs a join token (longhaul token "
        "create-join)");
  }
  return Verify(certificate, request.node(), now).status();
}

Result<proto::JoinAnswer> AgentAdmission::Join(const proto::JoinRequest& request,
                                               const std::string& certificate,
                                               const std::string& peer, Instant now) {
  // Before the token is used up: a request that cannot be signed leaves it valid.
  auto made = SignRequest(authority_, request.certificate_request(), request.node(), now,
                          options_.validity, tokens_->GenerationOf(request.node()));
  Status status = made.status();
  if (status.ok()) status = Authorize(request, certificate, now);
  AuditEntry entry;
  entry.from = peer;
  entry.did = request.token().empty() ? "renew agent" : "join agent";
  entry.object = request.node();
  entry.status = status.ok() ? 201 : 403;
  if (!status.ok()) entry.error = status.message();
  audit_.Record(entry, now);
  RETURN_IF_ERROR(status);
  proto::JoinAnswer answer;
  answer.set_certificate(*made);
  answer.set_authority(options_.server.ca);
  answer.set_peer_secret(peer_secret_);
  return answer;
}

Result<Instant> AgentAdmission::Verify(const std::string& certificate, const std::string& node,
                                       Instant now) const {
  if (certificate.empty()) {
    return Unauthenticated("the agent of " + Printable(node, 70) +
                           " has no certificate: start it with --join-token-file (longhaul token "
                           "create-join)");
  }
  ASSIGN_OR_RETURN(const std::string owner, VerifyClient(certificate, authority_.certificate, now));
  // A valid certificate of one node must not act for another one.
  if (owner != node) {
    return PermissionDenied("the agent states that it is node " + Printable(node, 70) +
                            ", and its certificate is of node " + Printable(owner, 70));
  }
  // The gateway breaks the stream when the certificate expires, so an expired agent does not stay
  // connected.
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(certificate));
  RETURN_IF_ERROR(tokens_->CheckGeneration(node, facts.generation));
  return facts.not_after;
}

// In this order: an agent whose connection is ended connects again at once.
Status AgentAdmission::Revoke(const std::string& node, Instant now) {
  RETURN_IF_ERROR(tokens_->Revoke(node, now));
  if (on_revoked_) on_revoked_(node);
  return {};
}

Result<std::string> AgentAdmission::CreateJoinToken(const std::string& node, Instant expires,
                                                    Instant now) {
  return tokens_->Create(node, fingerprint_, expires, now);
}

}  // namespace longhaul::service
