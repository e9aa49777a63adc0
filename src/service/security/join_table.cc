#include "service/security/join_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

Result<JoinToken> TokenOf(const Json& json) {
  const auto text = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  const auto time = [&](const char* key) {
    return InstantFromNanoseconds(
        json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0);
  };
  JoinToken token{text("sha256"), text("node"), time("expires_at_ns"), text("used_by"),
                  time("used_at_ns")};
  const bool names = (token.node.empty() || IsNodeName(token.node)) &&
                     (token.used_by.empty() || IsNodeName(token.used_by));
  if (IsHash(token.sha256) && names && token.expires > Instant()) return token;
  return DataLoss("a join token lacks its sha256, its node's name or the time at which it expires");
}

Json ToJson(const JoinToken& token) {
  return {{"sha256", token.sha256},
          {"node", token.node},
          {"expires_at_ns", ToNanoseconds(token.expires)},
          {"used_by", token.used_by},
          {"used_at_ns", ToNanoseconds(token.used_at)}};
}

}  // namespace

bool IsNodeName(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

Result<JoinTable> JoinTable::Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("joined") || !json["joined"].is_array() ||
      !json.contains("join_tokens") || !json["join_tokens"].is_array()) {
    return DataLoss("expected a JSON object with the lists \"joined\" and \"join_tokens\"");
  }
  JoinTable table;
  for (const Json& node : json["joined"]) {
    if (!node.is_string()) return DataLoss("the name of a joined node is not a text");
    table.joined_.insert(node.get<std::string>());
  }
  for (const Json& each : json["join_tokens"]) {
    if (!each.is_object()) return DataLoss("a join token is not a JSON object");
    ASSIGN_OR_RETURN(JoinToken token, TokenOf(each));
    table.tokens_.push_back(std::move(token));
  }
  return table;
}

std::string JoinTable::Text() const {
  Json list = Json::array();
  for (const JoinToken& token : tokens_) list.push_back(ToJson(token));
  return Json({{"joined", joined_}, {"join_tokens", std::move(list)}}).dump(2) + "\n";
}

// Tokens that have expired are removed here, so that the table does not grow. A used token stays
// until then, so that its second use is reported as such.
Status JoinTable::Add(JoinToken token, Instant now) {
  std::erase_if(tokens_, [&](const JoinToken& other) { return other.expires <= now; });
  if (!token.node.empty() && !IsNodeName(token.node)) {
    return InvalidArgument("a node's name has 1 to 63 of a-z, 0-9 and '-', not '" +
                           Printable(token.node, 70) + "'");
  }
  if (tokens_.size() >= kMostTokens) {
    return ResourceExhausted("there are " + std::to_string(kMostTokens) +
                             " join tokens, as many as there may be: wait until some expire");
  }
  tokens_.push_back(std::move(token));
  return {};
}

Status JoinTable::Use(std::string_view secret, const std::string& node, Instant now) {
  constexpr const char* kRemedy = ": make a new one (longhaul token create-join)";
  const std::string hash = HashOf(secret);
  JoinToken* found = nullptr;
  for (JoinToken& token : tokens_) {
    if (EqualInConstantTime(token.sha256, hash)) found = &token;
  }
  if (found == nullptr) return Unauthenticated(std::string("unknown join token") + kRemedy);
  if (!found->used_by.empty()) {
    return Unauthenticated("this join token was used by node " + found->used_by + " at " +
                           ToString(found->used_at) + kRemedy);
  }
  if (found->expires <= now) {
    return Unauthenticated("this join token expired at " + ToString(found->expires) + kRemedy);
  }
  if (!found->node.empty() && found->node != node) {
    return PermissionDenied("this join token is for node " + found->node + ", not for " +
                            Printable(node, 70));
  }
  // A token for any node must not take over the name of a node that exists: whoever has that name
  // receives the work of its node.
  if (found->node.empty() && joined_.contains(node)) {
    return PermissionDenied("node " + Printable(node, 70) +
                            " has joined before: joining again needs a token of its own "
                            "(longhaul token create-join --node NAME)");
  }
  found->used_by = node;
  found->used_at = now;
  joined_.insert(node);
  return {};
}

}  // namespace longhaul::service
