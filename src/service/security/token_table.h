// The named tokens of a controller, each with a role: which there are, and whose one is.
//
// Only hashes are kept, so that the file does not give its reader a token. Its format, JSON:
//   {"tokens": [{"name": "grafana", "role": "view", "sha256": "64 hex digits",
//                "created_at_ns": 1, "expires_at_ns": 2}]}   without expires_at_ns: never
// Pure: the caller supplies secrets, hashes and the time. token_store.h keeps the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "service/security/role.h"

namespace longhaul::service {

struct NamedToken {
  std::string name;
  Role role = Role::kView;
  std::string sha256;  // of the secret, in hex
  Instant created;
  std::optional<Instant> expires;
};

// The name of the administrator's token in the controller's folder, which the table doesn't hold.
inline constexpr std::string_view kLocalToken = "local";

// Returns an error unless the name has 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-', begins with a
// letter or a digit, and is not kLocalToken.
Status CheckTokenName(std::string_view name);

class TokenTable {
 public:
  static constexpr size_t kMostTokens = 1000;

  // Parses a file's text; kDataLoss if it is not of the form above.
  static Result<TokenTable> Parse(const std::string& text);
  std::string Text() const;

  // Returns kAlreadyExists for a name in use, also of an expired token.
  Status Add(NamedToken token);
  // Returns kNotFound if there is none of this name.
  Status Revoke(std::string_view name);

  // Returns the holder of a secret, or kUnauthenticated with the reason. Compares it with every
  // token, each in constant time.
  Result<Identity> Identify(std::string_view secret, Instant now) const;

  const std::vector<NamedToken>& tokens() const { return tokens_; }  // in the order of creation

 private:
  std::vector<NamedToken> tokens_;
};

}  // namespace longhaul::service
