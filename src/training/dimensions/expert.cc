#include "training/dimensions/expert.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "training/model/operators.h"

namespace longhaul::training {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

class Exchange : public Function<Exchange> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                            Communicator* group) {
    at::Tensor arrived = group->AllToAll(rows, sent, received);
    context->saved_data["sent"] = sent;
    context->saved_data["received"] = received;
    context->saved_data["group"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(group));
    return arrived;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& group = *reinterpret_cast<Communicator*>(context->saved_data["group"].toInt());
    const std::vector<int64_t> sent = context->saved_data["sent"].toIntVector();
    const std::vector<int64_t> received = context->saved_data["received"].toIntVector();
    return {group.AllToAll(gradients[0], received, sent), {}, {}, {}};
  }
};

// Which rows come from which rank for which of the experts here.
struct Arrivals {
  std::vector<int64_t> sent;      // by rank
  std::vector<int64_t> received;  // by rank
  std::vector<int64_t> counts;    // by expert here
  at::Tensor by_expert;           // the rows' order by expert, then by rank
};

Arrivals PlanExchange(const at::Tensor& counts, RankContext& rank) {
  Communicator& group = *rank.expert;
  const auto ranks = static_cast<int64_t>(group.size());
  const int64_t here = counts.size(0) / ranks;
  const std::vector<int64_t> equal(group.size(), here);
  const at::Tensor table = group.AllToAll(counts, equal, equal).view({ranks, here});
  const auto values = [](const at::Tensor& tensor) {
    const at::Tensor flat = tensor.contiguous();
    return std::vector<int64_t>(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
  };
  Arrivals arrivals;
  arrivals.sent = values(counts.view({ranks, here}).sum(1));
  arrivals.received = values(table.sum(1));
  arrivals.counts = values(table.sum(0));
  std::vector<int64_t> starts = values(table);
  std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), int64_t{0});
  std::vector<at::Tensor> order;
  for (int64_t expert = 0; expert < here; ++expert) {
    for (int64_t other = 0; other < ranks; ++other) {
      const int64_t start = starts[static_cast<size_t>(other * here + expert)];
      const int64_t count = table[other][expert].item<int64_t>();
      order.push_back(at::arange(start, start + count, at::kLong));
    }
  }
  arrivals.by_expert = at::cat(order);
  return arrivals;
}

// The rows of each expert through its FFN. An expert without rows stays in the graph, since its
// rank takes part in the exchange of the backward pass all the same.
at::Tensor RunExperts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                      const WeightSet& weights, RankContext& rank) {
  const auto multiply = [&](const at::Tensor& x, const std::string& name, int64_t expert) {
    const Weight& all = weights["experts." + name + ".weight"];
    const Weight own{all.value.detach()[expert], all.gradient[expert]};
    return Multiply(x, own, nullptr, rank.deferred);
  };
  std::vector<at::Tensor> outputs;
  int64_t begin = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto expert = static_cast<int64_t>(i);
    const at::Tensor x = rows.narrow(0, begin, counts[i]);
    begin += counts[i];
    at::Tensor inner = multiply(x, "up", expert);
    inner = rank.config.shape.gated_ffn ? Activate(rank.config, multiply(x, "gate", expert)) * inner
                                        : Activate(rank.config, inner);
    outputs.push_back(multiply(inner, "down", expert));
  }
  return at::cat(outputs, 0);
}

at::Tensor Balance(const at::Tensor& shares, const at::Tensor& chosen, RankContext& rank) {
  const spec::Experts& experts = *rank.config.shape.experts;
  const int64_t batch = chosen.size(1);
  const double tokens = rank.config.shape.sequence_length;
  // [tokens, batch, top_k] -> [batch, experts]
  at::Tensor counts = at::zeros({batch, experts.count}, shares.options());
  const at::Tensor by_sequence = chosen.transpose(0, 1).reshape({batch, -1});
  counts.scatter_add_(1, by_sequence, at::ones(by_sequence.sizes(), shares.options()));
  rank.context->Sum(counts);
  const at::Tensor load = counts * (experts.count / (experts.top_k * tokens));
  const at::Tensor mean = shares.view({-1, batch, experts.count}).sum(0) / tokens;
  // Each part of the tensor group computes the same, and their gradients are summed.
  return (load * mean).sum() * (rank.config.balance_loss / rank.layout.tensor);
}

}  // namespace

MixtureOutput MixtureOfExperts(const at::Tensor& x, const WeightSet& weights, RankContext& rank) {
  const spec::Experts& experts = *rank.config.shape.experts;
  const int64_t hidden = x.size(2);
  const int64_t top_k = experts.top_k;
  const at::Tensor rows = x.reshape({-1, hidden});
  const at::Tensor shares = at::softmax(at::mm(rows, weights["router.weight"].value.t()), -1);
  const auto [highest, chosen] = at::topk(shares, top_k, -1);
  at::Tensor gates = highest;
  if (rank.config.normalised_routing) gates = gates / gates.sum(-1, /*keepdim=*/true);
  // Pairs of a token and an expert, by expert; pairs of one expert in the order of their tokens.
  const at::Tensor pairs = chosen.reshape({-1});
  const at::Tensor order = std::get<1>(at::sort(pairs, /*stable=*/true, 0, /*descending=*/false));
  const at::Tensor token = at::div(order, top_k, "floor");
  const at::Tensor counts = at::bincount(pairs, {}, experts.count);
  const Arrivals arrivals = PlanExchange(counts, rank);
  const at::Tensor leaving = rows.index_select(0, token);
  const at::Tensor arrived =
      Exchange::apply(leaving, arrivals.sent, arrivals.received, rank.expert.get());
  const at::Tensor computed =
      RunExperts(arrived.index_select(0, arrivals.by_expert), arrivals.counts, weights, rank);
  const at::Tensor by_rank = computed.index_select(0, at::argsort(arrivals.by_expert));
  const at::Tensor back =
      Exchange::apply(by_rank, arrivals.received, arrivals.sent, rank.expert.get());
  const at::Tensor weighted = back * gates.reshape({-1}).index_select(0, order).unsqueeze(-1);
  MixtureOutput output;
  output.values = at::zeros_like(rows).index_add(0, token, weighted).view_as(x);
  output.balance = Balance(shares, chosen.view({x.size(0), x.size(1), top_k}), rank);
  return output;
}

}  // namespace longhaul::training
