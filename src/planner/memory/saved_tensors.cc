#include "planner/memory/saved_tensors.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::planner {

namespace {

using spec::Model;

bool IsLowPrecision(spec::Precision precision) {
  return precision == spec::Precision::kFp8 || precision == spec::Precision::kMxfp8 ||
         precision == spec::Precision::kNvfp4;
}

void AddLatent(const Model& model, const MemorySizes& z, SavedTensorList& list) {
  const spec::MultiLatent& latent = *model.multi_latent;
  const double query = latent.query_rank;
  const double both = double{1} * latent.kv_rank + latent.qk_rope_dim;
  // Each latent before and after its norm.
  if (query > 0)
    list.Add("query latent", SavedPart::kAttention, 2 * z.element * z.shard_tokens * query);
  list.Add("kv latent", SavedPart::kAttention,
           z.element * z.shard_tokens * (both + latent.kv_rank));
  list.Add("q, k, v", SavedPart::kLatentUp,
           z.element * z.tokens * z.heads * (2 * z.qk_dim + z.v_dim));
}

void AddAttention(const Model& model, const MemoryKey& key, const MemorySizes& z,
                  SavedTensorList& list) {
  const bool flash = key.slice.flash_attention;
  const double row = z.element * z.tokens * z.heads;
  if (model.multi_latent) {
    AddLatent(model, z, list);
  } else {
    const double kv_row = z.element * z.tokens * z.kv_heads * model.head_dim;
    list.Add("q", SavedPart::kAttention, row * z.qk_dim);
    list.Add("k", SavedPart::kAttention, kv_row, true);
    list.Add("v", SavedPart::kAttention, kv_row);
    if (model.qk_norm) {
      list.Add("q, k before norm", SavedPart::kNorm, row * z.qk_dim + kv_row, true);
    }
  }
  list.Add("attention output", SavedPart::kAttention, row * z.v_dim);
  if (flash) {
    list.Add("log-sum-exp", SavedPart::kCoreAttention, 4 * z.tokens * z.heads);
  } else {
    // Softmax; with dropout its mask and output too.
    const double square = z.tokens * model.sequence_length * z.heads;
    list.Add("attention square", SavedPart::kCoreAttention, (model.dropout ? 5 : 2) * square);
  }
  const bool copies = key.slice.context > 1 && key.context_kind != spec::ContextKind::kAllGather;
  if (copies) list.Add("output before exchange", SavedPart::kCoreAttention, row * z.v_dim);
  if (z.linear_input < 2) {
    list.Add("projection input", SavedPart::kAttention, z.linear_input * row / z.element * z.v_dim);
  }
}

void AddFfn(const Model& model, const MemoryKey& key, const MemorySizes& z, double width,
            SavedPart part, SavedTensorList& list) {
  const double row = z.tokens * width / key.slice.tensor;
  if (model.gated_ffn) {
    list.Add("gate", part, z.element * row);
    list.Add("up", part, z.element * row, true);
    // Without fusion the activated gate is kept beside the product.
    const bool fused = key.compiled || key.family == Family::kMegatron;
    if (!fused) list.Add("activated gate", part, z.element * row, true);
  } else {
    list.Add("pre-activation", part, z.element * row);
  }
  list.Add("matmul", part, z.linear_input * row, true);
}

void AddExperts(const Model& model, const MemoryKey& key, const MemorySizes& z,
                SavedTensorList& list) {
  const spec::Experts& experts = *model.experts;
  const double rows = z.expert_rows;
  const double width = double{1} * experts.ffn_hidden / key.slice.expert_tensor;
  list.Add("router", SavedPart::kExperts, 8 * z.shard_tokens * experts.count);
  list.Add("dispatched", SavedPart::kExperts, z.linear_input * rows * model.hidden);
  list.Add("expert halves", SavedPart::kExperts, z.ffn_inner * z.element * rows * width);
  list.Add("expert product", SavedPart::kExpertActivation, z.linear_input * rows * width);
  list.Add("expert output", SavedPart::kExperts, z.element * rows * model.hidden);
  if (experts.shared > 0) {
    AddFfn(model, key, z, double{1} * experts.shared * experts.shared_ffn_hidden,
           SavedPart::kExperts, list);
  }
}

}  // namespace

void SavedTensorList::Add(std::string_view name, SavedPart part, double bytes,
                          bool second_product) {
  CHECK(size_ < kCapacity);
  tensors_[size_++] = {name, part, bytes, second_product};
}

MemoryKey MemoryKeyOf(const Model& model, const spec::Training& training, Family family) {
  const spec::Layout& layout = training.layout;
  MemoryKey key;
  key.slice.tensor = layout.tensor;
  key.slice.context = layout.context;
  key.slice.expert = layout.expert;
  key.slice.expert_tensor = layout.expert_tensor;
  const double share = static_cast<double>(training.batch.global) / layout.data;
  key.slice.micro_batch = std::min(double{1} * training.batch.micro, std::max(1.0, share));
  key.slice.sequence_parallel = layout.sequence_parallel && layout.tensor > 1;
  key.slice.flash_attention = training.software.flash_attention;
  key.slice.fused_kernels = training.software.fused_kernels;
  key.slice.loss_fusion = training.software.loss_fusion;
  key.slice.expert_imbalance = model.experts && !model.experts->balanced ? kRoutingImbalance : 1;
  // By stage: of layers that keep everything; MemoryModel adds what others drop.
  if (training.recompute.kind != spec::RecomputeKind::kByStage) {
    key.recompute = training.recompute.kind;
    key.modules = training.recompute.modules;
  }
  key.context_kind = layout.context_kind;
  key.precision = training.precision;
  key.family = family;
  key.compiled = training.software.compiled;
  return key;
}

MemorySizes MemorySizesOf(const Model& model, const MemoryKey& key) {
  MemorySizes z;
  const spec::LayerSlice& slice = key.slice;
  z.tokens = slice.micro_batch * model.sequence_length / slice.context;
  z.shard_tokens = slice.sequence_parallel ? z.tokens / slice.tensor : z.tokens;
  z.heads = double{1} * model.heads / slice.tensor;
  z.kv_heads = std::max(1.0, double{1} * model.kv_heads / slice.tensor);
  z.qk_dim = model.head_dim;
  z.v_dim = model.head_dim;
  if (model.multi_latent) {
    z.qk_dim = double{1} * model.multi_latent->qk_nope_dim + model.multi_latent->qk_rope_dim;
    z.v_dim = model.multi_latent->v_dim;
  }
  z.element = key.precision == spec::Precision::kFp32 ? 4 : 2;
  z.linear_input = z.element;
  // Transformer Engine keeps the quantised input for the weight gradient.
  if (IsLowPrecision(key.precision) && key.family == Family::kMegatron) {
    z.linear_input = key.precision == spec::Precision::kNvfp4 ? 0.5625 : 1;
  }
  z.ffn_inner = model.gated_ffn ? 2 : 1;
  if (model.experts) {
    const double factor = model.experts->capacity_factor.value_or(slice.expert_imbalance);
    // Every rank of the tensor group dispatches its own shard; experts that are split over
    // expert_tensor ranks gather it again.
    const double sent = slice.sequence_parallel ? z.shard_tokens * slice.expert_tensor : z.tokens;
    z.expert_rows = sent * model.experts->top_k * factor;
  }
  return z;
}

SavedTensorList SavedTensors(const Model& model, bool experts, const MemoryKey& key) {
  const MemorySizes z = MemorySizesOf(model, key);
  const double stream = z.element * z.shard_tokens * model.hidden;
  const double input = z.linear_input * z.shard_tokens * model.hidden;
  SavedTensorList list;
  list.Add("layer input", SavedPart::kInput, stream);
  list.Add("attention input", SavedPart::kNorm, input, true);
  AddAttention(model, key, z, list);
  list.Add("FFN norm input", SavedPart::kAttention, stream, true);
  list.Add("FFN input", SavedPart::kNorm, input, true);
  if (experts) {
    AddExperts(model, key, z, list);
  } else {
    AddFfn(model, key, z, model.ffn_hidden, SavedPart::kFfn, list);
  }
  // Recompute of every second product keeps the last one's output, which nothing needs.
  const bool seconds = key.recompute == spec::RecomputeKind::kSelective && !key.modules.any();
  if (seconds) list.Add("layer output", SavedPart::kInput, stream);
  // One byte an element after attention and after the FFN.
  if (model.dropout) {
    list.Add("dropout masks", SavedPart::kInput, 2 * z.shard_tokens * model.hidden);
  }
  return list;
}

bool IsRecomputed(const SavedTensor& tensor, const MemoryKey& key) {
  if (key.recompute == spec::RecomputeKind::kNone) return false;
  if (key.recompute == spec::RecomputeKind::kFull) return tensor.name != "layer input";
  if (!key.modules.any()) return tensor.second_product;
  switch (tensor.part) {
    case SavedPart::kNorm:
      return key.modules.layer_norm;
    case SavedPart::kLatentUp:
      return key.modules.mla_up_projection;
    case SavedPart::kCoreAttention:
      return key.modules.core_attention;
    case SavedPart::kFfn:
      return key.modules.mlp;
    case SavedPart::kExpertActivation:
      return key.modules.moe_activation || key.modules.moe;
    case SavedPart::kExperts:
      return key.modules.moe;
    case SavedPart::kInput:
    case SavedPart::kAttention:
      return false;
  }
  return false;
}

}  // namespace longhaul::planner
