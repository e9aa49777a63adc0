// The answer for one layout: the time of a step and its parts, and the memory and its parts.
//
// Every figure of a table, the JSON answer, the page and the report comes from here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/model/training.h"

namespace longhaul::planner {

// A complete question: gaps have been filled before (planner/case.h).
struct Question {
  spec::Model model;
  spec::DeviceCluster cluster;
  spec::Training training;
};

// Seconds of one step on the slowest pipeline's critical path. They sum to `step` of Evaluation.
struct StepBreakdown {
  Seconds forward;  // matmuls, attention and memory-bound operators, by pass
  Seconds backward;
  Seconds recompute;
  Seconds tensor_exposed;  // collectives that compute waits for, by dimension
  Seconds context_exposed;
  Seconds expert_exposed;
  Seconds pipeline_exposed;  // sends between stages on the critical path
  Seconds bubble;
  Seconds data_exposed;  // gradients and parameters
  Seconds optimizer;
  Seconds offload_exposed;
  Seconds host;      // launches that the device waits for, fixed work per step
  Seconds straggle;  // waiting for the slowest of many nodes

  Seconds total() const;
};

// Bytes of one rank at its step's peak, torch-allocated.
struct MemoryBreakdown {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes gathered;         // FSDP: whole weights in flight
  Bytes dummy_gradients;  // Transformer Engine's, one for each distinct weight shape
  Bytes activations;      // saved for backward, all micro-batches in flight
  Bytes loss;             // embedding and loss stage
  Bytes transient;        // live inside one operator at the peak
  Bytes workspace;

  Bytes total() const;
};

struct StageEvaluation {
  uint32_t layers = 0;
  uint32_t micro_batches_held = 0;
  Seconds forward;   // of one micro-batch, all chunks
  Seconds backward;  // likewise
  MemoryBreakdown memory;
};

struct Evaluation {
  Seconds step;
  StepBreakdown breakdown;
  std::vector<StageEvaluation> stages;  // one a pipeline rank
  Bytes peak_allocated;                 // fullest rank
  Bytes peak_reserved;                  // with the allocator's rounding
  Bytes device_memory;                  // as nvidia-smi shows
  bool fits = false;
  uint32_t micro_batches = 0;
  double tokens_per_second_per_device = 0;
  Flops model_flops;                   // of a step, causal half of attention, recompute excluded
  Flops hardware_flops;                // with recompute
  double model_flops_utilization = 0;  // against the peak of the precision
  double hardware_flops_utilization = 0;
};

}  // namespace longhaul::planner
