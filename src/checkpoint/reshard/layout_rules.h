// Derives from the names of a checkpoint's tensors how layouts divide them.
//
// A rule is a pattern of names and the properties of the tensors that it matches. Patterns match
// whole parts between dots or slashes anywhere in a name, so that one rule covers a weight and its
// moments ("optimizer.first_moment.model.layers.3.mlp.up.weight"). {layer} and {expert} match
// numbers, * any text within a part. The first matching rule counts. A rules file is JSON:
//
//   {"rules": [{"match": "layers.{layer}.attention.qkv.weight", "dim": 0, "fused": 3},
//              {"match": "token_embedding.weight", "dim": 0, "place": "first"}]}
//
// With "uneven": true the parts of a dimension may differ by one, as for the built-in trainer's
// vocabulary. Leaves out interleaved queries, keys and values of different heads (divided as one
// dimension) and vocabulary padding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/reshard/layout_shards.h"
#include "checkpoint/state.h"
#include "spec/model/training.h"

namespace longhaul::checkpoint {

struct NameRule {
  std::string match;
  int dim = -1;        // divided by tensor parallelism; -1: none
  uint32_t fused = 1;  // TensorRule::fused
  // A pattern with {layer} requires kLayer.
  TensorPlace place = TensorPlace::kEveryStage;
  bool uneven = false;  // TensorRule::uneven
};

// The names of the built-in trainer, of Hugging Face's Llama, Qwen, Mistral and Mixtral, of
// Megatron Core's GPT, and of GPT-2.
const std::vector<NameRule>& BuiltInRules();

// Returns kInvalidArgument with the rule and the field.
Result<std::vector<NameRule>> ParseNameRules(std::string_view json);

struct NamedSharding {
  std::vector<TensorRule> rules;  // by tensor
  uint32_t layers = 0;
  uint32_t experts = 0;
  std::vector<std::string> unmatched;  // every rank holds them whole
  ShardingProblem problem() const { return {rules, layers, experts}; }
};

// A tensor with a part of its name that optimizers use (exp_avg, first_moment, ...) is divided from
// ZeRO stage 1 on, any other one from stage 3 on.
NamedSharding ShardingOf(const std::vector<TensorInfo>& tensors,
                         const std::vector<NameRule>& rules);

// Reads "tp=2,pp=4,dp=8,zero=1": tp, pp, vpp, cp, ep, etp, dp, zero, each at most once. The default
// is 1, for zero 0. Returns kInvalidArgument with the wrong part.
Result<spec::Layout> ParseLayout(std::string_view text);

}  // namespace longhaul::checkpoint
