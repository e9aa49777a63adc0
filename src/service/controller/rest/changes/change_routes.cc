#include "service/controller/rest/changes/change_routes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "service/controller/rest/find_job.h"
#include "service/controller/submission/submission.h"

namespace longhaul::service {

namespace {

constexpr int kMostWhatIfs = 5;  // one that is being answered, and those that wait for it
constexpr Duration kWhatIfTime = std::chrono::seconds(30);  // for the answer

void SetDevices(const std::string& model, double amount, proto::Amounts& amounts) {
  for (proto::DeviceAmount& each : *amounts.mutable_devices()) {
    if (each.model() == model) return each.set_accelerators(amount);
  }
  proto::DeviceAmount& added = *amounts.add_devices();
  added.set_model(model);
  added.set_accelerators(amount);
}

}  // namespace

// The job as it would be. A new size is planned for and its data prepared.
Result<proto::Job> ChangeRoutes::ChangedJob(const ChangeRequest& request) const {
  ASSIGN_OR_RETURN(const proto::JobStatus status, FindOneJob(loop_, request.subject));
  proto::Job job = status.job();
  if (request.nodes && *request.nodes != job.nodes()) {
    // Checked before the preparation, which may take long. The core checks it again when the change
    // is applied.
    if (status.state() != proto::QUEUED || status.attempt() > job.committed_attempt()) {
      return FailedPrecondition("job " + job.id() +
                                " has begun: the size of one that has not can be changed");
    }
    SubmissionRequest again;
    again.before = std::move(job);
    again.nodes = *request.nodes;
    ASSIGN_OR_RETURN(const proto::JobsSubmitted prepared, prepare_(again));
    job = prepared.jobs(0);
  }
  if (request.topology) {
    job.mutable_scheduling()->set_topology(*request.topology == "cluster" ? "" : *request.topology);
  }
  if (request.rules) SetTopology(*request.rules, *job.mutable_scheduling());
  if (request.devices) {
    job.mutable_scheduling()->clear_devices();
    for (const std::string& name : *request.devices) job.mutable_scheduling()->add_devices(name);
  }
  if (request.mixed_devices) job.mutable_scheduling()->set_mixed_devices(*request.mixed_devices);
  return job;
}

// Names are resolved to ids here, on the caller's thread; the event holds the complete result, so
// that a replay does not depend on the request.
Result<proto::Change> ChangeRoutes::ChangeFrom(const ChangeRequest& request) const {
  proto::Change change;
  switch (request.kind) {
    case ChangeRequest::Kind::kExpedite: {
      ASSIGN_OR_RETURN(const proto::JobStatus job, FindOneJob(loop_, request.subject));
      change.set_expedite(job.job().id());
      break;
    }
    case ChangeRequest::Kind::kEvict: {
      ASSIGN_OR_RETURN(const proto::JobStatus job, FindOneJob(loop_, request.subject));
      change.set_evict(job.job().id());
      break;
    }
    case ChangeRequest::Kind::kScale: {
      ASSIGN_OR_RETURN(const proto::JobStatus job, FindOneJob(loop_, request.subject));
      change.mutable_scale()->set_job_id(job.job().id());
      change.mutable_scale()->set_nodes(*request.nodes);
      break;
    }
    case ChangeRequest::Kind::kJob: {
      ASSIGN_OR_RETURN(*change.mutable_job(), ChangedJob(request));
      break;
    }
    case ChangeRequest::Kind::kLimit: {
      // A limit is replaced as a whole, so amounts that the request leaves out keep the present
      // value. For an unknown queue the values do not matter: the core refuses the change.
      proto::Amounts limit;
      limit.set_accelerators(-1);
      limit.set_cpu(-1);
      limit.set_memory_gib(-1);
      for (const proto::QueueStatus& queue :
           loop_.Read([](const runtime::Controller& core) { return core.Queues(); })) {
        if (queue.name() == request.subject) limit = queue.limit();
      }
      if (request.accelerators) limit.set_accelerators(*request.accelerators);
      if (request.cpu) limit.set_cpu(*request.cpu);
      if (request.memory_gib) limit.set_memory_gib(*request.memory_gib);
      for (const auto& [model, amount] : request.device_limits) SetDevices(model, amount, limit);
      change.mutable_limit()->set_queue(request.subject);
      *change.mutable_limit()->mutable_limit() = limit;
      break;
    }
    case ChangeRequest::Kind::kRelease: {
      ASSIGN_OR_RETURN(const proto::JobStatus job, FindJob(loop_, request.subject));
      // The elements of an array have the dependencies of the array.
      change.set_release(job.job().has_element() ? job.job().element().array() : job.job().id());
      break;
    }
    case ChangeRequest::Kind::kNode:
      change.set_use_node(request.subject);
      break;
    case ChangeRequest::Kind::kLink:
      change.mutable_trust_link()->set_name(request.subject);
      change.mutable_trust_link()->set_level(request.level);
      break;
  }
  return change;
}

// All changes are in one event: the core applies all of them or refuses all. The role is checked
// for each change, because the route's role is only the least that any change needs.
ApiResponse ChangeRoutes::Change(const ApiRequest& request) const {
  const auto asked = ParseChanges(request.body);
  if (!asked.ok()) return ErrorResponse(asked.status());
  proto::Event event;
  event.mutable_changes_asked()->set_reason(asked->reason);
  for (const ChangeRequest& each : asked->changes) {
    const Role needed = service::RoleFor(each.kind);
    if (!Permits(request.caller.role, needed)) {
      return WrongRole(request.caller, needed, "the change of " + Printable(each.subject, 80));
    }
    auto change = ChangeFrom(each);
    if (!change.ok()) return ErrorResponse(change.status());
    *event.mutable_changes_asked()->add_changes() = *std::move(change);
  }
  const Status accepted = loop_.Apply(std::move(event));
  if (!accepted.ok()) return ErrorResponse(accepted);
  ApiResponse response = JsonResponse({{"changes", asked->changes.size()}});
  std::vector<std::string> subjects;
  for (const ChangeRequest& each : asked->changes) subjects.push_back(each.subject);
  response.object = Join(subjects, " ");
  return response;
}

Result<std::vector<runtime::scheduling::WhatIfChange>> ChangeRoutes::ChangesOf(
    const WhatIfRequest& asked) const {
  using Kind = runtime::scheduling::WhatIfChange::Kind;
  std::vector<runtime::scheduling::WhatIfChange> changes;
  for (const WhatIfRequest::Change& each : asked.changes) {
    changes.push_back(each.change);
    runtime::scheduling::WhatIfChange& change = changes.back();
    if (change.kind == Kind::kStop) {
      // What is no job's name is refused with the nearest id.
      const auto job = FindOneJob(loop_, change.subject);
      if (job.ok()) change.subject = job->job().id();
      if (job.status().code() == Code::kFailedPrecondition) return job.status();
    }
    if (!each.submission) continue;
    ASSIGN_OR_RETURN(const proto::JobsSubmitted prepared, prepare_(*each.submission));
    const bool one = prepared.jobs_size() == 1 && !prepared.jobs(0).has_array();
    if (!one || prepared.jobs(0).has_after()) {
      return InvalidArgument("submit: the file must state one job, without 'array' and 'after'");
    }
    change.job = prepared.jobs(0);
    const std::string name = change.job.id();
    const auto taken = [&] {
      return std::any_of(changes.begin(), changes.end() - 1,
                         [&](const auto& other) { return other.job.id() == change.job.id(); }) ||
             loop_.Read([&](const runtime::Controller& core) {
               return core.JobStatus(JobId(change.job.id()), io::Now()).has_value();
             });
    };
    // The id must be free among the running jobs and among the other changes of this question.
    for (int i = 1; taken(); ++i) change.job.set_id(name + "-new-" + std::to_string(i));
    change.subject = change.job.id();
  }
  return changes;
}

// Only the copy is made under the core's lock.
ApiResponse ChangeRoutes::WhatIf(const ApiRequest& request) const {
  const auto asked = ParseWhatIf(request.body);
  if (!asked.ok()) return ErrorResponse(asked.status());
  struct Place {  // among those that wait
    explicit Place(std::atomic<int>& all) : count(all), number(++all) {}
    ~Place() { --count; }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    std::atomic<int>& count;
    const int number;
  };
  const Place place(what_ifs_);
  if (place.number > kMostWhatIfs) {
    return ErrorResponse(ResourceExhausted(std::to_string(kMostWhatIfs) +
                                           " what-if questions are being answered; try again"));
  }
  // One question at a time: each simulates for up to kWhatIfTime on a copy of the scheduler.
  const std::lock_guard turn(what_if_);
  const auto changes = ChangesOf(*asked);
  if (!changes.ok()) return ErrorResponse(changes.status());
  const auto scheduler =
      loop_.Read([](const runtime::Controller& core) { return core.CopyScheduler(); });
  const Instant begin = io::Now();
  runtime::scheduling::WhatIfOptions options;
  options.horizon = asked->horizon;
  options.expired = [begin] { return io::Now() - begin > kWhatIfTime; };
  const auto answer = runtime::scheduling::AnswerWhatIf(*scheduler, *changes, begin, options);
  if (!answer.ok()) return ErrorResponse(answer.status());
  return JsonResponse(ToJson(*answer));
}

}  // namespace longhaul::service
