#include "engines/kubernetes/jobs/job_status.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/json_members.h"
#include "engines/kubernetes/protocol/event_call.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::array<std::string_view, 7> kPhases = {
    "Queued", "Placed", "Running", "Restarting", "Suspended", "Succeeded", "Failed"};
constexpr size_t kMostMessage = 4'000;
constexpr double kGoodputSteps = 1'000;

// The condition of this type in the job's status, or null.
const JobJson& ConditionOf(const LonghaulJob& job, std::string_view type) {
  return ConditionIn(MemberOf(job.status, "conditions"), type);
}

JobJson Condition(const LonghaulJob& job, std::string_view type, bool is_true,
                  std::string_view reason, const std::string& message, Instant wall) {
  const std::string status = is_true ? "True" : "False";
  const JobJson& before = ConditionOf(job, type);
  const std::string since =
      TextAt(before, "status") == status ? TextAt(before, "lastTransitionTime") : ApiTime(wall);
  return {{"type", type},
          {"status", status},
          {"observedGeneration", job.generation},
          {"lastTransitionTime", since},
          {"reason", reason},
          {"message", Printable(message, kMostMessage)}};
}

}  // namespace

std::string ApiTime(Instant wall) { return ToString(wall).substr(0, 19) + "Z"; }

std::string_view PhaseName(JobPhase phase) { return kPhases.at(static_cast<size_t>(phase)); }

JobPhase StoredPhase(const LonghaulJob& job) {
  const std::string phase = TextAt(job.status, "phase");
  const auto found = std::find(kPhases.begin(), kPhases.end(), phase);
  return found == kPhases.end() ? JobPhase::kQueued
                                : static_cast<JobPhase>(found - kPhases.begin());
}

uint64_t StoredRestarts(const LonghaulJob& job) {
  const JobJson& restarts = MemberOf(job.status, "restarts");
  return restarts.is_number_unsigned() ? restarts.get<uint64_t>() : 0;
}

uint32_t StoredReady(const LonghaulJob& job) {
  const JobJson& ready = MemberOf(job.status, "ready");
  if (!ready.is_number_unsigned()) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(ready.get<uint64_t>(), job.maximum));
}

double StoredGoodput(const LonghaulJob& job) {
  const JobJson& goodput = MemberOf(job.status, "goodput");
  return goodput.is_number() ? goodput.get<double>() : 0;
}

bool IsFinished(const LonghaulJob& job) {
  for (const std::string_view type : {"Succeeded", "Failed"}) {
    const JobJson& condition = ConditionOf(job, type);
    if (TextAt(condition, "status") != "True") continue;
    if (TextAt(condition, "reason") != kInvalidSpec) return true;
  }
  return false;
}

JobJson StatusOf(const LonghaulJob& job, const JobFacts& facts, Instant wall) {
  JobJson conditions = JobJson::array();
  conditions.push_back(Condition(job, "Created", true, "Accepted", "", wall));
  for (size_t i = 0; i < kPhases.size(); ++i) {
    const bool is_true = static_cast<size_t>(facts.phase) == i;
    // A condition that never was true would only be noise.
    if (!is_true && ConditionOf(job, kPhases[i]).is_null()) continue;
    conditions.push_back(Condition(
        job, kPhases[i], is_true, is_true ? std::string_view(facts.reason) : PhaseName(facts.phase),
        is_true ? facts.message : "", wall));
  }
  return {
      {"phase", PhaseName(facts.phase)},
      {"conditions", std::move(conditions)},
      {"ready", facts.ready},
      {"desired", facts.desired},
      {"restarts", facts.restarts},
      {"goodput", std::round(std::clamp(facts.goodput, 0.0, 1.0) * kGoodputSteps) / kGoodputSteps},
      {"observedGeneration", job.generation},
      {"selector",
       std::string(kJobLabel) + "=" + job.name + "," + std::string(kRoleLabel) + "=worker"}};
}

bool IsNews(const JobJson& before, const JobJson& after) {
  if (!before.is_object()) return true;
  JobJson same_goodput = after;
  const auto goodput = before.find("goodput");
  if (goodput != before.end()) same_goodput["goodput"] = *goodput;
  // Compared without regard to the order of keys.
  return nlohmann::json::parse(before.dump()) != nlohmann::json::parse(same_goodput.dump());
}

JobJson EventOf(const LonghaulJob& job, std::string_view kind, std::string_view reason,
                const std::string& note, Instant wall) {
  const std::string time = ToString(wall);  // "2026-01-31T08:00:00.000Z"
  EventFields event;
  event.regarding = {"longhaul.dev/v1", "LonghaulJob", job.namespace_name, job.name, job.uid};
  event.name = EventName(job.name, job.uid + "/" + std::string(reason) + "/" + note + "/" + time);
  event.warning = kind == "Warning";
  event.reason = reason;
  event.action = "Run";
  event.controller = kOperatorName;
  event.instance = "longhaul-operator";
  event.note = note;
  return EventJson(event, time);
}

}  // namespace longhaul::engines::kubernetes
