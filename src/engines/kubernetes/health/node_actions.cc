#include "engines/kubernetes/health/node_actions.h"

#include <utility>

#include "engines/kubernetes/jobs/json_members.h"
#include "engines/kubernetes/protocol/event_call.h"

namespace longhaul::engines::kubernetes {
namespace {

PatchNode PatchOf(const ObservedNode& node) {
  return {node.name,
          node.uid,
          node.version,
          {{"metadata", {{"uid", node.uid}, {"resourceVersion", node.version}}}}};
}

void SetRecord(PatchNode& patch, const JobJson& value) {
  patch.patch["metadata"]["annotations"] = {{kCordonAnnotation, value}};
}

// The node's taints without the one of this effect that the record names.
JobJson TaintsWithout(const ObservedNode& node, std::string_view effect) {
  JobJson kept = JobJson::array();
  for (const JobJson& taint : node.taints) {
    const bool ours = TextAt(taint, "key") == kHealthTaint && TextAt(taint, "effect") == effect;
    if (!ours) kept.push_back(taint);
  }
  return kept.empty() ? JobJson() : kept;
}

std::string SecondsOf(Instant wall) { return ToString(wall).substr(0, 19) + "Z"; }

}  // namespace

PatchNode CordonPatch(const ObservedNode& node, const CordonRecord& record) {
  PatchNode patch = PatchOf(node);
  SetRecord(patch, TextOf(record));
  patch.patch["spec"]["unschedulable"] = true;
  if (!record.taint.empty() && !node.HasTaint(record.taint)) {
    JobJson taints = node.taints.is_array() ? node.taints : JobJson::array();
    taints.push_back({{"key", kHealthTaint}, {"effect", record.taint}});
    patch.patch["spec"]["taints"] = std::move(taints);
  }
  return patch;
}

PatchNode RecordPatch(const ObservedNode& node, const CordonRecord& record) {
  PatchNode patch = PatchOf(node);
  SetRecord(patch, TextOf(record));
  return patch;
}

PatchNode TaintRemoval(const ObservedNode& node) {
  CordonRecord record = *node.record;
  const std::string effect = std::exchange(record.taint, "");
  PatchNode patch = RecordPatch(node, record);
  if (node.HasTaint(effect)) patch.patch["spec"]["taints"] = TaintsWithout(node, effect);
  return patch;
}

PatchNode ReleasePatch(const ObservedNode& node) {
  PatchNode patch = PatchOf(node);
  SetRecord(patch, nullptr);
  if (node.held()) patch.patch["spec"]["unschedulable"] = nullptr;
  const std::string& effect = node.record->taint;
  if (!effect.empty() && node.HasTaint(effect)) {
    patch.patch["spec"]["taints"] = TaintsWithout(node, effect);
  }
  return patch;
}

PatchNodeStatus ConditionPatch(const ObservedNode& node, const HealthCondition& condition,
                               Instant wall) {
  JobJson written = {{"type", kHealthCondition},
                     {"status", condition.status},
                     {"reason", condition.reason},
                     {"message", condition.message},
                     {"lastHeartbeatTime", SecondsOf(wall)}};
  // Left out, the stored time stays.
  if (condition.status != node.status) written["lastTransitionTime"] = SecondsOf(wall);
  return {node.name,
          node.uid,
          {{"metadata", {{"uid", node.uid}}},
           {"status", {{"conditions", JobJson::array({std::move(written)})}}}}};
}

RecordNodeEvent EventOf(const ObservedNode& node, const HealthCondition& condition, Instant wall) {
  const bool healthy = condition.status == "True";
  const std::string reason = healthy && node.reason == "Cordoned" ? "Uncordoned" : condition.reason;
  EventFields event;
  event.regarding = {"v1", "Node", "", node.name, node.uid};
  // What the node had before identifies the change.
  event.name = EventName(node.name, node.uid + "/" + node.status + "/" + node.reason + "/" +
                                        node.written + "/" + condition.status + "/" + reason);
  event.warning = !healthy;
  event.reason = reason;
  event.action = "Check";
  event.controller = "longhaul.dev/node-health";
  event.instance = kHealthManager;
  event.note = condition.message;
  return {node.name, EventJson(event, ToString(wall))};
}

Result<Call> CallFor(const NodeAction& action) {
  const auto text = [](const JobJson& object) {
    return object.dump(-1, ' ', false, JobJson::error_handler_t::replace);
  };
  if (const auto* event = std::get_if<RecordNodeEvent>(&action)) {
    return CreateEventCall(event->event);
  }
  const auto* patch = std::get_if<PatchNode>(&action);
  const auto* status = std::get_if<PatchNodeStatus>(&action);
  Result<Call> call = patch != nullptr ? PatchCall(Nodes(), {"", patch->node}, "",
                                                   PatchKind::kMerge, text(patch->patch))
                                       : PatchCall(Nodes(), {"", status->node}, "status",
                                                   PatchKind::kStrategicMerge, text(status->patch));
  // The name under which managedFields records who has cordoned the node.
  if (call.ok()) call->target += "?fieldManager=" + std::string(kHealthManager);
  return call;
}

PatchResult PatchResultOf(const Verdict& verdict) {
  switch (verdict.outcome) {
    case Outcome::kDone:
      return PatchResult::kDone;
    case Outcome::kConflict:
      return PatchResult::kConflict;
    case Outcome::kNotFound:
      return PatchResult::kGone;
    case Outcome::kForbidden:
    case Outcome::kInvalid:
    case Outcome::kRetry:
    case Outcome::kUnauthenticated:
      return PatchResult::kRefused;
    default:
      return PatchResult::kUnknown;
  }
}

}  // namespace longhaul::engines::kubernetes
