// The controller's tokens: the table in its file, and the administrator's token beside it.
//
// Thread-safe. A change is on the disk before it takes effect. The file has mode 0600; one that
// others may read is refused.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "service/security/token_table.h"

namespace longhaul::service {

class TokenStore {
 public:
  // Reads the table, if there is one. `administrator` is the token of the name kLocalToken, which
  // may administer and never expires.
  static Result<std::unique_ptr<TokenStore>> Open(const std::string& path,
                                                  std::string administrator);

  // Returns the holder of a secret, or kUnauthenticated with the reason.
  Result<Identity> Identify(std::string_view secret, Instant now) const;

  // Returns the new token's secret, which is kept nowhere.
  Result<std::string> Create(const std::string& name, Role role, std::optional<Instant> expires,
                             Instant now);
  Status Revoke(const std::string& name);
  std::vector<NamedToken> List() const;

 private:
  TokenStore(std::string path, std::string administrator, TokenTable table);
  // Requires mutex_. Writes the table, then makes it the present one.
  Status Replace(TokenTable changed);

  const std::string path_;
  const std::string administrator_;
  mutable std::mutex mutex_;  // guards the table
  TokenTable table_;
};

}  // namespace longhaul::service
