#include "planner/memory/layer_memory.h"

#include <algorithm>
#include <utility>

#include "spec/model/parameters.h"

namespace longhaul::planner {

namespace {

using spec::Model;

double Double(int64_t number) { return static_cast<double>(number); }

bool PadsVocabulary(Family family) {
  return family != Family::kShardedData && family != Family::kLonghaul;
}

double VocabularyOnRank(const Model& model, const MemoryKey& key) {
  const uint32_t tensor = key.slice.tensor;
  if (!PadsVocabulary(key.family)) return double{1} * model.vocabulary / tensor;
  return double{1} * spec::PaddedVocabulary(model.vocabulary, tensor) / tensor;
}

// Replays allocations (positive) and frees (negative) and keeps the largest live set.
class Replay {
 public:
  void Allocate(double bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  void Free(double bytes) { live_ -= bytes; }
  double peak() const { return peak_; }

 private:
  double live_ = 0;
  double peak_ = 0;
};

struct Streams {
  double shard = 0;  // hidden state of T' tokens
  double full = 0;   // of T tokens
  bool gathers = false;
};

Streams StreamsOf(const Model& model, const MemoryKey& key, const MemorySizes& z) {
  return {z.element * z.shard_tokens * model.hidden, z.element * z.tokens * model.hidden,
          key.slice.sequence_parallel};
}

// Backward of a product whose output is reduced over the tensor group; leaves the gradient of its
// input, `inner` bytes.
void RowMatmul(const Streams& s, double inner, Replay& replay) {
  if (s.gathers) replay.Allocate(s.full);
  replay.Allocate(inner);
  if (s.gathers) replay.Free(s.full);
}

// Backward of a product whose input is gathered; leaves the shard's gradient.
void ColumnMatmul(const Streams& s, double outer, Replay& replay) {
  if (s.gathers) replay.Allocate(s.full);  // the input again, for the weights' gradient
  replay.Allocate(s.full);
  if (s.gathers) {
    replay.Allocate(s.shard);
    replay.Free(2 * s.full);
  }
  replay.Free(outer);
}

// The list is that of one dense FFN: the second product, the activation, the first product.
void ReplayFfn(const Model& model, const MemoryKey& key, const MemorySizes& z, double width,
               Replay& replay) {
  const Streams s = StreamsOf(model, key, z);
  const double row = z.element * z.tokens * width / key.slice.tensor;
  RowMatmul(s, row, replay);
  replay.Free(row);  // the saved product
  replay.Allocate(z.ffn_inner * row);
  replay.Free(row);                // the product's gradient
  replay.Free(z.ffn_inner * row);  // what the activation had saved
  ColumnMatmul(s, z.ffn_inner * row, replay);
  replay.Free(s.shard);
}

void ReplayExperts(const Model& model, const MemoryKey& key, const MemorySizes& z, Replay& replay) {
  const spec::Experts& experts = *model.experts;
  const double rows = z.element * z.expert_rows * model.hidden;
  const double width = z.element * z.expert_rows * experts.ffn_hidden / key.slice.expert_tensor;
  // The outputs are weighted by fp32 probabilities, so this product's backward is in fp32: its
  // incoming gradient of every token, as scattered rows, times the rows and times the weights.
  const double stream = 4 * z.tokens * model.hidden;
  const double rows_fp32 = 4 * z.expert_rows * model.hidden;
  replay.Allocate(stream + 3 * rows_fp32);
  replay.Free(stream + 3 * rows_fp32);
  replay.Allocate(2 * rows);  // exchanged
  replay.Free(rows);
  replay.Allocate(rows);  // in expert order
  replay.Free(2 * rows);  // with the saved output
  replay.Allocate(width);
  replay.Free(rows + width);
  replay.Allocate(z.ffn_inner * width);
  replay.Free(width + z.ffn_inner * width);
  replay.Allocate(rows);
  replay.Free(z.ffn_inner * width + rows);
  replay.Allocate(rows);
  replay.Free(2 * rows);
  if (experts.shared > 0) {
    ReplayFfn(model, key, z, double{1} * experts.shared * experts.shared_ffn_hidden, replay);
  }
}

// Backward in the order of execution: the output product, the attention kernel, the product for
// queries, keys and values.
void ReplayAttention(const Model& model, const MemoryKey& key, const MemorySizes& z,
                     Replay& replay) {
  const Streams s = StreamsOf(model, key, z);
  const double row = z.element * z.tokens * z.heads;
  const double kv_heads = model.multi_latent ? z.heads : z.kv_heads;
  const double inputs = row * z.qk_dim + z.element * z.tokens * kv_heads * (z.qk_dim + z.v_dim);
  RowMatmul(s, row * z.v_dim, replay);
  replay.Allocate(inputs);
  // Flash kernels sum the queries' gradient in fp32; without them the square has a gradient.
  const double square = z.element * z.tokens * model.sequence_length * z.heads;
  const double sums = key.slice.flash_attention ? 2 * row * z.qk_dim : square;
  replay.Allocate(sums);
  replay.Free(sums + 2 * row * z.v_dim + inputs);
  ColumnMatmul(s, inputs, replay);
}

// One distinct shape of a weight and its size.
struct Shape {
  double rows = 0;
  double columns = 0;
};

// A set in a fixed array: a layer has few shapes, and the search calls this often.
class ShapeSet {
 public:
  void Add(double rows, double columns) {
    if (rows <= 0 || columns <= 0) return;
    for (size_t i = 0; i < size_; ++i) {
      if (shapes_[i].rows == rows && shapes_[i].columns == columns) return;
    }
    shapes_[size_++] = {rows, columns};
  }
  double elements() const {
    double sum = 0;
    for (size_t i = 0; i < size_; ++i) sum += shapes_[i].rows * shapes_[i].columns;
    return sum;
  }

 private:
  std::array<Shape, 16> shapes_;
  size_t size_ = 0;
};

void AddAttentionShapes(const Model& model, const MemoryKey& key, ShapeSet& set) {
  const MemorySizes z = MemorySizesOf(model, key);
  const double hidden = model.hidden;
  if (!model.multi_latent) {
    set.Add(model.head_dim * (z.heads + 2 * z.kv_heads), hidden);
    set.Add(hidden, model.head_dim * z.heads);
    return;
  }
  const spec::MultiLatent& latent = *model.multi_latent;
  set.Add(latent.query_rank, hidden);
  set.Add(z.heads * z.qk_dim, latent.query_rank > 0 ? latent.query_rank : hidden);
  set.Add(double{1} * latent.kv_rank + latent.qk_rope_dim, hidden);
  set.Add(z.heads * (latent.qk_nope_dim + z.v_dim), latent.kv_rank);
  set.Add(hidden, z.heads * z.v_dim);
}

void AddFfnShapes(const Model& model, double width, ShapeSet& set) {
  set.Add((model.gated_ffn ? 2 : 1) * width, model.hidden);
  set.Add(model.hidden, width);
}

}  // namespace

RankParameters LayerRankParameters(const Model& model, bool experts,
                                   const spec::LayerSlice& slice) {
  const spec::ParameterCount count = spec::LayerParameters(model, experts);
  RankParameters on_rank;
  on_rank.dense = Double(count.sharded) / slice.tensor + Double(count.replicated);
  if (!model.multi_latent && slice.tensor > model.kv_heads) {
    // Each key-value head is copied to tensor / kv_heads ranks.
    const double missing = 1 - double{1} * model.kv_heads / slice.tensor;
    on_rank.dense += 2 * missing * model.head_dim * (model.hidden + (model.qkv_bias ? 1 : 0));
  }
  on_rank.experts = Double(count.experts) / slice.expert / slice.expert_tensor;
  return on_rank;
}

double EmbeddingRankParameters(const Model& model, const MemoryKey& key) {
  double parameters = VocabularyOnRank(model, key) * model.hidden;
  if (model.position == spec::Position::kLearned) {
    parameters += double{1} * model.sequence_length * model.hidden;
  }
  return parameters;
}

double OutputRankParameters(const Model& model, const MemoryKey& key) {
  return VocabularyOnRank(model, key) * model.hidden;
}

double FinalNormParameters(const Model& model) {
  return (model.normalization == spec::Normalization::kRms ? 1.0 : 2.0) * model.hidden;
}

// Backward runs FFN first and attention last. Frees below zero are saved tensors that end on the
// way, so the peak is relative to all saved tensors.
LayerMemory LayerMemoryOf(const Model& model, bool experts, const MemoryKey& key) {
  LayerMemory memory;
  for (const SavedTensor& tensor : SavedTensors(model, experts, key)) {
    (IsRecomputed(tensor, key) ? memory.rebuilt : memory.saved) += tensor.bytes;
  }
  const MemorySizes z = MemorySizesOf(model, key);
  Replay replay;
  replay.Allocate(StreamsOf(model, key, z).shard);  // the output's gradient
  if (experts) {
    ReplayExperts(model, key, z, replay);
  } else {
    ReplayFfn(model, key, z, model.ffn_hidden, replay);
  }
  ReplayAttention(model, key, z, replay);
  memory.transient = replay.peak();
  memory.parameters = LayerRankParameters(model, experts, key.slice);
  return memory;
}

double DummyGradients(const Model& model, bool dense, bool experts, const MemoryKey& key) {
  ShapeSet set;
  if (dense || experts) AddAttentionShapes(model, key, set);
  if (dense) AddFfnShapes(model, double{1} * model.ffn_hidden / key.slice.tensor, set);
  if (experts) {
    const spec::Experts& e = *model.experts;
    AddFfnShapes(model, double{1} * e.ffn_hidden / key.slice.expert_tensor, set);
    AddFfnShapes(model, double{1} * e.shared * e.shared_ffn_hidden / key.slice.tensor, set);
  }
  return 2 * set.elements();
}

namespace {

// Bytes a logit at the loss's fullest moment.
double LogitBytes(const MemoryKey& key) {
  if (key.precision == spec::Precision::kFp32) return 12;
  // Two bytes, and their gradient written in place.
  if (key.slice.loss_fusion) return 2;
  switch (key.family) {
    case Family::kMegatron:  // two bytes and an fp32 copy that becomes softmax, then gradient
      return 6;
    case Family::kOldMegatron:  // the exponentials beside that copy
    case Family::kDeepSpeed:
      return 10;
    case Family::kShardedData:  // as below, beside the two-byte logits
      return 14;
    case Family::kLonghaul:  // PyTorch's own: log-softmax and both gradients in fp32
      return 12;
  }
  return 12;
}

}  // namespace

EndsMemory EndsMemoryOf(const Model& model, const MemoryKey& key) {
  const MemorySizes z = MemorySizesOf(model, key);
  const Streams s = StreamsOf(model, key, z);
  const double logits = z.tokens * VocabularyOnRank(model, key);
  EndsMemory ends;
  ends.embedding_saved = 8 * z.tokens + (model.dropout ? z.shard_tokens * model.hidden : 0);
  ends.loss_saved = 2 * s.shard;
  const double logit_bytes = LogitBytes(key);
  ends.loss = logit_bytes * logits + s.full + (s.gathers ? s.full + s.shard : 0);
  ends.output_gradient = 2 * OutputRankParameters(model, key);
  ends.boundary = s.shard;
  // Both normalised inputs before and after, joined; and logits of its own until backward.
  ends.prediction_saved = 6 * s.shard + 2 * logits;
  return ends;
}

}  // namespace longhaul::planner
