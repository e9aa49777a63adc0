// Memory of one layer on one rank, of the embedding and of the loss: pure functions of a layout's
// few figures (MemoryKey), so that a search computes each once.
//
// A layer's backward is a short list of allocations and frees (gradients in and out of each
// product, gathered inputs under sequence parallelism, the attention kernel's fp32 sums), replayed
// for the largest live set beyond the saved tensors. Transformer Engine keeps one dummy gradient of
// two bytes for every distinct weight shape on a rank, because weight gradients are added directly
// to the main ones.
#pragma once

#include <array>
#include <cstdint>

#include "planner/memory/saved_tensors.h"

namespace longhaul::planner {

// Parameters of one part on one rank, before ZeRO.
struct RankParameters {
  double dense = 0;
  double experts = 0;

  double total() const { return dense + experts; }
};

RankParameters LayerRankParameters(const spec::Model& model, bool experts,
                                   const spec::LayerSlice& slice);
// For the embedding (with learned positions), and for the final norm with the output. Megatron pads
// the vocabulary; others use it unpadded.
double EmbeddingRankParameters(const spec::Model& model, const MemoryKey& key);
double OutputRankParameters(const spec::Model& model, const MemoryKey& key);
double FinalNormParameters(const spec::Model& model);

struct LayerMemory {
  double saved = 0;      // from forward to backward
  double rebuilt = 0;    // more while its backward runs: the tensors that recompute dropped
  double transient = 0;  // largest live set of its backward above both
  RankParameters parameters;
};
LayerMemory LayerMemoryOf(const spec::Model& model, bool experts, const MemoryKey& key);

// Bytes of dummy gradients of a rank with these kinds of layers.
double DummyGradients(const spec::Model& model, bool dense, bool experts, const MemoryKey& key);

struct EndsMemory {
  double embedding_saved = 0;   // of one micro-batch on the first stage
  double loss_saved = 0;        // final norm's input and output, on the last
  double loss = 0;              // live while the loss's backward runs: logits and related tensors
  double output_gradient = 0;   // of the output matrix, unreduced, at the same time
  double boundary = 0;          // one message between stages
  double prediction_saved = 0;  // of an extra prediction layer beside the layer itself
};
EndsMemory EndsMemoryOf(const spec::Model& model, const MemoryKey& key);

}  // namespace longhaul::planner
