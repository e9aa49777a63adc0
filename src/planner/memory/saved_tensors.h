// The tensors that one layer keeps from its forward to its backward pass.
//
// With T tokens of a micro-batch on a rank (T' = T / tensor under sequence parallelism), in bytes
// of two-byte activations: Korthikanti et al. 2022 (arXiv 2205.05198, section 4) for attention,
// plain FFN, norms and dropout, whose sum for a GPT with sequence parallelism is s b h (34 + 5 a s
// / h) / tensor; flash attention keeps its output and one fp32 figure a row instead of the square;
// latent attention and experts as Megatron-Core runs them: norms of both latents, dispatched tokens
// in expert order, both halves and the product of the gated FFN, and the experts' outputs for the
// gradient of the routing probabilities. Held against measured peaks in validation/planner.
// Leaves out what lives inside one operator only (layer_memory.h).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "planner/framework.h"
#include "spec/model/operators.h"

namespace longhaul::planner {

// The tokens of the fullest rank over the mean, where routing is learnt.
inline constexpr double kRoutingImbalance = 1.1;

// The choices of recompute that drop a tensor.
enum class SavedPart {
  kInput,
  kNorm,
  kLatentUp,
  kCoreAttention,
  kAttention,
  kFfn,
  kExpertActivation,
  kExperts
};

struct SavedTensor {
  std::string_view name;
  SavedPart part = SavedPart::kInput;
  double bytes = 0;
  bool second_product = false;  // dropped by recompute of every second product (FSDP stacks)
};

class SavedTensorList {
 public:
  static constexpr size_t kCapacity = 32;

  void Add(std::string_view name, SavedPart part, double bytes, bool second_product = false);
  const SavedTensor* begin() const { return tensors_.data(); }
  const SavedTensor* end() const { return tensors_.data() + size_; }

 private:
  std::array<SavedTensor, kCapacity> tensors_;
  size_t size_ = 0;
};

// The parts of a training that change a layer's memory.
struct MemoryKey {
  spec::LayerSlice slice;
  spec::RecomputeKind recompute = spec::RecomputeKind::kNone;
  spec::RecomputeModules modules;
  spec::ContextKind context_kind = spec::ContextKind::kRing;
  spec::Precision precision = spec::Precision::kBf16;
  Family family = Family::kMegatron;
  bool compiled = false;

  friend bool operator==(const MemoryKey&, const MemoryKey&) = default;
};

MemoryKey MemoryKeyOf(const spec::Model& model, const spec::Training& training, Family family);

// Sizes that saved tensors and transients share, of one micro-batch on one rank.
struct MemorySizes {
  double tokens = 0;        // T
  double shard_tokens = 0;  // T'
  double expert_rows = 0;   // R, tokens received by this rank's experts
  double heads = 0;         // on this rank
  double kv_heads = 0;      // at least one
  double qk_dim = 0;
  double v_dim = 0;
  double element = 2;       // bytes of an activation
  double linear_input = 2;  // of an input that a product keeps: 1 under fp8
  double ffn_inner = 2;     // first-half matrices of an FFN: 2 if gated
};
MemorySizes MemorySizesOf(const spec::Model& model, const MemoryKey& key);

// All saved tensors of a layer, without recompute.
SavedTensorList SavedTensors(const spec::Model& model, bool experts, const MemoryKey& key);

// Whether `tensor` is dropped and rebuilt under the key's recompute.
bool IsRecomputed(const SavedTensor& tensor, const MemoryKey& key);

}  // namespace longhaul::planner
