#include "service/agent/identity/agent_identity.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <chrono>

#include "base/text.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "proto/commands.grpc.pb.h"
#include "proto/commands.pb.h"
#include "service/agent/identity/controller_credentials.h"
#include "service/agent/identity/pinned_authority.h"
#include "service/security/certificate.h"
#include "service/security/external_identity.h"
#include "service/security/join_store.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestFile = 256 << 10;
constexpr auto kJoinAnswerLimit = std::chrono::seconds(30);

std::string PathOf(const std::string& directory, const char* name) {
  return directory + "/tls/" + name;
}

// The certificate is last: with it the identity is complete.
Status WriteIdentity(const std::string& directory, const AgentIdentity& identity) {
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(directory + "/tls"));
  RETURN_IF_ERROR(io::WritePrivateText(PathOf(directory, "ca.crt"), identity.authority));
  RETURN_IF_ERROR(io::WritePrivateText(PathOf(directory, "peer.secret"), identity.peer_secret));
  // Both in one file: a crash must not separate a key from its certificate.
  return io::WritePrivateText(PathOf(directory, "agent.pem"), identity.certificate + identity.key);
}

// One call of Join. `identity` has what verifies the controller, and the certificate to renew.
Result<AgentIdentity> CallJoin(const std::string& controller, const std::string& node,
                               const std::string& secret, const AgentIdentity& present) {
  AgentIdentity next;
  ASSIGN_OR_RETURN(next.key, MakeKey());
  proto::JoinRequest request;
  request.set_token(secret);
  request.set_node(node);
  ASSIGN_OR_RETURN(*request.mutable_certificate_request(), MakeRequest(next.key));
  const auto stub =
      proto::Controller::NewStub(grpc::CreateChannel(controller, CredentialsOf(present)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kJoinAnswerLimit);
  proto::JoinAnswer answer;
  const grpc::Status status = stub->Join(&context, request, &answer);
  if (!status.ok()) {
    return Status(static_cast<Code>(status.error_code()),
                  "cannot join the controller at " + Printable(controller) + ": " +
                      Printable(FailureOfCall(status), 600));
  }
  RETURN_IF_ERROR(CheckKey(answer.certificate(), next.key));
  next.certificate = answer.certificate();
  next.authority = answer.authority();
  next.peer_secret = answer.peer_secret();
  return next;
}

// The secret of the token that is presented, and the fingerprint in it, if it has one.
Result<JoinTokenText> SplitToken(const JoinOptions& options) {
  const std::string token(Trim(options.token));
  if (!IsSignedToken(token)) return ParseJoinToken(token);
  if (!options.ca_file.empty()) return JoinTokenText{token, ""};
  return InvalidArgument(
      "this join token is a JSON Web Token, which has no fingerprint of the controller's "
      "authority: "
      "name the file of the authority (ca.crt of the controller) with --ca-file");
}

}  // namespace

Result<AgentIdentity> ReadIdentity(const std::string& directory) {
  AgentIdentity identity;
  ASSIGN_OR_RETURN(const std::string both,
                   io::ReadPrivateText(PathOf(directory, "agent.pem"), kLargestFile));
  ASSIGN_OR_RETURN(identity.authority, io::ReadText(PathOf(directory, "ca.crt"), kLargestFile));
  ASSIGN_OR_RETURN(identity.peer_secret,
                   io::ReadPrivateText(PathOf(directory, "peer.secret"), kLargestFile));
  identity.certificate = both;  // PEM readers take the part that they look for
  identity.key = both;
  const Status usable = CheckKey(identity.certificate, identity.key);
  if (usable.ok()) return identity;
  return usable.WithContext(PathOf(directory, "agent.pem") +
                            " is damaged: remove it and join again");
}

Status JoinCluster(const JoinOptions& options, const std::string& directory) {
  ASSIGN_OR_RETURN(const JoinTokenText token, SplitToken(options));
  AgentIdentity present;
  if (options.ca_file.empty()) {
    ASSIGN_OR_RETURN(present.authority, FetchAuthority(options.controller, token.fingerprint));
  } else {
    ASSIGN_OR_RETURN(present.authority, io::ReadText(options.ca_file, kLargestFile));
  }
  ASSIGN_OR_RETURN(const AgentIdentity joined,
                   CallJoin(options.controller, options.node, token.secret, present));
  return WriteIdentity(directory, joined);
}

Status RenewIdentity(const std::string& controller, const std::string& node,
                     const std::string& directory) {
  ASSIGN_OR_RETURN(const AgentIdentity present, ReadIdentity(directory));
  ASSIGN_OR_RETURN(const AgentIdentity renewed, CallJoin(controller, node, "", present));
  return WriteIdentity(directory, renewed);
}

Result<bool> RenewalIsDue(const std::string& certificate, Instant now) {
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(certificate));
  return now >= facts.not_after - (facts.not_after - facts.not_before) / 3;
}

}  // namespace longhaul::service
