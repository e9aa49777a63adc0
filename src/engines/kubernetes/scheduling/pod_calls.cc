#include "engines/kubernetes/scheduling/pod_calls.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <variant>

#include "base/text.h"
#include "engines/kubernetes/protocol/event_call.h"

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

// Of this claim in this version, so that what others wrote meanwhile is seen first.
std::string SelectNodePatch(const SelectNode& select) {
  const Json meta = {{"uid", select.uid},
                     {"resourceVersion", select.version},
                     {"annotations", {{kSelectedNodeAnnotation, select.node}}}};
  return Json{{"metadata", meta}}.dump();
}

// As the stock scheduler names them, for people and programs that look for its events.
Result<Call> EventCall(const RecordPodEvent& record, std::string_view time) {
  using Reason = RecordPodEvent::Reason;
  EventFields event;
  event.name = EventName(record.pod.name, record.pod.uid + "/" + record.identity);
  if (record.count > 1) {
    return ContinueEventCall({record.pod.namespace_name, event.name}, record.count, time);
  }
  event.regarding = {"v1", "Pod", record.pod.namespace_name, record.pod.name, record.pod.uid};
  event.warning = record.reason == Reason::kFailedScheduling;
  event.controller = "longhaul.dev/scheduler";
  event.instance = "longhaul-scheduler";
  event.note = record.note;
  switch (record.reason) {
    case Reason::kScheduled:
      event.reason = "Scheduled";
      event.action = "Binding";
      break;
    case Reason::kFailedScheduling:
      event.reason = "FailedScheduling";
      event.action = "Scheduling";
      break;
    case Reason::kPreempted:
      event.reason = "Preempted";
      event.action = "Preempting";
      break;
  }
  return CreateEventCall(EventJson(event, time));
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
  if (const auto* select = std::get_if<SelectNode>(&action)) {
    return PatchCall(VolumeClaims(), {select->namespace_name, select->claim}, "", PatchKind::kMerge,
                     SelectNodePatch(*select));
  }
  if (const auto* read = std::get_if<ReadPodAgain>(&action)) {
    return GetCall(Pods(), object(read->pod));
  }
  if (const auto* event = std::get_if<RecordPodEvent>(&action)) return EventCall(*event, time);
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
      return BindResult::kRefused;
    case Outcome::kRetry:
      return BindResult::kBusy;
    default:
      return BindResult::kUnknown;
  }
}

bool IsRemoved(const Verdict& verdict) {
  return verdict.outcome == Outcome::kDone || verdict.outcome == Outcome::kNotFound;
}

}  // namespace longhaul::engines::kubernetes
