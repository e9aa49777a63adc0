// How many nodes an elastic job may have, and whose memory serves whom when the number changes.
//
// Only the data dimension is elastic: tensor x pipeline stays, replicas come and go whole. Ranks
// are laid out as in the trainer, rank = (stage * data + replica) * tensor + part, and a rank's
// state is a function of its stage and part. Leaves out who decides (scheduler/) and how a
// checkpoint of another size is read (checkpoint/reshard/).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::runtime {

struct NodeBounds {
  uint32_t minimum = 1;
  uint32_t maximum = 1;
  uint32_t step = 1;  // both are whole multiples of it

  bool elastic() const { return minimum < maximum; }
  bool allows(uint64_t nodes) const {
    return nodes >= minimum && nodes <= maximum && nodes % step == 0;
  }
};

// Of a job that CheckBounds accepts.
NodeBounds BoundsOf(const proto::Job& job);

// kInvalidArgument naming the bound that the job can't have, and why.
Status CheckBounds(const proto::Job& job);

// Whether every node of a gang holds the same states by local rank, whatever its place and the size
// are: then a node's own memory serves it after any resize, and any node's memory serves any other.
bool NodesAreAlike(const proto::Job& job);

}  // namespace longhaul::runtime
