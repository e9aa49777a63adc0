#include "engines/kubernetes/scheduling/pod_calls.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostMessage = 1'000;

// With the uid: a pod of the same name that was made since is left alone.
std::string ConditionPatch(const ReportWait& report, std::string_view time) {
  const Json condition = {{"type", "PodScheduled"},
                          {"status", "False"},
                          {"reason", "Unschedulable"},
                          {"message", Printable(report.message, kMostMessage)},
                          {"lastTransitionTime", time}};
  return Json{{"metadata", {{"uid", report.pod.uid}}},
              {"status", {{"conditions", Json::array({condition})}}}}
      .dump();
}

}  // namespace

Result<Call> CallFor(const PodAction& action, std::string_view time) {
  const auto object = [](const PodName& pod) { return ObjectName{pod.namespace_name, pod.name}; };
  if (const auto* bind = std::get_if<BindPod>(&action)) {
    return BindCall(object(bind->pod), bind->pod.uid, bind->node, bind->annotations);
  }
  if (const auto* remove = std::get_if<RemovePod>(&action)) {
    const ObjectName pod = object(remove->pod);
    return remove->evict ? EvictCall(pod, remove->pod.uid, std::nullopt)
                         : DeleteCall(Pods(), pod, remove->pod.uid, std::nullopt);
  }
  if (const auto* read = std::get_if<ReadPodAgain>(&action)) {
    return GetCall(Pods(), object(read->pod));
  }
  const auto& report = std::get<ReportWait>(action);
  return PatchCall(Pods(), object(report.pod), "status", PatchKind::kStrategicMerge,
                   ConditionPatch(report, time));
}

// Only the text of the message distinguishes one conflict from another, so the pod is read.
BindResult BindResultOf(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kDone:
      return BindResult::kBound;
    case Outcome::kForbidden:
    case Outcome::kInvalid:
    case Outcome::kUnauthenticated:
    case Outcome::kRetry:
      return BindResult::kRefused;
    default:
      return BindResult::kUnknown;
  }
}

bool IsRemoved(const Verdict& verdict) {
  return verdict.outcome == Outcome::kDone || verdict.outcome == Outcome::kNotFound;
}

}  // namespace longhaul::engines::kubernetes
