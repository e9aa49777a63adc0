#include "engines/kubernetes/scheduling/pod_events.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

std::string WithoutNumbers(const std::string& message) {
  std::string reason;
  reason.reserve(message.size());
  bool in_number = false;
  for (const char c : message) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) reason += c;
    if (digit && !in_number) reason += '#';
    in_number = digit;
  }
  return reason;
}

// "group:ns/name" as "PodGroup ns/name".
std::string TextOfUnit(const std::string& key) {
  const size_t colon = key.find(':');
  return (key.starts_with("pod:") ? "pod " : "PodGroup ") + key.substr(colon + 1);
}

}  // namespace

void PodEvents::OnBound(PodUnit& unit, const PodTable& pods) {
  series_.erase(unit.key);
  const PodRecord* first = nullptr;
  size_t count = 0;
  std::set<std::string_view> nodes;
  for (PodUnit::Member& member : unit.members) {
    if (!std::exchange(member.is_new, false)) continue;
    const PodRecord* record = pods.FindKey(member.pod);
    CHECK(record != nullptr) << unit.key << " has no pod " << member.pod;
    if (first == nullptr) first = record;
    if (!unit.group.empty()) nodes.insert(record->node);
    ++count;
  }
  if (first == nullptr) return;
  RecordPodEvent event{first->name, RecordPodEvent::Reason::kScheduled, {}, "bound", 1, {}};
  event.note = "Successfully assigned " + first->name.Key() + " to " + first->node;
  if (count > 1) {
    event.note += ", with " + std::to_string(count - 1) + " more " + (count == 2 ? "pod" : "pods") +
                  " of " + TextOfUnit(unit.key) + " on " + std::to_string(nodes.size()) +
                  (nodes.size() == 1 ? " node" : " nodes");
  }
  unsent_.push_back(std::move(event));
}

void PodEvents::OnWait(const PodUnit& unit, const PodName& pod, const std::string& message,
                       Instant now) {
  std::string reason = WithoutNumbers(message);
  std::vector<Series>& all = series_[unit.key];
  auto series = std::find_if(all.begin(), all.end(),
                             [&reason](const Series& each) { return each.reason == reason; });
  if (series == all.end()) {
    if (all.size() == kMostSeries) all.erase(all.begin());
    const std::string identity = std::to_string(ToNanoseconds(now)) + "/" + reason;
    series = all.insert(all.end(), {pod, std::move(reason), identity, 0, first_period_, now});
  }
  if (series->next > now || series->count == std::numeric_limits<int32_t>::max()) return;
  ++series->count;
  series->next = now + series->period;
  series->period = std::min(2 * series->period, std::max(first_period_, kLongestPeriod));
  unsent_.push_back({series->pod, RecordPodEvent::Reason::kFailedScheduling,
                     series->count == 1 ? message : std::string(), series->identity, series->count,
                     unit.key});
}

void PodEvents::OnPreempted(PodUnit& unit, const PodName& pod, const std::string& by) {
  if (std::exchange(unit.preemption_reported, true)) return;
  RecordPodEvent event{pod, RecordPodEvent::Reason::kPreempted, {}, "preempted", 1, {}};
  event.note = "Preempted by " + TextOfUnit(by);
  if (!unit.group.empty()) event.note += ", with the other pods of " + TextOfUnit(unit.key);
  unsent_.push_back(std::move(event));
}

void PodEvents::OnPodGone(const std::string& unit, const PodName& pod) {
  const auto known = series_.find(unit);
  if (known == series_.end()) return;
  std::erase_if(known->second, [&pod](const Series& each) { return each.pod == pod; });
  if (known->second.empty()) series_.erase(known);
}

void PodEvents::OnLost(const RecordPodEvent& event) {
  const auto known = series_.find(event.unit);
  if (known == series_.end()) return;
  std::erase_if(known->second,
                [&event](const Series& each) { return each.identity == event.identity; });
  if (known->second.empty()) series_.erase(known);
}

void PodEvents::Take(std::vector<PodAction>& actions) {
  for (RecordPodEvent& event : unsent_) actions.emplace_back(std::move(event));
  unsent_.clear();
}

}  // namespace longhaul::engines::kubernetes
