// Assembles a rank's state from snapshots that other ranks sealed, in any layout, in this agent's
// memory and in those of other agents.
//
// The controller names the places of the pieces (proto::Restore, TIER_PIECES). Gather requests the
// plans and hashes of all pieces. Then it fetches only the chunks that contain wanted boxes,
// verifies them against the hashes made at the snapshot, and puts them into a new arena for the
// worker. If the rank's own piece has exactly the wanted plan, only that one is fetched. Leaves out
// when a rank gathers, and which plan (agent_service.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "checkpoint/state.h"
#include "io/memory/shared_memory.h"
#include "proto/job.pb.h"
#include "service/agent/peer/peer_memory.h"

namespace longhaul::service {

struct GatherOrder {
  JobId job;
  uint32_t rank = 0;
  proto::Restore restore;
  std::string node;  // this node: its own pieces are not fetched
  std::string secret;
  std::optional<checkpoint::StatePlan> plan;  // the wanted plan; none: only returns the saved one
  uint64_t limit = 0;                         // on the state's bytes
};

struct Gathered {
  Status status;
  checkpoint::StatePlan saved;  // without a plan: that of the rank's piece, or of the first
  std::shared_ptr<const io::SharedMemory> arena;  // with a plan: the state, sealed for the step
  uint64_t bytes_fetched = 0;                     // from other agents
  // Damaged or unavailable pieces, and why; if the status is OK, others served instead.
  std::vector<proto::Restore::Piece> bad;
  std::string why;
};

// Blocks. Returns kFailedPrecondition when the pieces are of another state, kResourceExhausted
// above the limit, and kDataLoss when wanted data is missing or damaged.
Gathered Gather(const GatherOrder& order, const PeerMemory& memory);

}  // namespace longhaul::service
