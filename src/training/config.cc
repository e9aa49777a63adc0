#include "training/config.h"

#include <string>

namespace longhaul::training {

Status CheckTrainable(const ModelConfig& config) {
  const spec::Model& shape = config.shape;
  RETURN_IF_ERROR(spec::CheckModel(shape));
  const auto refuse = [](const std::string& what) {
    return Unimplemented("the training engine does not compute " + what);
  };
  if (shape.multi_latent.has_value()) return refuse("multi-head latent attention");
  if (shape.sliding_window.has_value()) return refuse("attention in a sliding window");
  if (shape.position == spec::Position::kAlibi) return refuse("ALiBi positions");
  if (shape.dropout) return refuse("dropout: set its probability to 0");
  if (shape.multi_token_prediction_layers > 0) return refuse("multi-token prediction");
  if (shape.position == spec::Position::kRope && shape.head_dim % 2 != 0) {
    return refuse("rotary positions with an odd head_dim (" + std::to_string(shape.head_dim) + ")");
  }
  if (!shape.experts.has_value()) return {};
  const spec::Experts& experts = *shape.experts;
  if (experts.capacity_factor.has_value()) return refuse("experts with a limited capacity");
  if (experts.groups > 1) return refuse("routing to groups of experts");
  if (experts.router_bias) return refuse("a bias of the router");
  return {};
}

}  // namespace longhaul::training
