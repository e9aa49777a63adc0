// A rank's state out of snapshots that other ranks sealed, in whatever layout: in this agent's
// memory and in those of others.
//
// The controller names where the pieces lie (proto::Restore, TIER_PIECES). All of them are asked
// for their plans and hashes; then only the chunks that hold what is wanted are fetched, held
// against the hashes made when training stopped for the copy, and put into a new arena for the
// worker. A rank whose own piece has just the wanted plan takes that one. Leaves out who wants what
// and when (agent_service.h).
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
  std::string node;  // this one: its own pieces are not fetched
  std::string secret;
  std::optional<checkpoint::StatePlan> plan;  // what is wanted; none: to be told what was saved
  uint64_t limit = 0;                         // of the state's bytes
};

struct Gathered {
  Status status;
  checkpoint::StatePlan saved;                    // with no plan: of the rank's piece, or the first
  std::shared_ptr<const io::SharedMemory> arena;  // with a plan: the state, sealed for the step
  uint64_t bytes_fetched = 0;                     // from other agents
  // Pieces that are no good or not to be had, and why; with a good status others have served.
  std::vector<proto::Restore::Piece> bad;
  std::string why;
};

// Blocking. kFailedPrecondition when the pieces are of another state, kResourceExhausted above the
// limit, kDataLoss when what is wanted is not there or no good.
Gathered Gather(const GatherOrder& order, const PeerMemory& memory);

}  // namespace longhaul::service
