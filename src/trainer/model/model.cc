#include "trainer/model/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "base/check.h"
#include "trainer/model/operators.h"
#include "trainer/model/tensor_pool.h"
#include "trainer/parallel/tensor_parallel.h"
#include "trainer/trace/torch_hooks.h"

namespace longhaul::trainer {

struct Gpt::Tensors {
  struct Layer {
    LayerNorm attention_norm;
    Linear qkv;
    Linear output;
    LayerNorm mlp_norm;
    Linear up;
    Linear down;
  };

  ModelPart part;
  int64_t heads;  // here
  int64_t hidden;
  int64_t sequence;
  int64_t head_size;
  int64_t first_word;
  int first_layer;
  at::Tensor token;
  std::vector<at::Tensor> previous;  // embeddings of the tokens one, two, ... places before
  at::Tensor position;
  std::vector<Layer> layers;
  LayerNorm norm;
  at::Tensor head;
  at::Tensor future;  // [sequence, sequence]: -inf where the key comes after the query
  TensorParallel parallel;

  Recorder* recorder = nullptr;  // null: no recorder

  // Runs `operation` under a name of the device file's kinds.
  template <typename Operation>
  at::Tensor Named(const OperatorLabel& label, Operation operation) {
    const RecordedOperator recorded(recorder, label);
    return operation();
  }

  // [batch, length] token ids -> [batch * length, hidden]
  at::Tensor Begin(const at::Tensor& ids) {
    const int64_t rows = ids.numel();
    const OperatorLabel label{"embedding", "embedding", -1, {Size(rows), Size(hidden)}};
    if (parallel.alone()) {
      return Named(label, [&] {
        return Embed(ids, token, position, previous).view({rows, hidden});
      });
    }
    at::Tensor x =
        Named(label, [&] { return EmbedPart(ids, token, previous, first_word).contiguous(); });
    x = Leave(x, -1);
    return Named(label, [&] {
      return (x + position.slice(0, 0, ids.size(1))).view({rows, hidden});
    });
  }

  at::Tensor Norm(const LayerNorm& layer_norm, const at::Tensor& x, const char* name, int layer) {
    return Named({name, "norm", layer, {Size(x.size(0)), Size(hidden)}},
                 [&] { return layer_norm(x); });
  }

  at::Tensor Enter(const at::Tensor& x, int layer) {
    if (parallel.alone()) return x;
    return Named({"tensor.enter", "", layer, {}}, [&] { return EnterParallel(x, parallel); });
  }
  at::Tensor Leave(const at::Tensor& x, int layer) {
    return Named({"tensor.leave", "", layer, {}}, [&] { return LeaveParallel(x, parallel); });
  }

  // A product whose outputs are cut over the parts, or one that isn't cut.
  at::Tensor Matmul(const Linear& linear, const at::Tensor& x, const char* name, int layer) {
    return Named(MatmulLabel(name, layer, x, linear.weight), [&] { return linear(x); });
  }

  // A product whose inputs are cut over the parts.
  // The sum over the parts comes before the bias, so that the bias is added once and not by each
  // part.
  at::Tensor RowMatmul(const Linear& linear, const at::Tensor& x, const char* name, int layer) {
    if (parallel.alone()) return Matmul(linear, x, name, layer);
    const OperatorLabel label = MatmulLabel(name, layer, x, linear.weight);
    at::Tensor y = Named(label, [&] { return at::mm(x, linear.weight.t()); });
    y = Leave(y, layer);
    return Named(label, [&] { return y + linear.bias; });
  }

  // The residual stream through the layers, [batch * length, hidden].
  at::Tensor Through(at::Tensor x, int64_t batch, int64_t length) {
    const at::Tensor mask = future.slice(0, 0, length).slice(1, 0, length);
    int number = first_layer;
    for (const Layer& layer : layers) {
      x = Add(x, Attention(layer, x, mask, batch, length, number), number);
      x = Add(x, Mlp(layer, x, number), number);
      ++number;
    }
    return x;
  }

  at::Tensor Attention(const Layer& layer, const at::Tensor& x, const at::Tensor& mask,
                       int64_t batch, int64_t length, int number) {
    const OperatorLabel label{
        "attention", "attention", number, {Size(batch * heads), Size(length), Size(head_size)}};
    at::Tensor qkv =
        Matmul(layer.qkv, Enter(Norm(layer.attention_norm, x, "attention.norm", number), number),
               "attention.qkv", number);
    const at::Tensor mixed =
        Named(label, [&] { return CoreAttention(std::move(qkv), mask, batch, length, heads); });
    return RowMatmul(layer.output, mixed, "attention.output", number);
  }

  at::Tensor Mlp(const Layer& layer, const at::Tensor& x, int number) {
    const at::Tensor wide = Matmul(
        layer.up, Enter(Norm(layer.mlp_norm, x, "mlp.norm", number), number), "mlp.up", number);
    const at::Tensor activated =
        Named({"mlp.activation", "activation", number, {Size(wide.size(0)), Size(wide.size(1))}},
              [&] { return Activation(wide); });
    return RowMatmul(layer.down, activated, "mlp.down", number);
  }

  at::Tensor Add(const at::Tensor& x, const at::Tensor& y, int number) {
    return Named({"residual", "residual", number, {Size(x.size(0)), Size(hidden)}},
                 [&] { return x + y; });
  }

  // The output projection is cut over the vocabulary. Each part has the logits of its own words
  // only.
  at::Tensor Logits(const at::Tensor& x) {
    const at::Tensor normed = Enter(Norm(norm, x, "norm", -1), -1);
    return Named(MatmulLabel("output", -1, normed, head), [&] { return at::mm(normed, head.t()); });
  }

  at::Tensor SummedLoss(const at::Tensor& logits, const at::Tensor& targets) {
    return Named({"loss", "loss", -1, {Size(logits.size(0)), Size(logits.size(1))}}, [&] {
      return parallel.alone() ? SummedCrossEntropy(logits, targets)
                              : SummedVocabularyLoss(logits, targets, first_word, parallel);
    });
  }

  static double Size(int64_t size) { return static_cast<double>(size); }
  static OperatorLabel MatmulLabel(const char* name, int layer, const at::Tensor& x,
                                   const at::Tensor& weight) {
    return {name, "matmul", layer, {Size(x.size(0)), Size(weight.size(0)), Size(x.size(1))}};
  }
};

Gpt::Gpt(const spec::ModelSpec& model, const ParameterTable& table, std::span<float> weights,
         std::span<float> gradients, Group* tensor)
    : tensors_(std::make_unique<Tensors>()) {
  CHECK(weights.size() == table.floats());
  CHECK(gradients.empty() || gradients.size() == table.floats());
  const ModelPart& part = table.part();
  const auto leaf = [&](const std::string& name) {
    const Parameter& parameter = table.Find(name);
    at::Tensor values = at::from_blob(weights.data() + parameter.offset, parameter.shape);
    if (gradients.empty()) return values;
    values.set_requires_grad(true);
    // Gradients are accumulated in place where there already is one: into our flat buffer.
    values.mutable_grad() = at::from_blob(gradients.data() + parameter.offset, parameter.shape);
    return values;
  };
  const auto norm = [&](const std::string& name) {
    return LayerNorm{leaf(name + ".weight"), leaf(name + ".bias")};
  };
  const auto linear = [&](const std::string& name) {
    return Linear{leaf(name + ".weight"), leaf(name + ".bias")};
  };
  Tensors& t = *tensors_;
  t.part = part;
  t.parallel.group = tensor;
  CHECK((part.tensor == 1) == t.parallel.alone());
  t.heads = model.heads / part.tensor;
  t.head_size = model.hidden / model.heads;
  t.hidden = model.hidden;
  t.sequence = model.sequence;
  t.first_word = CutOf(model.vocabulary, part).begin;
  if (part.first()) {
    t.token = leaf("model.embedding.token.weight");
    for (uint32_t back = 1; back <= kPreviousTokens; ++back) {
      t.previous.push_back(leaf("model.embedding.previous." + std::to_string(back) + ".weight"));
    }
    t.position = leaf("model.embedding.position.weight");
  }
  const auto layers = spec::LayersOfStage(model.layers, part.pipeline, part.stage);
  t.first_layer = static_cast<int>(layers.begin);
  for (uint32_t i = layers.begin; i < layers.end; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i);
    t.layers.push_back({norm(prefix + ".attention.norm"), linear(prefix + ".attention.qkv"),
                        linear(prefix + ".attention.output"), norm(prefix + ".mlp.norm"),
                        linear(prefix + ".mlp.up"), linear(prefix + ".mlp.down")});
  }
  if (part.last()) {
    t.norm = norm("model.norm");
    t.head = leaf("model.output.weight");
  }
  t.future = CausalMask(t.sequence);
}

Gpt::~Gpt() = default;

at::Tensor Gpt::Forward(const at::Tensor& input, std::span<const int64_t> tokens) {
  Tensors& t = *tensors_;
  const int64_t length = t.sequence;
  at::Tensor samples;
  int64_t batch = 0;
  if (t.part.first() || t.part.last()) {
    batch = static_cast<int64_t>(tokens.size()) / (length + 1);
    CHECK(batch >= 1 && batch * (length + 1) == static_cast<int64_t>(tokens.size()));
    samples = at::from_blob(const_cast<int64_t*>(tokens.data()), {batch, length + 1}, at::kLong);
  } else {
    batch = input.size(0) / length;
  }
  at::Tensor x = t.part.first() ? t.Begin(samples.slice(1, 0, length)) : input;
  x = t.Through(std::move(x), batch, length);
  if (!t.part.last()) return x;
  const at::Tensor logits = t.Logits(x);
  // The stream is not needed after the logits; its memory is free for them.
  x.reset();
  const at::Tensor targets = samples.slice(1, 1, length + 1).reshape({-1});
  return t.SummedLoss(logits, targets);
}

void Gpt::Record(Recorder* recorder) { tensors_->recorder = recorder; }

void Gpt::Backward(const at::Tensor& loss, double scale) { (loss * scale).backward(); }

const Status& Gpt::failure() const { return tensors_->parallel.failure; }

std::vector<float> Gpt::NextLogits(std::span<const int64_t> context) {
  const c10::NoGradGuard no_gradients;
  Tensors& t = *tensors_;
  const auto length = static_cast<int64_t>(context.size());
  CHECK(t.part.whole() && length >= 1 && length <= t.sequence);
  const at::Tensor ids =
      at::from_blob(const_cast<int64_t*>(context.data()), {1, length}, at::kLong);
  const at::Tensor last = t.Logits(t.Through(t.Begin(ids), 1, length))[length - 1].contiguous();
  return {last.data_ptr<float>(), last.data_ptr<float>() + last.numel()};
}

// A forward and a backward pass of a tiny model load and initialise what libtorch needs. In a fork
// server this happens once, before the workers are forked.
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
  model.Backward(model.Forward({}, tokens), 1);
}

}  // namespace longhaul::trainer
