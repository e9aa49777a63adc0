#include "training/model/block.h"

#include <string>

#include "training/dimensions/context.h"
#include "training/dimensions/expert.h"
#include "training/dimensions/tensor.h"
#include "training/model/operators.h"

namespace longhaul::training {
namespace {

at::Tensor Heads(const at::Tensor& x, const std::string& name, const WeightSet& weights,
                 RankContext& rank) {
  const at::Tensor part = Multiply(x, weights, "attention." + name, rank.deferred);
  return part.view({x.size(0), x.size(1), -1, int64_t{rank.config.shape.head_dim}});
}

at::Tensor Attention(const at::Tensor& x, const WeightSet& weights, RankContext& rank) {
  const ModelConfig& config = rank.config;
  const at::Tensor normed = EnterTensor(Norm(config, x, weights, "attention.norm"), rank);
  at::Tensor query = Heads(normed, "query", weights, rank);
  at::Tensor key = Heads(normed, "key", weights, rank);
  const at::Tensor value = Heads(normed, "value", weights, rank);
  if (config.shape.qk_norm) {
    query = RmsNorm(query, weights["attention.query_norm.weight"].value, config.norm_epsilon);
    key = RmsNorm(key, weights["attention.key_norm.weight"].value, config.norm_epsilon);
  }
  if (config.shape.position == spec::Position::kRope) {
    query = Rotate(query, rank.rotation);
    key = Rotate(key, rank.rotation);
  }
  const at::Tensor mixed = CausalAttention(query, key, value, rank);
  return MultiplyAndLeave(mixed, weights, "attention.output", rank);
}

// Up to the product that ends the region.
at::Tensor Inner(const at::Tensor& x, const std::string& prefix, const WeightSet& weights,
                 RankContext& rank) {
  const at::Tensor up = Multiply(x, weights, prefix + ".up", rank.deferred);
  if (!rank.config.shape.gated_ffn) return Activate(rank.config, up);
  return Activate(rank.config, Multiply(x, weights, prefix + ".gate", rank.deferred)) * up;
}

LayerOutput Mixture(const at::Tensor& x, const WeightSet& weights, RankContext& rank) {
  const MixtureOutput mixture = MixtureOfExperts(x, weights, rank);
  at::Tensor values = mixture.values;
  if (rank.config.shape.experts->shared > 0) {
    values = values + Multiply(Inner(x, "shared", weights, rank), weights["shared.down.weight"],
                               nullptr, rank.deferred);
  }
  values = LeaveTensor(values, rank);
  if (weights.Has("shared.down.bias")) values = values + weights["shared.down.bias"].value;
  return {values, mixture.balance};
}

}  // namespace

LayerOutput LayerForward(const at::Tensor& x, uint32_t layer, const WeightSet& weights,
                         RankContext& rank) {
  const at::Tensor middle = x + Attention(x, weights, rank);
  const at::Tensor normed = EnterTensor(Norm(rank.config, middle, weights, "mlp.norm"), rank);
  if (!rank.config.shape.has_experts(layer)) {
    return {
        middle + MultiplyAndLeave(Inner(normed, "mlp", weights, rank), weights, "mlp.down", rank),
        {}};
  }
  LayerOutput output = Mixture(normed, weights, rank);
  output.values = middle + output.values;
  return output;
}

at::Tensor OutputForward(const at::Tensor& x, const at::Tensor& targets, const at::Tensor& mask,
                         const WeightSet& weights, RankContext& rank) {
  const at::Tensor normed = EnterTensor(Norm(rank.config, x, weights, "model.norm"), rank);
  const char* head = rank.config.shape.tied_embeddings ? "model.embedding.token" : "model.output";
  const at::Tensor logits = Multiply(normed, weights, head, rank.deferred);
  return SummedVocabularyLoss(logits, targets, mask, rank);
}

}  // namespace longhaul::training
