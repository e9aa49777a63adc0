// A training step of a rank in any layout: forwards and backwards of its micro batches, the
// gradients' sums, clipping, the update.
//
// The loss is the sum over the batch's unmasked tokens by their count, which is known before the
// backward pass, so it is never a mean of means. The whole of what is minimised is
//   loss + (sum over layers and sequences of the balance loss) / sequences
//
// In bitwise mode the weights have the same bits in all layouts that differ in data, slices,
// stages, schedule, micro batches and recomputation: each pass has one sequence, so that all
// products have the same shapes, and sums have a fixed order or are exact (exact_sum.h). Needs a
// replica's number of sequences to be a power of two, unless there is one replica.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "training/dimensions/pipeline.h"
#include "training/dimensions/rank.h"
#include "training/dimensions/slicing.h"

namespace longhaul::training {

struct StepOptions {
  uint32_t global_batch = 1;  // sequences
  at::ScalarType type = at::kFloat;
  uint64_t seed = 1;
  Rule rule;
  double rate = 1e-3;
  double decay = 0;
  double clip = 0;  // of the gradients' norm; 0: none
  bool bitwise = false;
};

// A step's batch, the same on every rank: tokens [sequences, length + 1], of which the last is only
// a target, and a mask [sequences, length] of the targets that count.
struct Batch {
  at::Tensor tokens;
  at::Tensor mask;
};

struct StepResult {
  double loss = 0;     // a token's, in nats
  double balance = 0;  // a sequence's
  double norm = 0;     // of the gradients, before clipping
};

class Trainer {
 public:
  // All ranks call it at the same time. kInvalidArgument for a layout that is not possible.
  static Result<std::unique_ptr<Trainer>> Create(const ModelConfig& config, const Layout& layout,
                                                 const StepOptions& options, uint32_t rank,
                                                 CommunicatorMaker& maker);

  // kUnavailable when an operation between ranks has failed. `number` is from 1.
  Result<StepResult> Step(uint64_t number, const Batch& batch);

  SlicedParameters& parameters() { return *parameters_; }

 private:
  Trainer(const StepOptions& options, std::unique_ptr<RankContext> rank);
  StepResult RunStep(uint64_t number, const Batch& batch);
  MicroBatch Load(const Batch& batch, uint32_t micro_batch) const;

  const StepOptions options_;
  std::unique_ptr<RankContext> rank_;
  std::unique_ptr<SlicedParameters> parameters_;
  std::unique_ptr<Pipeline> pipeline_;
};

// The schedule of a layout, verified.
Result<schedule::Schedule> ScheduleOf(const Layout& layout);

}  // namespace longhaul::training
