// How many nodes an elastic job may have, and which memories can be used after its size changes.
//
// Only the data dimension is elastic: tensor x pipeline is fixed, and whole replicas are added or
// removed. Ranks are laid out as in the trainer, rank = (stage * data + replica) * tensor + part,
// and a rank's state is a function of its stage and part. Leaves out the decision (scheduler/) and
// how a checkpoint of another size is read (checkpoint/reshard/).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::runtime {

struct NodeBounds {
  uint32_t minimum = 1;
  uint32_t maximum = 1;
  uint32_t step = 1;  // both are multiples of it

  bool elastic() const { return minimum < maximum; }
  bool allows(uint64_t nodes) const {
    return nodes >= minimum && nodes <= maximum && nodes % step == 0;
  }
};

// The bounds of the job's file and those that an operator has left of them (Job::node_limit).
// Require a job that CheckBounds accepts.
NodeBounds BoundsAsSubmitted(const proto::Job& job);
NodeBounds BoundsOf(const proto::Job& job);

// Returns kFailedPrecondition for a job whose number of nodes is fixed, and kInvalidArgument with
// the possible numbers for one that the job cannot have.
Status CheckNodeLimit(const proto::Job& job, uint32_t nodes);

// Returns kInvalidArgument with the bound that the job can't have and the reason.
Status CheckBounds(const proto::Job& job);

// Returns whether all nodes of a gang hold the same states by local rank, at any place and size. If
// so, a node can use its own memory after any resize, and any node can use any other's.
bool NodesAreAlike(const proto::Job& job);

}  // namespace longhaul::runtime
