#include "service/controller/rest/rest_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "proto/json.h"
#include "service/controller/metrics/metrics.h"
#include "service/controller/rest/changes/stop_job.h"
#include "service/controller/rest/find_job.h"
#include "service/controller/rest/openapi.h"
#include "service/controller/rest/redaction.h"
#include "service/controller/rest/reservation_request.h"
#include "service/controller/rest/usage_request.h"
#include "service/controller/rest/worker_log.h"
#include "service/controller/submission/submission.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kEventsAtOnce = 1000;  // in an answer that isn't a stream

// Whether `path` is `pattern` with something in place of each {name}; what, into `parameters`.
bool Matches(std::string_view pattern, std::string_view path,
             std::vector<std::string>& parameters) {
  parameters.clear();
  const auto wanted = Split(pattern, '/');
  const auto given = Split(path, '/');
  if (wanted.size() != given.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{')) {
      if (given[i].empty()) return false;
      parameters.emplace_back(given[i]);
    } else if (wanted[i] != given[i]) {
      return false;
    }
  }
  return true;
}

// A number in the query; `fallback` when it isn't there.
Result<uint64_t> QueryNumber(const ApiRequest& request, const std::string& key, uint64_t fallback) {
  const auto found = request.query.find(key);
  if (found == request.query.end()) return fallback;
  const Result<uint64_t> number = ParseUint64(found->second);
  if (number.ok()) return number;
  return InvalidArgument("\"" + key + "\" must be a whole number, not \"" +
                         Printable(found->second, 40) + "\"");
}

Result<bool> QueryFlag(const ApiRequest& request, const std::string& key) {
  const auto found = request.query.find(key);
  if (found == request.query.end() || found->second == "false") return false;
  if (found->second == "true") return true;
  return InvalidArgument("\"" + key + "\" must be true or false, not \"" +
                         Printable(found->second, 40) + "\"");
}

// Whether the values of environments, which may be secrets, are asked for.
// The route needs only the role view, so the stricter role is checked here.
Result<bool> WantsEnvironment(const ApiRequest& request) {
  ASSIGN_OR_RETURN(const bool wants, QueryFlag(request, "environment"));
  if (!wants || Permits(request.caller.role, Role::kOperate)) return wants;
  return PermissionDenied("the values of environments need the role operate, and the token " +
                          request.caller.name + " has the role " +
                          std::string(NameOf(request.caller.role)));
}

Json JobJson(proto::JobStatus job, bool with_environment) {
  if (!with_environment) RedactJobs(job);
  return proto::ToJson(job);
}

Json SubmittedJson(const proto::Job& job) {
  Json json = {{"id", job.id()},
               {"name", job.name()},
               {"run_directory", job.run_directory()},
               {"plan_reason", job.plan_reason()}};
  if (job.has_array()) json["elements"] = job.array().count();
  return json;
}

Result<LogQuery> ParseLogQuery(const ApiRequest& request) {
  LogQuery query;
  ASSIGN_OR_RETURN(const uint64_t rank, QueryNumber(request, "rank", 0));
  if (rank > UINT32_MAX) return InvalidArgument("no such rank: " + std::to_string(rank));
  query.rank = static_cast<uint32_t>(rank);
  ASSIGN_OR_RETURN(query.bytes, QueryNumber(request, "bytes", query.bytes));
  if (request.query.contains("attempt")) {
    ASSIGN_OR_RETURN(query.attempt, QueryNumber(request, "attempt", 0));
  }
  if (request.query.contains("from")) {
    ASSIGN_OR_RETURN(query.from, QueryNumber(request, "from", 0));
  }
  return query;
}

}  // namespace

RestApi::RestApi(CoreLoop& loop, NotificationFeed& feed, TokenStore& tokens, PageAccess& page,
                 AgentAdmission* admission, NodeCheckService* checks, std::string planner,
                 PrepareJob prepare, std::function<uint64_t()> event_streams)
    : loop_(loop),
      feed_(feed),
      token_routes_(tokens, admission),
      check_routes_(checks),
      plans_(std::move(planner)),
      plan_routes_(plans_),
      prepare_(std::move(prepare)),
      change_routes_(loop, prepare_),
      why_routes_(loop),
      page_routes_(page),
      view_routes_(loop, feed),
      event_streams_(std::move(event_streams)) {}

// The only list of paths. Authorisation, the audit log's names and dispatch all read it, so a route
// cannot exist without a decision about its role.
const std::vector<RestApi::Route>& RestApi::Table() {
  static const std::vector<Route> table = {
      {"GET", "/v1/healthz", std::nullopt, &RestApi::GetHealth},
      {"POST", "/v1/jobs", Role::kOperate, &RestApi::PostJob},
      {"GET", "/v1/jobs", Role::kView, &RestApi::GetJobs},
      {"GET", "/v1/jobs/{id}", Role::kView, &RestApi::GetJob},
      {"GET", "/v1/jobs/{id}/events", Role::kView, &RestApi::GetJobEvents},
      {"GET", "/v1/jobs/{id}/logs", Role::kView, &RestApi::GetLogs},
      {"POST", "/v1/jobs/{id}/stop", Role::kOperate, &RestApi::PostStop},
      {"GET", "/v1/jobs/{id}/why", Role::kView, &RestApi::GetWhy},
      {"GET", "/v1/events", Role::kView, &RestApi::GetEvents},
      {"GET", "/v1/nodes", Role::kView, &RestApi::GetNodes},
      {"POST", "/v1/nodes/{name}/cordon", Role::kAdminister, &RestApi::PostCordon},
      {"POST", "/v1/nodes/{name}/drain", Role::kAdminister, &RestApi::PostDrain},
      {"POST", "/v1/nodes/{name}/uncordon", Role::kAdminister, &RestApi::PostUncordon},
      {"POST", "/v1/nodes/{name}/revoke", Role::kAdminister, &RestApi::PostRevokeAgent},
      {"POST", "/v1/checks", Role::kOperate, &RestApi::PostCheck},
      {"GET", "/v1/checks/{number}", Role::kView, &RestApi::GetCheck},
      {"GET", "/v1/planner", Role::kView, &RestApi::GetPlanner},
      {"POST", "/v1/plans", Role::kOperate, &RestApi::PostPlan},
      {"GET", "/v1/plans/{number}", Role::kView, &RestApi::GetPlan},
      {"POST", "/v1/plans/{number}/cancel", Role::kOperate, &RestApi::PostCancelPlan},
      {"GET", "/v1/queues", Role::kView, &RestApi::GetQueues},
      {"GET", "/v1/links", Role::kView, &RestApi::GetLinks},
      {"GET", "/v1/reservations", Role::kView, &RestApi::GetReservations},
      {"POST", "/v1/reservations", Role::kAdminister, &RestApi::PostReservation},
      {"POST", "/v1/reservations/{name}/cancel", Role::kAdminister,
       &RestApi::PostCancelReservation},
      {"GET", "/v1/usage", Role::kView, &RestApi::GetUsage},
      {"POST", "/v1/changes", Role::kOperate, &RestApi::PostChanges},
      {"POST", "/v1/what-if", Role::kOperate, &RestApi::PostWhatIf},
      {"GET", "/v1/tokens", Role::kAdminister, &RestApi::GetTokens},
      {"POST", "/v1/tokens", Role::kAdminister, &RestApi::PostToken},
      {"POST", "/v1/tokens/{name}/revoke", Role::kAdminister, &RestApi::PostRevokeToken},
      {"POST", "/v1/join-tokens", Role::kAdminister, &RestApi::PostJoinToken},
      {"GET", "/v1/view/runs", Role::kView, &RestApi::GetRunViews},
      {"GET", "/v1/view/cluster", Role::kView, &RestApi::GetClusterView},
      {"GET", "/v1/view/run/{id}", Role::kView, &RestApi::GetRunView},
      {"GET", "/v1/view/run/{id}/faults/{number}", Role::kView, &RestApi::GetFaultView},
      {"POST", "/v1/page/links", Role::kView, &RestApi::PostPageLink},
      {"GET", "/v1/page/session", Role::kView, &RestApi::GetPageSession},
      {"POST", "/v1/page/session", std::nullopt, &RestApi::PostPageSession},
      {"GET", "/", std::nullopt, &RestApi::GetPageFile},
      {"GET", "/page.js", std::nullopt, &RestApi::GetPageFile},
      {"GET", "/page.css", std::nullopt, &RestApi::GetPageFile},
      {"GET", "/icon.svg", std::nullopt, &RestApi::GetPageFile},
      {"GET", "/licences.txt", std::nullopt, &RestApi::GetPageFile},
      {"GET", "/v1/openapi.yaml", Role::kView, &RestApi::GetOpenApi},
      {"GET", "/metrics", Role::kView, &RestApi::GetMetrics},
  };
  return table;
}

std::vector<std::string> RestApi::Routes() {
  std::vector<std::string> routes;
  for (const Route& route : Table()) {
    routes.push_back(std::string(route.method) + " " + route.pattern);
  }
  return routes;
}

// For the audit log: the pattern and not the path, so that entries can be counted, with what the
// path names beside it.
RestApi::Wanted RestApi::Describe(std::string_view method, std::string_view path) {
  Parameters parameters;
  for (const Route& route : Table()) {
    if (method == route.method && Matches(route.pattern, path, parameters)) {
      return {std::string(method) + " " + route.pattern, Join(parameters, " ")};
    }
  }
  return {Printable(method, 20) + " (unknown path)", std::string(path)};
}

// A path or method that is not in the table needs a token too, so that only callers with one get
// the answers 404 and 405.
std::optional<Role> RestApi::RoleFor(std::string_view method, std::string_view path) {
  Parameters parameters;
  for (const Route& route : Table()) {
    if (method == route.method && Matches(route.pattern, path, parameters)) return route.role;
  }
  return Role::kView;
}

// The caller has checked the role.
ApiResponse RestApi::Handle(const ApiRequest& request) const {
  std::vector<std::string> allowed;
  Parameters parameters;
  for (const Route& route : Table()) {
    if (!Matches(route.pattern, request.path, parameters)) continue;
    if (request.method == route.method) return (this->*route.handler)(request, parameters);
    allowed.emplace_back(route.method);
  }
  if (allowed.empty()) {
    return ErrorResponse(404, "not_found",
                         "no such path: " + Printable(request.path) + " (see /v1/openapi.yaml)");
  }
  ApiResponse response = ErrorResponse(405, "method_not_allowed",
                                       Printable(request.path) + " takes " + Join(allowed, ", ") +
                                           ", not " + Printable(request.method, 20));
  response.allow = Join(allowed, ", ");
  return response;
}

ApiResponse RestApi::GetHealth(const ApiRequest&, const Parameters&) const {
  const Status health = loop_.Health();
  return JsonResponse({{"status", health.ok() ? "ok" : "degraded"},
                       {"reason", health.message()},
                       {"version", LONGHAUL_VERSION}});
}

ApiResponse RestApi::PostJob(const ApiRequest& request, const Parameters&) const {
  const auto submission = ParseSubmissionRequest(request.body);
  if (!submission.ok()) return ErrorResponse(submission.status());
  const Status health = loop_.Health();
  if (!health.ok())
    return ErrorResponse(Unavailable("the controller accepts no job now: " + health.message()));
  // On this thread, not the loop's: the preparation may read data for minutes.
  Result<proto::JobsSubmitted> jobs = prepare_(*submission);
  if (!jobs.ok()) return ErrorResponse(jobs.status());
  Json list = Json::array();
  std::vector<std::string> ids;
  for (const proto::Job& job : jobs->jobs()) {
    list.push_back(SubmittedJson(job));
    ids.push_back(job.id());
  }
  proto::Event event;
  // One event for all jobs of the request, so that a crash leaves all of them or none.
  if (jobs->jobs_size() == 1) {
    *event.mutable_job_submitted()->mutable_job() = std::move(*jobs->mutable_jobs(0));
  } else {
    *event.mutable_jobs_submitted() = *std::move(jobs);
  }
  const Status accepted = loop_.Apply(std::move(event));
  if (!accepted.ok()) return ErrorResponse(accepted);
  ApiResponse response = list.size() == 1 ? JsonResponse(list[0], 201)
                                          : JsonResponse({{"jobs", std::move(list)}}, 201);
  response.object = Join(ids, " ");
  return response;
}

ApiResponse RestApi::GetJobs(const ApiRequest& request, const Parameters&) const {
  const auto environment = WantsEnvironment(request);
  if (!environment.ok()) return ErrorResponse(environment.status());
  const auto elements = QueryFlag(request, "elements");
  if (!elements.ok()) return ErrorResponse(elements.status());
  std::string array;
  if (const auto wanted = request.query.find("array"); wanted != request.query.end()) {
    const auto found = FindJob(loop_, wanted->second);
    if (!found.ok()) return ErrorResponse(found.status());
    if (!found->job().has_array()) {
      return ErrorResponse(
          FailedPrecondition("job " + found->job().id() + " is not an array: it has no elements"));
    }
    array = found->job().id();
  }
  const auto jobs = loop_.Read([&](const runtime::Controller& core) {
    if (!array.empty()) return core.Elements(JobId(array), io::Now());
    return *elements ? core.AllJobs(io::Now()) : core.Listing(io::Now());
  });
  Json list = Json::array();
  for (const proto::JobStatus& job : jobs) list.push_back(JobJson(job, *environment));
  return JsonResponse({{"jobs", std::move(list)}});
}

ApiResponse RestApi::GetJob(const ApiRequest& request, const Parameters& parameters) const {
  const auto environment = WantsEnvironment(request);
  if (!environment.ok()) return ErrorResponse(environment.status());
  const auto job = FindJob(loop_, parameters[0]);
  if (!job.ok()) return ErrorResponse(job.status());
  return JsonResponse(JobJson(*job, *environment));
}

ApiResponse RestApi::GetJobEvents(const ApiRequest& request, const Parameters& parameters) const {
  const auto job = FindOneJob(loop_, parameters[0]);
  if (!job.ok()) return ErrorResponse(job.status());
  EventStream stream;
  stream.job = JobId(job->job().id());
  stream.job_is_over = runtime::IsTerminal(job->state());
  return Events(request, stream);
}

ApiResponse RestApi::GetEvents(const ApiRequest& request, const Parameters&) const {
  return Events(request, EventStream());
}

ApiResponse RestApi::Events(const ApiRequest& request, EventStream stream) const {
  const auto after = QueryNumber(request, "after", 0);
  if (!after.ok()) return ErrorResponse(after.status());
  stream.after = *after;
  const auto view = QueryFlag(request, "view");
  if (!view.ok()) return ErrorResponse(view.status());
  stream.view = *view;
  if (!request.wants_json) {
    // The header is what a client that reconnects has seen; it counts for more than the address.
    const Result<uint64_t> seen = ParseUint64(request.last_event_id);
    if (seen.ok()) stream.after = std::max(stream.after, *seen);
    ApiResponse response;
    response.content_type = "text/event-stream";
    response.stream = stream;
    return response;
  }
  const auto batch = feed_.After(stream.after, stream.job, kEventsAtOnce);
  if (!batch.ok()) return ErrorResponse(batch.status());
  ApiResponse response;
  response.body = "{\"events\":[";
  uint64_t last = stream.after;
  for (const RenderedNotification& notification : batch->notifications) {
    if (last != stream.after) response.body += ',';
    response.body += "{\"id\":" + std::to_string(notification.id) + ",\"kind\":\"" +
                     notification.kind + "\",\"data\":" + notification.json + "}";
    last = notification.id;
  }
  response.body += "],\"last\":" + std::to_string(last) + "}\n";
  return response;
}

ApiResponse RestApi::GetLogs(const ApiRequest& request, const Parameters& parameters) const {
  const auto job = FindOneJob(loop_, parameters[0]);
  if (!job.ok()) return ErrorResponse(job.status());
  const auto query = ParseLogQuery(request);
  if (!query.ok()) return ErrorResponse(query.status());
  auto part = ReadWorkerLog(job->job().run_directory(), *query);
  if (!part.ok()) return ErrorResponse(part.status());
  if (request.wants_json) {
    return JsonResponse({{"attempt", part->attempt},
                         {"rank", query->rank},
                         {"from", part->from},
                         {"end", part->end},
                         {"text", part->text}});
  }
  ApiResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(part->text);
  return response;
}

ApiResponse RestApi::PostStop(const ApiRequest& request, const Parameters& parameters) const {
  const auto wanted = ParseStop(request.body);
  if (!wanted.ok()) return ErrorResponse(wanted.status());
  const auto job = FindJob(loop_, parameters[0]);
  if (!job.ok()) return ErrorResponse(job.status());
  const Status stopped = StopJob(loop_, feed_, *job, *wanted);
  if (!stopped.ok()) return ErrorResponse(stopped);
  return GetJob(request, {job->job().id()});
}

ApiResponse RestApi::PostCheck(const ApiRequest& request, const Parameters&) const {
  return check_routes_.Start(request.body, request.caller.name);
}

ApiResponse RestApi::GetCheck(const ApiRequest&, const Parameters& parameters) const {
  return check_routes_.Get(parameters[0]);
}

ApiResponse RestApi::GetPlanner(const ApiRequest&, const Parameters&) const {
  return plan_routes_.Planner();
}

ApiResponse RestApi::PostPlan(const ApiRequest& request, const Parameters&) const {
  return plan_routes_.Start(request.body);
}

ApiResponse RestApi::GetPlan(const ApiRequest&, const Parameters& parameters) const {
  return plan_routes_.Get(parameters[0]);
}

ApiResponse RestApi::PostCancelPlan(const ApiRequest& request, const Parameters& parameters) const {
  return plan_routes_.Cancel(parameters[0], request.body);
}

ApiResponse RestApi::GetNodes(const ApiRequest&, const Parameters&) const {
  const auto nodes = loop_.Read([](const runtime::Controller& core) { return core.AllNodes(); });
  Json list = Json::array();
  for (const proto::NodeStatus& node : nodes) list.push_back(proto::ToJson(node));
  return JsonResponse({{"nodes", std::move(list)}});
}

ApiResponse RestApi::PostCordon(const ApiRequest& request, const Parameters& parameters) const {
  return SetUse(request, parameters[0], Use::kCordon);
}
ApiResponse RestApi::PostDrain(const ApiRequest& request, const Parameters& parameters) const {
  return SetUse(request, parameters[0], Use::kDrain);
}
ApiResponse RestApi::PostUncordon(const ApiRequest& request, const Parameters& parameters) const {
  return SetUse(request, parameters[0], Use::kNormal);
}

ApiResponse RestApi::PostRevokeAgent(const ApiRequest&, const Parameters& parameters) const {
  return token_routes_.RevokeAgent(parameters[0]);
}

ApiResponse RestApi::GetWhy(const ApiRequest&, const Parameters& parameters) const {
  return why_routes_.Get(parameters[0]);
}

ApiResponse RestApi::GetQueues(const ApiRequest&, const Parameters&) const {
  const auto queues = loop_.Read([](const runtime::Controller& core) { return core.Queues(); });
  Json list = Json::array();
  for (const proto::QueueStatus& queue : queues) list.push_back(proto::ToJson(queue));
  return JsonResponse({{"queues", std::move(list)}});
}

ApiResponse RestApi::GetReservations(const ApiRequest&, const Parameters&) const {
  const auto all = loop_.Read([](const runtime::Controller& core) { return core.Reservations(); });
  const Instant now = io::Now();
  Json list = Json::array();
  for (const proto::NodeReservation& each : all) list.push_back(ToJson(each, now));
  return JsonResponse({{"reservations", std::move(list)}});
}

// The times are fixed here: the event holds instants, so "+2h" means the same in a replay.
ApiResponse RestApi::PostReservation(const ApiRequest& request, const Parameters&) const {
  const Instant now = io::Now();
  auto wanted = ParseReservation(request.body, now);
  if (!wanted.ok()) return ErrorResponse(wanted.status());
  const Json answer = ToJson(*wanted, now);
  proto::Event event;
  event.mutable_changes_asked()->set_reason(wanted->reason());
  *event.mutable_changes_asked()->add_changes()->mutable_reserve() = *std::move(wanted);
  const Status accepted = loop_.Apply(std::move(event));
  if (!accepted.ok()) return ErrorResponse(accepted);
  ApiResponse response = JsonResponse(answer, 201);
  response.object = answer["name"].get<std::string>();
  return response;
}

ApiResponse RestApi::PostCancelReservation(const ApiRequest& request,
                                           const Parameters& parameters) const {
  auto reason = ParseReason(request.body);
  if (!reason.ok()) return ErrorResponse(reason.status());
  proto::Event event;
  event.mutable_changes_asked()->set_reason(*reason);
  event.mutable_changes_asked()->add_changes()->set_cancel_reservation(parameters[0]);
  const Status accepted = loop_.Apply(std::move(event));
  return accepted.ok() ? JsonResponse({{"cancelled", parameters[0]}}) : ErrorResponse(accepted);
}

ApiResponse RestApi::GetUsage(const ApiRequest& request, const Parameters&) const {
  const Instant now = io::Now();
  const auto query = ParseUsageQuery(request.query, now);
  if (!query.ok()) return ErrorResponse(query.status());
  const auto report =
      loop_.Read([&](const runtime::Controller& core) { return core.Usage(*query, now); });
  return JsonResponse(ToJson(*query, report));
}

ApiResponse RestApi::GetLinks(const ApiRequest&, const Parameters&) const {
  const auto links = loop_.Read([](const runtime::Controller& core) { return core.Links(); });
  Json list = Json::array();
  for (const scheduler::LinkView& link : links) {
    list.push_back({{"level", link.level},
                    {"name", link.name},
                    {"health", link.health / 1000.0},
                    {"up", link.up},
                    {"trusted", link.trusted}});
  }
  return JsonResponse({{"links", std::move(list)}});
}

ApiResponse RestApi::PostChanges(const ApiRequest& request, const Parameters&) const {
  return change_routes_.Change(request);
}

ApiResponse RestApi::PostWhatIf(const ApiRequest& request, const Parameters&) const {
  return change_routes_.WhatIf(request);
}

ApiResponse RestApi::SetUse(const ApiRequest& request, const std::string& name, Use use) const {
  auto reason = ParseReason(request.body);
  if (!reason.ok()) return ErrorResponse(reason.status());
  const auto find = [&]() -> std::optional<proto::NodeStatus> {
    for (proto::NodeStatus& node :
         loop_.Read([](const runtime::Controller& core) { return core.AllNodes(); })) {
      if (node.name() == name) return std::move(node);
    }
    return std::nullopt;
  };
  if (!find().has_value()) return ErrorResponse(NotFound("no node named " + Printable(name)));
  proto::Event event;
  if (use == Use::kNormal && !find()->condition().starts_with("down")) {
    // A suspect is trusted again, a spare is taken into use.
    event.mutable_changes_asked()->add_changes()->set_use_node(name);
    event.mutable_changes_asked()->set_reason(*reason);
  } else {
    event.mutable_node_cordoned()->set_target(name);
    event.mutable_node_cordoned()->set_cordoned(use != Use::kNormal);
    event.mutable_node_cordoned()->set_drain(use == Use::kDrain);
    event.mutable_node_cordoned()->set_reason(*reason);
  }
  const Status accepted = loop_.Apply(std::move(event));
  if (!accepted.ok()) return ErrorResponse(accepted);
  return JsonResponse(proto::ToJson(find().value_or(proto::NodeStatus())));
}

ApiResponse RestApi::GetTokens(const ApiRequest&, const Parameters&) const {
  return token_routes_.List();
}

ApiResponse RestApi::PostToken(const ApiRequest& request, const Parameters&) const {
  return token_routes_.Create(request.body);
}

ApiResponse RestApi::PostRevokeToken(const ApiRequest&, const Parameters& parameters) const {
  return token_routes_.Revoke(parameters[0]);
}

ApiResponse RestApi::PostJoinToken(const ApiRequest& request, const Parameters&) const {
  return token_routes_.CreateJoinToken(request.body);
}

ApiResponse RestApi::GetMetrics(const ApiRequest& request, const Parameters&) const {
  MetricsInput input;
  input.now = io::Now();
  loop_.Read([&](const runtime::Controller& core) {
    input.jobs = core.Listing(input.now);
    input.nodes = core.AllNodes();
    input.queues = core.Queues();
    return 0;
  });
  input.logged_events = loop_.logged_events();
  input.log_writable = loop_.Health().ok();
  input.event_streams = event_streams_();
  ApiResponse response;
  response.content_type = ContentTypeOf(request.metrics_format);
  response.body = RenderMetrics(input, request.metrics_format);
  return response;
}

ApiResponse RestApi::GetOpenApi(const ApiRequest&, const Parameters&) const {
  ApiResponse response;
  response.content_type = "application/yaml";
  response.body = OpenApiText();
  return response;
}

ApiResponse RestApi::GetPageFile(const ApiRequest& request, const Parameters&) const {
  return page_routes_.File(request);
}

ApiResponse RestApi::PostPageLink(const ApiRequest& request, const Parameters&) const {
  return page_routes_.MakeLink(request);
}

ApiResponse RestApi::GetPageSession(const ApiRequest& request, const Parameters&) const {
  return page_routes_.Session(request);
}

ApiResponse RestApi::PostPageSession(const ApiRequest& request, const Parameters&) const {
  return page_routes_.OpenSession(request);
}

ApiResponse RestApi::GetRunViews(const ApiRequest&, const Parameters&) const {
  return view_routes_.Runs();
}

ApiResponse RestApi::GetClusterView(const ApiRequest&, const Parameters&) const {
  return view_routes_.Cluster();
}

ApiResponse RestApi::GetRunView(const ApiRequest& request, const Parameters& parameters) const {
  return view_routes_.Run(request, parameters[0]);
}

ApiResponse RestApi::GetFaultView(const ApiRequest&, const Parameters& parameters) const {
  return view_routes_.Fault(parameters[0], parameters[1]);
}

}  // namespace longhaul::service
