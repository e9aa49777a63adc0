#include "trainer/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <cmath>
#include <limits>

#include "base/check.h"
#include "corpus/corpus.h"

namespace longhaul::trainer {
namespace {

struct Norm {
  at::Tensor weight;
  at::Tensor bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, weight, bias);
  }
};

struct Linear {
  at::Tensor weight;
  at::Tensor bias;

  // On rows: [n, inputs] -> [n, outputs].
  at::Tensor operator()(const at::Tensor& x) const { return at::addmm(bias, x, weight.t()); }
};

struct Layer {
  Norm attention_norm;
  Linear qkv;
  Linear output;
  Norm mlp_norm;
  Linear up;
  Linear down;
};

}  // namespace

struct Gpt::Tensors {
  int64_t heads;
  int64_t hidden;
  int64_t sequence;
  at::Tensor token;
  std::vector<at::Tensor> previous;  // embeddings of the tokens one, two, ... places before
  at::Tensor position;
  std::vector<Layer> layers;
  Norm norm;
  at::Tensor head;
  at::Tensor future;  // [sequence, sequence]: -inf where the key comes after the query

  at::Tensor Attention(const Layer& layer, const at::Tensor& rows, int64_t batch,
                       int64_t length) const {
    const int64_t size = hidden / heads;
    // [batch, length, 3, heads, size] -> 3 x [batch * heads, length, size]
    const at::Tensor qkv = layer.qkv(rows)
                               .view({batch, length, 3, heads, size})
                               .permute({2, 0, 3, 1, 4})
                               .reshape({3, batch * heads, length, size});
    const at::Tensor mask = future.slice(0, 0, length).slice(1, 0, length);
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    const at::Tensor scores = at::baddbmm(mask, qkv[0], qkv[1].transpose(1, 2), 1, scale);
    const at::Tensor mixed = at::bmm(at::softmax(scores, -1), qkv[2]);
    return layer.output(
        mixed.view({batch, heads, length, size}).transpose(1, 2).reshape({batch * length, hidden}));
  }

  // [batch, length] token ids -> [batch, length, hidden]
  at::Tensor Embed(const at::Tensor& ids) const {
    const int64_t length = ids.size(1);
    at::Tensor x = at::embedding(token, ids) + position.slice(0, 0, length);
    // Before the first token of a sample there are separators.
    at::Tensor shifted = ids;
    const at::Tensor before = at::full({ids.size(0), 1}, corpus::kSeparator, at::kLong);
    for (const at::Tensor& table : previous) {
      shifted = at::cat({before, shifted.slice(1, 0, length - 1)}, 1);
      x = x + at::embedding(table, shifted);
    }
    return x;
  }

  // [batch, length] token ids -> [batch * length, vocabulary]
  at::Tensor Logits(const at::Tensor& ids) const {
    const int64_t batch = ids.size(0);
    const int64_t length = ids.size(1);
    at::Tensor x = Embed(ids).view({batch * length, hidden});
    for (const Layer& layer : layers) {
      x = x + Attention(layer, layer.attention_norm(x), batch, length);
      x = x + layer.down(at::gelu(layer.up(layer.mlp_norm(x)), "tanh"));
    }
    return at::mm(norm(x), head.t());
  }

  at::Tensor SummedLoss(std::span<const int64_t> tokens) const {
    const int64_t batch = static_cast<int64_t>(tokens.size()) / (sequence + 1);
    CHECK(batch >= 1 && batch * (sequence + 1) == static_cast<int64_t>(tokens.size()));
    const at::Tensor samples =
        at::from_blob(const_cast<int64_t*>(tokens.data()), {batch, sequence + 1}, at::kLong);
    const at::Tensor logits = Logits(samples.slice(1, 0, sequence));
    const at::Tensor targets = samples.slice(1, 1, sequence + 1).reshape({-1});
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum);
  }
};

Gpt::Gpt(const spec::ModelSpec& model, const ParameterTable& table, std::span<float> weights,
         std::span<float> gradients)
    : tensors_(std::make_unique<Tensors>()) {
  CHECK(weights.size() == table.floats() && gradients.size() == table.floats());
  const auto leaf = [&](const std::string& name) {
    const Parameter& parameter = table.Find(name);
    at::Tensor tensor = at::from_blob(weights.data() + parameter.offset, parameter.shape);
    tensor.set_requires_grad(true);
    // Gradients are accumulated in place where there already is one: into our flat buffer.
    tensor.mutable_grad() = at::from_blob(gradients.data() + parameter.offset, parameter.shape);
    return tensor;
  };
  const auto norm = [&](const std::string& name) {
    return Norm{leaf(name + ".weight"), leaf(name + ".bias")};
  };
  const auto linear = [&](const std::string& name) {
    return Linear{leaf(name + ".weight"), leaf(name + ".bias")};
  };
  Tensors& t = *tensors_;
  t.heads = model.heads;
  t.hidden = model.hidden;
  t.sequence = model.sequence;
  t.token = leaf("model.embedding.token.weight");
  for (uint32_t back = 1; back <= kPreviousTokens; ++back) {
    t.previous.push_back(leaf("model.embedding.previous." + std::to_string(back) + ".weight"));
  }
  t.position = leaf("model.embedding.position.weight");
  for (uint32_t i = 0; i < model.layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i);
    t.layers.push_back({norm(prefix + ".attention.norm"), linear(prefix + ".attention.qkv"),
                        linear(prefix + ".attention.output"), norm(prefix + ".mlp.norm"),
                        linear(prefix + ".mlp.up"), linear(prefix + ".mlp.down")});
  }
  t.norm = norm("model.norm");
  t.head = leaf("model.output.weight");
  t.future = at::full({t.sequence, t.sequence}, -std::numeric_limits<float>::infinity()).triu(1);
}

Gpt::~Gpt() = default;

double Gpt::ForwardBackward(std::span<const int64_t> tokens, double scale) {
  const at::Tensor loss = tensors_->SummedLoss(tokens);
  (loss * scale).backward();
  return loss.item<double>();
}

double Gpt::Loss(std::span<const int64_t> tokens) {
  const at::NoGradGuard no_gradients;
  return tensors_->SummedLoss(tokens).item<double>();
}

std::vector<float> Gpt::NextLogits(std::span<const int64_t> context) {
  const at::NoGradGuard no_gradients;
  const auto length = static_cast<int64_t>(context.size());
  CHECK(length >= 1 && length <= tensors_->sequence);
  const at::Tensor ids =
      at::from_blob(const_cast<int64_t*>(context.data()), {1, length}, at::kLong);
  const at::Tensor last = tensors_->Logits(ids)[length - 1].contiguous();
  return {last.data_ptr<float>(), last.data_ptr<float>() + last.numel()};
}

void PrepareTorch() {
  // A step allocates and frees the same large tensors each time: keep them, instead of mapping and
  // zeroing pages anew.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  at::set_num_threads(1);
  spec::ModelSpec tiny;
  tiny.layers = 1;
  tiny.hidden = 32;
  tiny.sequence = 16;
  const ParameterTable table(tiny);
  std::vector<float> weights(table.floats());
  std::vector<float> gradients(table.floats());
  Initialise(table, 1, weights);
  Gpt model(tiny, table, weights, gradients);
  const std::vector<int64_t> tokens(17, 0);
  (void)model.ForwardBackward(tokens, 1);
}

}  // namespace longhaul::trainer
