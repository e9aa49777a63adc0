// Requests about tokens.
//
// POST /v1/tokens: {"name": NAME, "role": "view" | "operate" | "administer", "expires"?: "30d"}
// POST /v1/join-tokens: {"node"?: NAME, "expires"?: "1h"}   an hour if absent
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "service/security/token_table.h"

namespace longhaul::service {

struct TokenRequest {
  std::string name;
  Role role = Role::kView;
  std::optional<Instant> expires;  // absent: never
};

// Returns kInvalidArgument with the key, the value and the expected form.
Result<TokenRequest> ParseTokenRequest(std::string_view body, Instant now);

struct JoinTokenRequest {
  std::string node;  // empty: any that has not joined
  Instant expires;
};

Result<JoinTokenRequest> ParseJoinTokenRequest(std::string_view body, Instant now);

// Returns a token without its hash: name, role, created_at_ns, expires_at_ns?, expired.
nlohmann::ordered_json ToJson(const NamedToken& token, Instant now);

}  // namespace longhaul::service
