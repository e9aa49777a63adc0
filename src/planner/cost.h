// What a layout costs on one machine: seconds a step and memory of a rank. A first version.
//
// Compute. A rank has one thread of products. It reaches 55 % of a core's measured peak on large
// products and less on small ones: share = 0.55 r / (r + 48), r = rows (tokens) of a micro-batch.
// Each micro-batch adds 1.25 ms a layer for launching operators; the optimizer passes over 28 bytes
// a parameter at 10 GB/s. Held against CPU times measured for a GPT of 4 layers x 128, sequence
// 128, global batch 8, f32 on 98 GFLOP/s cores (cost_test.cc): within 10 %.
// Sharing. With more ranks than cores the slowest rank shares its core with ceil(ranks / cores) - 1
// others, and all wait for it at the all-reduce.
// Communication. A ring all-reduce of the f32 gradients, not hidden under compute: alpha-beta model
// (Thakur, Rabenseifner and Gropp, IJHPCA 2005).
// Memory. f32 states; activations of plain attention, kept for the backward pass: a layer's token
// keeps 16 h floats and two rows of attention scores for each head.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "base/units.h"
#include "spec/job.h"

namespace longhaul::planner {

// The machine that all nodes of a local cluster share.
struct MachineFacts {
  uint32_t cores = 0;
  Bytes memory;
  FlopsPerSecond flops_per_core;  // f32 matrix product on one core
  bool flops_measured = false;    // false: assumed
  // One message between two ranks of the all-reduce.
  Seconds reduce_latency{50e-6};
  BytesPerSecond reduce_bandwidth{2e9};
  std::string reduce_reason = "assumed for sockets on loopback, not measured";
};

// Refuses a machine without cores, memory, speed, or with a latency below zero.
Status CheckFacts(const MachineFacts& facts);

struct RankMemory {
  Bytes weights;
  Bytes gradients;
  Bytes moments;         // AdamW's two
  Bytes activations;     // of one micro-batch, with the logits
  Bytes buffers;         // the all-reduce's copy of the gradients; none for one rank
  Bytes snapshot_arena;  // two slots of weights and moments, in the agent's memory
  Bytes process;         // libtorch itself

  Bytes total() const;
};

struct StepTime {
  Seconds compute;  // of the slowest rank, with its optimizer
  Seconds all_reduce;

  Seconds total() const { return compute + all_reduce; }
};

// How `ranks` ranks with micro-batches of `micro_batch` sequences fill a global batch.
// Requires all of them at least 1 and ranks * micro_batch to divide global_batch.
StepTime PredictStep(const spec::ModelSpec& model, uint32_t global_batch, uint32_t ranks,
                     uint32_t micro_batch, const MachineFacts& facts);

RankMemory PredictMemory(const spec::ModelSpec& model, uint32_t ranks, uint32_t micro_batch);

// A ring all-reduce of `buffer` among `ranks` ranks.
Seconds RingAllReduce(Bytes buffer, uint32_t ranks, const MachineFacts& facts);

}  // namespace longhaul::planner
