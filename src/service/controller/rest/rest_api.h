// The responses of the REST API, without HTTP's details (rest_server.h).
//
// docs/openapi.yaml describes the API; a test compares both. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "service/controller/check/check_routes.h"
#include "service/controller/core_loop.h"
#include "service/controller/log/notification_feed.h"
#include "service/controller/page/page_routes.h"
#include "service/controller/plan/plan_routes.h"
#include "service/controller/rest/api_response.h"
#include "service/controller/rest/changes/change_routes.h"
#include "service/controller/rest/tokens/token_routes.h"
#include "service/controller/rest/why_routes.h"
#include "service/controller/view/view_routes.h"

namespace longhaul::service {

class RestApi {
 public:
  // Requires that all outlive this. `event_streams` counts the open ones.
  // `admission` is null where the controller has no TLS, and `checks` where there are no agents.
  // `planner`: of PlanService.
  RestApi(CoreLoop& loop, NotificationFeed& feed, TokenStore& tokens, PageAccess& page,
          AgentAdmission* admission, NodeCheckService* checks, std::string planner,
          PrepareJob prepare, std::function<uint64_t()> event_streams);

  // Requires that the caller has the role that RoleFor names; what one request needs beyond it is
  // checked here.
  ApiResponse Handle(const ApiRequest& request) const;

  // Returns what a request wants: "POST /v1/jobs/{id}/stop" and the parts of the path in place of
  // {id}. A path that doesn't exist is "GET (unknown path)" and the path.
  struct Wanted {
    std::string route;
    std::string object;
  };
  static Wanted Describe(std::string_view method, std::string_view path);

  // Returns the role that a route needs, and nothing for one that needs no token. A path that
  // doesn't exist needs kView, so that only holders of a token learn which do.
  static std::optional<Role> RoleFor(std::string_view method, std::string_view path);

  // Returns "GET /v1/jobs/{id}" and so on, in the order in which they are matched.
  static std::vector<std::string> Routes();

 private:
  using Parameters = std::vector<std::string>;  // the parts that {…} matched
  using Handler = ApiResponse (RestApi::*)(const ApiRequest&, const Parameters&) const;
  struct Route {
    const char* method;
    const char* pattern;
    std::optional<Role> role;  // absent: open to all
    Handler handler;
  };
  static const std::vector<Route>& Table();

  ApiResponse GetHealth(const ApiRequest&, const Parameters&) const;
  ApiResponse PostJob(const ApiRequest&, const Parameters&) const;
  ApiResponse GetJobs(const ApiRequest&, const Parameters&) const;
  ApiResponse GetJob(const ApiRequest&, const Parameters&) const;
  ApiResponse GetJobEvents(const ApiRequest&, const Parameters&) const;
  ApiResponse GetEvents(const ApiRequest&, const Parameters&) const;
  ApiResponse GetLogs(const ApiRequest&, const Parameters&) const;
  ApiResponse PostStop(const ApiRequest&, const Parameters&) const;
  ApiResponse GetWhy(const ApiRequest&, const Parameters&) const;
  ApiResponse PostChanges(const ApiRequest&, const Parameters&) const;
  ApiResponse GetLinks(const ApiRequest&, const Parameters&) const;
  ApiResponse GetQueues(const ApiRequest&, const Parameters&) const;
  ApiResponse GetReservations(const ApiRequest&, const Parameters&) const;
  ApiResponse PostReservation(const ApiRequest&, const Parameters&) const;
  ApiResponse PostCancelReservation(const ApiRequest&, const Parameters&) const;
  ApiResponse PostWhatIf(const ApiRequest&, const Parameters&) const;
  ApiResponse GetUsage(const ApiRequest&, const Parameters&) const;
  ApiResponse GetNodes(const ApiRequest&, const Parameters&) const;
  ApiResponse PostDrain(const ApiRequest&, const Parameters&) const;
  ApiResponse PostCordon(const ApiRequest&, const Parameters&) const;
  ApiResponse PostUncordon(const ApiRequest&, const Parameters&) const;
  ApiResponse PostRevokeAgent(const ApiRequest&, const Parameters&) const;
  ApiResponse PostCheck(const ApiRequest&, const Parameters&) const;
  ApiResponse GetCheck(const ApiRequest&, const Parameters&) const;
  ApiResponse GetPlanner(const ApiRequest&, const Parameters&) const;
  ApiResponse PostPlan(const ApiRequest&, const Parameters&) const;
  ApiResponse GetPlan(const ApiRequest&, const Parameters&) const;
  ApiResponse PostCancelPlan(const ApiRequest&, const Parameters&) const;
  ApiResponse GetTokens(const ApiRequest&, const Parameters&) const;
  ApiResponse PostToken(const ApiRequest&, const Parameters&) const;
  ApiResponse PostRevokeToken(const ApiRequest&, const Parameters&) const;
  ApiResponse PostJoinToken(const ApiRequest&, const Parameters&) const;
  ApiResponse GetMetrics(const ApiRequest&, const Parameters&) const;
  ApiResponse GetOpenApi(const ApiRequest&, const Parameters&) const;
  ApiResponse GetPageFile(const ApiRequest&, const Parameters&) const;
  ApiResponse PostPageLink(const ApiRequest&, const Parameters&) const;
  ApiResponse GetPageSession(const ApiRequest&, const Parameters&) const;
  ApiResponse PostPageSession(const ApiRequest&, const Parameters&) const;
  ApiResponse GetRunViews(const ApiRequest&, const Parameters&) const;
  ApiResponse GetClusterView(const ApiRequest&, const Parameters&) const;
  ApiResponse GetRunView(const ApiRequest&, const Parameters&) const;
  ApiResponse GetFaultView(const ApiRequest&, const Parameters&) const;

  ApiResponse Events(const ApiRequest& request, EventStream stream) const;
  enum class Use { kNormal, kCordon, kDrain };
  ApiResponse SetUse(const ApiRequest& request, const std::string& node, Use use) const;

  CoreLoop& loop_;
  NotificationFeed& feed_;
  TokenRoutes token_routes_;
  const CheckRoutes check_routes_;
  mutable PlanService plans_;  // thread-safe
  const PlanRoutes plan_routes_;
  PrepareJob prepare_;
  ChangeRoutes change_routes_;
  const WhyRoutes why_routes_;
  const PageRoutes page_routes_;
  const ViewRoutes view_routes_;
  std::function<uint64_t()> event_streams_;
};

}  // namespace longhaul::service
