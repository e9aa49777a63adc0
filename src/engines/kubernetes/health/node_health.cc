#include "engines/kubernetes/health/node_health.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostMessage = 1'000;
constexpr size_t kMostListed = 8;

// "KernelDeadlock=True (task blocked), device nvidia.com/gpu GPU-1".
std::string TextOfEvidence(const Evidence& evidence) {
  std::string text;
  size_t listed = 0;
  for (const auto& [key, detail] : evidence) {
    if (listed == kMostListed) {
      return text + " and " + std::to_string(evidence.size() - listed) + " more";
    }
    text += (listed++ == 0 ? "" : ", ") + key + (detail.empty() ? "" : " (" + detail + ")");
  }
  return text;
}

HealthCondition Unhealthy(const std::string& reason, const std::string& what,
                          const Evidence& evidence) {
  return {"False", reason, Printable(what + ": " + TextOfEvidence(evidence), kMostMessage)};
}

}  // namespace

size_t NodeLimit::Of(size_t nodes) const {
  return std::max<size_t>(1, is_percent ? nodes * number / 100 : number);
}

Result<NodeLimit> ParseNodeLimit(std::string_view text) {
  NodeLimit limit;
  limit.is_percent = text.ends_with('%');
  const Result<uint64_t> number =
      ParseUint64(limit.is_percent ? text.substr(0, text.size() - 1) : text);
  const uint64_t most = limit.is_percent ? 100 : 1'000'000;
  if (!number.ok() || *number == 0 || *number > most) {
    return InvalidArgument("limit " + Printable(text) +
                           " is not a number of nodes from 1, or 1% to 100%");
  }
  limit.number = static_cast<uint32_t>(*number);
  return limit;
}

std::string ToString(const NodeLimit& limit) {
  return std::to_string(limit.number) + (limit.is_percent ? "%" : "");
}

Status NodeHealth::OnNode(const JobJson& object) {
  ASSIGN_OR_RETURN(ObservedNode node, ReadObservedNode(object, settings_.conditions));
  const std::string name = node.name;
  auto found = nodes_.find(name);
  // A new node of the same name: nothing is known of it.
  if (found != nodes_.end() && found->second.node.uid != node.uid) {
    nodes_.erase(found);
    found = nodes_.end();
  }
  if (found == nodes_.end()) found = nodes_.emplace(name, Work()).first;
  Work& work = found->second;
  if (work.node.version != node.version) {
    work.cordoned_version.clear();
    work.cordon_unknown = false;
  }
  work.node = std::move(node);
  dirty_.insert(name);
  return {};
}

void NodeHealth::OnNodeGone(const std::string& name) {
  nodes_.erase(name);
  dirty_.insert(name);
}

void NodeHealth::SetObject(const std::string& object, const EvidenceOfNodes& evidence) {
  dirty_.merge(table_.Set(object, evidence));
}

void NodeHealth::OnPod(const std::string& key, const JobJson& object) {
  SetObject("pod " + key, EvidenceOfPod(object));
}

void NodeHealth::OnPodGone(const std::string& key) { SetObject("pod " + key, {}); }

void NodeHealth::SetDevices(const std::string& slice) {
  SetObject("slice " + slice, EvidenceOfDevices(devices_[slice], rules_));
}

void NodeHealth::OnSlice(const std::string& name, const JobJson& object) {
  devices_[name] = ReadDevices(object);
  SetDevices(name);
}

void NodeHealth::OnSliceGone(const std::string& name) {
  devices_.erase(name);
  SetObject("slice " + name, {});
}

void NodeHealth::OnTaintRule(const std::string& name, const JobJson& object) {
  rules_[name] = ReadDeviceTaintRule(object);
  for (const auto& [slice, devices] : devices_) SetDevices(slice);
}

void NodeHealth::OnTaintRuleGone(const std::string& name) {
  rules_.erase(name);
  for (const auto& [slice, devices] : devices_) SetDevices(slice);
}

void NodeHealth::OnReply(const NodeAction& action, PatchResult result, Instant now) {
  const auto* patch = std::get_if<PatchNode>(&action);
  const auto* status = std::get_if<PatchNodeStatus>(&action);
  if (patch == nullptr && status == nullptr) return;
  const auto found = nodes_.find(patch != nullptr ? patch->node : status->node);
  const std::string& uid = patch != nullptr ? patch->uid : status->uid;
  if (found == nodes_.end() || found->second.node.uid != uid) return;
  Work& work = found->second;
  work.sent = false;
  const bool failed = result == PatchResult::kRefused || result == PatchResult::kUnknown;
  if (failed) {
    const int doublings = std::min(work.failures++, 10);
    work.retry_at =
        now + std::min(settings_.longest_retry, settings_.first_retry * (1 << doublings));
    work.cordon_unknown = work.cordon_unknown || result == PatchResult::kUnknown;
    if (!work.cordon_unknown) work.cordoned_version.clear();
    return;
  }
  work.failures = 0;
  work.again_at = now + settings_.observe_patience;
}

bool NodeHealth::IsCordoned(const Work& work) {
  return work.node.held() || !work.cordoned_version.empty();
}

size_t NodeHealth::cordoned() const {
  return static_cast<size_t>(
      std::count_if(active_.begin(), active_.end(), [this](const std::string& name) {
        const auto found = nodes_.find(name);
        return found != nodes_.end() && IsCordoned(found->second);
      }));
}

bool NodeHealth::IsActive(const Work& work) {
  return !work.evidence.empty() || work.node.record || work.node.status == "False" ||
         IsCordoned(work);
}

void NodeHealth::Recompute(const std::string& name, Instant now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    active_.erase(name);
    return;
  }
  Work& work = found->second;
  work.evidence = table_.Of(name);
  work.evidence.insert(work.node.conditions.begin(), work.node.conditions.end());
  std::map<std::string, Instant> since;
  for (const auto& [key, detail] : work.evidence) {
    const auto known = work.since.find(key);
    since[key] = known == work.since.end() ? now : known->second;
  }
  work.since = std::move(since);
  if (!work.evidence.empty()) {
    work.gone_since.reset();
  } else if (!work.gone_since) {
    work.gone_since = now;
  }
  if (IsActive(work)) {
    active_.insert(name);
  } else {
    active_.erase(name);
  }
}

std::vector<NodeAction> NodeHealth::Advance(Instant now, Instant wall) {
  for (const std::string& name : dirty_) Recompute(name, now);
  dirty_.clear();
  Pass pass{now, wall, {}, {}, {}};
  for (const std::string& name : active_) Decide(pass, nodes_.at(name));
  std::sort(pass.candidates.begin(), pass.candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::pair(a.since, a.name) < std::pair(b.since, b.name);
            });
  const size_t limit = settings_.most_cordoned.Of(nodes_.size());
  size_t count = cordoned();
  for (const Candidate& candidate : pass.candidates) {
    Work& work = nodes_.at(candidate.name);
    if (IsCordoned(work)) {
      // It has its place: the answer to the cordon that was sent is not known.
      Cordon(pass, work, candidate);
    } else if (count < limit) {
      Cordon(pass, work, candidate);
      ++count;
    } else {
      Report(pass, work,
             Unhealthy("LimitReached",
                       "not cordoned, because as many nodes are cordoned as the limit permits (" +
                           ToString(settings_.most_cordoned) + ")",
                       candidate.confirmed));
    }
  }
  next_ = pass.next;
  return std::move(pass.actions);
}

// One write of a node at a time, and the next one when the effect of the last one was observed.
bool NodeHealth::MayWrite(Pass& pass, const Work& work) const {
  if (work.sent) return false;
  std::optional<Instant> until = work.retry_at;
  if (work.again_at && work.answered_version == work.node.version) {
    until = until ? std::max(*until, *work.again_at) : *work.again_at;
  }
  if (!until || *until <= pass.now) return true;
  pass.AgainAt(*until);
  return false;
}

NodeHealth::Candidate NodeHealth::Confirmed(Pass& pass, const Work& work) const {
  Candidate confirmed{pass.now, work.node.name, {}};
  for (const auto& [key, since] : work.since) {
    if (since + settings_.confirm > pass.now) {
      pass.AgainAt(since + settings_.confirm);
      continue;
    }
    confirmed.since = std::min(confirmed.since, since);
    confirmed.confirmed.emplace(key, work.evidence.at(key));
  }
  return confirmed;
}

void NodeHealth::Decide(Pass& pass, Work& work) {
  Candidate confirmed = Confirmed(pass, work);
  if (!MayWrite(pass, work)) return;
  if (!confirmed.confirmed.empty()) {
    DecideUnhealthy(pass, work, std::move(confirmed));
  } else if (work.evidence.empty()) {
    if (work.node.record || work.node.status == "False") Release(pass, work);
  }
}

void NodeHealth::DecideUnhealthy(Pass& pass, Work& work, Candidate confirmed) {
  const ObservedNode& node = work.node;
  const Evidence& evidence = confirmed.confirmed;
  if (node.held()) {
    if (node.record->Covers(evidence)) {
      return Report(pass, work, Unhealthy("Cordoned", "cordoned", evidence));
    }
    CordonRecord record = *node.record;
    record.Add(evidence);
    return Send(pass, work, RecordPatch(node, record));
  }
  if (node.unschedulable) {
    return Report(pass, work,
                  Unhealthy("CordonedByOthers", "somebody else has cordoned it", evidence));
  }
  if (!node.overruled() || !node.record->Covers(evidence)) {
    pass.candidates.push_back(std::move(confirmed));
    return;
  }
  if (!node.record->taint.empty()) return Send(pass, work, TaintRemoval(node));
  Report(pass, work,
         Unhealthy("UncordonedByOthers",
                   "somebody uncordoned it; it is not cordoned again for the same evidence",
                   evidence));
}

void NodeHealth::Cordon(Pass& pass, Work& work, const Candidate& candidate) {
  CordonRecord record;
  if (work.node.record) record = *work.node.record;
  record.since = ToString(pass.wall).substr(0, 19) + "Z";
  record.Add(candidate.confirmed);
  // A taint with this key and effect that somebody else added stays theirs.
  if (record.taint.empty() && !settings_.taint.empty() && !work.node.HasTaint(settings_.taint)) {
    record.taint = settings_.taint;
  }
  work.cordoned_version = work.node.version;
  Send(pass, work, CordonPatch(work.node, record));
}

void NodeHealth::Release(Pass& pass, Work& work) {
  const Instant due = *work.gone_since + settings_.release;
  if (due > pass.now) return pass.AgainAt(due);
  if (work.node.record) return Send(pass, work, ReleasePatch(work.node));
  Report(pass, work,
         {"True", "NoEvidence", "no evidence for " + longhaul::ToString(settings_.release)});
}

void NodeHealth::Report(Pass& pass, Work& work, HealthCondition condition) {
  const ObservedNode& node = work.node;
  const bool changed = condition.status != node.status || condition.reason != node.reason;
  if (!changed && condition.message == node.message) return;
  if (!changed && work.condition_at) {
    const Instant due = *work.condition_at + settings_.message_period;
    if (due > pass.now) return pass.AgainAt(due);
  }
  work.condition_at = pass.now;
  if (changed) pass.actions.push_back(EventOf(node, condition, pass.wall));
  Send(pass, work, ConditionPatch(node, condition, pass.wall));
}

void NodeHealth::Send(Pass& pass, Work& work, NodeAction action) {
  work.sent = true;
  work.answered_version = work.node.version;
  work.again_at.reset();
  work.retry_at.reset();
  pass.actions.push_back(std::move(action));
}

}  // namespace longhaul::engines::kubernetes
