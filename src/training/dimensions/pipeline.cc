#include "training/dimensions/pipeline.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "training/dimensions/tensor.h"
#include "training/model/block.h"

namespace longhaul::training {
namespace {

using schedule::Action;
using schedule::Kind;

// Both directions of a micro batch between two stages have tags of their own.
int64_t TagOf(const schedule::Shape& shape, const schedule::Transfer& transfer) {
  return (int64_t{transfer.micro_batch} * shape.stages() + transfer.stage) * 2 +
         (transfer.forward ? 0 : 1);
}

}  // namespace

std::vector<int32_t> LayersAndEnds(const ModelConfig& config, const Layout& layout,
                                   uint32_t stage) {
  std::vector<int32_t> layers;
  if (stage == 0) layers.push_back(kEmbedding);
  const Cut own = LayersOfStage(config, layout, stage);
  for (int64_t layer = own.begin; layer < own.end; ++layer) {
    layers.push_back(static_cast<int32_t>(layer));
  }
  if (stage + 1 == layout.stages()) layers.push_back(kOutput);
  return layers;
}

std::vector<int32_t> LayersOfRank(const ModelConfig& config, const Layout& layout,
                                  uint32_t rank_of_pipeline) {
  std::vector<int32_t> all;
  for (uint32_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const std::vector<int32_t> layers =
        LayersAndEnds(config, layout, chunk * layout.pipeline + rank_of_pipeline);
    all.insert(all.end(), layers.begin(), layers.end());
  }
  return all;
}

Pipeline::Pipeline(RankContext& rank, SlicedParameters& parameters, schedule::Schedule schedule,
                   uint32_t sequences, at::ScalarType type)
    : rank_(rank),
      parameters_(parameters),
      schedule_(std::move(schedule)),
      stream_like_(
          at::empty({rank.positions.size(0) / (rank.layout.sequence ? rank.layout.tensor : 1),
                     int64_t{sequences}, int64_t{rank.config.shape.hidden}},
                    type)) {
  CHECK(schedule_.shape.ranks == rank.layout.pipeline);
  CHECK(schedule_.shape.chunks == rank.layout.chunks);
}

PipelineSums Pipeline::Run(const PipelineRun& run) {
  sums_ = {};
  passages_.clear();
  for (const schedule::Group& group : schedule_.ranks[rank_.place.stage]) {
    // What is posted together: a rank sends before it waits.
    for (const Action& action : group) {
      if (action.Computes() || action.Sends()) Do(action, run);
    }
    for (const Action& action : group) {
      if (!action.Computes() && !action.Sends()) Do(action, run);
    }
  }
  passages_.clear();
  return sums_;
}

void Pipeline::Do(const Action& action, const PipelineRun& run) {
  switch (action.kind) {
    case Kind::kForward:
      return Forward(action, run);
    case Kind::kBackward:
      return Backward(action, run);
    case Kind::kWeights:
      return Weights(action);
    default:
      return Transfer(action);
  }
}

void Pipeline::Compute(Segment& segment, const MicroBatch& batch) {
  const WeightSet& weights = parameters_.Of(segment.layer);
  if (segment.layer == kEmbedding) {
    segment.output = EmbedTokens(batch.tokens, weights, rank_);
  } else if (segment.layer == kOutput) {
    segment.output = OutputForward(segment.input, batch.targets, batch.mask, weights, rank_);
  } else {
    LayerOutput output =
        LayerForward(segment.input, static_cast<uint32_t>(segment.layer), weights, rank_);
    segment.output = std::move(output.values);
    segment.balance = std::move(output.balance);
  }
}

void Pipeline::Forward(const Action& action, const PipelineRun& run) {
  const uint32_t stage = schedule_.shape.StageOf(rank_.place.stage, action.chunk);
  Passage& passage = passages_[{action.chunk, action.micro_batch}];
  const bool first = stage == 0;
  const bool last = stage + 1 == schedule_.shape.stages();
  if (first || last) passage.batch = run.load(action.micro_batch);
  at::Tensor stream = std::move(passage.stream);
  for (const int32_t layer : LayersAndEnds(rank_.config, rank_.layout, stage)) {
    Segment& segment = passage.segments.emplace_back();
    segment.layer = layer;
    if (layer != kEmbedding) segment.input = stream.detach().set_requires_grad(true);
    parameters_.Use(layer);
    // The output's loss is needed at once, so its graph is kept.
    const bool forgets = rank_.layout.recompute && layer >= 0;
    {
      const at::AutoGradMode mode(!forgets);
      Compute(segment, passage.batch);
    }
    parameters_.Release(layer);
    stream = segment.output.detach();
    if (segment.balance.defined()) sums_.balance += segment.balance.item<double>();
    if (forgets) segment.output = segment.balance = at::Tensor();
  }
  if (last) {
    sums_.loss += stream.item<double>();
    if (rank_.bitwise) sums_.fixed_loss.Add(stream.item<double>());
  } else if (schedule::HasRemoteNeighbour(schedule_.shape, stage, /*after=*/true)) {
    passage.stream = stream;
  } else {
    passages_[{schedule_.shape.ChunkOf(stage + 1), action.micro_batch}].stream = stream;
  }
}

void Pipeline::BackwardThrough(Segment& segment, Passage& passage, const PipelineRun& run) {
  parameters_.Use(segment.layer);
  if (!segment.output.defined()) Compute(segment, passage.batch);
  torch::autograd::variable_list outputs = {segment.output};
  torch::autograd::variable_list gradients = {
      segment.layer == kOutput ? at::full({}, run.loss_scale, segment.output.options())
                               : passage.gradient};
  if (segment.balance.defined()) {
    outputs.push_back(segment.balance);
    gradients.push_back(at::full({}, run.balance_scale, segment.balance.options()));
  }
  torch::autograd::backward(outputs, gradients);
  parameters_.Release(segment.layer);
  if (segment.input.defined()) passage.gradient = segment.input.grad();
}

void Pipeline::Backward(const Action& action, const PipelineRun& run) {
  Passage& passage = passages_.at({action.chunk, action.micro_batch});
  rank_.deferred.Collect(true);
  for (auto segment = passage.segments.rbegin(); segment != passage.segments.rend(); ++segment) {
    BackwardThrough(*segment, passage, run);
    passage.deferred.push_back(rank_.deferred.Take());
    // In bitwise mode a sample's gradients are summed apart from those of others.
    if (rank_.bitwise) Weights(passage.deferred.back(), segment->layer, action.micro_batch);
    segment->input = segment->output = segment->balance = at::Tensor();
  }
  rank_.deferred.Collect(false);
  const uint32_t stage = schedule_.shape.StageOf(rank_.place.stage, action.chunk);
  if (stage > 0 && !schedule::HasRemoteNeighbour(schedule_.shape, stage, /*after=*/false)) {
    passages_[{schedule_.shape.ChunkOf(stage - 1), action.micro_batch}].gradient =
        std::move(passage.gradient);
  }
}

void Pipeline::Weights(Deferred& deferred, int32_t layer, uint32_t micro_batch) {
  const at::NoGradGuard no_gradients;
  for (const auto& work : deferred) work();
  deferred.clear();
  parameters_.AddGradients(layer, micro_batch);
}

void Pipeline::Weights(const Action& action) {
  Passage& passage = passages_.at({action.chunk, action.micro_batch});
  for (size_t i = 0; !rank_.bitwise && i < passage.deferred.size(); ++i) {
    Weights(passage.deferred[i], passage.segments[passage.segments.size() - 1 - i].layer,
            action.micro_batch);
  }
  // The gradient of the input may still have to be sent.
  passage.segments.clear();
  passage.deferred.clear();
  passage.batch = {};
}

void Pipeline::Transfer(const Action& action) {
  const schedule::Transfer transfer =
      schedule::TransferOf(schedule_.shape, rank_.place.stage, action);
  Passage& passage = passages_[{action.chunk, action.micro_batch}];
  Communicator& stages = *rank_.pipeline;
  const int64_t tag = TagOf(schedule_.shape, transfer);
  if (action.kind == Kind::kSendForward) {
    stages.Send(passage.stream, transfer.to, tag);
    passage.stream = at::Tensor();
  } else if (action.kind == Kind::kSendBackward) {
    stages.Send(passage.gradient, transfer.to, tag);
    passage.gradient = at::Tensor();
  } else {
    at::Tensor values = stages.Receive(stream_like_, transfer.from, tag);
    (action.kind == Kind::kReceiveForward ? passage.stream : passage.gradient) = std::move(values);
  }
}

}  // namespace longhaul::training
