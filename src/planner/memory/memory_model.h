// The peak memory of every stage of a training, by part.
//
// States by recipe and ZeRO stage (state_bytes.h), saved tensors of the micro-batches that a stage
// holds (saved_tensors.h, held.h), dummy gradients, and the largest of three moments: the loss's
// backward with its logits, a layer's backward with its transients and rebuilt tensors, and the
// optimizer step. Under ZeRO stage 3 two layers have whole weights beside one's gradient.
//
// One object serves one model and cluster; layers are cached by MemoryKey, so a query costs a
// look-up and a sum over stages. Not thread-safe. Leaves out the loader's pinned memory and all
// memory of the user's own code. memory_timeline.h computes the memory over time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/evaluation.h"
#include "planner/memory/layer_memory.h"
#include "planner/memory/state_bytes.h"
#include "planner/recompute_runs.h"

namespace longhaul::planner {

// The memory of one micro-batch of one chunk.
struct ChunkMemory {
  Bytes saved;     // from its forward to its backward
  Bytes backward;  // more while its backward runs
};

// One layer and micro-batch: saved for backward, and live beyond it while its backward runs.
struct LayerBytes {
  double saved = 0;
  double live = 0;
};

// The memory of a stage of a training without recompute. With a choice of recompute that drops
// `freed` bytes and whose layers take at most `live` in their backward the stage takes
//   beside + max(at_step, kept - freed + max(at_loss, live + gathered)).
struct StageRoom {
  double beside = 0;  // states, dummy gradients, workspace
  double at_step = 0;
  double kept = 0;  // saved tensors, and messages between stages
  double at_loss = 0;
  double live = 0;
  double gathered = 0;
  std::vector<double> held;  // micro-batches, of each chunk
};

class MemoryModel {
 public:
  MemoryModel(const spec::Model& model, const spec::DeviceCluster& cluster);

  // Fills memory, layers and micro_batches_held of every stage of `out`, peaks and `fits`. Requires
  // a training that spec::CheckTraining accepts. Allocates nothing once `out` and the memory of
  // layers have grown.
  void Evaluate(const spec::Training& training, Evaluation& out);
  // Whether every GPU of the training shows at most `limit`; stops at the first that does not.
  bool Fits(const spec::Training& training, Bytes limit);
  // False where no choice of recompute fits: counts no tensor that some choice drops, and no live
  // one that some choice does not rebuild. Requires full recompute of all layers.
  bool MayFit(const spec::Training& training, Bytes limit);

  // For a layer with experts or a dense one, under the training's recompute (not by stage).
  LayerBytes LayerOf(const spec::Training& training, bool experts);
  // The memory of each stage of a training without recompute and without offload of activations.
  void Rooms(const spec::Training& training, std::vector<StageRoom>& rooms);
  // The most that a stage may allocate so that the GPU shows at most `limit`; below 0: no memory.
  Bytes MostAllocated(const spec::Training& training, Bytes limit,
                      std::span<const StageRoom> rooms);

  // Requires stage < pipeline and chunk < virtual_pipeline.
  ChunkMemory Chunk(const spec::Training& training, uint32_t stage, uint32_t chunk);

 private:
  struct Layers {
    LayerMemory dense;
    LayerMemory experts;
    EndsMemory ends;
    double dummy_dense = 0;
    double dummy_experts = 0;
    double dummy_both = 0;
    double embedding = 0;  // parameters
    double output = 0;
  };
  struct KeyHash {
    size_t operator()(const MemoryKey& key) const;
  };
  struct Stage;
  struct Moments;

  // Fills chunks_; returns the micro-batches of a step.
  uint32_t Prepare(const spec::Training& training);
  void RememberFamily(const spec::Software& software);
  const Layers& LayersOf(const MemoryKey& key);
  template <typename See>
  void EachStage(const spec::Training& training, bool rebuilds, See see);
  bool Fits(const spec::Training& training, bool rebuilds, Bytes limit);
  // Also fills held_.
  Stage StageOf(const spec::Training& training, const Layers& layers, uint32_t index,
                uint32_t micro_batches);
  double ChunkSaved(const Layers& layers, uint32_t c, uint32_t experts) const;
  // Subtracts the tensors that the own recompute of chunks from `first_chunk` on drops from the
  // stage's saved tensors; `held` micro-batches of each.
  void ApplyRuns(const spec::Training& training, const MemoryKey& bare_key, uint32_t index,
                 uint32_t first_chunk, std::span<const uint32_t> held, Stage& stage);
  double PredictionSaved(const Layers& layers) const;
  // Bytes per micro-batch that layers exempt from full recompute keep.
  double SparedBytes(const spec::Training& training, const Layers& layers,
                     const Stage& stage) const;
  double KeptOf(const spec::Training& training, const Layers& layers, const Stage& stage) const;
  Moments MomentsOf(const spec::Training& training, const Layers& layers, const Stage& stage) const;
  void AddStates(const spec::Training& training, const StateBytes& bytes, Stage& stage) const;
  bool KeepsDummies(const spec::Training& training) const;
  void AddConstants(const spec::Training& training, const Layers& layers, Stage& stage) const;
  void AddPeak(const spec::Training& training, const Layers& layers, const StateBytes& bytes,
               Stage& stage) const;

  spec::Model model_;
  spec::DeviceCluster cluster_;
  std::vector<uint32_t> experts_before_;  // layers with experts before index i
  std::vector<uint32_t> chunks_;          // layers of each
  std::vector<uint32_t> chunk_begins_;
  std::vector<uint32_t> held_;  // micro-batches, of each chunk of the current stage
  RecomputeRuns runs_;
  std::string framework_;  // the input of family_
  std::string release_;
  Family family_ = Family::kMegatron;
  std::unordered_map<MemoryKey, Layers, KeyHash> layers_;
};

}  // namespace longhaul::planner
