#include "engines/kubernetes/live/bind_record.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::engines::kubernetes {
namespace {

// The smallest value that `percent` of all do not exceed.
Duration NearestRank(const std::vector<Duration>& ordered, size_t percent) {
  if (ordered.empty()) return Duration(0);
  return ordered[(ordered.size() * percent + 99) / 100 - 1];
}

}  // namespace

BindRecord::BindRecord(int pods) : pods_(static_cast<size_t>(pods)) { CHECK(pods >= 1); }

void BindRecord::OnPod(int index, const std::string& uid, const std::string& node, Instant at) {
  Pod& pod = pods_.at(static_cast<size_t>(index));
  if (!pod.appeared_at) pod.appeared_at = at;
  if (pod.uid.empty()) ++existing_;
  pod.uid = uid;
  if (node.empty() || pod.bound_at) return;
  pod.bound_at = at;
  pod.node = node;
  ++bound_;
}

void BindRecord::OnDeleted(int index) {
  Pod& pod = pods_.at(static_cast<size_t>(index));
  if (pod.uid.empty()) return;
  pod.uid.clear();
  --existing_;
}

Duration BindRecord::appeared_within() const {
  std::optional<Instant> first, last;
  for (const Pod& pod : pods_) {
    if (!pod.appeared_at) continue;
    first = std::min(first.value_or(*pod.appeared_at), *pod.appeared_at);
    last = std::max(last.value_or(*pod.appeared_at), *pod.appeared_at);
  }
  return first ? *last - *first : Duration(0);
}

BindFigures BindRecord::Figures(int gang_size) const {
  BindFigures figures;
  figures.bound = bound_;
  std::vector<Duration> latencies;
  std::map<std::string, int> on_node;
  for (const Pod& pod : pods_) {
    if (!pod.bound_at) continue;
    const Instant at = *pod.bound_at;
    figures.first_bind_at = std::min(figures.first_bind_at.value_or(at), at);
    figures.last_bind_at = std::max(figures.last_bind_at.value_or(at), at);
    latencies.push_back(at - *pod.appeared_at);
    figures.most_pods_on_a_node = std::max(figures.most_pods_on_a_node, ++on_node[pod.node]);
  }
  std::sort(latencies.begin(), latencies.end());
  figures.latency_p50 = NearestRank(latencies, 50);
  figures.latency_p99 = NearestRank(latencies, 99);
  figures.latency_max = NearestRank(latencies, 100);
  if (gang_size > 0) figures.partly_bound_gangs = PartlyBoundGangs(static_cast<size_t>(gang_size));
  return figures;
}

int BindRecord::PartlyBoundGangs(size_t gang_size) const {
  int partly = 0;
  for (size_t first = 0; first < pods_.size(); first += gang_size) {
    const size_t end = std::min(first + gang_size, pods_.size());
    size_t bound = 0;
    for (size_t i = first; i < end; ++i) bound += pods_[i].bound_at ? 1 : 0;
    partly += bound > 0 && bound < end - first ? 1 : 0;
  }
  return partly;
}

}  // namespace longhaul::engines::kubernetes
