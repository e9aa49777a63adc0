#include "service/controller/rest/api_response.h"

#include <algorithm>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

// Texts such as the output of workers may hold bytes that are not UTF-8: they are replaced, because
// dump() would throw otherwise.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// 409 is for what the state of the controller refuses: the same request may succeed later. 503 is
// for what may succeed when it is repeated unchanged.
int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk:
      return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
      return 400;
    case Code::kUnauthenticated:
      return 401;
    case Code::kPermissionDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kAlreadyExists:
    case Code::kFailedPrecondition:
    case Code::kAborted:
      return 409;
    case Code::kResourceExhausted:
      return 429;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

ApiResponse JsonResponse(const Json& json, int status) {
  ApiResponse response;
  response.status = status;
  response.body = Dump(json);
  return response;
}

ApiResponse ErrorResponse(int http_status, std::string_view code, const std::string& message) {
  ApiResponse response =
      JsonResponse({{"error", {{"code", code}, {"message", message}}}}, http_status);
  response.error = message;
  return response;
}

ApiResponse ErrorResponse(const Status& status) {
  std::string code(ToString(status.code()));
  std::replace(code.begin(), code.end(), ' ', '_');
  return ErrorResponse(HttpStatusOf(status.code()), code, status.message());
}

ApiResponse WrongRole(const Identity& caller, Role needed, const std::string& what) {
  return ErrorResponse(403, "permission_denied",
                       what + " needs the role " + std::string(NameOf(needed)) +
                           ", and the token " + caller.name + " has the role " +
                           std::string(NameOf(caller.role)));
}

}  // namespace longhaul::service
