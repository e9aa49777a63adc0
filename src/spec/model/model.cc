#include "spec/model/model.h"

#include "spec/internal/mistakes.h"
#include "spec/model/model_schema.h"

namespace longhaul::spec {

namespace {

using internal::Mistakes;

bool AnyDenseLayer(const Model& model) {
  for (uint32_t i = 0; i < model.layers; ++i) {
    if (!model.has_experts(i)) return true;
  }
  return false;
}

void CheckGroups(const Experts& experts, Mistakes& mistakes) {
  mistakes.Range("experts.groups", experts.groups, 1, kMaxModelExperts);
  // The checks below divide by the number of groups.
  if (experts.groups < 1 || experts.count % experts.groups != 0) {
    mistakes.Add("experts.groups: " + Mistakes::Number(experts.groups) + " does not divide the " +
                 Mistakes::Number(experts.count) + " experts");
    return;
  }
  if (experts.groups_top_k < 1 || experts.groups_top_k > experts.groups) {
    mistakes.Add("experts.groups_top_k: " + Mistakes::Number(experts.groups_top_k) + " of " +
                 Mistakes::Number(experts.groups) + " groups: give 1 to " +
                 Mistakes::Number(experts.groups));
  } else if (uint64_t{experts.count / experts.groups} * experts.groups_top_k < experts.top_k) {
    mistakes.Add("experts.groups_top_k: " + Mistakes::Number(experts.groups_top_k) + " groups of " +
                 Mistakes::Number(experts.count / experts.groups) + " experts don't hold the " +
                 Mistakes::Number(experts.top_k) + " that a token visits");
  }
}

void CheckExperts(const Model& model, Mistakes& mistakes) {
  const Experts& experts = *model.experts;
  mistakes.Range("experts.count", experts.count, 1, kMaxModelExperts);
  mistakes.Range("experts.ffn_hidden", experts.ffn_hidden, 1, kMaxModelFfn);
  mistakes.Range("experts.shared", experts.shared, 0, 1'024);
  mistakes.Range("experts.every", experts.every, 1, kMaxModelLayers);
  mistakes.Range("experts.dense_first_layers", experts.dense_first_layers, 0, model.layers);
  if (experts.top_k < 1 || experts.top_k > experts.count) {
    mistakes.Add("experts.top_k: a token visits " + Mistakes::Number(experts.top_k) + " of " +
                 Mistakes::Number(experts.count) + " experts: give 1 to " +
                 Mistakes::Number(experts.count));
  }
  CheckGroups(experts, mistakes);
  if (experts.shared > 0) {
    mistakes.Range("experts.shared_ffn_hidden", experts.shared_ffn_hidden, 1, kMaxModelFfn);
  }
  if (experts.capacity_factor &&
      !(*experts.capacity_factor > 0 && *experts.capacity_factor <= 1'000)) {
    mistakes.Add("experts.capacity_factor: must be above 0 and at most 1,000, not " +
                 std::to_string(*experts.capacity_factor));
  }
}

void CheckAttention(const Model& model, Mistakes& mistakes) {
  mistakes.Range("heads", model.heads, 1, kMaxModelHeads);
  if (model.kv_heads < 1 || model.kv_heads > model.heads || model.heads % model.kv_heads != 0) {
    mistakes.Add("kv_heads: " + Mistakes::Number(model.kv_heads) + " does not divide the " +
                 Mistakes::Number(model.heads) + " heads");
  }
  mistakes.Range("head_dim", model.head_dim, 1, kMaxModelHeads);
  if (model.sliding_window) {
    mistakes.Range("sliding_window.size", model.sliding_window->size, 1, kMaxModelSequence);
    mistakes.Range("sliding_window.every", model.sliding_window->every, 1, kMaxModelLayers);
  }
  if (model.multi_latent) {
    const MultiLatent& latent = *model.multi_latent;
    mistakes.Range("multi_latent.query_rank", latent.query_rank, 0, kMaxModelHidden);
    mistakes.Range("multi_latent.kv_rank", latent.kv_rank, 1, kMaxModelHidden);
    mistakes.Range("multi_latent.qk_nope_dim", latent.qk_nope_dim, 1, kMaxModelHeads);
    mistakes.Range("multi_latent.qk_rope_dim", latent.qk_rope_dim, 0, kMaxModelHeads);
    mistakes.Range("multi_latent.v_dim", latent.v_dim, 1, kMaxModelHeads);
  }
}

}  // namespace

Status CheckModel(const Model& model) {
  Mistakes mistakes;
  mistakes.Range("layers", model.layers, 1, kMaxModelLayers);
  mistakes.Range("hidden", model.hidden, 1, kMaxModelHidden);
  mistakes.Range("vocabulary", model.vocabulary, 1, kMaxModelVocabulary);
  mistakes.Range("sequence_length", model.sequence_length, 1, kMaxModelSequence);
  mistakes.Range("multi_token_prediction_layers", model.multi_token_prediction_layers, 0, 64);
  CheckAttention(model, mistakes);
  if (model.experts) CheckExperts(model, mistakes);
  // The layers can be looked at one by one only if there are not too many.
  if (!mistakes.none()) return std::move(mistakes).Finish();
  mistakes.Range("ffn_hidden", model.ffn_hidden, AnyDenseLayer(model) ? 1 : 0, kMaxModelFfn);
  return std::move(mistakes).Finish();
}

Model FromBuiltIn(const ModelSpec& model) {
  Model shape;
  shape.name = "gpt";
  shape.layers = model.layers;
  shape.hidden = model.hidden;
  shape.ffn_hidden = 4 * model.hidden;
  shape.heads = model.heads;
  shape.kv_heads = model.heads;
  shape.head_dim = model.heads == 0 ? 0 : model.hidden / model.heads;
  shape.vocabulary = model.vocabulary;
  shape.sequence_length = model.sequence;
  shape.bias = true;
  shape.qkv_bias = true;
  return shape;
}

}  // namespace longhaul::spec
