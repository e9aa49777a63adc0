#include "runtime/agent/agent_job.h"

namespace longhaul::runtime::agent {

bool SameRanks(const proto::StartWorkers& one, const proto::StartWorkers& other) {
  return one.first_rank() == other.first_rank() && one.local_ranks() == other.local_ranks() &&
         one.world() == other.world();
}

// With replicated state rank 0's file contains what every rank has, so the other nodes write
// nothing.
std::vector<uint32_t> RanksToPersist(const proto::StartWorkers& start) {
  if (start.job().snapshot().replicated()) {
    return start.first_rank() == 0 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{};
  }
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < start.local_ranks(); ++i) ranks.push_back(start.first_rank() + i);
  return ranks;
}

std::string WhyStartMakesNoSense(const proto::StartWorkers& start, uint32_t slots) {
  if (start.local_ranks() == 0) return "no worker to start";
  if (start.local_ranks() > slots) {
    return std::to_string(start.local_ranks()) + " workers for " + std::to_string(slots) + " slots";
  }
  if (uint64_t{start.first_rank()} + start.local_ranks() > start.world()) {
    return "ranks beyond the world of " + std::to_string(start.world());
  }
  return "";
}

}  // namespace longhaul::runtime::agent
