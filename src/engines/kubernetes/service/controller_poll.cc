#include "engines/kubernetes/service/controller_poll.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/jobs/controller_report.h"
#include "io/clock.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kTokenSeconds = 3'600;
// A token is used for so much of its life.
constexpr Duration kTokenUse = std::chrono::seconds(kTokenSeconds * 4 / 5);
constexpr Duration kRequestLimit = std::chrono::seconds(10);
constexpr size_t kMostAnswer = 8 << 20;

std::string AudienceFor(const std::string& job_uid) { return "longhaul.dev/job/" + job_uid; }

// The token in the answer to a TokenRequest; empty: there is none.
std::string TokenIn(const std::string& body) {
  const auto answer = nlohmann::json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("status")) return "";
  const auto& status = answer["status"];
  if (!status.is_object() || !status.contains("token")) return "";
  return status["token"].is_string() ? status["token"].get<std::string>() : "";
}

}  // namespace

ControllerPoll::ControllerPoll(io::EventLoop& loop, Client& client, ControllerPollSettings settings,
                               Take take, Log log)
    : loop_(loop),
      client_(client),
      settings_(std::move(settings)),
      take_(std::move(take)),
      log_(std::move(log)) {}

ControllerPoll::~ControllerPoll() = default;

void ControllerPoll::Ask(const std::vector<JobOperator::Controller>& controllers) {
  std::set<std::string> wanted;
  for (const auto& controller : controllers) wanted.insert(controller.pod_uid);
  std::erase_if(asked_, [&](const auto& each) {
    return !wanted.contains(each.first) && each.second.open == 0 && !each.second.waits_for_token;
  });
  const Instant now = io::MonotonicNow();
  size_t open = 0;
  for (const auto& [uid, asked] : asked_) open += asked.open > 0 ? 1 : 0;
  for (const auto& controller : controllers) {
    if (open >= settings_.at_once) return;
    Asked& asked = asked_[controller.pod_uid];
    if (asked.http == nullptr && !Prepare(controller, asked)) continue;
    const bool busy = asked.open > 0 || asked.waits_for_token;
    if (busy || now - asked.asked_at < settings_.period) continue;
    if (asked.credential == nullptr || now >= asked.credential_until) {
      AskForToken(controller.pod_uid, asked, now);
      continue;
    }
    asked.asked_at = now;
    asked.open = 2;
    ++open;
    asked.jobs.clear();
    asked.nodes.clear();
    Request(controller.pod_uid, asked, "/v1/jobs", true);
    Request(controller.pod_uid, asked, "/v1/nodes", false);
  }
}

bool ControllerPoll::Prepare(const JobOperator::Controller& controller, Asked& asked) {
  asked.controller = controller;
  HttpSettings http;
  const bool is_v6 = controller.ip.find(':') != std::string::npos;
  http.server = "https://" + (is_v6 ? "[" + controller.ip + "]" : controller.ip) + ":" +
                std::to_string(kRestPort);
  http.certificate_authority = controller.authority;
  http.direct = true;  // addresses of pods are inside of the cluster
  http.request_timeout = kRequestLimit;
  http.max_body_bytes = kMostAnswer;
  http.kept_connections = 2;
  Result<std::unique_ptr<HttpClient>> made = HttpClient::Create(loop_, std::move(http));
  if (!made.ok()) {
    Complain(asked, made.status().message());
    return false;
  }
  asked.http = *std::move(made);
  return true;
}

void ControllerPoll::AskForToken(const std::string& uid, Asked& asked, Instant now) {
  const auto sent = client_.Send(
      TokenCall(settings_.account, AudienceFor(asked.controller.job_uid), kTokenSeconds),
      [this, uid, now, alive = std::weak_ptr(alive_)](const Reply& reply) {
        if (!alive.expired()) OnToken(uid, reply, now + kTokenUse);
      });
  asked.waits_for_token = sent.ok();
}

void ControllerPoll::OnToken(const std::string& uid, const Reply& reply, Instant until) {
  const auto found = asked_.find(uid);
  if (found == asked_.end()) return;
  Asked& asked = found->second;
  asked.waits_for_token = false;
  std::string token = reply.ok() ? TokenIn(reply.body) : "";
  if (token.empty()) {
    asked.asked_at = io::MonotonicNow();  // not at once again
    return Complain(asked,
                    reply.ok() ? "the API server gave no token" : reply.verdict.status.message());
  }
  auto credential = std::make_shared<Credential>();
  credential->token = std::move(token);
  asked.credential = std::move(credential);
  asked.credential_until = until;
}

void ControllerPoll::Request(const std::string& uid, Asked& asked, const std::string& path,
                             bool is_jobs) {
  HttpRequest request;
  request.method = "GET";
  request.target = path;
  request.credential = asked.credential;
  asked.http->Send(std::move(request), [this, uid, is_jobs](Result<HttpResponse> response) {
    OnAnswer(uid, is_jobs, response);
  });
}

void ControllerPoll::OnAnswer(const std::string& uid, bool is_jobs,
                              const Result<HttpResponse>& response) {
  const auto found = asked_.find(uid);
  if (found == asked_.end()) return;
  Asked& asked = found->second;
  --asked.open;
  if (!response.ok()) return Complain(asked, response.status().message());
  if (response->status == 401) asked.credential = nullptr;  // the next time with a new one
  if (response->status != 200) {
    return Complain(asked, "it answers " + std::to_string(response->status) + ": " +
                               Printable(response->body, 200));
  }
  (is_jobs ? asked.jobs : asked.nodes) = response->body;
  if (asked.open > 0 || asked.jobs.empty() || asked.nodes.empty()) return;
  Result<ControllerReport> report = ReadControllerReport(asked.jobs, asked.nodes);
  if (!report.ok()) return Complain(asked, report.status().message());
  asked.trouble.clear();
  take_(asked.controller, *std::move(report));
}

void ControllerPoll::Complain(Asked& asked, const std::string& trouble) {
  if (trouble == asked.trouble) return;
  asked.trouble = trouble;
  log_("the controller of " + asked.controller.job_key + ": " + trouble);
}

}  // namespace longhaul::engines::kubernetes
