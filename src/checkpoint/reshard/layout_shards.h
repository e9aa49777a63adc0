// Which parts of every tensor a rank of a parallel layout holds: rules as data.
//
// Ranks are numbered tensor first, then context, data, pipeline:
//   rank = ((pipeline * data + d) * context + c) * tensor + t
// Dense tensors are replicated over data x context; experts over the rest of data x context x
// tensor after expert parallelism, with groups inside it. ZeRO divides the flat, unpadded buffer of
// a rank's tensors into equal ranges, one for each replica (DeepSpeed, Megatron's distributed
// optimizer, FSDP's flat parameters), or each tensor by its rows (PyTorch's fully_shard: ceil(rows
// / ranks) for a rank). The replicas may form groups that each hold everything (HSDP, hierarchical
// ZeRO). Leaves out which rank writes which copy, and orders of dimensions other than this one.
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

// How layouts divide one global tensor.
struct TensorRule {
  std::vector<int64_t> shape;
  int tensor_dim = -1;  // divided by tensor parallelism; -1: every tensor rank holds all
  // The dimension consists of this many equal parts, each of which is divided: 3 for fused queries,
  // keys and values of as many heads, 2 for a fused gate and up projection.
  uint32_t fused = 1;
  // Parts of the dimension may differ by one: [n * i / ranks, n * (i + 1) / ranks).
  bool uneven = false;
  TensorPlace place = TensorPlace::kEveryStage;
  uint32_t layer = 0;       // with kLayer
  int64_t expert = -1;      // of a routed expert: its number
  uint32_t zero_stage = 4;  // ZeRO stage from which it is divided: weights 3, optimizer state 1
};

enum class ZeroForm { kFlatBuffer, kRows };

struct ShardingProblem {
  std::span<const TensorRule> rules;
  uint32_t layers = 0;
  uint32_t experts = 0;
  ZeroForm zero_form = ZeroForm::kFlatBuffer;
  uint32_t zero_group = 0;  // adjacent replicas over which ZeRO divides; 0: all
};

// Returns kInvalidArgument with the first rule that the layout cannot divide evenly, or with a
// layer or expert that is out of range.
Status CheckSharding(const ShardingProblem& problem, const spec::Layout& layout);

// Returns the pipeline stage with a layer. Requires layer < layers.
uint32_t StageOfLayer(const spec::Layout& layout, uint32_t layers, uint32_t layer);

// Returns the shards of one rank; `tensor` is the rule's index. Several boxes of one tensor are in
// the order of the rank's local tensor. Requires CheckSharding and rank < layout.devices().
std::vector<WantedShard> ShardsOfRank(const ShardingProblem& problem, const spec::Layout& layout,
                                      uint32_t rank);

}  // namespace longhaul::checkpoint
