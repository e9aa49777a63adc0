#include "runtime/controller/job/hang/idle_workers.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::controller {

void IdleWorkers::BeginAttempt() {
  idle_.clear();
  continued_.clear();
}

bool IdleWorkers::Note(uint32_t rank, Idle idle) {
  return idle_.insert_or_assign(rank, std::move(idle)).second;
}

IdleWorkers::StopAction IdleWorkers::TakeStop(uint32_t rank, Duration limit) {
  const Duration stopped = StoppedFor(rank);
  const auto [entry, first] = continued_.try_emplace(rank, stopped);
  if (first) return StopAction::kContinue;
  const bool again = stopped < entry->second;
  return again || stopped - entry->second >= limit ? StopAction::kRestart : StopAction::kWait;
}

Duration IdleWorkers::AllIdle(uint64_t alive) const {
  if (idle_.empty() || idle_.size() < alive) return Duration(0);
  Duration shortest = Duration::max();
  for (const auto& [rank, idle] : idle_) shortest = std::min(shortest, idle.silent);
  return shortest;
}

Duration IdleWorkers::StoppedFor(uint32_t rank) const {
  const auto found = idle_.find(rank);
  return found == idle_.end() ? Duration(0) : found->second.stopped;
}

std::string IdleWorkers::Evidence() const {
  const auto longest = std::max_element(
      idle_.begin(), idle_.end(),
      [](const auto& one, const auto& other) { return one.second.silent < other.second.silent; });
  if (longest == idle_.end()) return "";
  return "worker " + std::to_string(longest->first) + ": " + longest->second.evidence;
}

}  // namespace longhaul::runtime::controller
