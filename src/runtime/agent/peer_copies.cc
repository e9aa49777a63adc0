#include "runtime/agent/peer_copies.h"

#include <algorithm>
#include <functional>

namespace longhaul::runtime::agent {

bool PeerCopies::Add(const JobId& job, uint32_t rank, const SnapshotId& snapshot) {
  constexpr size_t kKept = 2;
  std::vector<SnapshotId>& copies = copies_[job][rank];
  if (std::ranges::count(copies, snapshot) > 0) return false;
  copies.push_back(snapshot);
  std::ranges::sort(copies, std::greater<>());
  if (copies.size() > kKept) copies.pop_back();
  return std::ranges::count(copies, snapshot) > 0;
}

bool PeerCopies::HasAll(const JobId& job, uint32_t first_rank, uint32_t ranks,
                        const SnapshotId& snapshot) const {
  const auto of_job = copies_.find(job);
  if (of_job == copies_.end()) return false;
  for (uint32_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    const auto copies = of_job->second.find(rank);
    if (copies == of_job->second.end()) return false;
    if (std::ranges::count(copies->second, snapshot) == 0) return false;
  }
  return true;
}

void PeerCopies::AddTo(proto::AgentJoined& joined) const {
  for (const auto& [job, by_rank] : copies_) {
    for (const auto& [rank, copies] : by_rank) {
      for (const SnapshotId& snapshot : copies) {
        proto::AgentJoined::HeldSnapshot& held = *joined.add_held();
        held.set_job_id(job.value());
        held.set_rank(rank);
        held.set_step(snapshot.step);
        held.set_attempt(snapshot.attempt);
        held.set_copy(true);
      }
    }
  }
}

}  // namespace longhaul::runtime::agent
