#include "frontend/controller_link.h"

#include <utility>

#include "base/check.h"
#include "io/clock.h"
#include "io/process/user_name.h"
#include "proto/json.h"

namespace longhaul::frontend {
namespace {

using service::Json;

constexpr Duration kNodesPoll = std::chrono::milliseconds(20);
// A controller that has been killed is back within a second; a busy machine may need longer.
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr int kTries = 100;
constexpr Duration kRetryPause = std::chrono::milliseconds(100);

std::string JobPath(const std::string& job_id) { return "/v1/jobs/" + service::UrlEncode(job_id); }

// The list under `key`, or the document itself when it is a list.
const Json& ListIn(const Json& document, const char* key) {
  return document.is_object() && document.contains(key) ? document[key] : document;
}

}  // namespace

ControllerLink::ControllerLink(io::EventLoop& loop, service::Endpoint endpoint,
                               Submission submission, LinkObserver observer)
    : loop_(loop),
      submission_(std::move(submission)),
      observer_(std::move(observer)),
      client_(std::move(endpoint)),
      talker_([this] { Talk(); }) {}

ControllerLink::~ControllerLink() {
  *alive_ = false;
  client_.Stop();
  talker_.join();
  if (stopper_.joinable()) stopper_.join();
}

void ControllerLink::Post(std::function<void()> work) {
  loop_.Post([alive = alive_, work = std::move(work)] {
    if (*alive) work();
  });
}

void ControllerLink::Talk() {
  const auto fail = [this](const Status& reason) {
    Post([this, reason] { observer_.on_failed(reason); });
  };
  RequestPage();
  const Result<std::optional<SubmittedJob>> earlier = FindEarlier();
  if (!earlier.ok()) return fail(earlier.status());
  if (!earlier->has_value()) {
    if (const Status joined = WaitForNodes(); !joined.ok()) return fail(joined);
  }
  const Result<SubmittedJob> job = earlier->has_value() ? Result(**earlier) : Submit();
  if (!job.ok()) return fail(job.status());
  const Instant at = io::MonotonicNow();
  Post([this, job = *job, at] { observer_.on_submitted(job, at); });
  if (const Status followed = Follow(job->id); !followed.ok()) return fail(followed);
  const Result<proto::JobStatus> status = FetchStatus(job->id);
  if (!status.ok()) return fail(status.status());
  Post([this, status = *status] { observer_.on_over(status); });
}

// The run does not depend on its page, so an error is not reported.
void ControllerLink::RequestPage() {
  const Result<Json> answer = client_.Post("/v1/page/links", Json::object());
  if (!answer.ok() || !answer->is_object()) return;
  const std::string link = answer->value("link", "");
  if (link.empty()) return;
  Post([this, address = client_.address() + link] { observer_.on_page(address); });
}

// The planner looks at the nodes that are there, so all should be.
Status ControllerLink::WaitForNodes() {
  const Instant began = io::MonotonicNow();
  const std::optional<Duration> limit = submission_.nodes_limit;
  while (true) {
    const Result<Json> answer = client_.Get("/v1/nodes");
    if (!answer.ok() && answer.status().code() != Code::kUnavailable) return answer.status();
    uint32_t connected = 0;
    if (answer.ok()) {
      for (const Json& node : ListIn(*answer, "nodes")) {
        connected += node.is_object() && node.value("connected", false);
      }
      if (connected >= submission_.nodes) return Status();
    }
    if (limit.has_value() && io::MonotonicNow() - began > *limit) {
      if (!answer.ok()) return answer.status();
      return DeadlineExceeded("only " + std::to_string(connected) + " of " +
                              std::to_string(submission_.nodes) + " agents joined within " +
                              ToString(*limit));
    }
    if (!*alive_) return CancelledError("stopped");
    std::this_thread::sleep_for(kNodesPoll);
  }
}

// A job that was stopped ended for the run to be continued, by a new job.
Result<std::optional<SubmittedJob>> ControllerLink::FindEarlier() {
  if (submission_.earlier == EarlierJob::kNone) return std::optional<SubmittedJob>();
  ASSIGN_OR_RETURN(const Json answer, client_.Get("/v1/jobs"));
  std::optional<SubmittedJob> found;
  for (const Json& status : ListIn(answer, "jobs")) {
    if (!status.is_object() || !status.contains("job") || !status["job"].is_object()) continue;
    const std::string id = status["job"].value("id", "");
    const std::string state = status.value("state", "");
    if (id.empty() || state == "stopped") continue;
    if (submission_.earlier == EarlierJob::kContinue) {
      found = SubmittedJob{id, "", true};
    } else if (state != "succeeded" && state != "failed") {
      RETURN_IF_ERROR(
          client_.Post(JobPath(id) + "/stop", {{"reason", "its job file has changed"}}).status());
    }
  }
  return found;
}

Result<SubmittedJob> ControllerLink::Submit() {
  Json body = {{"job", submission_.job},
               {"source", submission_.source},
               {"run_directory", submission_.run_directory},
               {"resume", submission_.resume},
               {"user", io::UserName()}};
  if (!submission_.from.empty()) body["from"] = submission_.from;
  ASSIGN_OR_RETURN(const Json answer, client_.Post("/v1/jobs", body));
  const Json& job = answer.is_object() && answer.contains("job") ? answer["job"] : answer;
  if (!job.is_object() || !job.contains("id") || !job["id"].is_string()) {
    return InternalError("the controller's answer to a submission has no id");
  }
  return SubmittedJob{job["id"].get<std::string>(), job.value("plan_reason", ""), false};
}

Status ControllerLink::Follow(const std::string& job_id) {
  service::FollowOptions options;
  options.patience = kPatience;
  options.on_connection = [this](bool connected, const std::string& reason) {
    Post([this, connected, reason] { observer_.on_connection(connected, reason); });
  };
  return client_.Follow(JobPath(job_id) + "/events", options,
                        [this](const service::FeedEvent& event) {
                          proto::Notification notification;
                          if (!proto::FromJson(event.data.dump(), &notification).ok()) return true;
                          const Instant at = io::MonotonicNow();
                          Post([this, notification, event, at] {
                            observer_.on_notification(notification, event, at);
                          });
                          return true;
                        });
}

Result<proto::JobStatus> ControllerLink::FetchStatus(const std::string& job_id) {
  Result<Json> answer = client_.Get(JobPath(job_id));
  for (int i = 0; !answer.ok() && answer.status().code() == Code::kUnavailable && i < kTries; ++i) {
    if (!*alive_) break;
    std::this_thread::sleep_for(kRetryPause);
    answer = client_.Get(JobPath(job_id));
  }
  if (!answer.ok()) return answer.status();
  proto::JobStatus status;
  RETURN_IF_ERROR(proto::FromJson(answer->dump(), &status));
  return status;
}

void ControllerLink::StopJob(const std::string& job_id, const std::string& reason) {
  CHECK(!stopper_.joinable());
  stopper_ = std::thread([this, job_id, reason] {
    for (int i = 0; i < kTries && *alive_; ++i) {
      const Result<Json> answer = client_.Post(JobPath(job_id) + "/stop", {{"reason", reason}});
      if (answer.ok() || answer.status().code() != Code::kUnavailable) return;
      std::this_thread::sleep_for(kRetryPause);
    }
  });
}

}  // namespace longhaul::frontend
