// Executes a schedule (schedule/schedule.h): which micro batch a stage computes when, and what it
// sends to which stage. It knows no schedule by name.
//
// A stage is a row of segments (the embedding, layers, the output). Each has a graph of libtorch's
// of its own, which begins at the segment's input, so that the backward pass stops there: between
// two segments the engine can gather weights, sum gradients and forget what is to be recomputed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "schedule/schedule.h"
#include "training/dimensions/rank.h"
#include "training/dimensions/slicing.h"
#include "training/exact_sum.h"

namespace longhaul::training {

// This rank's tokens of a micro batch: [tokens, batch], those of its context group's place.
struct MicroBatch {
  at::Tensor tokens;
  at::Tensor targets;
  at::Tensor mask;  // 0 where a target does not count
};

struct PipelineRun {
  std::function<MicroBatch(uint32_t micro_batch)> load;
  double loss_scale = 1;     // of the summed loss, in the gradients
  double balance_scale = 1;  // of the summed balance loss
};

struct PipelineSums {
  double loss = 0;  // on the last stage; the same on each part of the tensor group
  FixedSum fixed_loss;
  double balance = 0;
};

class Pipeline {
 public:
  // Requires a schedule that schedule::Verify accepts. Micro batches have `sequences` each.
  Pipeline(RankContext& rank, SlicedParameters& parameters, schedule::Schedule schedule,
           uint32_t sequences, at::ScalarType type);

  // One step's forwards and backwards; gradients are added to `parameters`.
  PipelineSums Run(const PipelineRun& run);

 private:
  using Deferred = std::vector<std::function<void()>>;
  struct Segment {  // of a micro batch between its forward and its backward
    int32_t layer = 0;
    at::Tensor input;
    at::Tensor output;
    at::Tensor balance;
  };
  struct Passage {
    MicroBatch batch;
    at::Tensor stream;    // what the stage received or computed last
    at::Tensor gradient;  // of its output; afterwards of its input
    std::vector<Segment> segments;
    std::vector<Deferred> deferred;  // by segment, last first
  };
  using Key = std::pair<uint32_t, uint32_t>;  // chunk, micro batch

  void Do(const schedule::Action& action, const PipelineRun& run);
  void Forward(const schedule::Action& action, const PipelineRun& run);
  void Backward(const schedule::Action& action, const PipelineRun& run);
  void Weights(const schedule::Action& action);
  void Weights(Deferred& deferred, int32_t layer, uint32_t micro_batch);
  void Transfer(const schedule::Action& action);
  void Compute(Segment& segment, const MicroBatch& batch);
  void BackwardThrough(Segment& segment, Passage& passage, const PipelineRun& run);

  RankContext& rank_;
  SlicedParameters& parameters_;
  const schedule::Schedule schedule_;
  std::map<Key, Passage> passages_;
  const at::Tensor stream_like_;
  PipelineSums sums_;
};

// The layers of all chunks of a rank, kEmbedding and kOutput among them, by stage.
std::vector<int32_t> LayersOfRank(const ModelConfig& config, const Layout& layout,
                                  uint32_t rank_of_pipeline);
std::vector<int32_t> LayersAndEnds(const ModelConfig& config, const Layout& layout, uint32_t stage);

}  // namespace longhaul::training
