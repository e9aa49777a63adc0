#include "trainer/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>

#include "base/check.h"
#include "trainer/operators.h"
#include "trainer/tensor_pool.h"

namespace longhaul::trainer {
namespace {

struct Layer {
  LayerNorm attention_norm;
  Linear qkv;
  Linear output;
  LayerNorm mlp_norm;
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
  LayerNorm norm;
  at::Tensor head;
  at::Tensor future;  // [sequence, sequence]: -inf where the key comes after the query

  // [batch, length] token ids -> [batch * length, vocabulary]
  at::Tensor Logits(const at::Tensor& ids) const {
    const int64_t batch = ids.size(0);
    const int64_t length = ids.size(1);
    at::Tensor x = Embed(ids, token, position, previous).view({batch * length, hidden});
    const at::Tensor mask = future.slice(0, 0, length).slice(1, 0, length);
    for (const Layer& layer : layers) {
      x = x + layer.output(
                  CoreAttention(layer.qkv(layer.attention_norm(x)), mask, batch, length, heads));
      x = x + layer.down(Activation(layer.up(layer.mlp_norm(x))));
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
    return SummedCrossEntropy(logits, targets);
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
    return LayerNorm{leaf(name + ".weight"), leaf(name + ".bias")};
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
  t.future = CausalMask(t.sequence);
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
  InstallTensorPool();
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
