#include "service/security/token_store.h"

#include <utility>

#include "service/security/secret.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLargestTokenFile = 1 << 20;
constexpr std::string_view kTokenPrefix = "lht_";

}  // namespace

TokenStore::TokenStore(std::unique_ptr<SecretDocument> document, std::string administrator,
                       TokenTable table)
    : document_(std::move(document)),
      administrator_(std::move(administrator)),
      table_(std::move(table)) {}

// A missing file means that no token was made. A damaged one is an error and not an empty table,
// which would refuse all tokens without a reason.
Result<std::unique_ptr<TokenStore>> TokenStore::Open(std::unique_ptr<SecretDocument> document,
                                                     std::string administrator) {
  TokenTable table;
  const Result<std::string> text = document->Read(kLargestTokenFile);
  if (text.ok()) {
    Result<TokenTable> parsed = TokenTable::Parse(*text);
    if (!parsed.ok()) {
      return parsed.status().WithContext(document->Place() +
                                         " is damaged: repair it, or remove it and make "
                                         "the tokens again");
    }
    table = *std::move(parsed);
  } else if (text.status().code() != Code::kNotFound) {
    return text.status();
  }
  return std::unique_ptr<TokenStore>(
      new TokenStore(std::move(document), std::move(administrator), std::move(table)));
}

// The local token is checked first and without the lock: it never changes.
Result<Identity> TokenStore::Identify(std::string_view secret, Instant now) const {
  if (EqualInConstantTime(administrator_, secret)) {
    return Identity{std::string(kLocalToken), Role::kAdminister};
  }
  const std::lock_guard lock(mutex_);
  return table_.Identify(secret, now);
}

// The file first: a token that was handed out, or revoked, must be so after a crash too. If the
// write fails, the table in memory stays as it was. Requires mutex_.
Status TokenStore::Replace(TokenTable changed) {
  RETURN_IF_ERROR(document_->Write(changed.Text()));
  table_ = std::move(changed);
  return {};
}

Result<std::string> TokenStore::Create(const std::string& name, Role role,
                                       std::optional<Instant> expires, Instant now) {
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret(kTokenPrefix));
  const std::lock_guard lock(mutex_);
  TokenTable changed = table_;
  RETURN_IF_ERROR(changed.Add({name, role, HashOf(secret), now, expires}));
  RETURN_IF_ERROR(Replace(std::move(changed)));
  return secret;
}

Status TokenStore::Revoke(const std::string& name) {
  const std::lock_guard lock(mutex_);
  TokenTable changed = table_;
  RETURN_IF_ERROR(changed.Revoke(name));
  return Replace(std::move(changed));
}

std::vector<NamedToken> TokenStore::List() const {
  const std::lock_guard lock(mutex_);
  return table_.tokens();
}

}  // namespace longhaul::service
