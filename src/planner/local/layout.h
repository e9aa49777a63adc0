// The layout of a job on a local cluster: nodes, workers on each, micro-batch.
//
// Searches every number of replicas that divides the global batch and fits the cluster's slots, and
// every micro-batch that divides a replica's share, by the cost model of local/cost.h. Tensor parts
// and stages are used where the job fixes them; otherwise only where they win by more than the
// model's error against every layout without them, or where none of these fits in memory. Values
// that the job fixes (layout, resources) are kept and checked. Predictions within 10 % of the best
// count as equal, because the model is no more precise; among equals the layout on the most nodes
// wins, so that a lost node costs least, then the one with the most workers, as its slots are free
// anyway. Leaves out other parallel dimensions and clusters of several machines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "planner/local/cost.h"
#include "spec/cluster/cluster.h"
#include "spec/job/job.h"

namespace longhaul::planner {

// One row of the table of evaluated layouts: a layout with its best micro-batch.
struct Alternative {
  uint32_t nodes = 0;
  uint32_t processes_per_node = 0;
  LocalLayout layout;
  uint32_t micro_batch = 0;
  uint32_t micro_batches = 0;
  StepTime step;
  Bytes rank_memory;
  Bytes machine_memory;  // of all ranks
  bool chosen = false;
  std::string verdict;  // "chosen", "12 % slower", "does not fit in memory", ...
};

struct LocalPlan {
  uint32_t nodes = 0;
  uint32_t processes_per_node = 0;
  uint32_t data_parallel = 0;  // replicas; of a command nodes * processes_per_node
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  uint32_t ranks() const { return nodes * processes_per_node; }
  // The fields below apply to the built-in trainer; zero and empty for a command.
  uint32_t micro_batch = 0;    // sequences a rank computes at once
  uint32_t micro_batches = 0;  // of a rank in a step: gradients are accumulated over them
  int64_t parameters = 0;
  Flops step_flops;
  RankMemory memory;  // of one rank; an upper bound of its data, which are not prepared yet
  StepTime step;      // predicted
  std::vector<Alternative>
      alternatives;  // fastest first, at most twelve, the chosen one among them

  std::string reason;  // sentences for a person; never empty
};

// Memory of the machine for all ranks: they share the mapped data.
Bytes MachineMemory(const RankMemory& rank, uint32_t ranks);

// Returns kFailedPrecondition for a job larger than the cluster or its memory, with both figures
// and the largest that fits; kInvalidArgument for resources that do not divide the batch, with the
// nearest that do, and for invalid facts or clusters.
Result<LocalPlan> PlanLocal(const spec::JobSpec& job, const spec::ClusterSpec& cluster,
                            const MachineFacts& facts);

}  // namespace longhaul::planner
