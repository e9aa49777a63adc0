#include "training/dimensions/context.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "training/model/operators.h"

namespace longhaul::training {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kKeysTag = 0;
constexpr int64_t kGradientsTag = 1;

double ScaleOf(const at::Tensor& query) {
  return 1 / std::sqrt(static_cast<double>(query.size(-1)));
}

at::Tensor Scores(RankContext& rank, uint32_t owner, const at::Tensor& query,
                  const at::Tensor& key) {
  return at::baddbmm(rank.masks[owner], query, key.transpose(1, 2), 1, ScaleOf(query));
}

at::Tensor PassOn(RankContext& rank, const at::Tensor& values, int64_t tag) {
  Communicator& ring = *rank.context;
  ring.Send(values, (ring.rank() + 1) % ring.size(), tag);
  return ring.Receive(values, (ring.rank() + ring.size() - 1) % ring.size(), tag);
}

// Whose keys this rank has after so many steps.
uint32_t OwnerAfter(const RankContext& rank, uint32_t step) {
  const uint32_t size = rank.context->size();
  return (rank.context->rank() + size - step) % size;
}

class RingAttention : public Function<RingAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value, RankContext* rank) {
    at::Tensor block = at::stack({key, value});
    at::Tensor highest;
    at::Tensor sum;
    at::Tensor output;
    for (uint32_t step = 0; step < rank->context->size(); ++step) {
      if (step > 0) block = PassOn(*rank, block, kKeysTag);
      const at::Tensor scores = Scores(*rank, OwnerAfter(*rank, step), query, block[0]);
      at::Tensor next = at::amax(scores, {-1}, /*keepdim=*/true);
      // The first block is the rank's own, where each query sees at least itself.
      if (step > 0) next = at::maximum(next, highest);
      const at::Tensor powers = at::exp(scores - next);
      const at::Tensor mixed = at::bmm(powers, block[1]);
      const at::Tensor total = powers.sum(-1, /*keepdim=*/true);
      if (step == 0) {
        sum = total;
        output = mixed;
      } else {
        const at::Tensor factor = at::exp(highest - next);
        sum = sum * factor + total;
        output = output * factor + mixed;
      }
      highest = next;
    }
    output = output / sum;
    context->save_for_backward({query, key, value, output, highest + sum.log()});
    context->saved_data["rank"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(rank));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& rank = *reinterpret_cast<RankContext*>(context->saved_data["rank"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& logarithm = saved[4];
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor delta = (gradient * saved[3]).sum(-1, /*keepdim=*/true);
    at::Tensor query_gradient = at::zeros_like(query);
    at::Tensor block = at::stack({saved[1], saved[2]});
    at::Tensor travelling = at::zeros_like(block);  // the gradients of keys and values
    for (uint32_t step = 0; step < rank.context->size(); ++step) {
      const at::Tensor shares =
          at::exp(Scores(rank, OwnerAfter(rank, step), query, block[0]) - logarithm);
      travelling[1].add_(at::bmm(shares.transpose(1, 2), gradient));
      const at::Tensor back = at::bmm(gradient, block[1].transpose(1, 2));
      const at::Tensor scores_gradient = shares * (back - delta) * ScaleOf(query);
      query_gradient.add_(at::bmm(scores_gradient, block[0]));
      travelling[0].add_(at::bmm(scores_gradient.transpose(1, 2), query));
      // After the last step the gradients still have to go to their owner, one further.
      travelling = PassOn(rank, travelling, kGradientsTag);
      if (step + 1 < rank.context->size()) block = PassOn(rank, block, kKeysTag);
    }
    return {query_gradient, travelling[0], travelling[1], {}};
  }
};

}  // namespace

// The queries' heads that share a head of keys become further rows of its matrix.
at::Tensor CausalAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           RankContext& rank) {
  const int64_t tokens = query.size(0);
  const int64_t batch = query.size(1);
  const int64_t groups = key.size(2);
  const int64_t repeats = query.size(2) / groups;
  const int64_t width = query.size(3);
  const at::Tensor queries = query.reshape({tokens, batch, groups, repeats, width})
                                 .permute({1, 2, 3, 0, 4})
                                 .reshape({batch * groups, repeats * tokens, width});
  const auto rows = [&](const at::Tensor& x) {
    return x.permute({1, 2, 0, 3}).reshape({batch * groups, tokens, width});
  };
  at::Tensor mixed;
  if (rank.context->size() > 1) {
    mixed = RingAttention::apply(queries, rows(key), rows(value), &rank);
  } else {
    mixed = at::bmm(at::softmax(Scores(rank, 0, queries, rows(key)), -1), rows(value));
  }
  return mixed.view({batch, groups, repeats, tokens, width})
      .permute({3, 0, 1, 2, 4})
      .reshape({tokens, batch, groups * repeats * width});
}

}  // namespace longhaul::training
