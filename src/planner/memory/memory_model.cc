#include "planner/memory/memory_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "planner/memory/gpu_memory.h"
#include "planner/memory/held.h"
#include "planner/stage_layers.h"

namespace longhaul::planner {

namespace {

using namespace longhaul::literals;

constexpr double kMost = 1e18;  // more than any machine, and sums of it stay in 63 bits

// Matrix libraries' workspaces: 32 MiB each for PyTorch's and Transformer Engine's handle since
// Hopper, 8 MiB and 4 MiB before (cublasSetWorkspace's recommendation).
constexpr Bytes kWorkspaceNew = 64_MiB;
constexpr Bytes kWorkspaceOld = 12_MiB;

// DeepSpeed's reduce and all-gather buckets: 5e8 elements of two bytes each by default.
constexpr double kDeepSpeedBuckets = 2e9;

// DeepSpeed's ZeRO-3 gathers parameter by parameter, up to this many alive at once by default.
constexpr double kLiveParameters = 1e9;

Bytes Whole(double bytes) { return Bytes(static_cast<int64_t>(std::clamp(bytes, 0.0, kMost))); }

// Ranks that share one copy of the dense states, and of the experts'.
double DenseShards(const spec::Layout& layout) {
  const double replicas = double{1} * layout.data * layout.context;
  return layout.shard_group > 0 ? std::min(replicas, double{1} * layout.shard_group) : replicas;
}

double ExpertShards(const spec::Layout& layout) {
  const double replicas = double{1} * layout.data * layout.context * layout.tensor /
                          (double{1} * layout.expert * layout.expert_tensor);
  const double shards =
      layout.shard_group > 0 ? std::min(replicas, double{1} * layout.shard_group) : replicas;
  return std::max(1.0, shards);
}

// Parameters of a rank after ZeRO: dense ones and experts are divided by different numbers of
// replicas.
double Sharded(const spec::Layout& layout, const RankParameters& parameters) {
  return parameters.dense / DenseShards(layout) + parameters.experts / ExpertShards(layout);
}

}  // namespace

struct MemoryModel::Stage {
  bool first = false;
  bool last = false;
  uint32_t layers = 0;
  uint32_t dense_layers = 0;
  uint32_t expert_layers = 0;
  double held = 0;  // micro-batches, the mean over chunks
  double saved = 0;
  double live_dense = 0;  // in the backward of a layer with recompute of its own
  double live_experts = 0;
  RankParameters parameters;
  MemoryBreakdown memory;
};

// What is live beyond states and saved tensors, by moment.
struct MemoryModel::Moments {
  double boundary = 0;
  double transient = 0;  // in a layer's backward, with what is rebuilt
  double gathered_layer = 0;
  double loss = 0;
  double output_gradient = 0;
  double gathered_loss = 0;

  double at_layer() const { return transient + gathered_layer; }
  double at_loss() const { return loss + output_gradient + gathered_loss; }
};

size_t MemoryModel::KeyHash::operator()(const MemoryKey& key) const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  const spec::LayerSlice& s = key.slice;
  mix(uint64_t{s.tensor} | uint64_t{s.context} << 32);
  mix(uint64_t{s.expert} | uint64_t{s.expert_tensor} << 32);
  mix(std::bit_cast<uint64_t>(s.micro_batch));
  const spec::RecomputeModules& m = key.modules;
  const bool bits[] = {
      s.sequence_parallel, s.flash_attention, s.fused_kernels,     s.loss_fusion, m.core_attention,
      m.layer_norm,        m.moe_activation,  m.mla_up_projection, m.mlp,         m.moe,
      key.compiled};
  uint64_t packed =
      static_cast<uint64_t>(key.recompute) | static_cast<uint64_t>(key.context_kind) << 4 |
      static_cast<uint64_t>(key.precision) << 8 | static_cast<uint64_t>(key.family) << 12;
  for (size_t i = 0; i < std::size(bits); ++i) packed |= uint64_t{bits[i]} << (16 + i);
  mix(packed);
  return hash;
}

MemoryModel::MemoryModel(const spec::Model& model, const spec::DeviceCluster& cluster)
    : model_(model), cluster_(cluster) {
  experts_before_.assign(model.layers + 1, 0);
  for (uint32_t i = 0; i < model.layers; ++i) {
    experts_before_[i + 1] = experts_before_[i] + (model.has_experts(i) ? 1 : 0);
  }
}

// FamilyOf compares texts, and most calls in a search repeat the same software.
void MemoryModel::RememberFamily(const spec::Software& software) {
  if (software.framework == framework_ && software.release == release_) return;
  framework_ = software.framework;
  release_ = software.release;
  family_ = FamilyOf(software);
}

const MemoryModel::Layers& MemoryModel::LayersOf(const MemoryKey& key) {
  const auto found = layers_.find(key);
  if (found != layers_.end()) return found->second;
  Layers layers;
  layers.dense = LayerMemoryOf(model_, false, key);
  layers.ends = EndsMemoryOf(model_, key);
  layers.dummy_dense = DummyGradients(model_, true, false, key);
  if (model_.experts) {
    layers.experts = LayerMemoryOf(model_, true, key);
    layers.dummy_experts = DummyGradients(model_, false, true, key);
    layers.dummy_both = DummyGradients(model_, true, true, key);
  }
  layers.embedding = EmbeddingRankParameters(model_, key);
  layers.output = OutputRankParameters(model_, key);
  return layers_.emplace(key, layers).first->second;
}

double MemoryModel::ChunkSaved(const Layers& layers, uint32_t c, uint32_t experts) const {
  const double saved = (chunks_[c] - experts) * layers.dense.saved + experts * layers.experts.saved;
  return c == 0 ? saved + layers.ends.embedding_saved : saved;
}

double MemoryModel::PredictionSaved(const Layers& layers) const {
  const LayerMemory& layer = model_.experts ? layers.experts : layers.dense;
  return model_.multi_token_prediction_layers * (layer.saved + layers.ends.prediction_saved);
}

// With full recompute of some layers only, the others of the stage keep what recompute would drop.
double MemoryModel::SparedBytes(const spec::Training& training, const Layers& layers,
                                const Stage& stage) const {
  const uint32_t full_layers = training.recompute.full_layers;
  const bool spares = training.recompute.kind == spec::RecomputeKind::kFull && full_layers > 0 &&
                      full_layers < stage.layers;
  if (!spares) return 0;
  const LayerMemory& layer = stage.expert_layers > 0 ? layers.experts : layers.dense;
  return (stage.layers - full_layers) * layer.rebuilt;
}

MemoryModel::Stage MemoryModel::StageOf(const spec::Training& training, const Layers& layers,
                                        uint32_t index, uint32_t micro_batches) {
  const spec::Layout& layout = training.layout;
  const bool overlap = training.software.overlap_expert && model_.experts.has_value();
  held_.resize(layout.virtual_pipeline);
  HeldMicroBatches(layout, overlap, index, micro_batches, held_);
  Stage stage;
  stage.first = index == 0;
  stage.last = index + 1 == layout.pipeline;
  double units = 0;
  for (uint32_t chunk = 0; chunk < layout.virtual_pipeline; ++chunk) {
    const uint32_t c = chunk * layout.pipeline + index;
    const uint32_t begin = chunk_begins_[c];
    const double held = held_[chunk];
    const uint32_t experts = experts_before_[begin + chunks_[c]] - experts_before_[begin];
    stage.saved += held * ChunkSaved(layers, c, experts);
    stage.dense_layers += chunks_[c] - experts;
    stage.expert_layers += experts;
    units += held;
  }
  stage.layers = stage.dense_layers + stage.expert_layers;
  stage.held = units / layout.virtual_pipeline;
  stage.saved += stage.held * SparedBytes(training, layers, stage);
  stage.parameters.dense = stage.dense_layers * layers.dense.parameters.dense +
                           stage.expert_layers * layers.experts.parameters.dense;
  stage.parameters.experts = stage.expert_layers * layers.experts.parameters.experts;
  if (stage.first) stage.parameters.dense += layers.embedding;
  if (stage.last) {
    stage.parameters.dense += FinalNormParameters(model_);
    if (!model_.tied_embeddings || !stage.first) stage.parameters.dense += layers.output;
    const double extra = model_.multi_token_prediction_layers;
    const LayerMemory& layer = model_.experts ? layers.experts : layers.dense;
    const double hidden = model_.hidden;
    stage.saved += PredictionSaved(layers);
    stage.parameters.dense +=
        extra * (layer.parameters.dense + 2 * hidden * hidden / layout.tensor + 3 * hidden);
    stage.parameters.experts += extra * layer.parameters.experts;
  }
  return stage;
}

// Takes what the runs of the stage drop off its saved tensors, which StageOf has counted without
// recompute, and notes the most that a rebuilt layer needs. A run may begin in one chunk and end in
// the next, and the chunks hold different numbers of micro-batches.
void MemoryModel::ApplyRuns(const spec::Training& training, const MemoryKey& bare_key,
                            uint32_t index, uint32_t first_chunk, std::span<const uint32_t> held,
                            Stage& stage) {
  const spec::Layout& layout = training.layout;
  const Layers& bare = LayersOf(bare_key);
  const auto live = [](const LayerMemory& layer) { return layer.transient + layer.rebuilt; };
  uint32_t begin = 0;  // of the chunk in its stage
  for (uint32_t k = 0; k < first_chunk; ++k) begin += chunks_[k * layout.pipeline + index];
  for (size_t k = 0; k < held.size(); ++k) {
    const size_t c = (first_chunk + k) * layout.pipeline + index;
    const auto drop = [&](const spec::RecomputeRun* run, uint32_t from, uint32_t count) {
      if (run == nullptr || run->kind == spec::RecomputeKind::kNone) return;
      MemoryKey key = bare_key;
      key.recompute = run->kind;
      key.modules = run->modules;
      const Layers& layers = LayersOf(key);
      const uint32_t first = chunk_begins_[c] + (from - begin);
      const uint32_t experts = experts_before_[first + count] - experts_before_[first];
      const uint32_t dense = count - experts;
      stage.saved -= held[k] * (dense * (bare.dense.saved - layers.dense.saved) +
                                experts * (bare.experts.saved - layers.experts.saved));
      if (dense > 0) stage.live_dense = std::max(stage.live_dense, live(layers.dense));
      if (experts > 0) stage.live_experts = std::max(stage.live_experts, live(layers.experts));
    };
    runs_.ForEach(index, begin, begin + chunks_[c], drop);
    begin += chunks_[c];
  }
}

// ZeRO stage 1 shards the optimizer, stage 2 the gradients too, and stage 3 the weights too.
void MemoryModel::AddStates(const spec::Training& training, const StateBytes& bytes,
                            Stage& stage) const {
  const spec::Layout& layout = training.layout;
  const auto owned = [&](uint32_t from) {
    return layout.zero_stage >= from ? Sharded(layout, stage.parameters) : stage.parameters.total();
  };
  stage.memory.weights = Whole(bytes.weights * owned(3));
  stage.memory.gradients = Whole(bytes.gradients * owned(2));
  if (training.offload != spec::Offload::kOptimizer) {
    stage.memory.optimizer = Whole(bytes.optimizer * owned(1));
  }
}

double MemoryModel::KeptOf(const spec::Training& training, const Layers& layers,
                           const Stage& stage) const {
  double saved = stage.saved;
  if (family_ == Family::kDeepSpeed && training.layout.pipeline > 1) {
    // Its pipeline buffers keep the message in, beside a clone, and the output of each micro-batch.
    saved += 2 * stage.held * layers.ends.boundary;
  }
  if (training.offload == spec::Offload::kActivations && stage.layers > 0) {
    // Two layers are on the GPU: the one that runs, and the one that is copied.
    saved = std::min(saved, 2 * std::max(layers.dense.saved, layers.experts.saved));
  }
  return saved;
}

// The largest live set beyond states and saved tensors at each moment that can be the peak. The
// moments exclude each other, so AddPeak takes their maximum and not their sum.
MemoryModel::Moments MemoryModel::MomentsOf(const spec::Training& training, const Layers& layers,
                                            const Stage& stage) const {
  const spec::Layout& layout = training.layout;
  Moments m;
  double unit = 0;  // parameters of the largest layer
  if (stage.dense_layers > 0) {
    m.transient = std::max(stage.live_dense, layers.dense.transient + layers.dense.rebuilt);
    unit = layers.dense.parameters.total();
  }
  if (stage.expert_layers > 0) {
    m.transient = std::max(
        {m.transient, stage.live_experts, layers.experts.transient + layers.experts.rebuilt});
    unit = std::max(unit, layers.experts.parameters.total());
  }
  // The gradient that went to the stage before stays until the next one is there.
  m.boundary = layout.pipeline > 1 ? layers.ends.boundary : 0;
  const bool gathers = layout.zero_stage >= 3 && DenseShards(layout) > 1;
  if (gathers) {
    // The weights of two layers and the gradient of one, of two bytes each.
    m.gathered_layer = (2 + 2 + 2) * unit;
    if (family_ == Family::kDeepSpeed || family_ == Family::kOldMegatron) {
      const double largest = double{1} * model_.hidden * model_.ffn_hidden / layout.tensor;
      m.gathered_layer =
          std::min(m.gathered_layer, 2 * std::max(kLiveParameters, largest) + 2 * largest);
    }
  }
  // Under a pipeline PyTorch's sharding leaves a stage's weights whole over its micro-batches and
  // sums their gradients whole until the last one.
  const bool stays = gathers && layout.pipeline > 1 && family_ == Family::kShardedData;
  if (stays) {
    m.gathered_layer = (2.0 + training.software.gradient_bytes) * stage.parameters.total();
  }
  if (stage.last) {
    m.gathered_loss = gathers ? layers.ends.output_gradient + 2 * unit : 0;
    if (stays) m.gathered_loss = m.gathered_layer;
    m.loss = layers.ends.loss_saved + layers.ends.loss;
    m.output_gradient = layers.ends.output_gradient;
  }
  return m;
}

bool MemoryModel::KeepsDummies(const spec::Training& training) const {
  return family_ == Family::kMegatron && training.software.gradient_accumulation_fusion;
}

void MemoryModel::AddConstants(const spec::Training& training, const Layers& layers,
                               Stage& stage) const {
  MemoryBreakdown& memory = stage.memory;
  const bool both = stage.dense_layers > 0 && stage.expert_layers > 0;
  if (KeepsDummies(training) && stage.layers > 0) {
    memory.dummy_gradients = Whole(both                      ? layers.dummy_both
                                   : stage.expert_layers > 0 ? layers.dummy_experts
                                                             : layers.dummy_dense);
  }
  memory.workspace = cluster_.device.fp8.count() > 0 ? kWorkspaceNew : kWorkspaceOld;
  if (family_ == Family::kDeepSpeed) {
    memory.workspace += Whole(std::min(kDeepSpeedBuckets, 4 * stage.parameters.total()));
  }
}

// The breakdown shows the parts of the moment that is the peak. In the optimizer step no
// activations are left, so that moment replaces them.
void MemoryModel::AddPeak(const spec::Training& training, const Layers& layers,
                          const StateBytes& bytes, Stage& stage) const {
  const spec::Layout& layout = training.layout;
  MemoryBreakdown& memory = stage.memory;
  const bool dummies = KeepsDummies(training);
  const double kept = KeptOf(training, layers, stage);
  const Moments m = MomentsOf(training, layers, stage);
  const double stepped =
      layout.zero_stage >= 1 ? Sharded(layout, stage.parameters) : stage.parameters.total();
  const double at_step = bytes.step * stepped;
  memory.transient = Whole(m.boundary);
  if (at_step > kept + m.boundary + std::max(m.at_loss(), m.at_layer())) {
    memory.transient = Whole(at_step);
    return;
  }
  memory.activations = Whole(kept);
  if (m.at_loss() >= m.at_layer()) {
    memory.loss = Whole(m.loss);
    (dummies ? memory.dummy_gradients : memory.loss) += Whole(m.output_gradient);
    memory.gathered = Whole(m.gathered_loss);
  } else {
    memory.transient += Whole(m.transient);
    memory.gathered = Whole(m.gathered_layer);
  }
}

// Fills chunks_ and chunk_begins_ for the layout and returns the micro-batches of a step. The small
// subtraction keeps an exact quotient from being rounded up.
uint32_t MemoryModel::Prepare(const spec::Training& training) {
  const spec::Layout& layout = training.layout;
  RememberFamily(training.software);
  chunks_.resize(size_t{layout.pipeline} * layout.virtual_pipeline);
  StageLayers(model_.layers, layout, chunks_, model_.multi_token_prediction_layers);
  chunk_begins_.resize(chunks_.size());
  std::exclusive_scan(chunks_.begin(), chunks_.end(), chunk_begins_.begin(), 0u);
  const double share = double{1} * training.batch.global / layout.data / training.batch.micro;
  return static_cast<uint32_t>(std::clamp(std::ceil(share - 1e-9), 1.0, 1e9));
}

ChunkMemory MemoryModel::Chunk(const spec::Training& training, uint32_t stage, uint32_t chunk) {
  const spec::Layout& layout = training.layout;
  CHECK(stage < layout.pipeline && chunk < layout.virtual_pipeline);
  Prepare(training);
  const MemoryKey key = MemoryKeyOf(model_, training, family_);
  const Layers& layers = LayersOf(key);
  Stage whole = StageOf(training, layers, stage, 1);
  const double stage_layers = std::max(1u, whole.layers);
  Stage part = whole;
  const uint32_t c = chunk * layout.pipeline + stage;
  part.expert_layers =
      experts_before_[chunk_begins_[c] + chunks_[c]] - experts_before_[chunk_begins_[c]];
  part.dense_layers = chunks_[c] - part.expert_layers;
  part.layers = chunks_[c];
  part.last = whole.last && chunk + 1 == layout.virtual_pipeline;
  part.held = 1;
  part.saved = ChunkSaved(layers, c, part.expert_layers);
  if (training.recompute.kind == spec::RecomputeKind::kByStage) {
    runs_.Reset(training);
    constexpr uint32_t kOne = 1;
    ApplyRuns(training, key, stage, chunk, {&kOne, 1}, part);
  }
  if (part.last) part.saved += PredictionSaved(layers);
  part.saved += SparedBytes(training, layers, whole) * (part.layers / stage_layers);
  const Moments m = MomentsOf(training, layers, part);
  return {Whole(KeptOf(training, layers, part)), Whole(std::max(m.at_loss(), m.at_layer()))};
}

LayerBytes MemoryModel::LayerOf(const spec::Training& training, bool experts) {
  RememberFamily(training.software);
  const Layers& layers = LayersOf(MemoryKeyOf(model_, training, family_));
  const LayerMemory& layer = experts ? layers.experts : layers.dense;
  return {layer.saved, layer.transient + layer.rebuilt};
}

void MemoryModel::Rooms(const spec::Training& training, std::vector<StageRoom>& rooms) {
  const spec::Layout& layout = training.layout;
  const uint32_t micro_batches = Prepare(training);
  const Layers& layers = LayersOf(MemoryKeyOf(model_, training, family_));
  const StateBytes bytes = StateBytesOf(training, family_);
  rooms.resize(layout.pipeline);
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    Stage stage = StageOf(training, layers, i, micro_batches);
    AddStates(training, bytes, stage);
    AddConstants(training, layers, stage);
    const Moments m = MomentsOf(training, layers, stage);
    StageRoom& room = rooms[i];
    room.beside = static_cast<double>(stage.memory.total().count());
    const double stepped =
        layout.zero_stage >= 1 ? Sharded(layout, stage.parameters) : stage.parameters.total();
    room.at_step = bytes.step * stepped;
    room.kept = KeptOf(training, layers, stage) + m.boundary;
    room.at_loss = m.at_loss();
    room.live = m.transient;
    room.gathered = m.gathered_layer;
    room.held.assign(held_.begin(), held_.end());
  }
}

// Bisection over whole bytes: what the GPU shows never falls when more is allocated. About 40
// evaluations of a cheap formula, instead of its inverse for each family of frameworks.
Bytes MemoryModel::MostAllocated(const spec::Training& training, Bytes limit,
                                 std::span<const StageRoom> rooms) {
  RememberFamily(training.software);
  double contiguous = 0;
  if (family_ == Family::kDeepSpeed && training.layout.zero_stage >= 1) {
    for (const StageRoom& room : rooms) contiguous = std::max(contiguous, room.at_step);
  }
  int64_t low = -1;
  int64_t high = limit.count();
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    const Bytes reserved = Reserved(Bytes(middle), family_) + Whole(contiguous);
    const Bytes shown = OnGpu(reserved, training.layout, family_, cluster_.device);
    (shown <= limit ? low : high) = shown <= limit ? middle : middle - 1;
  }
  return Bytes(low);
}

// Passes each stage in turn to see(index, stage, contiguous), which returns whether to continue;
// `contiguous` is the memory that DeepSpeed keeps in one block for the stages so far.
template <typename See>
void MemoryModel::EachStage(const spec::Training& training, bool rebuilds, See see) {
  const spec::Layout& layout = training.layout;
  const uint32_t micro_batches = Prepare(training);
  const MemoryKey key = MemoryKeyOf(model_, training, family_);
  std::optional<Layers> without;
  if (!rebuilds) {
    without = LayersOf(key);
    without->dense.rebuilt = without->experts.rebuilt = 0;
  }
  const Layers& layers = without ? *without : LayersOf(key);
  const bool by_stage = training.recompute.kind == spec::RecomputeKind::kByStage;
  runs_.Reset(training);
  const StateBytes bytes = StateBytesOf(training, family_);
  double contiguous = 0;
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    Stage stage = StageOf(training, layers, i, micro_batches);
    if (by_stage) ApplyRuns(training, key, i, 0, held_, stage);
    AddStates(training, bytes, stage);
    AddConstants(training, layers, stage);
    AddPeak(training, layers, bytes, stage);
    // DeepSpeed's fp32 gradients of a step are one block, for which smaller ones leave no hole.
    if (family_ == Family::kDeepSpeed && layout.zero_stage >= 1) {
      contiguous = std::max(contiguous, bytes.step * Sharded(layout, stage.parameters));
    }
    if (!see(i, stage, Whole(contiguous))) return;
  }
}

void MemoryModel::Evaluate(const spec::Training& training, Evaluation& out) {
  out.stages.resize(training.layout.pipeline);
  out.peak_allocated = Bytes(0);
  EachStage(training, true, [&](uint32_t i, const Stage& stage, Bytes contiguous) {
    out.stages[i].layers = stage.layers;
    out.stages[i].micro_batches_held = static_cast<uint32_t>(std::ceil(stage.held));
    out.stages[i].memory = stage.memory;
    out.peak_allocated = std::max(out.peak_allocated, stage.memory.total());
    out.peak_reserved = Reserved(out.peak_allocated, family_) + contiguous;
    return true;
  });
  out.device_memory = OnGpu(out.peak_reserved, training.layout, family_, cluster_.device);
  out.fits = out.device_memory <= cluster_.device.memory;
}

bool MemoryModel::Fits(const spec::Training& training, Bytes limit) {
  return Fits(training, true, limit);
}

bool MemoryModel::MayFit(const spec::Training& training, Bytes limit) {
  const spec::Recompute& recompute = training.recompute;
  CHECK(recompute.kind == spec::RecomputeKind::kFull && recompute.full_layers == 0);
  return Fits(training, false, limit);
}

bool MemoryModel::Fits(const spec::Training& training, bool rebuilds, Bytes limit) {
  bool fits = true;
  EachStage(training, rebuilds, [&](uint32_t, const Stage& stage, Bytes contiguous) {
    const Bytes reserved = Reserved(stage.memory.total(), family_) + contiguous;
    fits = OnGpu(reserved, training.layout, family_, cluster_.device) <= limit;
    return fits;
  });
  return fits;
}

}  // namespace longhaul::planner
