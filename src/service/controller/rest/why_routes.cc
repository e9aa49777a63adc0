#include "service/controller/rest/why_routes.h"

#include <utility>

#include "io/clock.h"
#include "proto/json.h"
#include "scheduler/explanation.h"
#include "service/controller/rest/changes/change_request.h"
#include "service/controller/rest/find_job.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

// Why the scheduler has not been offered a job.
void ExplainHeld(const runtime::Controller::Question& question, Json& answer) {
  answer["reason"] = question.depends ? "dependency" : "array-limit";
  answer["sentence"] = question.held;
  if (!question.depends) {
    answer["fix"].push_back("one of these elements ends");
    return;
  }
  proto::Change change;
  change.set_release(question.unit);
  answer["fix"].push_back(
      "it no longer waits for other jobs; whether nodes are free for it then was not tried");
  answer["changes"].push_back(ToJson(change, {}));
  answer["commands"].push_back(CommandOf(answer["changes"][0]));
}

// A reservation only matters to a job that has too few nodes.
void AddReserved(const std::string& reserved, Json& answer) {
  if (reserved.empty()) return;
  const std::string reason = answer["reason"].get<std::string>();
  if (reason != "no-room" && reason != "reservation" && reason != "never-fits") return;
  answer["sentence"] = answer["sentence"].get<std::string>() + "; " + reserved;
  answer["reserved"] = reserved;
}

}  // namespace

// The first element that waits, or the first one.
Result<proto::JobStatus> WhyRoutes::FirstWaiting(const proto::Job& array) const {
  return loop_.Read([&](const runtime::Controller& core) -> Result<proto::JobStatus> {
    for (uint32_t index = 0; index < array.array().count(); ++index) {
      auto element = core.JobStatus(JobId(runtime::ElementIdOf(array.id(), index)), io::Now());
      if (element->state() == proto::QUEUED || index + 1 == array.array().count()) return *element;
    }
    return NotFound("array " + array.id() + " has no elements");
  });
}

// The what-if rounds are tried on a copy, so that the core continues meanwhile.
ApiResponse WhyRoutes::Get(const std::string& id_or_name) const {
  auto job = FindJob(loop_, id_or_name);
  if (job.ok() && job->job().has_array()) job = FirstWaiting(job->job());
  if (!job.ok()) return ErrorResponse(job.status());
  const JobId id(job->job().id());
  const auto question =
      // One read for both, so that the jobs and the nodes in an answer are of the same moment.
      loop_.Read([&](const runtime::Controller& core) { return core.AskWhy(id); });
  Json answer = {{"job_id", id.value()},     {"state", proto::ToJson(*job)["state"]},
                 {"reason", "never-fits"},   {"sentence", question.aside},
                 {"fix", Json::array()},     {"changes", Json::array()},
                 {"commands", Json::array()}};
  if (job->state() != proto::QUEUED) {
    answer["reason"] = "none";
    answer["sentence"] = "it does not wait";
    return JsonResponse(answer);
  }
  if (!question.held.empty()) {
    ExplainHeld(question, answer);
    return JsonResponse(answer);
  }
  if (!question.scheduler.has_value()) {
    answer["fix"].push_back("nodes that together hold " + std::to_string(job->job().nodes()) +
                            " x " + std::to_string(job->job().processes_per_node()) + " workers");
    return JsonResponse(answer);
  }
  const auto why = question.scheduler->Explain(id, io::Now(), question.means);
  if (!why.ok()) return ErrorResponse(why.status());
  // The core may have changed since the copy was made. Each proposed change is checked again when
  // it is applied.
  const auto remedy =
      loop_.Read([&](const runtime::Controller& core) { return core.RemedyOf(id, why->fix); });
  // Changes of the job's specification are shown as differences, so each one is compared with the
  // one before it.
  proto::Job before = job->job();
  for (const std::string& node : remedy.missing) {
    answer["commands"].push_back("longhaul agent --node " + node +
                                 " ...  # on its machine, as it was started before");
  }
  for (const proto::Change& change : remedy.changes) {
    const Json json = ToJson(change, before);
    if (change.has_job()) before = change.job();
    answer["changes"].push_back(json);
    answer["commands"].push_back(CommandOf(json));
  }
  if (answer["changes"].size() > 1) answer["at_once"] = CommandOfAll(answer["changes"]);
  const Json explained = Json::parse(scheduler::ToJson(*why));
  for (const auto& [key, value] : explained.items()) answer[key] = value;
  AddReserved(question.reserved, answer);
  return JsonResponse(answer);
}

}  // namespace longhaul::service
