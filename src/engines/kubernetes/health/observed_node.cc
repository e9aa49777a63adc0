#include "engines/kubernetes/health/observed_node.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "engines/kubernetes/jobs/json_members.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostAnnotation = 64 << 10;

// Who has written the present spec.unschedulable; empty if that is not reported.
std::set<std::string> CordonWriters(const JobJson& meta) {
  std::set<std::string> writers;
  const JobJson& entries = MemberOf(meta, "managedFields");
  if (!entries.is_array()) return writers;
  for (const JobJson& entry : entries) {
    const JobJson& spec = MemberOf(MemberOf(entry, "fieldsV1"), "f:spec");
    if (spec.is_object() && spec.contains("f:unschedulable")) {
      writers.insert(TextAt(entry, "manager"));
    }
  }
  return writers;
}

}  // namespace

bool CordonRecord::Covers(const Evidence& items) const {
  return !complete || std::all_of(items.begin(), items.end(), [this](const auto& item) {
    return evidence.contains(item.first);
  });
}

void CordonRecord::Add(const Evidence& items) {
  for (const auto& [key, detail] : items) {
    if (evidence.contains(key)) continue;
    if (evidence.size() < kMostEvidence) {
      evidence.insert(key);
    } else {
      complete = false;
    }
  }
}

std::string TextOf(const CordonRecord& record) {
  JobJson json = {
      {"owner", kHealthManager}, {"since", record.since}, {"evidence", record.evidence}};
  if (!record.complete) json["complete"] = false;
  if (!record.taint.empty()) json["taint"] = record.taint;
  return json.dump(-1, ' ', false, JobJson::error_handler_t::replace);
}

std::optional<CordonRecord> ReadCordonRecord(const std::string& text) {
  if (text.size() > kMostAnnotation) return std::nullopt;
  const JobJson json = JobJson::parse(text, nullptr, false);
  if (json.is_discarded() || TextAt(json, "owner") != kHealthManager) return std::nullopt;
  CordonRecord record;
  record.since = Printable(TextAt(json, "since"), 32);
  record.taint = TextAt(json, "taint");
  if (record.taint != "NoSchedule" && record.taint != "NoExecute") record.taint.clear();
  record.complete = MemberOf(json, "complete") != false;
  const JobJson& keys = MemberOf(json, "evidence");
  for (const JobJson& key : keys.is_array() ? keys : JobJson::array()) {
    if (key.is_string()) record.Add({{key.get<std::string>(), ""}});
  }
  return record;
}

bool ObservedNode::HasTaint(std::string_view effect) const {
  return taints.is_array() && std::any_of(taints.begin(), taints.end(), [&](const JobJson& taint) {
           return TextAt(taint, "key") == kHealthTaint && TextAt(taint, "effect") == effect;
         });
}

Result<ObservedNode> ReadObservedNode(const JobJson& object,
                                      const std::vector<ConditionRule>& rules) {
  const JobJson& meta = MemberOf(object, "metadata");
  const JobJson& spec = MemberOf(object, "spec");
  ObservedNode node;
  node.name = TextAt(meta, "name");
  node.uid = TextAt(meta, "uid");
  node.version = TextAt(meta, "resourceVersion");
  if (node.name.empty() || node.uid.empty() || node.version.empty()) {
    return InvalidArgument("a node has no name, uid or resourceVersion");
  }
  node.unschedulable = MemberOf(spec, "unschedulable") == true;
  const JobJson& annotations = MemberOf(meta, "annotations");
  node.record = ReadCordonRecord(TextAt(annotations, kCordonAnnotation));
  const std::set<std::string> writers = CordonWriters(meta);
  node.cordon_is_ours = writers.empty() || writers == std::set{std::string(kHealthManager)};
  if (MemberOf(spec, "taints").is_array()) node.taints = MemberOf(spec, "taints");
  node.conditions = EvidenceOfConditions(object, rules);
  const JobJson& condition =
      ConditionIn(MemberOf(MemberOf(object, "status"), "conditions"), kHealthCondition);
  node.status = TextAt(condition, "status");
  node.reason = TextAt(condition, "reason");
  node.message = TextAt(condition, "message");
  node.written = TextAt(condition, "lastHeartbeatTime");
  return node;
}

}  // namespace longhaul::engines::kubernetes
