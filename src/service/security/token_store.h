// The controller's tokens: the table in its document, and the administrator's token beside it.
//
// Thread-safe. A change is durable before it takes effect. A file has mode 0600; one that others
// may read is refused.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "service/security/secret_document.h"
#include "service/security/token_table.h"

namespace longhaul::service {

class TokenStore {
 public:
  // Reads the table, if there is one. `administrator` is the token of the name kLocalToken, which
  // may administer and never expires.
  static Result<std::unique_ptr<TokenStore>> Open(std::unique_ptr<SecretDocument> document,
                                                  std::string administrator);
  // The same with a file.
  static Result<std::unique_ptr<TokenStore>> Open(const std::string& path,
                                                  std::string administrator) {
    return Open(std::make_unique<SecretFile>(path), std::move(administrator));
  }

  // Returns the holder of a secret, or kUnauthenticated with the reason.
  Result<Identity> Identify(std::string_view secret, Instant now) const;

  // Returns the new token's secret, which is kept nowhere.
  Result<std::string> Create(const std::string& name, Role role, std::optional<Instant> expires,
                             Instant now);
  Status Revoke(const std::string& name);
  std::vector<NamedToken> List() const;

 private:
  TokenStore(std::unique_ptr<SecretDocument> document, std::string administrator, TokenTable table);
  // Requires mutex_. Writes the table, then makes it the present one.
  Status Replace(TokenTable changed);

  const std::unique_ptr<SecretDocument> document_;
  const std::string administrator_;
  mutable std::mutex mutex_;  // guards the table
  TokenTable table_;
};

}  // namespace longhaul::service
