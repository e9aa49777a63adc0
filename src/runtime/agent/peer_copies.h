// The copies of other nodes' snapshots in this node's memory, as the controller must hear of them.
//
// Copies arrive rank by rank. The newest two of each rank are kept, as in the arena of the rank.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "proto/events.pb.h"
#include "runtime/agent/agent_job.h"

namespace longhaul::runtime::agent {

class PeerCopies {
 public:
  // Returns whether the copy is new.
  bool Add(const JobId& job, uint32_t rank, const SnapshotId& snapshot);
  // Returns whether there is a copy of the snapshot for each of these ranks.
  bool HasAll(const JobId& job, uint32_t first_rank, uint32_t ranks,
              const SnapshotId& snapshot) const;
  bool Has(const JobId& job) const { return copies_.contains(job); }
  void Drop(const JobId& job) { copies_.erase(job); }
  void AddTo(proto::AgentJoined& joined) const;

 private:
  std::map<JobId, std::map<uint32_t, std::vector<SnapshotId>>> copies_;  // by rank, newest first
};

}  // namespace longhaul::runtime::agent
