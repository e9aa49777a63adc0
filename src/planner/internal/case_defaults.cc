#include "planner/internal/case_defaults.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>

#include "base/text.h"
#include "planner/framework.h"
#include "planner/known_stacks.h"
#include "planner/time/software_stack.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::internal {

namespace {

using spec::Model;
using spec::Training;

// Fills what a case leaves open, in an order in which each part can use the ones before it: the
// device before the cluster, the layout before the nodes, and all of them before memory and batch.
// Each value that is taken is noted, so that an answer shows what it assumes.
class Filler {
 public:
  Filler(const CaseReader& reader, const RawCase& raw, Case& filled)
      : reader_(reader),
        raw_(raw),
        case_(filled),
        family_(FamilyOf(filled.question.training.software)) {}

  Status Run() {
    FillModel();
    RETURN_IF_ERROR(FillDevice());
    RETURN_IF_ERROR(FillLayout());
    RETURN_IF_ERROR(FillCluster());
    FillStates();
    FillSoftware();
    FillRecompute();
    FillBatch();
    return {};
  }

 private:
  // Whether `path` is absent; if so, notes what is taken.
  template <typename T>
  void Take(const std::string& path, T& value, T standard, const std::string& why = "") {
    if (!reader_.absent(path)) return;
    value = standard;
    Note(path, Word(standard), why);
  }
  static std::string Word(bool value) { return value ? "true" : "false"; }
  static std::string Word(uint32_t value) { return std::to_string(value); }
  void Note(const std::string& path, const std::string& value, const std::string& why = "") {
    case_.assumed.push_back(path + " = " + value + (why.empty() ? "" : " (" + why + ")"));
  }

  void FillModel();
  void FillShipped();
  void FillFfn();
  void FillExperts();
  Status FillDevice();
  Status FillCluster();
  Status FillLayout();
  void FillData();
  void SplitExperts();
  void RepairNodes();
  void RepairLayout();
  void FillStates();
  void FillSoftware();
  void FillRecompute();
  void FillBatch();

  Model& model() { return case_.question.model; }
  Training& training() { return case_.question.training; }
  spec::DeviceCluster& cluster() { return case_.question.cluster; }

  const CaseReader& reader_;
  const RawCase& raw_;
  Case& case_;
  Family family_;
};

void Filler::FillFfn() {
  const bool gated_absent = reader_.absent("model.gated_ffn");
  if (reader_.absent("model.activation")) {
    const bool gated = gated_absent || model().gated_ffn;
    model().activation = gated ? spec::Activation::kSilu : spec::Activation::kGelu;
    Note("model.activation", gated ? "silu" : "gelu");
  }
  Take("model.gated_ffn", model().gated_ffn, model().activation == spec::Activation::kSilu);
  if (!reader_.absent("model.ffn_hidden")) return;
  uint32_t dense = 0;
  for (uint32_t i = 0; i < std::min(model().layers, 10'000u); ++i) {
    dense += model().has_experts(i) ? 0 : 1;
  }
  if (dense == 0) return;  // none is needed
  uint32_t width = 4 * model().hidden;
  // A gated FFN has three matrices: two thirds of the width give it the parameters of a plain one.
  if (model().gated_ffn) width = (8 * model().hidden / 3 + 255) / 256 * 256;
  Take("model.ffn_hidden", model().ffn_hidden, width);
}

void Filler::FillExperts() {
  if (!model().experts) return;
  spec::Experts& experts = *model().experts;
  Take("model.experts.top_k", experts.top_k, std::min(2u, experts.count));
  if (reader_.absent("model.experts.ffn_hidden") && model().ffn_hidden > 0) {
    Take("model.experts.ffn_hidden", experts.ffn_hidden, model().ffn_hidden);
  }
  Take("model.experts.shared", experts.shared, 0u);
  if (experts.shared > 0) {
    Take("model.experts.shared_ffn_hidden", experts.shared_ffn_hidden, experts.ffn_hidden);
  }
  Take("model.experts.dense_first_layers", experts.dense_first_layers, 0u);
  Take("model.experts.every", experts.every, 1u);
  Take("model.experts.balanced", experts.balanced, true, "published benchmarks force it");
  if (!reader_.absent("model.experts.groups")) return;
  if (const auto like = spec::FindByExperts(model()); like && like->experts->groups > 1) {
    Take("model.experts.groups", experts.groups, like->experts->groups, "as the published model");
    Take("model.experts.groups_top_k", experts.groups_top_k, like->experts->groups_top_k);
  }
}

// What a shipped model's sizes leave open.
void Filler::FillShipped() {
  Note("model", raw_.shipped_model, "its sizes, as shipped");
  if (!model().experts) return;
  if (reader_.absent("model.experts")) {
    model().experts->balanced = true;
    Note("model.experts.balanced", "true", "published benchmarks force it");
  } else {
    FillExperts();
  }
}

void Filler::FillModel() {
  if (!raw_.shipped_model.empty()) return FillShipped();
  if (model().layers == 0 || model().hidden == 0) return;  // CheckModel reports it
  if (reader_.absent("model.heads")) {
    Take("model.heads", model().heads, std::max(1u, model().hidden / 128), "heads of 128");
  }
  Take("model.kv_heads", model().kv_heads, model().heads);
  if (model().heads > 0) {
    Take("model.head_dim", model().head_dim, std::max(1u, model().hidden / model().heads));
  }
  Take("model.vocabulary", model().vocabulary, 50'304u);
  Take("model.sequence_length", model().sequence_length, 4'096u);
  FillExperts();
  FillFfn();
  if (reader_.absent("model.position")) {
    model().position = spec::Position::kRope;
    Note("model.position", "rope");
  }
  if (reader_.absent("model.normalization")) {
    const bool rms = model().position == spec::Position::kRope;
    model().normalization = rms ? spec::Normalization::kRms : spec::Normalization::kLayer;
    Note("model.normalization", rms ? "rms" : "layer");
  }
  Take("model.tied_embeddings", model().tied_embeddings, false);
  Take("model.bias", model().bias, false);
  Take("model.qkv_bias", model().qkv_bias, model().bias);
  Take("model.dropout", model().dropout, false);
  const bool predicts = PredictsTokens(training().software);
  const auto like = predicts ? spec::FindByExperts(model()) : std::nullopt;
  Take("model.multi_token_prediction_layers", model().multi_token_prediction_layers,
       like ? like->multi_token_prediction_layers : 0u);
}

Status Filler::FillDevice() {
  if (raw_.gpu.empty()) {
    return InvalidArgument("cluster.gpu: is missing; known: " + Join(spec::DeviceNames(), ", "));
  }
  Result<spec::Device> device = spec::FindDevice(raw_.gpu);
  if (!device.ok()) return device.status().WithContext("cluster.gpu");
  cluster().device = *std::move(device);
  if (raw_.memory_gib) {
    cluster().device.memory = Bytes(static_cast<int64_t>(*raw_.memory_gib * 0x1p30));
  }
  if (raw_.memory_gb_per_s) {
    cluster().device.memory_bandwidth = BytesPerSecond(*raw_.memory_gb_per_s * 1e9);
  }
  if (raw_.power_limit_w) cluster().device.power_watts = *raw_.power_limit_w;
  return {};
}

Status Filler::FillCluster() {
  const bool rack = ContainsAny(cluster().device.name, {"nvl72"});
  Take("cluster.gpus_per_node", cluster().devices_per_node, rack ? 4u : 8u);
  Take("cluster.nvlink_domain", cluster().island, rack ? 72u : cluster().devices_per_node);
  spec::Network& network = cluster().network;
  if (reader_.absent("cluster.network.kind")) Note("cluster.network.kind", "infiniband");
  Take("cluster.network.rails", network.rails, cluster().devices_per_node);
  double rate = 50;  // a 400 Gb/s network adapter for each GPU since Hopper, 200 before
  if (cluster().device.fp8.count() == 0) rate = 25;
  if (raw_.network_gb_per_s) {
    rate = *raw_.network_gb_per_s;
  } else {
    Note("cluster.network.gb_per_s_per_gpu", rate == 25 ? "25" : "50");
  }
  network.per_device = BytesPerSecond(rate * 1e9);
  RepairNodes();
  return CheckDeviceCluster(cluster());
}

// Tables count GPUs that are on nodes together with others.
void Filler::RepairNodes() {
  uint32_t& node = cluster().devices_per_node;
  if (cluster().devices > node && cluster().devices % node != 0) {
    node = std::gcd(cluster().devices, node);
    Note("cluster.gpus_per_node", std::to_string(node), "the GPUs don't fill larger nodes");
  }
  uint32_t& island = cluster().island;
  if (node % island != 0 && island % node != 0) {
    island = node;
    Note("cluster.nvlink_domain", std::to_string(island), "a node");
  }
}

// Repairs values that a table prints without a meaning, or with another meaning than here.
void Filler::RepairLayout() {
  spec::Layout& layout = training().layout;
  if (layout.pipeline == 1 && layout.virtual_pipeline > 1 && !case_.open.pipeline) {
    layout.virtual_pipeline = 1;
    Note("layout.virtual_pipeline", "1", "there is one stage");
  }
  const std::vector<uint32_t>& stages = layout.layers_per_stage;
  const uint64_t sum = std::accumulate(stages.begin(), stages.end(), uint64_t{0});
  const uint64_t chunks = uint64_t{layout.pipeline} * layout.virtual_pipeline;
  if (!stages.empty() && (stages.size() != chunks || sum != model().layers)) {
    Note("layout.layers_per_stage", "null",
         "is not " + std::to_string(model().layers) + " layers in " + std::to_string(chunks) +
             " chunks");
    layout.layers_per_stage.clear();
  }
  const uint64_t replicas = uint64_t{layout.data} * layout.context;
  if (layout.shard_group > 0 && replicas % layout.shard_group != 0) {
    Note("layout.shard_group", "null", "does not divide the replicas");
    layout.shard_group = 0;
  }
  const bool ring = layout.context_kind == spec::ContextKind::kRing;
  if (ring && model().sequence_length % (2 * uint64_t{layout.context}) != 0) {
    layout.context_kind = spec::ContextKind::kAllGather;  // needs no even pieces
  }
}

void Filler::FillData() {
  spec::Layout& layout = training().layout;
  const uint64_t copies = uint64_t{layout.tensor} * layout.pipeline * layout.context;
  const bool follows = case_.open.tensor || case_.open.pipeline;
  if (follows) {
    case_.open.data = true;
    return;
  }
  const uint64_t devices = cluster().devices;
  const bool fills = devices % copies == 0 && devices / copies == layout.data;
  if (fills && !reader_.absent("layout.data")) return;
  if (devices % copies != 0) return;  // CheckTraining reports it
  // Papers print "DP" as data, data x context or the batch: the devices decide.
  layout.data = static_cast<uint32_t>(devices / copies);
  Note("layout.data", std::to_string(layout.data), "fills the cluster");
}

// NeMo up to 25.04 had no size for it: an expert's weights are split over the tensor group, and the
// 1 that tables print there is no size.
void Filler::SplitExperts() {
  spec::Layout& layout = training().layout;
  if (!model().experts || layout.tensor <= 1 || layout.expert_tensor != 1) return;
  if (!SplitsExperts(training().software)) return;
  const uint64_t span = uint64_t{layout.expert} * layout.tensor;
  const uint64_t ranks = uint64_t{layout.tensor} * layout.data * layout.context;
  if (ranks % span != 0) return;
  layout.expert_tensor = layout.tensor;
  Note("layout.expert_tensor", std::to_string(layout.tensor), "this release splits experts so");
}

Status Filler::FillLayout() {
  spec::Layout& layout = training().layout;
  const bool fsdp = family_ == Family::kShardedData;
  if (reader_.absent("cluster.gpus")) {
    const double product =
        double{1} * layout.tensor * layout.pipeline * layout.context * layout.data;
    if (reader_.absent("layout.data") || product > 1e7) {
      return InvalidArgument("cluster.gpus: is missing, and the layout does not give it");
    }
    cluster().devices = static_cast<uint32_t>(product);
    Note("cluster.gpus", std::to_string(cluster().devices), "the layout's");
  }
  if (fsdp) {  // sharded data parallelism alone is what these frameworks start with
    Take("layout.tensor", layout.tensor, 1u);
    Take("layout.pipeline", layout.pipeline, 1u);
  }
  case_.open.tensor = reader_.absent("layout.tensor") && !fsdp;
  case_.open.pipeline = reader_.absent("layout.pipeline") && !fsdp;
  Take("layout.context", layout.context, 1u);
  if (layout.pipeline > 1 || case_.open.pipeline) {
    case_.open.virtual_pipeline = reader_.absent("layout.virtual_pipeline");
  }
  if (model().experts) {
    case_.open.expert = reader_.absent("layout.expert");
    const bool one = case_.open.expert || layout.expert > 1;
    Take("layout.expert_tensor", layout.expert_tensor, one ? 1u : layout.tensor);
  } else {
    layout.expert = 1;
    layout.expert_tensor = 1;
  }
  FillData();
  SplitExperts();
  Take("layout.sequence_parallel", layout.sequence_parallel,
       layout.tensor > 1 && family_ != Family::kOldMegatron && family_ != Family::kDeepSpeed);
  if (case_.open.tensor) layout.sequence_parallel = true;
  Take("layout.zero_stage", layout.zero_stage,
       fsdp                              ? 3u
       : family_ == Family::kOldMegatron ? 0u
                                         : 1u);
  // The kind is not part of a case.
  if (case_.question.training.software.framework == "meta") {
    layout.context_kind = spec::ContextKind::kAllGather;  // arXiv 2407.21783, section 3.3.2
  }
  if (ContainsAny(case_.question.training.software.framework, {"hai-llm"}) && layout.pipeline > 1 &&
      model().experts && case_.question.training.precision == spec::Precision::kFp8) {
    layout.schedule = spec::PipelineSchedule::kDualPipe;  // arXiv 2412.19437, section 3.2.1
    case_.open.virtual_pipeline = false;
    layout.virtual_pipeline = 1;
    Note("layout.schedule", "dualpipe");
  }
  RepairLayout();
  return {};
}

void Filler::FillStates() {
  spec::Software& software = training().software;
  const bool half_sums = training().precision == spec::Precision::kFp16 &&
                         (family_ == Family::kOldMegatron || family_ == Family::kDeepSpeed);
  software.gradient_bytes =
      half_sums ? 2 : UsualSoftware(software.framework, software.release).gradient_bytes;
  if (raw_.moment_dtype == "bf16" || raw_.moment_dtype == "fp16") software.moment_bytes = 2;
  if (raw_.moment_dtype == "fp8") software.moment_bytes = 1;
  // Which moments Apex's optimizer has is a setting of each recipe.
  const bool apex = !model().experts && UsesApexOptimizer(software);
  if (!raw_.moment_dtype.empty()) return;
  case_.open.moments = apex;
  // NeMo AutoModel trains the bf16 weights themselves with PyTorch's Adam.
  if (ContainsAny(software.framework, {"automodel"})) software.moment_bytes = 2;
  // Megatron Bridge's recipe of DeepSeek-V3: the precision-aware optimizer.
  const bool few_nodes = model().experts && model().experts->groups > 1;
  if (few_nodes && ContainsAny(software.framework, {"bridge"})) software.moment_bytes = 2;
  if (case_.open.moments) return;
  Note("software.optimizer_moment_dtype", software.moment_bytes == 2 ? "bf16" : "fp32");
}

void Filler::FillSoftware() {
  spec::Software& software = training().software;
  if (software.framework.empty()) {
    software.framework = "megatron-core";
    Note("software.framework", software.framework);
  } else if (!IsKnownFramework(software.framework)) {
    Note("software.framework", "as Megatron-Core's newer stacks", "nothing is known of its name");
  }
  const std::string at = "software.";
  Take(at + "flash_attention", software.flash_attention,
       UsualSoftware(software.framework, software.release).flash_attention);
  Take(at + "compile", software.compiled,
       UsualSoftware(software.framework, software.release).compiled);
  const spec::Software usual =
      UsualSoftware(software.framework, software.release, software.compiled);
  Take(at + "cuda_graphs", software.cuda_graphs, usual.cuda_graphs);
  Take(at + "deterministic", software.deterministic, usual.deterministic);
  Take(at + "loss_fusion", software.loss_fusion, usual.loss_fusion);
  Take(at + "gradient_accumulation_fusion", software.gradient_accumulation_fusion,
       usual.gradient_accumulation_fusion);
  Take(at + "overlap.gradient", software.overlap_gradient, usual.overlap_gradient);
  Take(at + "overlap.parameter", software.overlap_parameter, usual.overlap_parameter);
  Take(at + "overlap.tensor", software.overlap_tensor,
       usual.overlap_tensor && training().layout.tensor > 1);
  Take(at + "overlap.expert", software.overlap_expert, usual.overlap_expert);
}

void Filler::FillRecompute() {
  spec::Recompute& recompute = training().recompute;
  if (reader_.absent("recompute.kind")) {
    case_.open.recompute = !recompute.modules.any();
    if (case_.open.recompute) return;
    recompute.kind = spec::RecomputeKind::kSelective;
    Note("recompute.kind", "selective", "it has modules");
  }
  if (recompute.kind != spec::RecomputeKind::kSelective || recompute.modules.any()) return;
  if (!raw_.recompute_modules.empty()) return;
  // Sharded frameworks keep every second product instead, which has no module's name.
  if (family_ == Family::kShardedData) return Note("recompute.modules", "every second product");
  recompute.modules.core_attention = true;
  Note("recompute.modules", "core_attention");
}

void Filler::FillBatch() {
  spec::Batch& batch = training().batch;
  const uint32_t data = training().layout.data;
  case_.open.micro_batch = reader_.absent("batch.micro");
  case_.global_batch_known = !reader_.absent("batch.global");
  if (!case_.global_batch_known || case_.open.data) return;
  if (batch.global < data) {
    Note("batch.global", std::to_string(data), "each replica has a sequence");
    batch.global = data;
  }
  const uint32_t share = (batch.global + data - 1) / data;
  if (case_.open.micro_batch || batch.micro <= share) return;
  batch.micro = share;
  Note("batch.micro", std::to_string(share), "a replica has no more sequences");
}

}  // namespace

Status FillDefaults(const CaseReader& reader, const RawCase& raw, Case& filled) {
  return Filler(reader, raw, filled).Run();
}

}  // namespace longhaul::planner::internal
