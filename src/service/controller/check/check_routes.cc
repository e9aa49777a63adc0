#include "service/controller/check/check_routes.h"

#include "base/text.h"
#include "io/clock.h"
#include "proto/json.h"
#include "service/controller/check/check_request.h"

namespace longhaul::service {
namespace {

Status NoAgents() { return Unavailable("this controller has no agents"); }

}  // namespace

ApiResponse CheckRoutes::Start(const std::string& body, const std::string& caller) const {
  const auto nodes = ParseCheckRequest(body);
  if (!nodes.ok()) return ErrorResponse(nodes.status());
  if (checks_ == nullptr) return ErrorResponse(NoAgents());
  const auto seed = static_cast<uint64_t>(ToNanoseconds(io::Now()));
  const auto started = checks_->Start(*nodes, caller, seed);
  if (!started.ok()) return ErrorResponse(started.status());
  ApiResponse response = JsonResponse(proto::ToJson(*started), 202);
  response.object = "check " + std::to_string(started->check());
  return response;
}

ApiResponse CheckRoutes::Get(const std::string& number) const {
  const Result<uint64_t> wanted = ParseUint64(number);
  if (!wanted.ok()) {
    return ErrorResponse(
        InvalidArgument("\"" + Printable(number, 40) + "\" is not the number of a check"));
  }
  if (checks_ == nullptr) return ErrorResponse(NoAgents());
  const auto status = checks_->Status(*wanted);
  if (!status.ok()) return ErrorResponse(status.status());
  return JsonResponse(proto::ToJson(*status));
}

}  // namespace longhaul::service
