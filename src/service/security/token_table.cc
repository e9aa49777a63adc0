#include "service/security/token_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestName = 63;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Result<std::string> TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    return DataLoss("a token has no text named \"" + std::string(key) + "\"");
  }
  return found->get<std::string>();
}

Result<std::optional<Instant>> InstantOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::optional<Instant>();
  if (!found->is_number_integer()) {
    return DataLoss("\"" + std::string(key) + "\" of a token is not a whole number");
  }
  return std::optional(InstantFromNanoseconds(found->get<int64_t>()));
}

Result<NamedToken> NamedTokenOf(const Json& json) {
  NamedToken token;
  ASSIGN_OR_RETURN(token.name, TextOf(json, "name"));
  ASSIGN_OR_RETURN(const std::string role, TextOf(json, "role"));
  ASSIGN_OR_RETURN(token.role, ParseRole(role));
  ASSIGN_OR_RETURN(token.sha256, TextOf(json, "sha256"));
  ASSIGN_OR_RETURN(const std::optional<Instant> created, InstantOf(json, "created_at_ns"));
  ASSIGN_OR_RETURN(token.expires, InstantOf(json, "expires_at_ns"));
  token.created = created.value_or(Instant());
  if (!IsHash(token.sha256)) return DataLoss("\"sha256\" of a token is not 64 hex digits");
  return token;
}

Json ToJson(const NamedToken& token) {
  Json json = {{"name", token.name},
               {"role", NameOf(token.role)},
               {"sha256", token.sha256},
               {"created_at_ns", ToNanoseconds(token.created)}};
  if (token.expires) json["expires_at_ns"] = ToNanoseconds(*token.expires);
  return json;
}

}  // namespace

Status CheckTokenName(std::string_view name) {
  const bool usable =
      !name.empty() && name.size() <= kLongestName && IsLetterOrDigit(name.front()) &&
      std::all_of(name.begin(), name.end(),
                  [](char c) { return IsLetterOrDigit(c) || c == '.' || c == '_' || c == '-'; });
  if (!usable) {
    return InvalidArgument("the name of a token is '" + Printable(name, 70) +
                           "', expected 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-', the first a "
                           "letter or a digit");
  }
  if (name == kLocalToken) {
    return InvalidArgument("the name local is that of the token in the controller's folder");
  }
  return {};
}

Result<TokenTable> TokenTable::Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("tokens") || !json["tokens"].is_array()) {
    return DataLoss("expected a JSON object with a list named \"tokens\"");
  }
  TokenTable table;
  for (const Json& each : json["tokens"]) {
    if (!each.is_object()) return DataLoss("a token is not a JSON object");
    ASSIGN_OR_RETURN(NamedToken token, NamedTokenOf(each));
    const Status added = table.Add(std::move(token));
    if (!added.ok()) return DataLoss(added.message());
  }
  return table;
}

std::string TokenTable::Text() const {
  Json list = Json::array();
  for (const NamedToken& token : tokens_) list.push_back(ToJson(token));
  return Json({{"tokens", std::move(list)}}).dump(2) + "\n";
}

Status TokenTable::Add(NamedToken token) {
  RETURN_IF_ERROR(CheckTokenName(token.name));
  const auto same = [&](const NamedToken& other) { return other.name == token.name; };
  if (std::any_of(tokens_.begin(), tokens_.end(), same)) {
    return AlreadyExists("there is a token named " + token.name +
                         ": choose another name, or revoke it first");
  }
  if (tokens_.size() >= kMostTokens) {
    return ResourceExhausted("there are " + std::to_string(kMostTokens) +
                             " tokens, as many as there may be: revoke those that nobody uses");
  }
  tokens_.push_back(std::move(token));
  return {};
}

Status TokenTable::Revoke(std::string_view name) {
  const size_t revoked =
      std::erase_if(tokens_, [&](const NamedToken& token) { return token.name == name; });
  if (revoked > 0) return {};
  return NotFound("there is no token named " + Printable(name, 70));
}

// The table has hashes only, so a copy of its file gives nobody access. Every entry is compared, in
// constant time, so that the time shows neither which token nor how much of it matched.
Result<Identity> TokenTable::Identify(std::string_view secret, Instant now) const {
  const std::string hash = HashOf(secret);
  const NamedToken* found = nullptr;
  for (const NamedToken& token : tokens_) {
    if (EqualInConstantTime(token.sha256, hash)) found = &token;
  }
  if (found == nullptr) {
    return Unauthenticated("unknown token: it was never given out, or it was revoked");
  }
  if (found->expires && *found->expires <= now) {
    return Unauthenticated("the token " + found->name + " expired at " + ToString(*found->expires) +
                           ": an administrator makes a new one (longhaul token create)");
  }
  return Identity{found->name, found->role};
}

}  // namespace longhaul::service
