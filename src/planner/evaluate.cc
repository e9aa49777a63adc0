#include "planner/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "planner/memory/saved_tensors.h"
#include "planner/stage_layers.h"
#include "planner/time/placement.h"

namespace longhaul::planner {
namespace {

constexpr double kTwoBytes = 2;
// Adam reads and writes master, two moments, gradient and the two-byte copy: 30 bytes a parameter
// owned; 4 for the norm and 8 for clipping.
constexpr double kOptimizerBytes = 42;
// Host memory that one GPU's share of the host's Adam reaches, and bytes that a token's layer
// keeps for backward, a hidden element (arXiv 2205.05198: 34 without attention's square).
constexpr double kHostBytesPerSecond = 20e9;
constexpr double kSavedBytes = 34;

// Four kinds of layers at most: bit 0 is set with experts, bit 1 with a sliding window.
size_t KindIndex(spec::LayerKind kind) {
  return (kind.experts ? 1u : 0u) + (kind.window ? 2u : 0u);
}

spec::LayerKind KindOf(const spec::Model& model, uint32_t layer) {
  const auto& window = model.sliding_window;
  return {model.has_experts(layer),
          window && window->every > 0 && layer % window->every == window->every - 1};
}

// Every member must be listed here: one that is left out would be zero in all stages. `count` may
// be a fraction (FoldStages).
void Accumulate(LayerCost& sum, const LayerCost& cost, double count) {
  sum.forward_s += count * cost.forward_s;
  sum.backward_s += count * cost.backward_s;
  sum.weight_gradient_s += count * cost.weight_gradient_s;
  sum.recompute_s += count * cost.recompute_s;
  sum.tensor_forward_s += count * cost.tensor_forward_s;
  sum.tensor_backward_s += count * cost.tensor_backward_s;
  sum.context_forward_s += count * cost.context_forward_s;
  sum.context_backward_s += count * cost.context_backward_s;
  sum.expert_forward_s += count * cost.expert_forward_s;
  sum.expert_backward_s += count * cost.expert_backward_s;
  sum.forward_kernels += count * cost.forward_kernels;
  sum.backward_kernels += count * cost.backward_kernels;
  sum.forward_host_s += count * cost.forward_host_s;
  sum.backward_host_s += count * cost.backward_host_s;
  sum.dense_parameters += count * cost.dense_parameters;
  sum.expert_parameters += count * cost.expert_parameters;
  sum.model_flops += count * cost.model_flops;
  sum.executed_flops += count * cost.executed_flops;
}

// Without recompute.
LayerKey KeyOf(const spec::Model& model, const spec::Training& training, const SoftwareStack& stack,
               double micro_batch) {
  const spec::Layout& layout = training.layout;
  LayerKey key;
  key.slice.tensor = layout.tensor;
  key.slice.context = layout.context;
  key.slice.expert = layout.expert;
  key.slice.expert_tensor = layout.expert_tensor;
  key.slice.micro_batch = micro_batch;
  key.slice.sequence_parallel = layout.sequence_parallel && layout.tensor > 1;
  key.slice.flash_attention = training.software.flash_attention;
  key.slice.fused_kernels =
      (training.software.fused_kernels && stack.fused_kernels) || training.software.compiled;
  key.slice.loss_fusion = training.software.loss_fusion;
  key.slice.expert_imbalance = model.experts && !model.experts->balanced ? kRoutingImbalance : 1;
  key.precision = training.precision;
  key.context_kind = layout.context_kind;
  key.tensor_stride = TensorGroup(layout).stride;
  key.context_stride = ContextGroup(layout).stride;
  key.expert_stride = ExpertGroup(layout).stride;
  key.overlap_tensor = training.software.overlap_tensor;
  // DualPipe is built around that overlap.
  key.dual_pipe =
      model.experts && layout.pipeline > 1 && layout.schedule == spec::PipelineSchedule::kDualPipe;
  key.overlap_expert = training.software.overlap_expert || key.dual_pipe;
  key.interleaved = model.experts && layout.pipeline > 1 && layout.virtual_pipeline > 1;
  return key;
}

// Host time of launching.
double LaunchSeconds(const SoftwareStack& stack, const spec::Software& software, double kernels,
                     double host_s) {
  return (software.cuda_graphs ? 0.1 : 1) * (kernels * stack.launch_s + host_s);
}

// Likewise, beyond the device's own.
double LaunchExcess(const SoftwareStack& stack, const spec::Software& software, double kernels,
                    double host_s, double device_s) {
  return std::max(0.0, LaunchSeconds(stack, software, kernels, host_s) - device_s);
}

}  // namespace

// The hash may leave out fields that rarely differ (the map compares whole keys), and its value
// never decides an order of output.
size_t Evaluator::KeyHash::operator()(const LayerKey& key) const {
  uint64_t hash = 0x9e3779b97f4a7c15;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  const spec::LayerSlice& s = key.slice;
  mix(uint64_t{s.tensor} | uint64_t{s.context} << 32);
  mix(uint64_t{s.expert} | uint64_t{s.expert_tensor} << 32);
  mix(std::bit_cast<uint64_t>(s.micro_batch));
  mix(uint64_t{key.tensor_stride} | uint64_t{key.context_stride} << 32);
  const spec::RecomputeModules& m = key.modules;
  const bool bits[] = {key.kind.experts,
                       key.kind.window,
                       s.sequence_parallel,
                       s.flash_attention,
                       s.fused_kernels,
                       s.loss_fusion,
                       m.core_attention,
                       m.layer_norm,
                       m.moe_activation,
                       m.mla_up_projection,
                       m.mlp,
                       m.moe,
                       key.overlap_tensor,
                       key.overlap_expert,
                       key.dual_pipe,
                       key.interleaved};
  uint64_t packed = static_cast<uint64_t>(key.role) | static_cast<uint64_t>(key.precision) << 4 |
                    static_cast<uint64_t>(key.recompute) << 8 |
                    static_cast<uint64_t>(key.context_kind) << 12;
  for (size_t i = 0; i < std::size(bits); ++i) packed |= uint64_t{bits[i]} << (16 + i);
  mix(packed ^ uint64_t{key.expert_stride} << 40);
  return hash;
}

Evaluator::Evaluator(const spec::Model& model, const spec::DeviceCluster& cluster,
                     const spec::Software& software)
    : Evaluator(model, cluster, ShippedMatrix(cluster.device), ShippedLinks(cluster),
                StackOf(software)) {}

Evaluator::Evaluator(const spec::Model& model, const spec::DeviceCluster& cluster,
                     const DeviceMatrix& matrix, const Links& links, const SoftwareStack& stack)
    : model_(model),
      cluster_(cluster),
      matrix_(matrix),
      links_(links),
      stack_(stack),
      memory_(model, cluster) {
  FitToGpu(model, cluster.device, stack_, matrix_);
  for (std::vector<uint32_t>& before : layers_before_) before.assign(model.layers + 1, 0);
  for (uint32_t i = 0; i < model.layers; ++i) {
    const size_t kind = KindIndex(KindOf(model, i));
    for (size_t k = 0; k < 4; ++k) {
      layers_before_[k][i + 1] = layers_before_[k][i] + (k == kind ? 1 : 0);
    }
  }
  for (size_t k = 0; k < 4; ++k) {
    if (model.layers > 0 && layers_before_[k].back() == model.layers) only_kind_ = k;
  }
}

// References into an unordered_map stay valid when it grows, so Costs may keep pointers into
// costs_.
const LayerCost& Evaluator::Cost(const LayerKey& key) {
  const auto found = costs_.find(key);
  if (found != costs_.end()) return found->second;
  return costs_.emplace(key, CostOf(model_, matrix_, links_, stack_, key)).first->second;
}

const Evaluator::Costs& Evaluator::CostsOf(spec::RecomputeKind recompute,
                                           const spec::RecomputeModules& modules) {
  // The table is indexed by the kind of recompute and one bit for each module. An entry of an older
  // round belongs to another key_ and is filled again, which is cheaper than to clear all entries
  // for each layout.
  const spec::RecomputeModules& m = modules;
  const bool bits[] = {m.core_attention,    m.layer_norm, m.moe_activation,
                       m.mla_up_projection, m.mlp,        m.moe};
  size_t index = static_cast<size_t>(recompute);
  for (const bool bit : bits) index = 2 * index + (bit ? 1 : 0);
  Costs& costs = known_[index];
  if (costs.round == round_) return costs;
  costs = Costs{};
  costs.round = round_;
  LayerKey key = key_;
  key.recompute = recompute;
  key.modules = modules;
  for (size_t k = 0; k < 4; ++k) {
    if (layers_before_[k].back() == 0) continue;
    key.kind = {(k & 1) != 0, (k & 2) != 0};
    costs.layers[k] = &Cost(key);
  }
  key.kind = {};
  key.role = LayerRole::kEmbedding;
  costs.embedding = &Cost(key);
  key.role = LayerRole::kLoss;
  costs.loss = &Cost(key);
  return costs;
}

// `count` layers of the model from `first` on. Stages have few shares.
void Evaluator::Share(const Costs& costs, uint32_t first, uint32_t count) {
  const auto same = [&costs](const LayerShare& share) { return share.costs == &costs; };
  auto share = std::find_if(shares_.begin(), shares_.end(), same);
  if (share == shares_.end()) share = shares_.insert(share, {&costs, {}});
  if (only_kind_ < 4) {
    share->layers[only_kind_] += count;
    return;
  }
  for (size_t k = 0; k < 4; ++k) {
    share->layers[k] += layers_before_[k][first + count] - layers_before_[k][first];
  }
}

// Fills shares_ with the stage's layers.
void Evaluator::ShareStage(const spec::Training& training, uint32_t stage) {
  const spec::Recompute& all = training.recompute;
  shares_.clear();
  uint32_t begin = 0;  // in the stage, of layers `first` of the model and after
  const auto share = [&](uint32_t first, uint32_t count) {
    if (!runs_.differ()) return Share(CostsOf(all.kind, all.modules), first, count);
    runs_.ForEach(stage, begin, begin + count,
                  [&](const spec::RecomputeRun* run, uint32_t from, uint32_t layers) {
                    const spec::Recompute none;
                    const Costs& costs = run == nullptr ? CostsOf(none.kind, none.modules)
                                                        : CostsOf(run->kind, run->modules);
                    Share(costs, first + (from - begin), layers);
                  });
    begin += count;
  };
  uint32_t sum = 0;
  for (size_t c = stage; c < chunks_.size(); c += training.layout.pipeline) {
    if (only_kind_ == 4) share(chunk_begins_[c], chunks_[c]);
    sum += chunks_[c];
  }
  // Where all layers are of one kind it does not matter which these are.
  if (only_kind_ < 4) share(0, sum);
}

// Each stage is its layers by kind and recompute, however they lie in chunks; a stage with the same
// ones as the stage before costs the same.
void Evaluator::BuildStages(const spec::Training& training, double micro_batch) {
  const spec::Layout& layout = training.layout;
  chunks_.resize(size_t{layout.pipeline} * layout.virtual_pipeline);
  StageLayers(model_.layers, layout, chunks_, model_.multi_token_prediction_layers);
  chunk_begins_.resize(chunks_.size());
  std::exclusive_scan(chunks_.begin(), chunks_.end(), chunk_begins_.begin(), 0u);
  const LayerKey key = KeyOf(model_, training, stack_, micro_batch);
  if (key != key_ || round_ == 0) {
    key_ = key;
    ++round_;
  }
  runs_.Reset(training);
  stages_.assign(layout.pipeline, Stage{});
  // Folding changes stages after this loop, so `as_before` would copy the wrong one under DualPipe.
  const bool folds = layout.schedule == spec::PipelineSchedule::kDualPipe;
  for (uint32_t i = 0; i < layout.pipeline; ++i) {
    Stage& stage = stages_[i];
    std::swap(shares_, shares_before_);
    ShareStage(training, i);
    if (i > 0 && shares_ == shares_before_) {
      stage = stages_[i - 1];
      // Embedding and loss come on top at the ends.
      stage.as_before = i > 1 && i + 1 < layout.pipeline && !folds;
      continue;
    }
    for (const LayerShare& share : shares_) {
      for (size_t k = 0; k < 4; ++k) {
        if (share.layers[k] == 0) continue;
        Accumulate(stage.sum, *share.costs->layers[k], share.layers[k]);
        stage.layers += share.layers[k];
      }
    }
  }
  // Where layers differ by stage, what lies outside them keeps everything.
  const bool by_stage = training.recompute.kind == spec::RecomputeKind::kByStage;
  const spec::Recompute of_all = by_stage ? spec::Recompute{} : training.recompute;
  const Costs& costs = CostsOf(of_all.kind, of_all.modules);
  // Extra prediction layers sit before the loss, each with a loss of its own.
  const uint32_t extra = model_.multi_token_prediction_layers;
  if (extra > 0) {
    const size_t last = KindIndex(KindOf(model_, model_.layers - 1));
    Accumulate(stages_.back().sum, *costs.layers[last], extra);
  }
  Accumulate(stages_.front().sum, *costs.embedding, 1);
  const double tied = model_.tied_embeddings && layout.pipeline == 1 ? 1 : 0;
  Accumulate(stages_.back().sum, *costs.loss, 1 + extra);
  // The output matrix exists once, however many losses use it, and not at all where the embedding
  // is tied to it on the same stage.
  stages_.back().sum.dense_parameters -= costs.loss->dense_parameters * (extra + tied);
  if (folds) FoldStages();
  ShardStages(training);
}

// DualPipe runs stage i and stage p-1-i on one rank, each for half of the micro-batches.
void Evaluator::FoldStages() {
  for (size_t i = 0, j = stages_.size() - 1; i < j; ++i, --j) {
    LayerCost mean;
    Accumulate(mean, stages_[i].sum, 0.5);
    Accumulate(mean, stages_[j].sum, 0.5);
    stages_[i].sum = stages_[j].sum = mean;
  }
}

double Evaluator::ReduceBytes(const spec::Training& training) const {
  return stack_.reduce_bytes > 0 ? stack_.reduce_bytes : training.software.gradient_bytes;
}

// Of hybrid sharding: a rank's share of the gradients is summed over the copies of the states, once
// a step; here a micro-batch's part of that.
double Evaluator::ReplicaSeconds(const spec::Training& training, double parameters,
                                 Group shard) const {
  const uint32_t replicas = training.layout.data * training.layout.context;
  if (shard.ranks == 0 || replicas <= shard.ranks) return 0;
  const Group copies{replicas / shard.ranks, shard.ranks * shard.stride};
  const double bytes = ReduceBytes(training) * parameters / shard.ranks;
  const double micro = std::max(1u, training.batch.micro);
  const double count = std::max(1.0, training.batch.global / (micro * training.layout.data));
  return CollectiveSeconds(links_, Collective::kAllReduce, bytes, copies) / count;
}

void Evaluator::ShardStages(const spec::Training& training) {
  times_.resize(stages_.size());
  const bool sharded = training.layout.zero_stage >= 3 &&
                       uint64_t{training.layout.data} * training.layout.context > 1;
  for (size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    if (stage.as_before) {
      stage = stages_[i - 1];
      stage.as_before = true;
      times_[i] = stage.time;
      continue;
    }
    LayerCost& sum = stage.sum;
    double forward = sum.forward_total_s();
    double backward = sum.backward_total_s();
    if (sharded) {
      Group group = DenseReplicas(training.layout, links_.island);
      if (training.layout.shard_group > 0) {
        group.ranks = std::min(group.ranks, training.layout.shard_group);
      }
      // Weights are gathered layer by layer. Of the whole traffic at least one layer's part is
      // exposed, since nothing runs before the first gather; of the rest what exceeds the compute
      // that can hide it.
      const double units = std::max(1u, stage.layers);
      const double parameters = (sum.dense_parameters + sum.expert_parameters) / units;
      const double gather =
          units / stack_.shard_bandwidth_share *
          CollectiveSeconds(links_, Collective::kAllGather, kTwoBytes * parameters, group);
      double scatter = units / stack_.shard_bandwidth_share *
                       CollectiveSeconds(links_, Collective::kReduceScatter,
                                         ReduceBytes(training) * parameters, group);
      scatter += ReplicaSeconds(training, sum.dense_parameters + sum.expert_parameters, group);
      const double tax = stack_.overlap_tax;
      const double forward_exposed =
          std::max(gather / units, gather - stack_.shard_hidden * forward);
      const double both = gather + scatter;
      const double backward_exposed = std::max(both / units, both - stack_.shard_hidden * backward);
      const double exposed = forward_exposed + backward_exposed +
                             tax * (std::min(gather, forward) + std::min(both, backward));
      stage.shard_exposed_s = exposed;
      forward += forward_exposed + tax * std::min(gather, forward);
      backward += backward_exposed + tax * std::min(both, backward);
    }
    forward +=
        LaunchExcess(stack_, training.software, sum.forward_kernels, sum.forward_host_s, forward);
    stage.backward_device_s = backward;
    backward += LaunchExcess(stack_, training.software, sum.backward_kernels, sum.backward_host_s,
                             backward);
    stage.time = {forward, backward, sum.weight_gradient_s};
    times_[i] = stage.time;
  }
}

// Gradient and weight traffic of ZeRO stages 0 to 2, once a step. Each hidden second slows the
// compute beside it by the stack's tax.
Evaluator::DataTraffic Evaluator::DataSeconds(const spec::Training& training,
                                              const Stage& stage) const {
  DataTraffic traffic;
  const spec::Layout& layout = training.layout;
  const spec::Software& software = training.software;
  if (layout.zero_stage >= 3) return traffic;  // paid with every micro-batch
  const auto gradients = [&](double parameters, Group group) {
    const double bytes = software.gradient_bytes * parameters;
    return CollectiveSeconds(
        links_, layout.zero_stage == 0 ? Collective::kAllReduce : Collective::kReduceScatter, bytes,
        group);
  };
  const auto weights = [&](double parameters, Group group) {
    if (layout.zero_stage == 0) return 0.0;
    return CollectiveSeconds(links_, Collective::kAllGather, kTwoBytes * parameters, group);
  };
  const Group dense = DenseReplicas(layout, links_.island);
  const Group expert = ExpertReplicas(layout);
  const double reduce =
      gradients(stage.sum.dense_parameters, dense) + gradients(stage.sum.expert_parameters, expert);
  const double gather =
      weights(stage.sum.dense_parameters, dense) + weights(stage.sum.expert_parameters, expert);
  const double parameters = stage.sum.dense_parameters + stage.sum.expert_parameters;
  // Megatron's buckets; the last one has nothing left to hide under. Of an interleaved schedule's
  // chunks all but one are done while the others still run.
  const double bucket = std::max(40e6, 1e6 * dense.ranks);
  const double last = std::min(1.0, bucket / std::max(1.0, parameters));
  const double chunks = layout.virtual_pipeline;
  const auto exposed = [&](double seconds, double window, bool overlap) {
    if (!overlap) return seconds;
    const double early = window * layout.pipeline * (chunks - 1) / chunks;
    const double hidden =
        std::min(seconds * (1 - last), stack_.gradient_hidden * (window / chunks + early));
    traffic.tax_s += stack_.overlap_tax * hidden;
    return seconds - hidden;
  };
  // Recompute that only this stage has leaves it no more to wait with than the others have.
  double window = stage.time.backward_s;
  if (training.recompute.kind == spec::RecomputeKind::kByStage) window -= stage.sum.recompute_s;
  traffic.exposed_s = exposed(reduce, std::max(0.0, window), software.overlap_gradient) +
                      exposed(gather, stage.time.forward_s, software.overlap_parameter);
  return traffic;
}

// The parameters whose optimizer states this rank holds: all without ZeRO, else its shard. Experts
// are sharded over their own, smaller set of replicas.
double Evaluator::OwnedParameters(const spec::Training& training, const Stage& stage) const {
  const spec::Layout& layout = training.layout;
  if (layout.zero_stage == 0) return stage.sum.dense_parameters + stage.sum.expert_parameters;
  return stage.sum.dense_parameters / (layout.data * layout.context) +
         stage.sum.expert_parameters / ExpertReplicas(layout).ranks;
}

double Evaluator::OptimizerSeconds(const spec::Training& training, const Stage& stage) const {
  const spec::Layout& layout = training.layout;
  const double dense = stage.sum.dense_parameters;
  const double expert = stage.sum.expert_parameters;
  const double owned = OwnedParameters(training, stage);
  const double zeroed =
      training.software.gradient_bytes * (layout.zero_stage >= 2 ? owned : dense + expert);
  if (training.offload == spec::Offload::kOptimizer) return zeroed / matrix_.bandwidth_bytes_per_s;
  return (kOptimizerBytes * owned + zeroed) / matrix_.bandwidth_bytes_per_s;
}

double Evaluator::OffloadSeconds(const spec::Training& training, const Stage& stage,
                                 double micro_batches) const {
  const double link = std::max(1e9, cluster_.device.host_bandwidth.count());
  if (training.offload == spec::Offload::kOptimizer) {
    // Gradients go down, weights come up, and the host's Adam passes over 28 bytes a parameter.
    const double owned = OwnedParameters(training, stage);
    const double moved = (training.software.gradient_bytes + kTwoBytes) * owned / link;
    return moved + 28 * owned / kHostBytesPerSecond;
  }
  if (training.offload != spec::Offload::kActivations) return 0;
  const spec::Layout& layout = training.layout;
  const double tokens = double(training.batch.micro) * model_.sequence_length / layout.context;
  const double saved = kSavedBytes * tokens * model_.hidden * stage.layers / layout.tensor / link;
  const double exposed = std::max(0.0, saved - stack_.gradient_hidden * stage.time.forward_s) +
                         std::max(0.0, saved - stack_.gradient_hidden * stage.time.backward_s);
  return micro_batches * exposed;
}

void Evaluator::Time(const spec::Training& training, Evaluation& out) {
  const spec::Layout& layout = training.layout;
  const spec::Batch& batch = training.batch;
  const uint32_t micro = std::max(1u, batch.micro);
  // With an unknown global batch one micro-batch for each stage stands for the steady rate.
  const double per_replica =
      batch.global > 0 ? double(batch.global) / layout.data : double(micro) * layout.pipeline;
  const double micro_batches = std::max(1.0, std::ceil(per_replica / micro - 1e-9));
  // A last, smaller micro-batch is counted by its share.
  const double counted = layout.pipeline == 1 ? std::max(per_replica / micro, 1e-9) : micro_batches;
  const double sequences = std::min<double>(micro, per_replica);
  BuildStages(training, sequences);

  PipelineShape shape;
  shape.schedule = layout.schedule;
  shape.virtual_pipeline = layout.virtual_pipeline;
  shape.micro_batches = std::max(1.0, counted);
  if (layout.pipeline > 1) {
    const double split = stack_.splits_sends || layout.sequence_parallel ? layout.tensor : 1;
    const double tokens = sequences * model_.sequence_length / layout.context / split;
    shape.send_s = CollectiveSeconds(links_, Collective::kSend, kTwoBytes * tokens * model_.hidden,
                                     StageNeighbours(layout));
  }
  const bool hidden_sends = stack_.overlaps_sends && layout.virtual_pipeline > 1;
  shape.exposed_sends = hidden_sends ? 0.1 : 1;
  PipelineTime pipeline = PipelineSeconds(times_, shape);
  if (batch.global == 0) pipeline.bubble_s = 0;  // unknown batch: the steady rate

  const Stage& slow = stages_[pipeline.slowest];
  const double count = shape.micro_batches;
  StepBreakdown& b = out.breakdown;
  b = StepBreakdown{};
  b.forward = Seconds(count * slow.sum.forward_s);
  b.backward = Seconds(count * slow.sum.backward_s);
  b.recompute = Seconds(count * slow.sum.recompute_s);
  b.tensor_exposed = Seconds(count * (slow.sum.tensor_forward_s + slow.sum.tensor_backward_s));
  b.context_exposed = Seconds(count * (slow.sum.context_forward_s + slow.sum.context_backward_s));
  b.expert_exposed = Seconds(count * (slow.sum.expert_forward_s + slow.sum.expert_backward_s));
  b.pipeline_exposed = Seconds(pipeline.sends_s);
  b.bubble = Seconds(pipeline.bubble_s);
  const double device = slow.sum.forward_total_s() + slow.sum.backward_total_s();
  const double shard = slow.shard_exposed_s;
  b.host =
      Seconds(count * std::max(0.0, slow.time.forward_s + slow.time.backward_s - device - shard) +
              stack_.step_fixed_s);
  const DataTraffic traffic = DataSeconds(training, stages_.front());
  b.data_exposed = Seconds(count * shard + traffic.exposed_s + traffic.tax_s);
  b.optimizer = Seconds(OptimizerSeconds(training, stages_.front()));
  b.offload_exposed = Seconds(OffloadSeconds(training, slow, count));
  const double nodes =
      std::max(1.0, double(layout.devices()) / std::max(1u, cluster_.devices_per_node));
  // The expected maximum of n normal deviations grows as sqrt(2 ln n): the slowest of more nodes is
  // further from the mean.
  const double wait = stack_.straggle * std::sqrt(2 * std::log(nodes));
  b.straggle = Seconds(wait * b.total().count());
  out.step = b.total();
  out.micro_batches = static_cast<uint32_t>(micro_batches);
}

// Utilization counts a step as three times the forward (backward has twice its products), and
// against the peak of the precision that the training names.
void Evaluator::CountFlops(const spec::Training& training, Evaluation& out) const {
  const spec::Layout& layout = training.layout;
  double model = 0;
  double executed = 0;
  for (const Stage& stage : stages_) {
    model += 3 * stage.sum.model_flops;
    executed += stage.sum.executed_flops;
  }
  // Of one micro-batch on one rank of every stage; a pipeline has tensor x context such ranks.
  const uint32_t micro = std::max(1u, training.batch.micro);
  const double sequences = training.batch.global > 0
                               ? training.batch.global
                               : double(micro) * layout.pipeline * layout.data;
  const double counted = std::min<double>(micro, sequences / layout.data);
  const double scale = sequences / counted * layout.tensor * layout.context;
  out.model_flops = Flops(model * scale);
  out.hardware_flops = Flops(executed * scale);
  const double devices = static_cast<double>(layout.devices());
  const double step = out.step.count();
  out.tokens_per_second_per_device = sequences * model_.sequence_length / (step * devices);
  const spec::Device& device = cluster_.device;
  double peak = device.half.count();
  if (training.precision == spec::Precision::kFp32) peak = device.fp32.count();
  if (training.precision == spec::Precision::kFp8 ||
      training.precision == spec::Precision::kMxfp8) {
    peak = std::max(peak, device.fp8.count());
  }
  if (training.precision == spec::Precision::kNvfp4) peak = std::max(peak, device.fp4.count());
  const double capacity = peak * devices * step;
  out.model_flops_utilization = capacity > 0 ? out.model_flops.count() / capacity : 0;
  out.hardware_flops_utilization = capacity > 0 ? out.hardware_flops.count() / capacity : 0;
}

void Evaluator::Evaluate(const spec::Training& training, Evaluation& out) {
  Time(training, out);
  CountFlops(training, out);
  out.stages.resize(stages_.size());
  for (size_t i = 0; i < stages_.size(); ++i) {
    out.stages[i].layers = stages_[i].layers;
    out.stages[i].forward = Seconds(times_[i].forward_s);
    out.stages[i].backward = Seconds(times_[i].backward_s);
  }
  memory_.Evaluate(training, out);
}

Evaluation Evaluator::Evaluate(const spec::Training& training) {
  Evaluation out;
  Evaluate(training, out);
  return out;
}

const StepBreakdown& Evaluator::Parts(const spec::Training& training) {
  Time(training, scratch_);
  return scratch_.breakdown;
}

Evaluator::Recomputed Evaluator::RecomputedOf(const spec::Training& training, uint32_t layer) {
  const double sequences =
      std::min(double(training.batch.micro), double(training.batch.global) / training.layout.data);
  LayerKey key = KeyOf(model_, training, stack_, sequences);
  key.kind = KindOf(model_, layer);
  key.recompute = training.recompute.kind;
  key.modules = training.recompute.modules;
  // A copy, because the next look-up may insert into the cache.
  const LayerCost with = Cost(key);
  key.recompute = spec::RecomputeKind::kNone;
  key.modules = {};
  const LayerCost& without = Cost(key);
  return {with.recompute_s,
          LaunchSeconds(stack_, training.software, with.backward_kernels, with.backward_host_s) -
              LaunchSeconds(stack_, training.software, without.backward_kernels,
                            without.backward_host_s)};
}

void Evaluator::Stages(const spec::Training& training, std::vector<StageSeconds>& stages) const {
  stages.clear();
  for (const Stage& stage : stages_) {
    stages.push_back({stage.time.forward_s,
                      {stage.backward_device_s,
                       LaunchSeconds(stack_, training.software, stage.sum.backward_kernels,
                                     stage.sum.backward_host_s)}});
  }
}

Seconds Evaluator::StepSeconds(const spec::Training& training) {
  Time(training, scratch_);
  return scratch_.step;
}

}  // namespace longhaul::planner
