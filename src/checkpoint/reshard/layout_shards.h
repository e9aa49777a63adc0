// What a rank of a parallel layout holds of every tensor: rules as data.
//
// Ranks are numbered tensor first, then context, data, pipeline:
//   rank = ((pipeline * data + d) * context + c) * tensor + t
// Dense tensors are replicated over data x context; experts over what expert parallelism leaves of
// data x context x tensor, with groups inside it. ZeRO cuts the flat, unpadded buffer of a rank's
// tensors into equal ranges, one a replica (DeepSpeed, Megatron's distributed optimizer, FSDP's
// flat parameters), or each tensor by its rows (PyTorch's fully_shard: ceil(rows / ranks) a rank).
// The replicas may be in groups that each hold all (HSDP, hierarchical ZeRO). Leaves out who writes
// which copy and orders of dimensions other than the usual one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/reshard/read_plan.h"
#include "spec/model/training.h"

namespace longhaul::checkpoint {

enum class TensorPlace { kEveryStage, kFirstStage, kLastStage, kLayer };

// How layouts cut one global tensor.
struct TensorRule {
  std::vector<int64_t> shape;
  int tensor_dim = -1;  // cut by tensor parallelism; -1: every tensor rank holds all
  // The dimension is this many equal parts one after the other, each of which is cut: 3 for fused
  // queries, keys and values of as many heads, 2 for a fused gate and up projection.
  uint32_t fused = 1;
  // Parts of the dimension may differ by one: [n * i / ranks, n * (i + 1) / ranks).
  bool uneven = false;
  TensorPlace place = TensorPlace::kEveryStage;
  uint32_t layer = 0;       // with kLayer
  int64_t expert = -1;      // of a routed expert: its number
  uint32_t zero_stage = 4;  // ZeRO stage from which it is cut: weights 3, optimizer state 1
};

enum class ZeroForm { kFlatBuffer, kRows };

struct ShardingProblem {
  std::span<const TensorRule> rules;
  uint32_t layers = 0;
  uint32_t experts = 0;
  ZeroForm zero_form = ZeroForm::kFlatBuffer;
  uint32_t zero_group = 0;  // replicas that ZeRO cuts over, next to each other; 0: all
};

// kInvalidArgument naming the first rule that the layout cannot cut evenly, or a layer or expert
// that is out of range.
Status CheckSharding(const ShardingProblem& problem, const spec::Layout& layout);

// The pipeline stage that holds a layer. Requires layer < layers.
uint32_t StageOfLayer(const spec::Layout& layout, uint32_t layers, uint32_t layer);

// The shards of one rank, `tensor` being the rule's index; several boxes of one tensor follow each
// other in the order in which they lie in the rank's local tensor. Requires CheckSharding and
// rank < layout.devices().
std::vector<WantedShard> ShardsOfRank(const ShardingProblem& problem, const spec::Layout& layout,
                                      uint32_t rank);

}  // namespace longhaul::checkpoint
