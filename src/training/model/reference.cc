#include "training/model/reference.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/check.h"
#include "training/parameters.h"

namespace longhaul::training {
namespace {

class Reference {
 public:
  Reference(const ModelConfig& config, const WholeWeights& weights)
      : config_(config), shape_(config.shape), weights_(weights) {}

  at::Tensor Logits(const at::Tensor& tokens) {
    const at::Tensor& embedding = Weight("model.embedding.token.weight");
    at::Tensor x = at::embedding(embedding, tokens);
    const int64_t length = tokens.size(1);
    if (shape_.position == spec::Position::kLearned) {
      x = x + Weight("model.embedding.position.weight").narrow(0, 0, length);
    }
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      x = x + Attention(prefix + "attention.", Norm(prefix + "attention.norm", x));
      const at::Tensor normed = Norm(prefix + "mlp.norm", x);
      x = x + (shape_.has_experts(layer) ? Mixture(prefix, normed) : Ffn(prefix + "mlp.", normed));
    }
    x = Norm("model.norm", x);
    const at::Tensor& head = shape_.tied_embeddings ? embedding : Weight("model.output.weight");
    return at::matmul(x, head.t());
  }

  at::Tensor balance() const { return balance_; }

 private:
  const at::Tensor& Weight(const std::string& name) const {
    const auto found = weights_.find(name);
    CHECK(found != weights_.end()) << "no weight named " << name;
    return found->second;
  }

  at::Tensor Linear(const std::string& name, const at::Tensor& x) const {
    const at::Tensor y = at::matmul(x, Weight(name + ".weight").t());
    const auto bias = weights_.find(name + ".bias");
    return bias == weights_.end() ? y : y + bias->second;
  }

  at::Tensor Rms(const std::string& name, const at::Tensor& x) const {
    const at::Tensor size = at::sqrt(x.square().mean(-1, true) + config_.norm_epsilon);
    return x / size * Weight(name);
  }

  at::Tensor Norm(const std::string& name, const at::Tensor& x) const {
    if (shape_.normalization == spec::Normalization::kRms) return Rms(name + ".weight", x);
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor size = at::sqrt(centred.square().mean(-1, true) + config_.norm_epsilon);
    return centred / size * Weight(name + ".weight") + Weight(name + ".bias");
  }

  // [batch, heads, length, width]; each pair (i, i + width / 2) is a complex number that is turned.
  at::Tensor Turn(const at::Tensor& x) const {
    if (shape_.position != spec::Position::kRope) return x;
    const int64_t half = x.size(-1) / 2;
    at::Tensor turned = at::empty({2, x.size(2), half}, at::kDouble);
    for (int64_t position = 0; position < x.size(2); ++position) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(config_.rope_theta, -static_cast<double>(i) / static_cast<double>(half));
        turned[0][position][i] = std::cos(angle);
        turned[1][position][i] = std::sin(angle);
      }
    }
    turned = turned.to(x.scalar_type());
    const auto halves = x.split(half, -1);
    return at::cat({halves[0] * turned[0] - halves[1] * turned[1],
                    halves[0] * turned[1] + halves[1] * turned[0]},
                   -1);
  }

  at::Tensor Attention(const std::string& prefix, const at::Tensor& x) const {
    const int64_t batch = x.size(0);
    const int64_t length = x.size(1);
    const int64_t width = shape_.head_dim;
    const auto heads = [&](const std::string& name, const std::string& norm) {
      at::Tensor part = Linear(prefix + name, x).view({batch, length, -1, width});
      if (shape_.qk_norm && !norm.empty()) part = Rms(prefix + norm + ".weight", part);
      return part.transpose(1, 2);
    };
    const at::Tensor query = Turn(heads("query", "query_norm"));
    const int64_t repeats = shape_.heads / shape_.kv_heads;
    const at::Tensor key = Turn(heads("key", "key_norm")).repeat_interleave(repeats, 1);
    const at::Tensor value = heads("value", "").repeat_interleave(repeats, 1);
    const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor scores =
        (at::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(width)))
            .masked_fill(future, -std::numeric_limits<double>::infinity());
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), value);
    return Linear(prefix + "output", mixed.transpose(1, 2).reshape({batch, length, -1}));
  }

  at::Tensor Activate(const at::Tensor& x) const {
    if (shape_.activation == spec::Activation::kSilu) return x * at::sigmoid(x);
    if (shape_.activation == spec::Activation::kSquaredRelu) return at::relu(x) * at::relu(x);
    return at::gelu(x, config_.exact_gelu ? "none" : "tanh");
  }

  at::Tensor Ffn(const std::string& prefix, const at::Tensor& x) const {
    const at::Tensor up = Linear(prefix + "up", x);
    if (!shape_.gated_ffn) return Linear(prefix + "down", Activate(up));
    return Linear(prefix + "down", Activate(Linear(prefix + "gate", x)) * up);
  }

  // Every expert sees every token, with the weight 0 where it was not chosen.
  at::Tensor Mixture(const std::string& prefix, const at::Tensor& x) {
    const spec::Experts& experts = *shape_.experts;
    const at::Tensor shares = at::softmax(at::matmul(x, Weight(prefix + "router.weight").t()), -1);
    const auto [highest, chosen] = at::topk(shares, experts.top_k, -1);
    const at::Tensor mask = at::zeros_like(shares).scatter(-1, chosen, 1.0);
    at::Tensor gates = shares * mask;
    if (config_.normalised_routing) gates = gates / gates.sum(-1, true);
    Balance(shares, mask);
    at::Tensor y = at::zeros_like(x);
    for (uint32_t e = 0; e < experts.count; ++e) {
      const auto weight = [&](const char* name) {
        return Weight(prefix + "experts." + name + ".weight")[e].t();
      };
      const at::Tensor up = at::matmul(x, weight("up"));
      const at::Tensor inner =
          shape_.gated_ffn ? Activate(at::matmul(x, weight("gate"))) * up : Activate(up);
      y = y + at::matmul(inner, weight("down")) * gates.select(-1, e).unsqueeze(-1);
    }
    return experts.shared > 0 ? y + Ffn(prefix + "shared.", x) : y;
  }

  void Balance(const at::Tensor& shares, const at::Tensor& mask) {
    const spec::Experts& experts = *shape_.experts;
    const at::Tensor load = mask.mean(1) * (static_cast<double>(experts.count) / experts.top_k);
    const at::Tensor balance = (load * shares.mean(1)).sum() * config_.balance_loss;
    balance_ = balance_.defined() ? balance_ + balance : balance;
  }

  const ModelConfig& config_;
  const spec::Model& shape_;
  const WholeWeights& weights_;
  at::Tensor balance_;
};

}  // namespace

at::Tensor ReferenceLogits(const ModelConfig& config, const WholeWeights& weights,
                           const at::Tensor& tokens, at::Tensor* balance) {
  Reference reference(config, weights);
  at::Tensor logits = reference.Logits(tokens);
  if (balance != nullptr) {
    *balance =
        reference.balance().defined() ? reference.balance() : at::zeros({}, logits.options());
  }
  return logits;
}

WholeWeights InitialWeights(const ModelConfig& config, uint64_t seed, at::ScalarType type) {
  std::vector<int32_t> layers = {kEmbedding};
  for (uint32_t layer = 0; layer < config.shape.layers; ++layer) {
    layers.push_back(static_cast<int32_t>(layer));
  }
  layers.push_back(kOutput);
  WholeWeights weights;
  for (const int32_t layer : layers) {
    for (const Parameter& parameter : ParametersOf(config, {}, {}, layer)) {
      if (weights.contains(parameter.name)) continue;  // tied
      at::Tensor values = at::empty(parameter.shape, at::kDouble);
      const uint64_t key = InitialKey(parameter, seed);
      double* const data = values.data_ptr<double>();
      for (int64_t i = 0; i < values.numel(); ++i) {
        data[i] = InitialValue(parameter, key, static_cast<uint64_t>(i));
      }
      weights[parameter.name] = values.to(type).set_requires_grad(true);
    }
  }
  return weights;
}

}  // namespace longhaul::training
