// What the computations of a layer know of this rank: the model, the layout, its groups.
#pragma once

#include <memory>
#include <vector>

#include "training/communicator.h"
#include "training/config.h"
#include "training/layout.h"
#include "training/model/operators.h"
#include "training/model/weights.h"

namespace longhaul::training {

struct RankContext {
  // Makes the groups; all ranks call it at the same time. `type` is that of the activations.
  static std::unique_ptr<RankContext> Create(const ModelConfig& config, const Layout& layout,
                                             uint32_t rank, at::ScalarType type,
                                             CommunicatorMaker& maker);

  ModelConfig config;
  Layout layout;
  uint32_t rank = 0;
  bool bitwise = false;  // step.h
  Place place;
  at::Tensor positions;  // of this rank's tokens in their sequence, before the tensor group's cut
  Rotation rotation;     // of these positions; undefined without rotary ones
  // Of the queries here, repeated for the heads that share a head of keys, and the keys of each
  // rank of the context group: [repeats * tokens, tokens].
  std::vector<at::Tensor> masks;
  std::shared_ptr<Communicator> tensor;
  std::shared_ptr<Communicator> context;
  std::shared_ptr<Communicator> expert;  // that hold different experts
  std::shared_ptr<Communicator> pipeline;
  std::shared_ptr<Communicator> world;
  DeferredGradients deferred;
};

}  // namespace longhaul::training
