#include "engines/kubernetes/scheduling/pod_binds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engines/kubernetes/scheduling/pod_names.h"

namespace longhaul::engines::kubernetes {

Duration PodBindSettings::Backoff(int failures) const {
  constexpr int kMostDoublings = 20;
  return std::min(longest_retry, first_retry * (int64_t{1} << std::min(failures, kMostDoublings)));
}

bool PodBinds::Send(const PodUnit& unit, Instant now, std::vector<PodAction>& actions) {
  std::vector<std::pair<const PodUnit::Member*, PodRecord*>> unbound;
  std::map<std::string, SelectNode> unasked;  // by claim, which pods of one unit may share
  bool lost = false;
  bool ready = true;
  for (const PodUnit::Member& member : unit.members) {
    PodRecord& record = *pods_.FindKey(member.pod);
    if (!member.placed || record.sent || record.is_bound() || record.planned.empty()) continue;
    unbound.emplace_back(&member, &record);
    if (!model_.HasNode(record.planned)) continue;
    const auto progress = volumes_.ProgressOn(member.pod, model_.node(record.planned));
    std::string why = HasLostPlaceBecause(record);
    if (why.empty() && progress) why = LosesPlaceBecause(record, *progress, now);
    if (!why.empty()) {
      Refuse(record, why, now);
      lost = true;
      continue;
    }
    if (!progress) continue;
    ready = ready && progress->wait.empty();
    for (const VolumeClaim* claim : progress->unasked) {
      const ObjectMeta& meta = claim->meta;
      unasked.try_emplace(meta.Key(), SelectNode{meta.namespace_name, meta.name, meta.uid,
                                                 meta.resource_version, record.planned});
    }
  }
  if (lost) return true;
  for (auto& [claim, select] : unasked) {
    volumes_.OnAsked(claim);
    actions.emplace_back(std::move(select));
  }
  if (!ready) return false;
  for (const auto& [member, record] : unbound) {
    if (record->held && record->retry_at > now) continue;
    record->sent = true;
    record->held = false;
    BindPod bind{record->name, record->planned, {}};
    if (!unit.group.empty()) {
      bind.annotations.emplace(kRankAnnotation, std::to_string(member->rank));
    }
    actions.emplace_back(std::move(bind));
  }
  return false;
}

// Another scheduler may have used the place of a pod that was not bound at once. Empty: it has not.
std::string PodBinds::HasLostPlaceBecause(const PodRecord& record) const {
  if (!record.held && !record.making_since) return {};
  if (model_.Holds(record.planned, pods_.UseOf(record.planned))) return {};
  return "other pods use its place on node '" + record.planned + "' by now";
}

// Notes what the pod waits for. Empty: it keeps its place.
std::string PodBinds::LosesPlaceBecause(PodRecord& record, const PodVolumes::Progress& progress,
                                        Instant now) const {
  if (!progress.refusal.empty()) return progress.refusal;
  record.making = progress.wait;
  if (progress.wait.empty()) {
    record.making_since.reset();
    return {};
  }
  if (!record.making_since) record.making_since = now;
  if (*record.making_since + settings_.volume_patience > now) return {};
  return progress.wait + ", and was not ready in time";
}

std::optional<Instant> PodBinds::NextDeadline(const PodRecord& record) const {
  if (!record.making_since) return std::nullopt;
  return *record.making_since + settings_.volume_patience;
}

void PodBinds::OnReply(PodRecord& record, bool placed, BindResult result, const std::string& why,
                       Instant now) {
  switch (result) {
    case BindResult::kBound:
      return record.SetBound(record.planned);
    case BindResult::kUnknown:
      record.read_at = now;
      return;
    case BindResult::kBusy:
      record.refused_because = why;
      if (placed && Hold(record, now)) return;
      break;
    case BindResult::kRefused:
      break;
  }
  Refuse(record, why, now);
}

// The same bind is sent again after a while. Until then the place stays the pod's own: another pod
// that took it would leave a gang without the last of its pods.
bool PodBinds::Hold(PodRecord& record, Instant now) {
  constexpr int kMostHolds = 5;  // half a minute in all
  if (record.refused >= kMostHolds || record.planned.empty()) return false;
  record.sent = false;
  record.held = true;
  record.read_at.reset();
  record.retry_at = now + settings_.Backoff(record.refused++);
  return true;
}

void PodBinds::Refuse(PodRecord& record, const std::string& why, Instant now) {
  if (!why.empty()) record.refused_because = why;
  Drop(record);
  pods_.SetAccount(record, PodRecord::Account::kNone);
  record.retry_at = now + settings_.Backoff(record.refused++);
}

// What its volumes demand counts again from now on.
void PodBinds::Drop(PodRecord& record) {
  record.ClearPlan();
  volumes_.NoteChanged(record.key);
}

}  // namespace longhaul::engines::kubernetes
