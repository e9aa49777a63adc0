#include "service/controller/plan/plan_routes.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "service/controller/rest/request_body.h"
#include "spec/cluster/device.h"
#include "spec/model/model_reader.h"

namespace longhaul::service {
namespace {

double SecondsOf(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The result is JSON already, up to megabytes of it: it is not parsed and printed again.
ApiResponse PlanResponse(const Result<PlanStatus>& status, int code = 200) {
  if (!status.ok()) return ErrorResponse(status.status());
  ApiResponse response = JsonResponse({{"plan", status->plan},
                                       {"state", NameOf(status->state)},
                                       {"searched_seconds", SecondsOf(status->searched)},
                                       {"limit_seconds", SecondsOf(status->limit)},
                                       {"error", status->error}},
                                      code);
  response.object = "plan " + std::to_string(status->plan);
  if (status->result.empty()) return response;
  response.body.erase(response.body.rfind('}'));
  response.body += ",\"result\":" + status->result + "}\n";
  return response;
}

Status CheckNoKeys(const std::string& body) {
  if (body.empty()) return {};
  ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseObject(body));
  return RefuseUnknown(json, {});
}

Result<uint64_t> NumberOf(const std::string& text) {
  Result<uint64_t> number = ParseUint64(text);
  if (number.ok()) return number;
  return InvalidArgument("\"" + Printable(text, 40) + "\" is not the number of a plan");
}

}  // namespace

ApiResponse PlanRoutes::Planner() const {
  return JsonResponse({{"available", plans_.has_planner()},
                       {"models", spec::ModelNames()},
                       {"devices", spec::DeviceNames()}});
}

ApiResponse PlanRoutes::Start(const std::string& body) const {
  auto request = ParsePlanRequest(body);
  if (!request.ok()) return ErrorResponse(request.status());
  return PlanResponse(plans_.Start(*std::move(request)), 202);
}

ApiResponse PlanRoutes::Get(const std::string& number) const {
  const Result<uint64_t> plan = NumberOf(number);
  return plan.ok() ? PlanResponse(plans_.Get(*plan)) : ErrorResponse(plan.status());
}

ApiResponse PlanRoutes::Cancel(const std::string& number, const std::string& body) const {
  const Status no_keys = CheckNoKeys(body);
  if (!no_keys.ok()) return ErrorResponse(no_keys);
  const Result<uint64_t> plan = NumberOf(number);
  return plan.ok() ? PlanResponse(plans_.Cancel(*plan)) : ErrorResponse(plan.status());
}

}  // namespace longhaul::service
