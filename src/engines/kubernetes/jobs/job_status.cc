#include "engines/kubernetes/jobs/job_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"
#include "base/text.h"
#include "engines/kubernetes/jobs/job_pod.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr std::array<std::string_view, 7> kPhases = {
    "Queued", "Placed", "Running", "Restarting", "Suspended", "Succeeded", "Failed"};
constexpr size_t kMostMessage = 4'000;
constexpr size_t kMostNote = 1'000;  // of an event: the API refuses more than 1,024 bytes
constexpr double kGoodputSteps = 1'000;

const JobJson* Member(const JobJson& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const JobJson& object, std::string_view name) {
  const JobJson* value = Member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

const JobJson* ConditionOf(const JobJson& status, std::string_view type) {
  const JobJson* conditions = Member(status, "conditions");
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const JobJson& condition : *conditions) {
    if (TextOf(condition, "type") == type) return &condition;
  }
  return nullptr;
}

std::string ApiTime(Instant wall) { return ToString(wall).substr(0, 19) + "Z"; }

JobJson Condition(const LonghaulJob& job, std::string_view type, bool is_true,
                  std::string_view reason, const std::string& message, Instant wall) {
  const std::string status = is_true ? "True" : "False";
  const JobJson* before = ConditionOf(job.status, type);
  const std::string since = before != nullptr && TextOf(*before, "status") == status
                                ? TextOf(*before, "lastTransitionTime")
                                : ApiTime(wall);
  return {{"type", type},
          {"status", status},
          {"observedGeneration", job.generation},
          {"lastTransitionTime", since},
          {"reason", reason},
          {"message", Printable(message, kMostMessage)}};
}

}  // namespace

std::string_view PhaseName(JobPhase phase) { return kPhases.at(static_cast<size_t>(phase)); }

JobPhase StoredPhase(const LonghaulJob& job) {
  const std::string phase = TextOf(job.status, "phase");
  const auto found = std::find(kPhases.begin(), kPhases.end(), phase);
  return found == kPhases.end() ? JobPhase::kQueued
                                : static_cast<JobPhase>(found - kPhases.begin());
}

uint64_t StoredRestarts(const LonghaulJob& job) {
  const JobJson* restarts = Member(job.status, "restarts");
  return restarts != nullptr && restarts->is_number_unsigned() ? restarts->get<uint64_t>() : 0;
}

uint32_t StoredReady(const LonghaulJob& job) {
  const JobJson* ready = Member(job.status, "ready");
  const bool fits = ready != nullptr && ready->is_number_unsigned();
  return fits ? static_cast<uint32_t>(std::min<uint64_t>(ready->get<uint64_t>(), job.maximum)) : 0;
}

double StoredGoodput(const LonghaulJob& job) {
  const JobJson* goodput = Member(job.status, "goodput");
  return goodput != nullptr && goodput->is_number() ? goodput->get<double>() : 0;
}

bool IsFinished(const LonghaulJob& job) {
  for (const std::string_view type : {"Succeeded", "Failed"}) {
    const JobJson* condition = ConditionOf(job.status, type);
    if (condition == nullptr || TextOf(*condition, "status") != "True") continue;
    if (TextOf(*condition, "reason") != kInvalidSpec) return true;
  }
  return false;
}

JobJson StatusOf(const LonghaulJob& job, const JobFacts& facts, Instant wall) {
  JobJson conditions = JobJson::array();
  conditions.push_back(Condition(job, "Created", true, "Accepted", "", wall));
  for (size_t i = 0; i < kPhases.size(); ++i) {
    const bool is_true = static_cast<size_t>(facts.phase) == i;
    // A condition that never was true would only be noise.
    if (!is_true && ConditionOf(job.status, kPhases[i]) == nullptr) continue;
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
  const uint64_t number = Hash64(job.uid + "/" + std::string(reason) + "/" + note + "/" + time, 0);
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata",
           {{"name", job.name + "." + fmt::format("{:016x}", number)},
            {"namespace", job.namespace_name}}},
          {"eventTime", time.substr(0, 19) + ".000000Z"},
          {"reportingController", kOperatorName},
          {"reportingInstance", "longhaul-operator"},
          {"action", "Run"},
          {"reason", reason},
          {"regarding",
           {{"apiVersion", "longhaul.dev/v1"},
            {"kind", "LonghaulJob"},
            {"namespace", job.namespace_name},
            {"name", job.name},
            {"uid", job.uid}}},
          {"note", Printable(note, kMostNote)},
          {"type", kind}};
}

}  // namespace longhaul::engines::kubernetes
