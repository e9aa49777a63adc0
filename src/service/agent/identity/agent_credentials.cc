#include "service/agent/identity/agent_credentials.h"

#include <algorithm>

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

// Splits "HOST:PORT,HOST:PORT".
Result<std::vector<std::string>> ControllersOf(const std::string& list) {
  std::vector<std::string> addresses;
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view address = Trim(part);
    const size_t colon = address.rfind(':');
    const bool has_both = colon != std::string_view::npos && colon > 0;
    if (!has_both || !ParseUint64(address.substr(colon + 1)).ok()) {
      return InvalidArgument("--controller " + Printable(list, 200) +
                             ": expected HOST:PORT, or several with commas between, not '" +
                             Printable(address, 80) + "'");
    }
    addresses.emplace_back(address);
  }
  return addresses;
}

// Any controller that leads can do it.
Status JoinAny(const std::vector<std::string>& controllers, const AgentOptions& options,
               const std::string& token) {
  Status status;
  for (const std::string& controller : controllers) {
    status =
        JoinCluster({controller, options.node, token, options.ca_file}, options.state_directory);
    if (status.code() != Code::kUnavailable && status.code() != Code::kDeadlineExceeded) break;
  }
  return status;
}

}  // namespace

Result<AgentCredentials> OpenCredentials(const AgentOptions& options) {
  AgentCredentials credentials;
  ASSIGN_OR_RETURN(credentials.controllers, ControllersOf(options.controller));
  Result<AgentIdentity> identity = ReadIdentity(options.state_directory);
  if (identity.status().code() == Code::kNotFound && !options.join_token_file.empty()) {
    ASSIGN_OR_RETURN(const std::string token, ReadJoinToken(options));
    RETURN_IF_ERROR(JoinAny(credentials.controllers, options, token));
    identity = ReadIdentity(options.state_directory);
  }
  if (identity.ok()) {
    credentials.tls = true;
    credentials.peer_secret = identity->peer_secret;
    return credentials;
  }
  if (identity.status().code() != Code::kNotFound) return identity.status();
  const bool remote =
      std::any_of(credentials.controllers.begin(), credentials.controllers.end(), IsRemote);
  if (remote || !IsLoopback(options.address)) {
    return PermissionDenied(
        (remote ? "the controller " + options.controller : "the address " + options.address) +
        " is beyond loopback, which needs a certificate: longhaul token create-join makes a join "
        "token; start the agent with --join-token-file FILE");
  }
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(credentials.token, ReadToken(options.token_file));
  }
  credentials.peer_secret = credentials.token;
  return credentials;
}

}  // namespace longhaul::service
