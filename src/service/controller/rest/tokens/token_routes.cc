#include "service/controller/rest/tokens/token_routes.h"

#include <utility>

#include "io/clock.h"
#include "service/controller/rest/tokens/token_request.h"

namespace longhaul::service {

using Json = nlohmann::ordered_json;

ApiResponse TokenRoutes::List() const {
  const Instant now = io::Now();
  Json list = Json::array();
  for (const NamedToken& token : tokens_.List()) list.push_back(ToJson(token, now));
  return JsonResponse({{"tokens", std::move(list)}});
}

ApiResponse TokenRoutes::Create(const std::string& body) const {
  const Instant now = io::Now();
  const auto wanted = ParseTokenRequest(body, now);
  if (!wanted.ok()) return ErrorResponse(wanted.status());
  const auto secret = tokens_.Create(wanted->name, wanted->role, wanted->expires, now);
  if (!secret.ok()) return ErrorResponse(secret.status());
  Json answer = ToJson({wanted->name, wanted->role, "", now, wanted->expires}, now);
  answer["token"] = *secret;
  ApiResponse response = JsonResponse(answer, 201);
  response.object = wanted->name + " " + std::string(NameOf(wanted->role));
  return response;
}

ApiResponse TokenRoutes::Revoke(const std::string& name) const {
  const Status revoked = tokens_.Revoke(name);
  return revoked.ok() ? JsonResponse({{"revoked", name}}) : ErrorResponse(revoked);
}

ApiResponse TokenRoutes::RevokeAgent(const std::string& node) const {
  if (admission_ == nullptr) {
    return ErrorResponse(
        FailedPrecondition("this controller has no TLS, so its agents have no certificates: to "
                           "refuse them, remove its "
                           "token file and start it again"));
  }
  const Status revoked = admission_->Revoke(node, io::Now());
  return revoked.ok() ? JsonResponse({{"revoked", node}}) : ErrorResponse(revoked);
}

ApiResponse TokenRoutes::CreateJoinToken(const std::string& body) const {
  const Instant now = io::Now();
  const auto wanted = ParseJoinTokenRequest(body, now);
  if (!wanted.ok()) return ErrorResponse(wanted.status());
  if (admission_ == nullptr) {
    return ErrorResponse(FailedPrecondition(
        "this controller has no TLS, so its agents use its token file: longhaul controller init "
        "DIR makes certificates"));
  }
  const auto token = admission_->CreateJoinToken(wanted->node, wanted->expires, now);
  if (!token.ok()) return ErrorResponse(token.status());
  Json answer = {
      {"node", wanted->node}, {"expires_at_ns", ToNanoseconds(wanted->expires)}, {"token", *token}};
  ApiResponse response = JsonResponse(answer, 201);
  response.object = wanted->node.empty() ? "any node" : wanted->node;
  return response;
}

}  // namespace longhaul::service
