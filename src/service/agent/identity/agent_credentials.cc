#include "service/agent/identity/agent_credentials.h"

#include "base/text.h"
#include "io/files/file.h"
#include "service/agent/identity/agent_identity.h"
#include "service/client/endpoint.h"
#include "service/http/web_origin.h"
#include "service/security/external_identity.h"

namespace longhaul::service {
namespace {

bool IsRemote(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return !IsLoopback(host);
}

// Reads the file at each attempt to join: the issuer of an external token replaces it in time.
Result<std::string> ReadJoinToken(const AgentOptions& options) {
  if (!options.external_join_token) return ReadToken(options.join_token_file);
  const Result<std::string> text = io::ReadText(options.join_token_file, kMostSignedTokenBytes + 1);
  if (!text.ok()) return text.status().WithContext("the join token");
  std::string token(Trim(*text));
  if (IsSignedToken(token)) return token;
  return InvalidArgument("the join token in " + options.join_token_file +
                         " is no JSON Web Token, expected the token of an external identity");
}

}  // namespace

Result<AgentCredentials> OpenCredentials(const AgentOptions& options) {
  Result<AgentIdentity> identity = ReadIdentity(options.state_directory);
  if (identity.status().code() == Code::kNotFound && !options.join_token_file.empty()) {
    ASSIGN_OR_RETURN(const std::string token, ReadJoinToken(options));
    RETURN_IF_ERROR(JoinCluster({options.controller, options.node, token, options.ca_file},
                                options.state_directory));
    identity = ReadIdentity(options.state_directory);
  }
  if (identity.ok()) return AgentCredentials{true, "", identity->peer_secret};
  if (identity.status().code() != Code::kNotFound) return identity.status();
  if (IsRemote(options.controller) || !IsLoopback(options.address)) {
    return PermissionDenied(
        (IsRemote(options.controller) ? "the controller " + options.controller
                                      : "the address " + options.address) +
        " is beyond loopback, which needs a certificate: longhaul token create-join makes a join "
        "token; start the agent with --join-token-file FILE");
  }
  AgentCredentials credentials;
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(credentials.token, ReadToken(options.token_file));
  }
  credentials.peer_secret = credentials.token;
  return credentials;
}

}  // namespace longhaul::service
