// Data parallelism: the weights of a rank, the sums of their gradients, and the slices of weights,
// gradients and optimizer state that each replica keeps (Rajbhandari et al., ZeRO, SC 2020).
//
// Parameters of a layer that need the same sums form a bucket: one flat buffer, cut into as many
// slices as there are ranks with other tokens. A gradient is complete after three sums, each over
// ranks that parameters.h names: over the other tokens (all-reduce, or a reduce-scatter into
// slices), over the ranks that compute a share of it, and over both ends of tied embeddings.
//
//   Slicing      weights   gradients                            moments
//   kNone        whole     whole                                whole
//   kOptimizer   whole     whole, reduce-scattered at the end   slice
//   kGradients   whole     slice, added to after each backward  slice
//   kWeights     slice     slice, added to after each backward  slice
//
// In bitwise mode gradients are whole until the end of the step, with a few partial sums: a sum of
// samples has the same order in all layouts (exact_sum.h).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "training/communicator.h"
#include "training/dimensions/bucket.h"
#include "training/dimensions/rank.h"
#include "training/model/reference.h"
#include "training/model/weights.h"
#include "training/parameters.h"
#include "training/update.h"

namespace longhaul::training {

class SlicedParameters {
 public:
  // Those of the layers (and kEmbedding, kOutput) `layers`, in this order on all ranks of a stage.
  // All ranks call it at the same time. Values are those of the seed.
  SlicedParameters(RankContext& rank, const std::vector<int32_t>& layers, at::ScalarType type,
                   uint64_t seed, CommunicatorMaker& maker);
  SlicedParameters(const SlicedParameters&) = delete;
  SlicedParameters& operator=(const SlicedParameters&) = delete;
  ~SlicedParameters();

  const WeightSet& Of(int32_t layer) const { return sets_.at(layer); }

  // Before and after a computation with a layer's weights.
  void Use(int32_t layer);
  void Release(int32_t layer);
  // A micro batch's gradients of the layer are complete on this rank. In bitwise mode it is a
  // sample of the rank's, by its number.
  void AddGradients(int32_t layer, uint64_t micro_batch);

  void ClearGradients();
  void FinishGradients();
  // Of the whole model's gradients; each element counts once. All ranks call it.
  double SquaredNorm();
  void Update(const Rule& rule, const UpdateStep& step);

  // Writes this rank's share into the whole tensors, which exist.
  void Export(Content content, WholeWeights& to);
  // Takes this rank's share of weights or moments from the whole tensors, in any layout.
  void Import(Content content, const WholeWeights& from);

 private:
  RankContext& rank_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::map<int32_t, std::vector<Bucket*>> by_layer_;
  std::map<int32_t, WeightSet> sets_;
};

}  // namespace longhaul::training
