#include "trainer/model/operators.h"

#include <cmath>
#include <limits>

#include "corpus/corpus.h"

namespace longhaul::trainer {

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight, bias);
}

at::Tensor Linear::operator()(const at::Tensor& x) const { return at::addmm(bias, x, weight.t()); }

// Added to the scores: minus infinity above the diagonal, where the key comes after the query.
at::Tensor CausalMask(int64_t length) {
  return at::full({length, length}, -std::numeric_limits<float>::infinity()).triu(1);
}

at::Tensor CoreAttention(at::Tensor qkv, const at::Tensor& mask, int64_t batch, int64_t length,
                         int64_t heads) {
  const int64_t hidden = qkv.size(-1) / 3;
  const int64_t size = hidden / heads;
  // [batch, length, 3, heads, size] -> 3 x [batch * heads, length, size]
  const at::Tensor parts = qkv.view({batch, length, 3, heads, size})
                               .permute({2, 0, 3, 1, 4})
                               .reshape({3, batch * heads, length, size});
  // The copy in `parts` is used from here on, so the product's memory can be reused.
  qkv.reset();
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  const at::Tensor scores = at::baddbmm(mask, parts[0], parts[1].transpose(1, 2), 1, scale);
  const at::Tensor mixed = at::bmm(at::softmax(scores, -1), parts[2]);
  return mixed.view({batch, heads, length, size}).transpose(1, 2).reshape({batch * length, hidden});
}

at::Tensor Activation(const at::Tensor& x) { return at::gelu(x, "tanh"); }

namespace {

// Each token's predecessor; before the first token of a sample there are separators.
at::Tensor Shifted(const at::Tensor& ids) {
  const at::Tensor before = at::full({ids.size(0), 1}, corpus::kSeparator, at::kLong);
  return at::cat({before, ids.slice(1, 0, ids.size(1) - 1)}, 1);
}

}  // namespace

at::Tensor Embed(const at::Tensor& ids, const at::Tensor& token, const at::Tensor& position,
                 std::span<const at::Tensor> previous) {
  const int64_t length = ids.size(1);
  at::Tensor x = at::embedding(token, ids) + position.slice(0, 0, length);
  at::Tensor shifted = ids;
  for (const at::Tensor& table : previous) {
    shifted = Shifted(shifted);
    x = x + at::embedding(table, shifted);
  }
  return x;
}

// A part has the rows of its own words. Other tokens contribute zeros, and the sum over the parts
// is the whole embedding.
at::Tensor EmbedPart(const at::Tensor& ids, const at::Tensor& token,
                     std::span<const at::Tensor> previous, int64_t first_word) {
  const auto rows = [&](const at::Tensor& table, const at::Tensor& words) {
    const at::Tensor own = words - first_word;
    const at::Tensor absent = (own < 0).logical_or(own >= table.size(0));
    return at::embedding(table, own.clamp(0, table.size(0) - 1))
        .masked_fill(absent.unsqueeze(-1), 0);
  };
  at::Tensor x = rows(token, ids);
  at::Tensor shifted = ids;
  for (const at::Tensor& table : previous) {
    shifted = Shifted(shifted);
    x = x + rows(table, shifted);
  }
  return x;
}

at::Tensor SummedCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum);
}

}  // namespace longhaul::trainer
