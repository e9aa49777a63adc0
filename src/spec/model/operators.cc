#include "spec/model/operators.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::spec {
namespace {

constexpr double kTwoBytes = 2;

// Sizes of one micro-batch on one rank that most operators share.
struct Sizes {
  double tokens = 0;        // T
  double shard_tokens = 0;  // T', with sequence parallelism a tensor-th of T
  double hidden = 0;
  double tensor = 1;
  double heads = 0;     // on this rank
  double kv_heads = 0;  // on this rank; at least one: each is copied where there are too few
};

Sizes SizesOf(const Model& model, const LayerSlice& slice) {
  Sizes s;
  s.tokens = double(slice.micro_batch) * model.sequence_length / slice.context;
  s.tensor = slice.tensor;
  s.shard_tokens = slice.sequence_parallel ? s.tokens / s.tensor : s.tokens;
  s.hidden = model.hidden;
  s.heads = model.heads / s.tensor;
  s.kv_heads = std::max(1.0, model.kv_heads / s.tensor);
  return s;
}

// m rows (tokens), n outputs and k inputs: 2 m n k FLOPs. The backward pass reads and writes the
// operands of two products, hence twice the bytes. All sizes are of one rank.
Operator Matmul(std::string_view name, OperatorPart part, double m, double n, double k) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::kMatmul;
  op.part = part;
  op.low_precision = true;
  op.m = m;
  op.n = n;
  op.k = k;
  op.forward_flops = 2 * m * n * k;
  op.model_flops = op.forward_flops;
  op.forward_bytes = kTwoBytes * (m * k + k * n + m * n);
  op.backward_bytes = 2 * op.forward_bytes;
  op.parameters = n * k;
  return op;
}

// One product for each group, all of the same size, in one kernel. `rows` are over all groups.
Operator Grouped(std::string_view name, double rows, double groups, double n, double k) {
  Operator op = Matmul(name, OperatorPart::kExperts, rows / groups, n, k);
  op.groups = groups;
  op.forward_flops *= groups;
  op.model_flops *= groups;
  op.forward_bytes *= groups;
  op.backward_bytes *= groups;
  op.parameters *= groups;
  return op;
}

// An operator whose time follows from the bytes that it moves, because it computes little for each
// of them.
Operator Stream(std::string_view name, OperatorPart part, double forward_bytes,
                double backward_bytes, double rows, double width) {
  Operator op;
  op.name = name;
  op.part = part;
  op.m = rows;
  op.n = width;
  op.forward_bytes = forward_bytes;
  op.backward_bytes = backward_bytes;
  op.backward_kernels = 1;
  return op;
}

// Norm: 4 bytes an element forward, 8 backward; three times the passes where not fused.
void AddNorm(const Model& model, const LayerSlice& slice, const Sizes& s, std::string_view name,
             OperatorList& list) {
  const double passes = slice.fused_kernels ? 1 : 2.5;
  Operator op = Stream(name, OperatorPart::kNorm, 4 * s.shard_tokens * s.hidden * passes,
                       8 * s.shard_tokens * s.hidden * passes, s.shard_tokens, s.hidden);
  op.parameters = model.normalization == Normalization::kRms ? s.hidden : 2 * s.hidden;
  op.forward_kernels = slice.fused_kernels ? 1 : 5;
  op.backward_kernels = slice.fused_kernels ? 2 : 8;
  list.Add(op);
}

// Mean keys that a query reads: half of the sequence under a causal mask, the window's
// w - w^2/2s under a sliding one.
double CausalKeys(const Model& model, LayerKind kind) {
  const double s = model.sequence_length;
  if (!kind.window || !model.sliding_window) return s / 2;
  const double w = std::min<double>(model.sliding_window->size, s);
  return w - w * w / (2 * s);
}

// Scores, mask, softmax, dropout and values as separate kernels over the full square: about 11
// bytes a score forward and 16 backward with fused mask and softmax (arXiv 2205.05198 counts 5
// saved; these are read and written).
void AddUnfusedAttention(const Model& model, const LayerSlice& slice, const Sizes& s,
                         OperatorList& list) {
  const double length = model.sequence_length;
  const double batch_heads = slice.micro_batch * s.heads / slice.context;
  const double scores = batch_heads * length * length;
  for (const std::string_view name : {"attention.scores", "attention.values"}) {
    Operator op = Matmul(name, OperatorPart::kCoreAttention, length, length, model.head_dim);
    if (name == "attention.values") std::swap(op.n, op.k);
    op.low_precision = false;
    op.groups = batch_heads;
    op.forward_flops *= batch_heads;
    op.model_flops = op.forward_flops / 2;
    op.forward_bytes = kTwoBytes * (scores + 2 * batch_heads * length * model.head_dim);
    op.backward_bytes = 2 * op.forward_bytes;
    op.parameters = 0;
    list.Add(op);
  }
  const double drop = model.dropout ? 5 : 0;
  const double passes = slice.fused_kernels ? 1 : 2;
  Operator op =
      Stream("attention.softmax", OperatorPart::kCoreAttention, (4 * passes + drop) * scores,
             (6 * passes + drop) * scores, batch_heads * length, length);
  op.forward_kernels = slice.fused_kernels ? 2 : 5;
  op.backward_kernels = op.forward_kernels;
  list.Add(op);
}

void AddCoreAttention(const Model& model, LayerKind kind, const LayerSlice& slice, const Sizes& s,
                      OperatorList& list) {
  if (!slice.flash_attention && !model.multi_latent) {
    AddUnfusedAttention(model, slice, s, list);
    return;
  }
  const auto& mla = model.multi_latent;
  const double qk_dim = mla ? mla->qk_nope_dim + mla->qk_rope_dim : model.head_dim;
  const double v_dim = mla ? mla->v_dim : model.head_dim;
  Operator op;
  op.name = "attention.core";
  op.kind = OperatorKind::kAttention;
  op.part = OperatorPart::kCoreAttention;
  op.batch_heads = slice.micro_batch * s.heads;
  op.queries = model.sequence_length / double(slice.context);
  op.keys = CausalKeys(model, kind);
  // The mean of both widths: the FLOPs of scores and values together are those of a head of this
  // size.
  op.head_dim = (qk_dim + v_dim) / 2;
  op.uneven_heads = qk_dim != v_dim;
  op.forward_flops = 2 * op.batch_heads * op.queries * op.keys * (qk_dim + v_dim);
  op.model_flops = op.forward_flops;
  op.forward_bytes =
      kTwoBytes * s.tokens * (s.heads * (qk_dim + v_dim) + s.kv_heads * (qk_dim + v_dim));
  op.backward_bytes = 2 * op.forward_bytes;
  list.Add(op);
}

void AddLatentProjections(const Model& model, const Sizes& s, OperatorList& list) {
  const MultiLatent& mla = *model.multi_latent;
  const auto projection = OperatorPart::kAttentionProjection;
  const double qk_dim = mla.qk_nope_dim + mla.qk_rope_dim;
  // The down projections are replicated over the tensor group and see their shard of tokens.
  if (mla.query_rank > 0) {
    list.Add(Matmul("attention.query_down", projection, s.shard_tokens, mla.query_rank, s.hidden));
    Operator norm =
        Stream("attention.query_norm", OperatorPart::kLatentUp, 4 * s.shard_tokens * mla.query_rank,
               8 * s.shard_tokens * mla.query_rank, s.shard_tokens, mla.query_rank);
    norm.parameters = mla.query_rank;
    list.Add(norm);
  }
  const double query_in = mla.query_rank > 0 ? mla.query_rank : s.hidden;
  list.Add(
      Matmul("attention.query_up", OperatorPart::kLatentUp, s.tokens, s.heads * qk_dim, query_in));
  list.Add(Matmul("attention.kv_down", projection, s.shard_tokens, mla.kv_rank + mla.qk_rope_dim,
                  s.hidden));
  Operator norm =
      Stream("attention.kv_norm", OperatorPart::kLatentUp, 4 * s.shard_tokens * mla.kv_rank,
             8 * s.shard_tokens * mla.kv_rank, s.shard_tokens, mla.kv_rank);
  norm.parameters = mla.kv_rank;
  list.Add(norm);
  list.Add(Matmul("attention.kv_up", OperatorPart::kLatentUp, s.tokens,
                  s.heads * (mla.qk_nope_dim + mla.v_dim), mla.kv_rank));
  // Rotary on the rotary parts, then queries and keys are put together from two halves.
  const double bytes = 4 * s.tokens * s.heads * 2 * qk_dim;
  Operator rotary = Stream("attention.rotary", OperatorPart::kLatentUp, bytes, bytes, s.tokens,
                           s.heads * 2 * qk_dim);
  rotary.forward_kernels = 4;
  rotary.backward_kernels = 4;
  list.Add(rotary);
}

void AddAttention(const Model& model, LayerKind kind, const LayerSlice& slice, const Sizes& s,
                  OperatorList& list) {
  const auto projection = OperatorPart::kAttentionProjection;
  const double dim = model.head_dim;
  double output_in = s.heads * dim;
  if (model.multi_latent) {
    AddLatentProjections(model, s, list);
    output_in = s.heads * model.multi_latent->v_dim;
  } else {
    const double outputs = dim * (s.heads + 2 * s.kv_heads);
    Operator qkv = Matmul("attention.qkv", projection, s.tokens, outputs, s.hidden);
    if (model.qkv_bias) qkv.parameters += outputs;
    list.Add(qkv);
    if (model.position == Position::kRope) {
      const double bytes = 4 * s.tokens * dim * (s.heads + s.kv_heads);
      Operator rotary = Stream("attention.rotary", projection, bytes, bytes, s.tokens,
                               dim * (s.heads + s.kv_heads));
      rotary.forward_kernels = slice.fused_kernels ? 2 : 8;
      rotary.backward_kernels = rotary.forward_kernels;
      list.Add(rotary);
    }
  }
  AddCoreAttention(model, kind, slice, s, list);
  Operator out = Matmul("attention.output", projection, s.tokens, s.hidden, output_in);
  if (model.bias) out.parameters += s.hidden;
  list.Add(out);
}

void AddResidual(const Model& model, const LayerSlice& slice, const Sizes& s, OperatorList& list) {
  const double each = model.dropout ? 9 : 6;
  const double passes = slice.fused_kernels ? 1 : 1.7;
  Operator op =
      Stream("residual", OperatorPart::kResidual, each * s.shard_tokens * s.hidden * passes,
             (each - 2) * s.shard_tokens * s.hidden * passes, s.shard_tokens, s.hidden);
  op.forward_kernels = slice.fused_kernels ? 1 : (model.dropout ? 3 : 1);
  op.backward_kernels = op.forward_kernels;
  list.Add(op);
}

void AddFfn(const Model& model, const LayerSlice& slice, const Sizes& s, OperatorList& list) {
  const double ffn = model.ffn_hidden / s.tensor;
  const double halves = model.gated_ffn ? 2 : 1;
  Operator in = Matmul("ffn.in", OperatorPart::kFfn, s.tokens, halves * ffn, s.hidden);
  if (model.bias) in.parameters += halves * ffn;
  list.Add(in);
  const double passes = slice.fused_kernels ? 1 : 1.6;
  Operator act =
      Stream("ffn.activation", OperatorPart::kFfn, 2 * (halves + 1) * s.tokens * ffn * passes,
             2 * (2 * halves + 1) * s.tokens * ffn * passes, s.tokens, ffn);
  act.forward_kernels = slice.fused_kernels ? 1 : 2 + halves;
  act.backward_kernels = act.forward_kernels;
  list.Add(act);
  Operator out = Matmul("ffn.out", OperatorPart::kFfn, s.tokens, s.hidden, ffn);
  if (model.bias) out.parameters += s.hidden;
  list.Add(out);
}

void AddSharedExperts(const Model& model, const Sizes& s, OperatorList& list) {
  const Experts& experts = *model.experts;
  if (experts.shared == 0) return;
  const double ffn = double(experts.shared_ffn_hidden) * experts.shared / s.tensor;
  const double halves = model.gated_ffn ? 2 : 1;
  list.Add(Matmul("shared.in", OperatorPart::kFfn, s.tokens, halves * ffn, s.hidden));
  list.Add(Stream("shared.activation", OperatorPart::kFfn, 2 * (halves + 1) * s.tokens * ffn,
                  2 * (2 * halves + 1) * s.tokens * ffn, s.tokens, ffn));
  list.Add(Matmul("shared.out", OperatorPart::kFfn, s.tokens, s.hidden, ffn));
}

void AddExperts(const Model& model, const LayerSlice& slice, const Sizes& s, OperatorList& list) {
  const Experts& experts = *model.experts;
  const double halves = model.gated_ffn ? 2 : 1;
  // A rank holds T/tensor tokens where expert groups span the tensor group.
  const double own_tokens = s.tokens / s.tensor;
  const double capacity = experts.capacity_factor ? std::min(1.0, *experts.capacity_factor) : 1;
  const double imbalance = experts.capacity_factor ? 1 : slice.expert_imbalance;
  // Rows that arrive at a rank's experts. With a capacity factor the most loaded expert takes no
  // more than its capacity; without one, the busiest rank is `imbalance` times the mean.
  const double received = own_tokens * experts.top_k * slice.expert_tensor * capacity * imbalance;
  const double groups = std::max(1.0, double(experts.count) / slice.expert);
  const double ffn = double(experts.ffn_hidden) / slice.expert_tensor;

  Operator router =
      Matmul("experts.router", OperatorPart::kExperts, own_tokens, experts.count, s.hidden);
  router.low_precision = false;
  router.forward_kernels = slice.fused_kernels ? 8 : 14;
  router.backward_kernels = 10;
  list.Add(router);
  const double permute = 4 * (own_tokens + received / slice.expert_tensor) * s.hidden;
  Operator dispatch =
      Stream("experts.permute", OperatorPart::kExperts, permute, permute, received, s.hidden);
  dispatch.forward_kernels = 6;
  dispatch.backward_kernels = 4;
  list.Add(dispatch);
  list.Add(Grouped("experts.in", received, groups, halves * ffn, s.hidden));
  list.Add(Stream("experts.activation", OperatorPart::kExpertActivation,
                  2 * (halves + 1) * received * ffn, 2 * (2 * halves + 1) * received * ffn,
                  received, ffn));
  list.Add(Grouped("experts.out", received, groups, s.hidden, ffn));
  Operator combine =
      Stream("experts.unpermute", OperatorPart::kExperts, permute, permute, received, s.hidden);
  combine.forward_kernels = 4;
  combine.backward_kernels = 4;
  list.Add(combine);
  AddSharedExperts(model, s, list);
}

}  // namespace

void OperatorList::Add(const Operator& op) {
  CHECK(size_ < kCapacity);
  operators_[size_++] = op;
}

OperatorList LayerOperators(const Model& model, LayerKind kind, const LayerSlice& slice) {
  const Sizes s = SizesOf(model, slice);
  OperatorList list;
  AddNorm(model, slice, s, "attention.norm", list);
  AddAttention(model, kind, slice, s, list);
  AddResidual(model, slice, s, list);
  AddNorm(model, slice, s, "ffn.norm", list);
  if (kind.experts && model.experts) {
    AddExperts(model, slice, s, list);
  } else {
    AddFfn(model, slice, s, list);
  }
  AddResidual(model, slice, s, list);
  return list;
}

OperatorList EmbeddingOperators(const Model& model, const LayerSlice& slice) {
  const Sizes s = SizesOf(model, slice);
  OperatorList list;
  const double positions = model.position == Position::kLearned ? 1 : 0;
  const double drop = model.dropout ? 3 : 0;
  const double bytes = (4 + 2 * positions + drop) * s.shard_tokens * s.hidden;
  // Backward adds each token's gradient to its row in fp32.
  Operator op = Stream("embedding", OperatorPart::kVocabulary, bytes,
                       bytes + 8 * s.shard_tokens * s.hidden, s.shard_tokens, s.hidden);
  const double vocabulary =
      PaddedVocabulary(model.vocabulary, slice.tensor, slice.vocabulary_multiple);
  op.parameters = vocabulary / s.tensor * s.hidden + positions * model.sequence_length * s.hidden;
  op.forward_kernels = 3;
  op.backward_kernels = 4;
  list.Add(op);
  return list;
}

OperatorList LossOperators(const Model& model, const LayerSlice& slice) {
  const Sizes s = SizesOf(model, slice);
  OperatorList list;
  AddNorm(model, slice, s, "final.norm", list);
  const double vocabulary =
      PaddedVocabulary(model.vocabulary, slice.tensor, slice.vocabulary_multiple) / s.tensor;
  Operator out = Matmul("output", OperatorPart::kVocabulary, s.tokens, vocabulary, s.hidden);
  out.low_precision = false;
  list.Add(out);
  // Logits read and written once each way by a fused loss; as plain kernels cast to fp32, maximum,
  // exponent, sum, gather: 38 bytes a logit forward and 14 backward.
  const double logits = s.tokens * vocabulary;
  Operator loss = Stream("loss", OperatorPart::kVocabulary, (slice.loss_fusion ? 4 : 38) * logits,
                         (slice.loss_fusion ? 4 : 14) * logits, s.tokens, vocabulary);
  loss.forward_kernels = slice.loss_fusion ? 4 : 12;
  loss.backward_kernels = slice.loss_fusion ? 2 : 6;
  list.Add(loss);
  return list;
}

// Each tensor-parallel part gets a multiple of `multiple` words.
uint32_t PaddedVocabulary(uint32_t vocabulary, uint32_t tensor, uint32_t multiple) {
  const uint64_t unit = uint64_t{multiple} * tensor;
  return static_cast<uint32_t>((vocabulary + unit - 1) / unit * unit);
}

}  // namespace longhaul::spec
