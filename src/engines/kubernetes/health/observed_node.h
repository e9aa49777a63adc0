// A node as the API server has it: who has cordoned it, and what was written about its health.
//
// Everything that this program remembers of a node is in the node itself:
//   annotation longhaul.dev/cordoned      why it was cordoned, as JSON (CordonRecord)
//   condition longhaul.dev/Healthy        False with the evidence, later True
//   managedFields of spec.unschedulable   who wrote the present value
// A node that has the annotation and is not cordoned was uncordoned by somebody else.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/health/evidence.h"
#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

inline constexpr std::string_view kCordonAnnotation = "longhaul.dev/cordoned";
inline constexpr std::string_view kHealthCondition = "longhaul.dev/Healthy";
inline constexpr std::string_view kHealthTaint = "longhaul.dev/unhealthy";
// The owner in the annotation, and the field manager of all writes.
inline constexpr std::string_view kHealthManager = "longhaul-node-health";

// The annotation.
struct CordonRecord {
  std::set<std::string> evidence;  // keys
  bool complete = true;            // false: there were more keys than are stored
  std::string since;               // a time of day
  std::string taint;               // the effect of the taint that was added; empty: none

  // Whether each key is stored, or may have been.
  bool Covers(const Evidence& items) const;
  // Stores the keys too, at most kMostEvidence in total.
  void Add(const Evidence& items);
};
std::string TextOf(const CordonRecord& record);
// Nothing for a text that this program has not written.
std::optional<CordonRecord> ReadCordonRecord(const std::string& text);

struct ObservedNode {
  std::string name;
  std::string uid;
  std::string version;  // resourceVersion
  bool unschedulable = false;
  std::optional<CordonRecord> record;
  // Whether this program alone has written the present spec.unschedulable. True if the API server
  // does not report who has.
  bool cordon_is_ours = false;
  JobJson taints;  // spec.taints, or null
  Evidence conditions;

  // The condition of our type; empty: none.
  std::string status;
  std::string reason;
  std::string message;
  std::string written;  // lastHeartbeatTime, which differs for each write

  // Cordoned by this program, and by nobody else.
  bool held() const { return record && unschedulable && cordon_is_ours; }
  // Uncordoned by somebody else after this program had cordoned it.
  bool overruled() const { return record && !unschedulable; }
  bool HasTaint(std::string_view effect) const;
};
// kInvalidArgument for an object without name, uid or version.
Result<ObservedNode> ReadObservedNode(const JobJson& object,
                                      const std::vector<ConditionRule>& rules);

}  // namespace longhaul::engines::kubernetes
