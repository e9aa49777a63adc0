#include "service/controller/rest/tokens/token_request.h"

#include <array>

#include "base/text.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {
namespace {

constexpr Duration kLongestLife = std::chrono::hours(24 * 3660);  // ten years
constexpr Duration kLongestJoin = std::chrono::hours(24 * 7);

Result<Duration> ParseExpires(const std::string& text, Duration longest) {
  const Result<Duration> lasts = ParseDuration(text);
  if (lasts.ok() && *lasts > Duration(0) && *lasts <= longest) return lasts;
  return InvalidArgument("\"expires\": '" + Printable(text, 40) +
                         "' is not a time such as 12h, above zero and at most " +
                         std::to_string(longest / std::chrono::hours(24)) + "d");
}

}  // namespace

Result<TokenRequest> ParseTokenRequest(std::string_view body, Instant now) {
  static constexpr std::array<std::string_view, 3> kKeys = {"name", "role", "expires"};
  ASSIGN_OR_RETURN(const auto json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  TokenRequest request;
  std::string role;
  std::string expires;
  RETURN_IF_ERROR(TakeText(json, "name", request.name));
  RETURN_IF_ERROR(TakeText(json, "role", role));
  RETURN_IF_ERROR(TakeText(json, "expires", expires));
  RETURN_IF_ERROR(CheckTokenName(request.name));
  ASSIGN_OR_RETURN(request.role, ParseRole(role));
  if (expires.empty()) return request;
  ASSIGN_OR_RETURN(const Duration lasts, ParseExpires(expires, kLongestLife));
  request.expires = now + lasts;
  return request;
}

Result<JoinTokenRequest> ParseJoinTokenRequest(std::string_view body, Instant now) {
  static constexpr std::array<std::string_view, 2> kKeys = {"node", "expires"};
  ASSIGN_OR_RETURN(const auto json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  JoinTokenRequest request;
  std::string expires = "1h";
  RETURN_IF_ERROR(TakeText(json, "node", request.node));
  RETURN_IF_ERROR(TakeText(json, "expires", expires));
  ASSIGN_OR_RETURN(const Duration lasts, ParseExpires(expires, kLongestJoin));
  request.expires = now + lasts;
  return request;
}

nlohmann::ordered_json ToJson(const NamedToken& token, Instant now) {
  nlohmann::ordered_json json = {{"name", token.name},
                                 {"role", NameOf(token.role)},
                                 {"created_at_ns", ToNanoseconds(token.created)}};
  if (token.expires) json["expires_at_ns"] = ToNanoseconds(*token.expires);
  json["expired"] = token.expires.has_value() && *token.expires <= now;
  return json;
}

}  // namespace longhaul::service
