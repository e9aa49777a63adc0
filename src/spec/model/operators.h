// The operators of a transformer layer on one rank: shapes, FLOPs and bytes.
//
// One list for the planner's time model and for the profiler's names of kernels. FLOPs are those of
// the rank's shard, after tensor, context and expert parallelism. Counts follow Korthikanti et al.
// 2022 (arXiv 2205.05198) for dense layers, DeepSeek-V2 (arXiv 2405.04434, section 2.1) for latent
// attention; bytes assume two-byte activations and one read or write of each operand of a kernel.
// Leaves out collectives (planner/time/collective_cost.h), the tensors saved for backward (the
// planner's memory) and the speed of execution.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "spec/model/model.h"
#include "spec/model/training.h"

namespace longhaul::spec {

enum class OperatorKind {
  kMatmul,       // y[m x n] = x[m x k] W, `groups` of them with separate weights
  kAttention,    // flash attention: scores, softmax and values in one kernel
  kMemoryBound,  // time is bytes over bandwidth
};

// The operator's part of the layer; recompute chooses between these parts.
enum class OperatorPart {
  kNorm,
  kAttentionProjection,
  kLatentUp,  // multi-latent attention's up projections
  kCoreAttention,
  kFfn,
  kExperts,  // router, dispatch, products of the experts, combine
  kExpertActivation,
  kResidual,
  kVocabulary,
};

struct Operator {
  std::string_view name;
  OperatorKind kind = OperatorKind::kMemoryBound;
  OperatorPart part = OperatorPart::kFfn;
  bool low_precision = false;  // runs in fp8 or fp4 where the training does

  // For a product: rows of tokens, outputs, inputs, and the number of products with separate
  // weights. For a memory-bound operator: m rows of n elements.
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
  // For attention: sequences x heads, tokens of queries, and keys that a query uses on average.
  double batch_heads = 0;
  double queries = 0;
  double keys = 0;
  double head_dim = 0;  // mean of the queries' and the values' sizes
  bool uneven_heads = false;

  double forward_flops = 0;  // executed
  double model_flops = 0;    // the forward FLOPs that MFU counts: attention's causal half
  double forward_bytes = 0;  // of a memory-bound operator, or of a product's operands
  double backward_bytes = 0;
  double parameters = 0;       // on this rank
  double forward_kernels = 1;  // launches
  double backward_kernels = 2;
};

// A list with a fixed capacity: no allocation while millions of layouts are evaluated.
class OperatorList {
 public:
  static constexpr size_t kCapacity = 40;

  void Add(const Operator& op);
  const Operator* begin() const { return operators_.data(); }
  const Operator* end() const { return operators_.data() + size_; }
  size_t size() const { return size_; }

 private:
  std::array<Operator, kCapacity> operators_;
  size_t size_ = 0;
};

// The parts of a layout and a batch that change a layer's operators.
struct LayerSlice {
  uint32_t tensor = 1;
  uint32_t context = 1;
  uint32_t expert = 1;
  uint32_t expert_tensor = 1;
  double micro_batch = 1;  // sequences
  bool sequence_parallel = false;
  bool flash_attention = true;
  bool fused_kernels = true;
  bool loss_fusion = true;
  double expert_imbalance = 1;         // tokens of the fullest rank over the mean
  uint32_t vocabulary_multiple = 128;  // the vocabulary is padded to this times tensor; 1: not

  friend bool operator==(const LayerSlice&, const LayerSlice&) = default;
};

struct LayerKind {
  bool experts = false;
  bool window = false;  // sliding window in place of full attention

  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

// Requires sizes that CheckModel and CheckTraining accept.
OperatorList LayerOperators(const Model& model, LayerKind kind, const LayerSlice& slice);

// Lookup of token (and learned position) vectors; the first stage.
OperatorList EmbeddingOperators(const Model& model, const LayerSlice& slice);

// Final norm, output layer and loss; the last stage.
OperatorList LossOperators(const Model& model, const LayerSlice& slice);

// The vocabulary padded to a multiple of `multiple` x tensor; Megatron's is 128.
uint32_t PaddedVocabulary(uint32_t vocabulary, uint32_t tensor, uint32_t multiple = 128);

}  // namespace longhaul::spec
