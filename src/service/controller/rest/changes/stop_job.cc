#include "service/controller/rest/changes/stop_job.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "proto/state_name.h"
#include "service/controller/rest/request_body.h"

namespace longhaul::service {
namespace {

// A page that is connected is a few seconds behind, which are some hundred events of a job.
constexpr size_t kMostSearched = 20'000;

// What makes a stop another decision.
struct Phase {
  proto::JobState state = proto::QUEUED;
  uint64_t attempt = 0;
  friend bool operator==(const Phase&, const Phase&) = default;
};

std::optional<Phase> PhaseOf(const runtime::Controller& core, const JobId& id) {
  const auto status = core.JobStatus(id, io::Now());
  if (!status.has_value()) return std::nullopt;
  return Phase{status->state(), status->attempt()};
}

Status Changed(const JobId& id, const std::optional<Phase>& now) {
  const std::string what = now ? "it is " + std::string(proto::StateName(now->state)) +
                                     " in attempt " + std::to_string(now->attempt)
                               : "it is no longer there";
  return Aborted("job " + id.value() + " has changed since the event that was seen: " + what +
                 ". Look at it again before you stop it");
}

// Whether the log has no change of the job after `seen`.
Status CheckUnchanged(NotificationFeed& feed, const JobId& id, uint64_t seen, const Phase& now) {
  ASSIGN_OR_RETURN(const NotificationFeed::Batch batch, feed.After(seen, id, kMostSearched));
  for (const RenderedNotification& each : batch.notifications) {
    if (each.kind == "state" || each.kind == "attempt") return Changed(id, now);
  }
  if (batch.notifications.size() < kMostSearched) return {};
  return Aborted("more than " + std::to_string(kMostSearched) + " events of job " + id.value() +
                 " have happened since the one that was seen: look at it again before you stop it");
}

// Returns the phase that the job is in, if it has been in it since `seen`.
Result<Phase> PhaseSince(CoreLoop& loop, NotificationFeed& feed, const JobId& id, uint64_t seen) {
  // Of a core whose every event is in the feed. Otherwise a change that is being logged would be in
  // the phase, but not yet among the events that are searched.
  ASSIGN_OR_RETURN(
      const std::optional<Phase> phase,
      loop.ReadLogged([id](const runtime::Controller& core) { return PhaseOf(core, id); }));
  if (!phase) return Changed(id, phase);
  if (seen > feed.newest()) {
    return InvalidArgument("\"seen\" is " + std::to_string(seen) +
                           ", and the newest event of this controller is " +
                           std::to_string(feed.newest()));
  }
  RETURN_IF_ERROR(CheckUnchanged(feed, id, seen, *phase));
  return *phase;
}

}  // namespace

Result<StopRequest> ParseStop(std::string_view body) {
  static constexpr std::array<std::string_view, 2> kKeys = {"reason", "seen"};
  StopRequest request;
  if (Trim(body).empty()) return request;
  ASSIGN_OR_RETURN(const nlohmann::ordered_json json, ParseObject(body));
  RETURN_IF_ERROR(RefuseUnknown(json, kKeys));
  RETURN_IF_ERROR(TakeText(json, "reason", request.reason));
  if (!json.contains("seen")) return request;
  std::string seen;
  RETURN_IF_ERROR(TakeText(json, "seen", seen));
  const Result<uint64_t> id = ParseUint64(seen);
  if (!id.ok()) {
    return InvalidArgument(
        "\"seen\" must be the id of an event as a text, such as \"1024\", not \"" +
        Printable(seen, 40) + "\"");
  }
  request.seen = *id;
  return request;
}

Status StopJob(CoreLoop& loop, NotificationFeed& feed, const proto::JobStatus& job,
               const StopRequest& request) {
  const JobId id(job.job().id());
  CoreLoop::Condition condition;
  if (request.seen) {
    if (job.job().has_array()) {
      return InvalidArgument("\"seen\" is for one job, and " + id.value() + " is an array");
    }
    ASSIGN_OR_RETURN(const Phase seen, PhaseSince(loop, feed, id, *request.seen));
    condition = [id, seen](const runtime::Controller& core) -> Status {
      const std::optional<Phase> now = PhaseOf(core, id);
      return now == seen ? Status() : Changed(id, now);
    };
  }
  if (runtime::IsTerminal(job.state())) return {};
  proto::Event event;
  event.mutable_job_stop_requested()->set_job_id(id.value());
  event.mutable_job_stop_requested()->set_reason(request.reason.empty() ? "asked for"
                                                                        : request.reason);
  return loop.Apply(std::move(event), std::move(condition));
}

}  // namespace longhaul::service
