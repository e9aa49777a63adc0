// What the node health program asks of the API server.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "base/time.h"
#include "engines/kubernetes/health/observed_node.h"
#include "engines/kubernetes/protocol/call.h"
#include "engines/kubernetes/protocol/response.h"

namespace longhaul::engines::kubernetes {

// A merge patch of the node. It has the uid and the version of the node that was observed: taints
// are a list, which a merge patch replaces, and what somebody else wrote since is not overwritten.
struct PatchNode {
  std::string node;
  std::string uid;
  std::string version;
  JobJson patch;
};
// A strategic merge patch of the node's status. It names one condition, and leaves others alone.
struct PatchNodeStatus {
  std::string node;
  std::string uid;
  JobJson patch;
};
// An event of the node. No answer is expected.
struct RecordNodeEvent {
  std::string node;
  JobJson event;
};
using NodeAction = std::variant<PatchNode, PatchNodeStatus, RecordNodeEvent>;

// Cordons the node with this record. With a taint in the record that the node does not have, the
// taint too.
PatchNode CordonPatch(const ObservedNode& node, const CordonRecord& record);
// Changes the record only.
PatchNode RecordPatch(const ObservedNode& node, const CordonRecord& record);
// Removes the taint that the record names, and its name from the record.
PatchNode TaintRemoval(const ObservedNode& node);
// Removes the record and its taint, and uncordons the node if it is held. Requires a record.
PatchNode ReleasePatch(const ObservedNode& node);

// The condition of our type. `status` is True or False.
struct HealthCondition {
  std::string status;
  std::string reason;
  std::string message;
};
PatchNodeStatus ConditionPatch(const ObservedNode& node, const HealthCondition& condition,
                               Instant wall);
// The event of a changed condition. It has the same name if it is made again for the same change,
// so that the API server stores it once.
RecordNodeEvent EventOf(const ObservedNode& node, const HealthCondition& condition, Instant wall);

Result<Call> CallFor(const NodeAction& action);

// kUnknown: it may have been executed.
enum class PatchResult { kDone, kConflict, kGone, kRefused, kUnknown };
PatchResult PatchResultOf(const Verdict& verdict);

}  // namespace longhaul::engines::kubernetes
