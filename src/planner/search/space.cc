#include "planner/search/space.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "planner/stage_layers.h"

namespace longhaul::planner::search {
namespace {

using spec::ContextKind;
using spec::Dimension;
using spec::Offload;
using spec::PipelineSchedule;
using spec::Recompute;
using spec::RecomputeKind;

constexpr uint32_t kTokensOfARank = 256;  // fewer and a product is all launch and no work
constexpr uint32_t kSmallestShardGroup = 8;

template <typename T>
bool Allowed(const std::optional<T>& fixed, const T& value) {
  return !fixed || *fixed == value;
}

// The divisors, or the fixed value where it is one.
std::vector<uint32_t> Sizes(uint32_t number, const std::optional<uint32_t>& fixed) {
  if (!fixed) return Divisors(number);
  if (*fixed >= 1 && number % *fixed == 0) return {*fixed};
  return {};
}

// Heads and FFN columns are split evenly. Key-value groups are either split evenly or replicated
// evenly, so one of the two numbers must divide the other.
bool IsLegalTensor(const spec::Model& model, uint32_t tensor) {
  if (model.heads % tensor != 0) return false;
  if (model.ffn_hidden > 0 && model.ffn_hidden % tensor != 0) return false;
  const uint32_t groups = std::max(1u, model.kv_heads);
  return tensor % groups == 0 || groups % tensor == 0;
}

// A ring divides the sequence into two pieces for each rank. The all-to-all redistributes heads, so
// the heads of a tensor rank must be divisible.
std::vector<ContextKind> ContextKinds(const PlanRequest& job, uint32_t tensor, uint32_t context) {
  if (context == 1) return {ContextKind::kRing};
  std::vector<ContextKind> kinds;
  const uint32_t sequence = job.model.sequence_length;
  if (sequence % context != 0 || sequence / context < kTokensOfARank) return kinds;
  if (sequence % (2 * context) == 0) kinds.push_back(ContextKind::kRing);
  if ((job.model.heads / tensor) % context == 0) kinds.push_back(ContextKind::kAllToAll);
  kinds.push_back(ContextKind::kAllGather);
  std::erase_if(kinds, [&job](ContextKind kind) { return !Allowed(job.fixed.context_kind, kind); });
  return kinds;
}

// The ranks of one pipeline stage hold the experts; the product of both expert sizes must divide
// their number. The product is 64-bit, as both factors may be large in a fixed request.
void AddExpertShapes(const PlanRequest& job, Shape shape, std::vector<Shape>& shapes) {
  if (!job.model.experts) {
    if (job.fixed.expert.value_or(1) != 1 || job.fixed.expert_tensor.value_or(1) != 1) return;
    shapes.push_back(shape);
    return;
  }
  const uint32_t ranks = shape.data * shape.context * shape.tensor;
  std::vector<uint32_t> tensors = {1};
  if (shape.tensor > 1) tensors.push_back(shape.tensor);
  if (job.fixed.expert_tensor) tensors = {*job.fixed.expert_tensor};
  for (const uint32_t expert : Sizes(job.model.experts->count, job.fixed.expert)) {
    for (const uint32_t expert_tensor : tensors) {
      if (expert_tensor == 0 || job.model.experts->ffn_hidden % expert_tensor != 0) continue;
      if (ranks % (uint64_t{expert} * expert_tensor) != 0) continue;
      shape.expert = expert;
      shape.expert_tensor = expert_tensor;
      shapes.push_back(shape);
    }
  }
}

// Shapes of one tensor, context, pipeline and data size.
void AddShapes(const PlanRequest& job, Shape shape, std::vector<Shape>& shapes) {
  std::vector<Shape> without_experts;
  for (const ContextKind kind : ContextKinds(job, shape.tensor, shape.context)) {
    for (const bool split : {true, false}) {
      if (split && shape.tensor == 1) continue;
      if (!split && shape.tensor > 1 && !Allowed(job.fixed.sequence_parallel, false)) continue;
      if (split && !Allowed(job.fixed.sequence_parallel, true)) continue;
      if (split && (job.model.sequence_length / shape.context) % shape.tensor != 0) continue;
      shape.sequence_parallel = split;
      shape.context_kind = kind;
      without_experts.push_back(shape);
    }
  }
  std::vector<Shape> found;
  for (const Shape& each : without_experts) AddExpertShapes(job, each, found);
  // Families together: expert sizes first, then the kinds.
  std::stable_sort(found.begin(), found.end(), [](const Shape& a, const Shape& b) {
    return std::pair(a.expert, a.expert_tensor) < std::pair(b.expert, b.expert_tensor);
  });
  shapes.insert(shapes.end(), found.begin(), found.end());
}

void AddShapesOn(const PlanRequest& job, const GpuCount& gpus, std::vector<Shape>& shapes) {
  const uint32_t devices = gpus.devices;
  for (const uint32_t tensor : Sizes(devices, job.fixed.tensor)) {
    if (!IsLegalTensor(job.model, tensor)) continue;
    for (const uint32_t context : Sizes(devices / tensor, job.fixed.context)) {
      for (const uint32_t pipeline : Sizes(devices / tensor / context, job.fixed.pipeline)) {
        const uint32_t data = devices / tensor / context / pipeline;
        if (pipeline > job.model.layers || !Allowed(job.fixed.data, data)) continue;
        const auto& runs = job.fixed.stage_recompute;
        if (!runs.empty() && runs.back().stage >= pipeline) continue;
        if (job.base.batch.global % data != 0) continue;
        Shape shape;
        shape.gpus = gpus;
        shape.tensor = tensor;
        shape.context = context;
        shape.pipeline = pipeline;
        shape.data = data;
        AddShapes(job, shape, shapes);
      }
    }
  }
}

uint32_t StepMicroBatches(const PlanRequest& job, const Shape& shape, uint32_t micro_batch) {
  return job.base.batch.global / (shape.data * micro_batch);
}

// Whether a single stage has another micro-batch to overlap the experts' exchange with.
bool MayOverlapAlone(const PlanRequest& job, const Shape& shape, uint32_t micro_batch) {
  return job.model.experts && shape.expert > 1 && shape.pipeline == 1 &&
         StepMicroBatches(job, shape, micro_batch) > 1;
}

// Layers of each chunk when the first and the last give up some of an even share; empty where that
// cannot be.
std::vector<uint32_t> UnevenLayers(uint32_t layers, uint32_t chunks, uint32_t first_less,
                                   uint32_t last_less) {
  const uint32_t counted = layers + first_less + last_less;
  const uint32_t each = counted / chunks;
  if (each < first_less || each < last_less || each == 0) return {};
  std::vector<uint32_t> split(chunks, each);
  const uint32_t remainder = counted % chunks;
  const uint32_t begin = (chunks - remainder) / 2;
  for (uint32_t i = 0; i < remainder; ++i) split[begin + i] += 1;
  split.front() -= first_less;
  split.back() -= last_less;
  return split;
}

// The planner's rule first (an empty list of layers), then splits that relieve the ends, where
// embedding and loss are. Splits that equal an earlier one are left out, so that no layout is
// counted twice.
void AddSplits(const PlanRequest& job, const Shape& shape, Stages stages,
               std::vector<Stages>& choices) {
  const uint32_t chunks = shape.pipeline * stages.virtual_pipeline;
  if (job.fixed.layers_per_stage) {
    const auto& fixed = *job.fixed.layers_per_stage;
    const uint64_t sum = std::accumulate(fixed.begin(), fixed.end(), uint64_t{0});
    if (fixed.size() == chunks && sum == job.model.layers) {
      stages.layers = *job.fixed.layers_per_stage;
      choices.push_back(stages);
    }
    return;
  }
  spec::Layout layout;
  layout.pipeline = shape.pipeline;
  layout.virtual_pipeline = stages.virtual_pipeline;
  std::vector<uint32_t> rule(chunks);
  StageLayers(job.model.layers, layout, rule, job.model.multi_token_prediction_layers);
  choices.push_back(stages);
  std::vector<std::vector<uint32_t>> seen = {rule};
  constexpr std::array<std::pair<uint32_t, uint32_t>, 6> kEnds = {
      {{0, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}, {1, 0}}};
  for (const auto& [first_less, last_less] : kEnds) {
    std::vector<uint32_t> split = UnevenLayers(job.model.layers, chunks, first_less, last_less);
    if (split.empty() || std::find(seen.begin(), seen.end(), split) != seen.end()) continue;
    seen.push_back(split);
    stages.layers = std::move(split);
    choices.push_back(stages);
  }
}

bool HasDenseLayer(const spec::Model& model) {
  for (uint32_t i = 0; i < model.layers; ++i) {
    if (!model.has_experts(i)) return true;
  }
  return false;
}

std::vector<Recompute> ModuleChoices(const PlanRequest& job) {
  const spec::Model& model = job.model;
  std::vector<Recompute> choices;
  const bool dense = HasDenseLayer(model);
  for (uint32_t bits = 1; bits < 64; ++bits) {
    Recompute recompute;
    recompute.kind = RecomputeKind::kSelective;
    recompute.modules.layer_norm = (bits & 1) != 0;
    recompute.modules.mlp = (bits & 2) != 0;
    recompute.modules.core_attention = (bits & 4) != 0;
    recompute.modules.mla_up_projection = (bits & 8) != 0;
    recompute.modules.moe_activation = (bits & 16) != 0;
    recompute.modules.moe = (bits & 32) != 0;
    if (recompute.modules.mlp && !dense) continue;
    // Flash attention keeps no scores to drop.
    if (recompute.modules.core_attention && job.base.software.flash_attention) continue;
    if (recompute.modules.mla_up_projection && !model.multi_latent) continue;
    if ((recompute.modules.moe || recompute.modules.moe_activation) && !model.experts) continue;
    if (recompute.modules.moe && recompute.modules.moe_activation) continue;
    choices.push_back(recompute);
  }
  return choices;
}

}  // namespace

std::vector<uint32_t> Divisors(uint32_t number) {
  std::vector<uint32_t> low;
  std::vector<uint32_t> high;
  for (uint32_t d = 1; uint64_t{d} * d <= number; ++d) {
    if (number % d != 0) continue;
    low.push_back(d);
    if (d != number / d) high.push_back(number / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<Shape> Shapes(const PlanRequest& job) {
  std::vector<Shape> shapes;
  for (const GpuCount& gpus : CountsOf(job)) {
    if (Allowed(job.fixed.devices, gpus.devices)) AddShapesOn(job, gpus, shapes);
  }
  return shapes;
}

std::vector<uint32_t> MicroBatches(const PlanRequest& job, const Shape& shape) {
  std::vector<uint32_t> sizes;
  for (const uint32_t size : Sizes(job.base.batch.global / shape.data, job.fixed.micro_batch)) {
    if (StepMicroBatches(job, shape, size) >= shape.pipeline) sizes.push_back(size);
  }
  return sizes;
}

std::vector<Stages> StageChoices(const PlanRequest& job, const Shape& shape, uint32_t micro_batch) {
  std::vector<Stages> choices;
  const bool exchanges = job.model.experts && shape.expert > 1;
  const bool several = MayOverlapAlone(job, shape, micro_batch);
  const auto add = [&](PipelineSchedule schedule, uint32_t chunks) {
    if (!Allowed(job.fixed.schedule, schedule)) return;
    if (!Allowed(job.fixed.virtual_pipeline, chunks)) return;
    const bool always = exchanges && schedule == PipelineSchedule::kDualPipe;
    const bool interleaved =
        schedule == PipelineSchedule::kOneForwardOneBackward && shape.pipeline > 1 && chunks > 1;
    const bool may = always || (exchanges && interleaved) || several;
    for (const bool overlap : {false, true}) {
      if (overlap ? !may : always) continue;
      if (!Allowed(job.fixed.overlap_expert, overlap)) continue;
      AddSplits(job, shape, {schedule, chunks, {}, overlap}, choices);
    }
  };
  // With a single stage all schedules are the same.
  add(PipelineSchedule::kOneForwardOneBackward, 1);
  if (shape.pipeline == 1) return choices;
  add(PipelineSchedule::kGpipe, 1);
  add(PipelineSchedule::kZeroBubbleH1, 1);
  const uint32_t most = job.model.layers / shape.pipeline;
  if (most >= 2) add(PipelineSchedule::kZeroBubbleV, 2);
  if (shape.pipeline % 2 == 0) add(PipelineSchedule::kDualPipe, 1);
  if (StepMicroBatches(job, shape, micro_batch) % shape.pipeline == 0) {
    // One chunk more than fits evenly where embedding and loss count as layers.
    for (uint32_t v = 2; v <= (job.model.layers + 2) / shape.pipeline; ++v) {
      add(PipelineSchedule::kOneForwardOneBackward, v);
    }
  }
  return choices;
}

// The key has just what StageChoices depends on. A reference into the map stays valid when entries
// are added.
const std::vector<Stages>& StageLists::Of(const PlanRequest& job, const Shape& shape,
                                          uint32_t micro_batch) {
  const bool divides = StepMicroBatches(job, shape, micro_batch) % shape.pipeline == 0;
  const bool overlaps = shape.pipeline > 1 ? job.model.experts && shape.expert > 1
                                           : MayOverlapAlone(job, shape, micro_batch);
  const auto [found, fresh] = lists_.try_emplace({shape.pipeline, divides, overlaps});
  if (fresh) found->second = StageChoices(job, shape, micro_batch);
  return found->second;
}

// With one replica there is nothing to shard, so every ZeRO stage is the same layout; only a fixed
// one is kept.
std::vector<States> StateChoices(const PlanRequest& job, const Shape& shape) {
  std::vector<States> choices;
  const uint32_t replicas = shape.data * shape.context;
  const auto add = [&](uint32_t stage, uint32_t group) {
    for (const Offload offload : {Offload::kNone, Offload::kOptimizer, Offload::kActivations}) {
      if (Allowed(job.fixed.offload, offload)) choices.push_back({stage, group, offload});
    }
  };
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    if (!Allowed(job.fixed.zero_stage, stage)) continue;
    if (stage > 0 && replicas == 1 && !job.fixed.zero_stage) continue;
    if (stage == 2 && shape.pipeline > 1) continue;
    if (job.fixed.shard_group) {
      const uint32_t group = *job.fixed.shard_group;
      if (group == 0 || replicas % group == 0) add(stage, group);
      continue;
    }
    add(stage, 0);
    if (stage == 0) continue;
    for (uint32_t group = kSmallestShardGroup; group < replicas; group *= 2) {
      if (replicas % group == 0) add(stage, group);
    }
  }
  return choices;
}

// Lighter choices come before heavier ones, so that a lighter one that fits settles the heavier
// ones. The numbers of full layers ascend, as the bisection in FamilySearch::SkipFull requires; 0
// means all layers and is last.
std::vector<Recompute> RecomputeChoices(const PlanRequest& job, const Shape& shape) {
  if (job.fixed.recompute) return {*job.fixed.recompute};
  std::vector<Recompute> choices(1);
  if (job.recompute_by_stage) {
    choices.emplace_back();
    choices.back().kind = RecomputeKind::kByStage;
  }
  const std::vector<Recompute> modules = ModuleChoices(job);
  choices.insert(choices.end(), modules.begin(), modules.end());
  Recompute full;
  full.kind = RecomputeKind::kFull;
  const uint32_t a_stage = (job.model.layers + shape.pipeline - 1) / shape.pipeline;
  for (uint32_t layers = 1; layers < a_stage; ++layers) {
    full.full_layers = layers;
    choices.push_back(full);
  }
  full.full_layers = 0;
  choices.push_back(full);
  return choices;
}

bool IsLighter(const Recompute& first, const Recompute& second) {
  if (first.kind == RecomputeKind::kNone || first == second) return true;
  if (first.kind == RecomputeKind::kByStage || second.kind == RecomputeKind::kByStage) return false;
  if (second.kind == RecomputeKind::kNone) return false;
  if (second.kind == RecomputeKind::kFull && second.full_layers == 0) return true;
  if (first.kind != second.kind) return false;
  if (first.kind == RecomputeKind::kFull) {
    return first.full_layers != 0 && first.full_layers <= second.full_layers;
  }
  const spec::RecomputeModules& a = first.modules;
  const spec::RecomputeModules& b = second.modules;
  return (!a.core_attention || b.core_attention) && (!a.layer_norm || b.layer_norm) &&
         (!a.moe_activation || b.moe_activation || b.moe) &&
         (!a.mla_up_projection || b.mla_up_projection) && (!a.mlp || b.mlp) && (!a.moe || b.moe);
}

// Orders are equal if every dimension with more than one rank has the same stride. The usual order
// stands for its class, so it is first and wins a tie.
std::vector<spec::PlacementOrder> Orders(const PlanRequest& job, const Shape& shape) {
  if (job.fixed.order) return {*job.fixed.order};
  spec::Training training;
  Apply(shape, training);
  spec::PlacementOrder order = spec::kUsualOrder;
  std::sort(order.begin(), order.end());
  std::vector<spec::PlacementOrder> orders = {spec::kUsualOrder};
  std::vector<std::array<uint64_t, 4>> seen;
  const auto strides = [&training](const spec::PlacementOrder& of) {
    training.layout.order = of;
    std::array<uint64_t, 4> all{};
    for (size_t i = 0; i < 4; ++i) {
      const auto dimension = static_cast<Dimension>(i);
      // Where a dimension of one rank lies does not matter.
      all[i] = training.layout.size(dimension) > 1 ? training.layout.stride(dimension) : 0;
    }
    return all;
  };
  seen.push_back(strides(orders.front()));
  do {
    const auto places = strides(order);
    if (std::find(seen.begin(), seen.end(), places) != seen.end()) continue;
    seen.push_back(places);
    orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

void Apply(const Shape& shape, spec::Training& training) {
  spec::Layout& layout = training.layout;
  layout.tensor = shape.tensor;
  layout.context = shape.context;
  layout.pipeline = shape.pipeline;
  layout.data = shape.data;
  layout.expert = shape.expert;
  layout.expert_tensor = shape.expert_tensor;
  layout.sequence_parallel = shape.sequence_parallel;
  layout.context_kind = shape.context_kind;
}

void Apply(const Stages& stages, spec::Training& training) {
  training.layout.schedule = stages.schedule;
  training.layout.virtual_pipeline = stages.virtual_pipeline;
  training.layout.layers_per_stage = stages.layers;
  training.software.overlap_expert = stages.overlap_expert;
}

void Apply(const States& states, spec::Training& training) {
  training.layout.zero_stage = states.zero_stage;
  training.layout.shard_group = states.shard_group;
  training.offload = states.offload;
}

uint64_t CountPoints(const PlanRequest& job) {
  uint64_t points = 0;
  StageLists stages;
  for (const Shape& shape : Shapes(job)) {
    const uint64_t states = StateChoices(job, shape).size();
    const uint64_t orders = Orders(job, shape).size();
    const uint64_t recomputes = RecomputeChoices(job, shape).size();
    for (const uint32_t micro : MicroBatches(job, shape)) {
      points += stages.Of(job, shape, micro).size() * states * recomputes * orders;
    }
  }
  return points;
}

}  // namespace longhaul::planner::search
