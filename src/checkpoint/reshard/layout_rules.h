// From the names of a checkpoint's tensors to how layouts cut them.
//
// A rule is a pattern of names and what is true of the tensors it matches. Patterns are matched
// against whole parts between dots or slashes anywhere in a name, so that a weight and its moments
// ("optimizer.first_moment.model.layers.3.mlp.up.weight") follow one rule; {layer} and {expert}
// stand for numbers, * for any text within a part. The first rule that matches counts. A rules file
// is JSON:
//
//   {"rules": [{"match": "layers.{layer}.attention.qkv.weight", "dim": 0, "fused": 3},
//              {"match": "token_embedding.weight", "dim": 0, "place": "first"}]}
//
// With "uneven": true the parts of a dimension may differ by one, as the built-in trainer cuts its
// vocabulary. Leaves out interleaved queries, keys and values of unlike heads (cut as one
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
  int dim = -1;        // cut by tensor parallelism; -1: not cut
  uint32_t fused = 1;  // TensorRule::fused
  // kLayer is what {layer} in the pattern means.
  TensorPlace place = TensorPlace::kEveryStage;
  bool uneven = false;  // TensorRule::uneven
};

// The built-in trainer's names, Hugging Face's for Llama, Qwen, Mistral and Mixtral, Megatron
// Core's for GPT, GPT-2's.
const std::vector<NameRule>& BuiltInRules();

// kInvalidArgument naming the rule and the field.
Result<std::vector<NameRule>> ParseNameRules(std::string_view json);

struct NamedSharding {
  std::vector<TensorRule> rules;  // by tensor
  uint32_t layers = 0;
  uint32_t experts = 0;
  std::vector<std::string> unmatched;  // held whole by every rank
  ShardingProblem problem() const { return {rules, layers, experts}; }
};

// A tensor whose name has a part that optimizers use (exp_avg, first_moment, ...) is cut from ZeRO
// stage 1 on, every other one from stage 3 on.
NamedSharding ShardingOf(const std::vector<TensorInfo>& tensors,
                         const std::vector<NameRule>& rules);

// "tp=2,pp=4,dp=8,zero=1": tp, pp, vpp, cp, ep, etp, dp, zero, each at most once; what isn't named
// is 1, zero 0. kInvalidArgument naming the part.
Result<spec::Layout> ParseLayout(std::string_view text);

}  // namespace longhaul::checkpoint
