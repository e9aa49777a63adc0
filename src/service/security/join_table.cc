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

Result<std::pair<std::string, Revocation>> RevocationOf(const Json& json) {
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>() : 0;
  };
  const bool complete = json.is_object() && json.contains("node") && json["node"].is_string() &&
                        IsNodeName(json["node"].get<std::string>()) && number("generation") > 0 &&
                        json.contains("joined_again") && json["joined_again"].is_boolean();
  if (!complete) {
    return DataLoss("a revocation lacks its node, its generation or whether the node joined again");
  }
  return std::pair(
      json["node"].get<std::string>(),
      Revocation{static_cast<uint64_t>(number("generation")),
                 InstantFromNanoseconds(number("at_ns")), json["joined_again"].get<bool>()});
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
  if (!json.contains("revoked")) return table;  // of a version without revocation
  if (!json["revoked"].is_array()) return DataLoss("\"revoked\" is not a list");
  for (const Json& each : json["revoked"]) {
    ASSIGN_OR_RETURN(auto revocation, RevocationOf(each));
    table.revoked_.insert(std::move(revocation));
  }
  return table;
}

std::string JoinTable::Text() const {
  Json list = Json::array();
  for (const JoinToken& token : tokens_) list.push_back(ToJson(token));
  Json revoked = Json::array();
  for (const auto& [node, revocation] : revoked_) {
    revoked.push_back({{"node", node},
                       {"generation", revocation.generation},
                       {"at_ns", ToNanoseconds(revocation.at)},
                       {"joined_again", revocation.joined_again}});
  }
  return Json({{"joined", joined_},
               {"join_tokens", std::move(list)},
               {"revoked", std::move(revoked)}})
             .dump(2) +
         "\n";
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
  if (const auto revoked = revoked_.find(node); revoked != revoked_.end()) {
    revoked->second.joined_again = true;
  }
  return {};
}

Result<bool> JoinTable::NoteJoined(const std::string& node) {
  if (const auto revoked = revoked_.find(node); revoked != revoked_.end()) {
    return PermissionDenied("the certificate of node " + node + " was revoked at " +
                            ToString(revoked->second.at) +
                            ": it can join by a join token of the controller only "
                            "(longhaul token create-join --node NAME)");
  }
  return joined_.insert(node).second;
}

Status JoinTable::Revoke(const std::string& node, Instant now) {
  if (!joined_.contains(node)) {
    return NotFound("no agent named " + Printable(node, 70) + " has joined this controller");
  }
  Revocation& revocation = revoked_[node];
  if (revocation.generation > 0 && !revocation.joined_again) {
    return FailedPrecondition("the certificate of node " + node + " was revoked at " +
                              ToString(revocation.at) + ", and it has not joined again");
  }
  revocation = {revocation.generation + 1, now, false};
  return {};
}

uint64_t JoinTable::GenerationOf(const std::string& node) const {
  const auto revoked = revoked_.find(node);
  return revoked == revoked_.end() ? 0 : revoked->second.generation;
}

Status JoinTable::CheckGeneration(const std::string& node, uint64_t generation) const {
  const auto revoked = revoked_.find(node);
  if (revoked == revoked_.end() || revoked->second.generation == generation) return {};
  return Unauthenticated("the certificate of node " + node + " was revoked at " +
                         ToString(revoked->second.at) +
                         ": remove tls/agent.pem of the agent's state directory and join again "
                         "with a new token (longhaul token create-join --node " +
                         node + ")");
}

}  // namespace longhaul::service
