// Identities that somebody else gives: tokens that the controller did not make, and does not store.
//
// The controller consults an ExternalIdentity for bearer tokens and join tokens that have the form
// of a JSON Web Token (RFC 7519), and for no others. Its own tokens never have this form.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "service/security/role.h"

namespace longhaul::service {

constexpr size_t kMostSignedTokenBytes = 16 << 10;

// Returns whether the text has the form of a signed JSON Web Token: three parts, none of them
// empty, of the characters of base64url, with dots between them, in at most kMostSignedTokenBytes.
bool IsSignedToken(std::string_view text);

// Thread-safe, and its functions return soon: the thread of the REST server calls them. A message
// of a refusal goes to the holder of the token and to the audit log, so it must not have the token
// or a part of its signature.
class ExternalIdentity {
 public:
  virtual ~ExternalIdentity() = default;
  ExternalIdentity() = default;
  ExternalIdentity(const ExternalIdentity&) = delete;
  ExternalIdentity& operator=(const ExternalIdentity&) = delete;

  // Returns the name and the role of the REST caller that has this token.
  virtual Result<Identity> Caller(const std::string& token, Instant now) = 0;
  // Returns an error unless the holder of this token may join as the agent of `node`. The same
  // token may be presented again as long as it is valid.
  virtual Status Node(const std::string& token, const std::string& node, Instant now) = 0;
};

}  // namespace longhaul::service
