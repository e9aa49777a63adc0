#include "training/model/operators.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <limits>
#include <string>

namespace longhaul::training {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor Rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Not arguments of the graph: their gradients don't pass through it.
struct Operands {
  at::Tensor weight;
  at::Tensor gradient;
  at::Tensor bias;  // undefined: none, as is its gradient
  at::Tensor bias_gradient;
  DeferredGradients* deferred = nullptr;
};

class Product : public Function<Product> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const Operands& operands) {
    context->save_for_backward({x});
    // Not as saved variables: a weight's memory may be given back and refilled until the backward.
    context->saved_data["weight"] = operands.weight;
    context->saved_data["gradient"] = operands.gradient;
    context->saved_data["bias_gradient"] = operands.bias_gradient;
    context->saved_data["deferred"] =
        static_cast<int64_t>(reinterpret_cast<intptr_t>(operands.deferred));
    at::Tensor y = at::matmul(x, operands.weight.t());
    return operands.bias.defined() ? y.add_(operands.bias) : y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor& dy = gradients[0];
    auto* deferred = reinterpret_cast<DeferredGradients*>(context->saved_data["deferred"].toInt());
    const auto work = [x, dy, gradient = context->saved_data["gradient"].toTensor(),
                       bias_gradient = context->saved_data["bias_gradient"].toTensor()]() mutable {
      const at::Tensor rows = Rows(dy);
      gradient.addmm_(rows.t(), Rows(x));
      if (bias_gradient.defined()) bias_gradient.add_(rows.sum(0));
    };
    at::Tensor dx = at::matmul(dy, context->saved_data["weight"].toTensor());
    if (deferred->collects()) {
      deferred->Add(work);
    } else {
      auto now = work;
      now();
    }
    return {dx, {}};
  }
};

}  // namespace

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon) * weight;
}

at::Tensor Norm(const ModelConfig& config, const at::Tensor& x, const WeightSet& weights,
                const std::string& name) {
  const at::Tensor& weight = weights[name + ".weight"].value;
  if (config.shape.normalization == spec::Normalization::kRms) {
    return RmsNorm(x, weight, config.norm_epsilon);
  }
  return at::layer_norm(x, {x.size(-1)}, weight, weights[name + ".bias"].value,
                        config.norm_epsilon);
}

Rotation RotationOf(const at::Tensor& positions, int64_t width, double theta, at::ScalarType type) {
  const int64_t half = width / 2;
  // The angles in double: in single precision those of far positions would be off.
  const at::Tensor rates =
      at::pow(theta, at::arange(half, at::kDouble) / static_cast<double>(-half));
  const at::Tensor angles = at::outer(positions.to(at::kDouble), rates);
  return {angles.cos().to(type).view({-1, 1, 1, half}),
          angles.sin().to(type).view({-1, 1, 1, half})};
}

at::Tensor Rotate(const at::Tensor& x, const Rotation& rotation) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  return at::cat({first * rotation.cosine - second * rotation.sine,
                  second * rotation.cosine + first * rotation.sine},
                 -1);
}

at::Tensor Activate(const ModelConfig& config, const at::Tensor& x) {
  switch (config.shape.activation) {
    case spec::Activation::kSilu:
      return at::silu(x);
    case spec::Activation::kSquaredRelu:
      return at::relu(x).square();
    case spec::Activation::kGelu:
      break;
  }
  return at::gelu(x, config.exact_gelu ? "none" : "tanh");
}

at::Tensor Multiply(const at::Tensor& x, const Weight& weight, const Weight* bias,
                    DeferredGradients& deferred) {
  Operands operands{weight.value.detach(), weight.gradient, {}, {}, &deferred};
  if (bias != nullptr) {
    operands.bias = bias->value.detach();
    operands.bias_gradient = bias->gradient;
  }
  return Product::apply(x, operands);
}

at::Tensor Multiply(const at::Tensor& x, const WeightSet& weights, const std::string& name,
                    DeferredGradients& deferred) {
  const std::string bias = name + ".bias";
  return Multiply(x, weights[name + ".weight"], weights.Has(bias) ? &weights[bias] : nullptr,
                  deferred);
}

at::Tensor CausalMask(const at::Tensor& query_positions, const at::Tensor& key_positions,
                      at::ScalarType type) {
  const at::Tensor later = key_positions.unsqueeze(0) > query_positions.unsqueeze(1);
  return at::zeros(later.sizes(), type)
      .masked_fill(later, -std::numeric_limits<double>::infinity());
}

}  // namespace longhaul::training
