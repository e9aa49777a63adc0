#include "training/dimensions/tensor.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <string>

#include "training/model/operators.h"

namespace longhaul::training {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

RankContext& Rank(AutogradContext& context) {
  return *reinterpret_cast<RankContext*>(context.saved_data["rank"].toInt());
}
void Keep(AutogradContext& context, RankContext& rank) {
  context.saved_data["rank"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(&rank));
}

at::Tensor Sum(const at::Tensor& x, RankContext& rank) {
  // In place it could change what another node was given, too.
  at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
  rank.tensor->Sum(sum);
  return sum;
}

class Enter : public Function<Enter> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, RankContext* rank) {
    Keep(*context, *rank);
    return rank->layout.sequence ? rank->tensor->AllGather(x) : x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    RankContext& rank = Rank(*context);
    if (rank.layout.sequence) return {rank.tensor->ReduceScatter(gradients[0]), {}};
    return {Sum(gradients[0], rank), {}};
  }
};

class Leave : public Function<Leave> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, RankContext* rank) {
    Keep(*context, *rank);
    return rank->layout.sequence ? rank->tensor->ReduceScatter(x) : Sum(x, *rank);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    RankContext& rank = Rank(*context);
    if (rank.layout.sequence) return {rank.tensor->AllGather(gradients[0]), {}};
    return {gradients[0], {}};
  }
};

class VocabularyLoss : public Function<VocabularyLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const at::Tensor& mask, int64_t first_word,
                            RankContext* rank) {
    const int64_t words = logits.size(1);
    // The maximum over all parts is subtracted, so that no exponential overflows.
    at::Tensor highest = at::amax(logits, {1}, /*keepdim=*/true).contiguous();
    rank->tensor->Max(highest);
    at::Tensor powers = logits - highest;
    const at::Tensor own = targets - first_word;
    const at::Tensor absent = (own < 0).logical_or(own >= words);
    // A target that another part has is clamped to a valid column, and what is read there is
    // replaced by 0.
    const at::Tensor column = own.clamp(0, words - 1).unsqueeze(1);
    // One sum carries both: the powers, and the target's logit from the part that has it.
    at::Tensor sums = at::empty({2, logits.size(0)}, logits.options());
    sums[1].copy_(powers.gather(1, column).squeeze(1).masked_fill(absent, 0));
    powers.exp_();
    sums[0].copy_(powers.sum(1));
    rank->tensor->Sum(sums);
    powers.div_(sums[0].unsqueeze(1));
    context->save_for_backward({powers, column, absent, mask});
    return ((sums[0].log() - sums[1]) * mask).sum();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = saved[0].clone();  // the softmax, minus 1 in the target's column
    const at::Tensor here = saved[2].logical_not().to(gradient.scalar_type()).unsqueeze(1);
    gradient.scatter_add_(1, saved[1], here.neg());
    gradient.mul_(saved[3].unsqueeze(1)).mul_(gradients[0]);
    return {gradient, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor EnterTensor(const at::Tensor& x, RankContext& rank) {
  return rank.tensor->size() == 1 ? x : Enter::apply(x, &rank);
}

at::Tensor LeaveTensor(const at::Tensor& x, RankContext& rank) {
  return rank.tensor->size() == 1 ? x : Leave::apply(x, &rank);
}

at::Tensor MultiplyAndLeave(const at::Tensor& x, const WeightSet& weights, const std::string& name,
                            RankContext& rank) {
  const at::Tensor y =
      LeaveTensor(Multiply(x, weights[name + ".weight"], nullptr, rank.deferred), rank);
  return weights.Has(name + ".bias") ? y + weights[name + ".bias"].value : y;
}

// A part has the rows of its own words. Other tokens contribute zeros, and the sum over the parts
// is the whole embedding.
at::Tensor EmbedTokens(const at::Tensor& tokens, const WeightSet& weights, RankContext& rank) {
  const at::Tensor& table = weights["model.embedding.token.weight"].value;
  const Cut words = CutOf(rank.config.shape.vocabulary, rank.layout.tensor, rank.place.part);
  const at::Tensor own = tokens - words.begin;
  const at::Tensor absent = (own < 0).logical_or(own >= words.size());
  at::Tensor x = at::embedding(table, own.clamp(0, words.size() - 1));
  if (rank.layout.tensor > 1) x = LeaveTensor(x.masked_fill(absent.unsqueeze(-1), 0), rank);
  if (!weights.Has("model.embedding.position.weight")) return x;
  at::Tensor positions = rank.positions;
  if (rank.layout.sequence) {
    const int64_t count = positions.size(0) / rank.layout.tensor;
    positions = positions.narrow(0, rank.place.part * count, count);
  }
  const at::Tensor& table_of_positions = weights["model.embedding.position.weight"].value;
  return x + at::embedding(table_of_positions, positions).unsqueeze(1);
}

at::Tensor SummedVocabularyLoss(const at::Tensor& logits, const at::Tensor& targets,
                                const at::Tensor& mask, RankContext& rank) {
  const Cut words = CutOf(rank.config.shape.vocabulary, rank.layout.tensor, rank.place.part);
  return VocabularyLoss::apply(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}),
                               mask.reshape({-1}).to(logits.scalar_type()), words.begin, &rank);
}

}  // namespace longhaul::training
