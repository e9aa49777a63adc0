// What Megatron-LM's options mean: names, defaults and rules of megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py at core_v0.14.0 and core_v0.19.0.
#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "planner/configs/internal/megatron_layers.h"
#include "planner/configs/internal/megatron_words.h"
#include "planner/configs/internal/readers.h"
#include "planner/configs/internal/settings.h"
#include "planner/stage_layers.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::configs::internal {
namespace {

using spec::Layout;
using spec::Model;
using spec::Precision;
using spec::RecomputeKind;
using spec::Training;

// Options that change time or memory in ways that the planner has no figures for.
constexpr auto kNotModelledArguments = std::to_array<std::string_view>({
    "hybrid-override-pattern",
    "is-hybrid-model",
    "experimental-attention-variant",
    "linear-attention-type",
    "encoder-num-layers",
    "decoder-num-layers",
    "squared-softmax",
    "moe-latent-size",
    "fine-grained-activation-offloading",
    "offload-modules",
    "cpu-offloading-num-layers",
    "hierarchical-context-parallel-sizes",
    "lora-rank",
});

// Reads the options by name: what has not been read at the end is reported as unknown. So options
// without effect on the plan are read too.
class MegatronReader {
 public:
  MegatronReader(Settings& settings, RunConfig& config)
      : settings_(settings), config_(config), training_(config.training) {}

  void Run() {
    config_.model.emplace();
    ReadModel(*config_.model);
    ReadLayout();
    ReadStates();
    ReadBatch();
    ReadRecompute();
    ReadPrecision();
    ReadSoftware();
    for (const std::string_view name : kNotModelledArguments) {
      if (settings_.Has(name)) {
        config_.unknown.push_back(settings_.Named(name) + " (the planner has no figures for it)");
      }
    }
    if (config_.model->layers == 0) {
      config_.model.reset();
      return;
    }
    ReadStages(*config_.model);
  }

 private:
  void Assume(const std::string& what) { config_.assumed.push_back(what); }

  void ReadModel(Model& model);
  void ReadAttention(Model& model);
  void ReadVocabulary(Model& model);
  void ReadExperts(Model& model);
  void ReadLayout();
  void ReadStages(const Model& model);
  void ReadStates();
  void ReadBatch();
  void ReadRecompute();
  void ReadPrecision();
  void ReadSoftware();

  Settings& settings_;
  RunConfig& config_;
  Training& training_;
};

// Defaults depend on earlier options (heads on hidden size, key-value heads on heads), so the order
// of the reads matters.
void MegatronReader::ReadAttention(Model& model) {
  model.kv_heads = model.heads;
  if (settings_.Switch("group-query-attention")) {
    model.kv_heads = 1;
    settings_.Whole("num-query-groups", 1, 65'536, model.kv_heads);
  } else {
    settings_.Has("num-query-groups");
  }
  model.head_dim = model.heads > 0 ? model.hidden / model.heads : 0;
  settings_.Whole("kv-channels", 1, 65'536, model.head_dim);
  const bool norm = settings_.Switch("qk-layernorm");
  if (settings_.Switch("multi-latent-attention")) {
    spec::MultiLatent latent{0, 32, 128, 64, 128};  // the framework's own sizes
    settings_.Whole("q-lora-rank", 1, 65'536, latent.query_rank);
    settings_.Whole("kv-lora-rank", 1, 65'536, latent.kv_rank);
    settings_.Whole("qk-head-dim", 1, 65'536, latent.qk_nope_dim);
    settings_.Whole("qk-pos-emb-head-dim", 1, 65'536, latent.qk_rope_dim);
    settings_.Whole("v-head-dim", 1, 65'536, latent.v_dim);
    model.multi_latent = latent;
    model.kv_heads = model.heads;
    model.head_dim = latent.qk_nope_dim + latent.qk_rope_dim;
  } else {
    model.qk_norm = norm;
  }
  const std::vector<std::string> window = settings_.List("window-size");
  if (window.empty()) return;
  std::string_view first = window.front();
  first = first.substr(0, first.find(','));
  while (first.starts_with('(')) first.remove_prefix(1);
  const auto size = ParseUint64(Trim(first));
  if (!size.ok() || *size == 0 || *size > kMostTokens) {
    settings_.Refuse("window-size", "must be tokens to the left and right as in 4096,0");
    return;
  }
  model.sliding_window = spec::SlidingWindow{static_cast<uint32_t>(*size), 1};
}

// Of --vocab-size, or of the shipped model of this shape.
void MegatronReader::ReadVocabulary(Model& model) {
  settings_.Whole("padded-vocab-size", 1, 100'000'000, model.vocabulary);
  settings_.Whole("vocab-size", 1, 100'000'000, model.vocabulary);
  if (model.vocabulary > 0) return;
  for (const std::string& name : spec::ModelNames()) {
    const auto shipped = spec::FindModel(name);
    if (!shipped.ok() || shipped->layers != model.layers || shipped->hidden != model.hidden ||
        shipped->heads != model.heads || shipped->kv_heads != model.kv_heads ||
        shipped->ffn_hidden != model.ffn_hidden) {
      continue;
    }
    model.vocabulary = shipped->vocabulary;
    Assume("vocabulary = " + std::to_string(model.vocabulary) + " (that of " + name +
           "; the tokenizer decides it)");
    return;
  }
  model.vocabulary = 50'304;
  Assume("vocabulary = 50304 (the tokenizer decides it: say --vocab-size)");
}

void MegatronReader::ReadModel(Model& model) {
  settings_.Whole("num-layers", 1, 10'000, model.layers);
  settings_.Whole("hidden-size", 1, 1 << 20, model.hidden);
  settings_.Whole("num-attention-heads", 1, 65'536, model.heads);
  ReadAttention(model);
  const bool swiglu = settings_.Switch("swiglu");
  const bool geglu = settings_.Switch("geglu");
  model.gated_ffn = swiglu || geglu;
  model.activation = swiglu                             ? spec::Activation::kSilu
                     : settings_.Switch("squared-relu") ? spec::Activation::kSquaredRelu
                                                        : spec::Activation::kGelu;
  model.ffn_hidden = swiglu ? 4 * model.hidden * 2 / 3 / 64 * 64 : 4 * model.hidden;
  settings_.Whole("ffn-hidden-size", 1, 1 << 24, model.ffn_hidden);
  settings_.Whole("max-position-embeddings", 1, kMostTokens, model.sequence_length);
  settings_.Whole("encoder-seq-length", 1, kMostTokens, model.sequence_length);
  settings_.Whole("seq-length", 1, kMostTokens, model.sequence_length);
  config_.sequence_length = model.sequence_length;
  const std::string position =
      settings_.Text("position-embedding-type").value_or("learned_absolute");
  model.position =
      position == "learned_absolute" ? spec::Position::kLearned : spec::Position::kRope;
  const std::string norm = settings_.Text("normalization").value_or("LayerNorm");
  model.normalization = norm == "RMSNorm" ? spec::Normalization::kRms : spec::Normalization::kLayer;
  model.tied_embeddings = !settings_.Switch("untie-embeddings-and-output-weights");
  model.bias = !settings_.Switch("disable-bias-linear");
  const bool qkv_bias = settings_.Switch("add-qkv-bias");
  model.qkv_bias = model.bias || qkv_bias;
  const double attention = settings_.Real("attention-dropout", 0, 1).value_or(0.1);
  const double hidden = settings_.Real("hidden-dropout", 0, 1).value_or(0.1);
  model.dropout = attention > 0 || hidden > 0;
  settings_.Whole("mtp-num-layers", 0, 100, model.multi_token_prediction_layers);
  ReadExperts(model);
  ReadVocabulary(model);
}

void MegatronReader::ReadExperts(Model& model) {
  uint32_t count = 0;
  settings_.Whole("num-experts", 1, 65'536, count);
  spec::Experts experts;
  experts.count = count;
  experts.top_k = 2;
  settings_.Whole("moe-router-topk", 1, 65'536, experts.top_k);
  experts.ffn_hidden = model.ffn_hidden;
  settings_.Whole("moe-ffn-hidden-size", 1, 1 << 24, experts.ffn_hidden);
  uint32_t shared = 0;
  settings_.Whole("moe-shared-expert-intermediate-size", 0, 1 << 24, shared);
  if (shared > 0) {
    // As many of the routed experts' size as it is; one that is wider otherwise.
    const bool whole = shared % experts.ffn_hidden == 0;
    experts.shared = whole ? shared / experts.ffn_hidden : 1;
    experts.shared_ffn_hidden = whole ? experts.ffn_hidden : shared;
  }
  experts.router_bias = settings_.Switch("moe-router-enable-expert-bias");
  experts.balanced = settings_.Switch("moe-router-force-load-balancing");
  settings_.Whole("moe-router-num-groups", 1, 65'536, experts.groups);
  settings_.Whole("moe-router-group-topk", 1, 65'536, experts.groups_top_k);
  if (const auto factor = settings_.Real("moe-expert-capacity-factor", 0, 1000)) {
    experts.capacity_factor = *factor;
  }
  settings_.Switch("moe-grouped-gemm");
  settings_.Switch("moe-pad-expert-input-to-capacity");
  const auto where = settings_.Text("moe-layer-freq");
  if (count == 0) return;
  if (where && model.layers > 0) {
    const Status status = ParseExpertLayers(*where, model.layers, experts);
    if (!status.ok()) settings_.Refuse("moe-layer-freq", status.message());
  }
  model.experts = experts;
}

void MegatronReader::ReadLayout() {
  Layout& layout = training_.layout;
  settings_.Whole("tensor-model-parallel-size", 1, 65'536, layout.tensor);
  settings_.Whole("pipeline-model-parallel-size", 1, 65'536, layout.pipeline);
  settings_.Whole("context-parallel-size", 1, 65'536, layout.context);
  settings_.Whole("expert-model-parallel-size", 1, 65'536, layout.expert);
  layout.expert_tensor = config_.model->experts ? layout.tensor : 1;
  settings_.Whole("expert-tensor-parallel-size", 1, 65'536, layout.expert_tensor);
  layout.sequence_parallel = settings_.Switch("sequence-parallel") && layout.tensor > 1;
  static constexpr std::pair<std::string_view, spec::ContextKind> kKinds[] = {
      {"p2p", spec::ContextKind::kRing},
      {"a2a", spec::ContextKind::kAllToAll},
      {"allgather", spec::ContextKind::kAllGather},
      {"a2a+p2p", spec::ContextKind::kAllToAll}};
  if (const auto kind = settings_.Word<spec::ContextKind>("cp-comm-type", kKinds)) {
    layout.context_kind = *kind;
  }
  if (settings_.Switch("use-tp-pp-dp-mapping")) {
    layout.order = {spec::Dimension::kTensor, spec::Dimension::kContext, spec::Dimension::kPipeline,
                    spec::Dimension::kData};
  }
}

// Layers of each stage: in letters, by a number for the first and last, or by the rule.
void MegatronReader::ReadStages(const Model& model) {
  Layout& layout = training_.layout;
  uint32_t a_chunk = 0;
  settings_.Whole("num-layers-per-virtual-pipeline-stage", 1, 10'000, a_chunk);
  settings_.Whole("num-virtual-stages-per-pipeline-rank", 1, 10'000, layout.virtual_pipeline);
  const bool embedding = settings_.Switch("account-for-embedding-in-pipeline-split");
  const bool loss = settings_.Switch("account-for-loss-in-pipeline-split");
  uint32_t first = 0;
  uint32_t last = 0;
  settings_.Whole("decoder-first-pipeline-num-layers", 1, 10'000, first);
  settings_.Whole("decoder-last-pipeline-num-layers", 1, 10'000, last);
  if (const auto letters = settings_.Text("pipeline-model-parallel-layout")) {
    const auto stages = ParseStageLetters(*letters);
    if (!stages.ok())
      return settings_.Refuse("pipeline-model-parallel-layout", stages.status().message());
    layout.layers_per_stage = *stages;
    if (stages->size() % layout.pipeline != 0) {
      return settings_.Refuse("pipeline-model-parallel-layout",
                              "has " + std::to_string(stages->size()) + " stages, which " +
                                  std::to_string(layout.pipeline) + " ranks cannot share evenly");
    }
    layout.virtual_pipeline = static_cast<uint32_t>(stages->size()) / layout.pipeline;
    return;
  }
  if (a_chunk > 0) layout.virtual_pipeline = std::max(1u, model.layers / layout.pipeline / a_chunk);
  // Layers that do not spread evenly are refused unless the options describe the stages.
  const uint32_t chunks = layout.pipeline * layout.virtual_pipeline;
  if (chunks == 1 || chunks > 10'000) return;
  std::vector<uint32_t> layers(chunks);
  if (first > 0 || last > 0) {
    const uint32_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
    const uint32_t given = first + last;
    if (layout.virtual_pipeline > 1 || chunks <= ends || given >= model.layers ||
        (model.layers - given) % (chunks - ends) != 0) {
      return settings_.Refuse("decoder-first-pipeline-num-layers",
                              "and -last- leave layers that do not spread evenly over the other "
                              "stages");
    }
    std::fill(layers.begin(), layers.end(), (model.layers - given) / (chunks - ends));
    if (first > 0) layers.front() = first;
    if (last > 0) layers.back() = last;
  } else {
    const uint32_t counted = model.layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
    if (counted % chunks != 0) {
      return settings_.Refuse("pipeline-model-parallel-size",
                              std::to_string(layout.pipeline) + ": " + std::to_string(counted) +
                                  " layers do not spread evenly over " + std::to_string(chunks) +
                                  " stages");
    }
    std::fill(layers.begin(), layers.end(), counted / chunks);
    layers.front() -= embedding ? 1 : 0;
    layers.back() -= loss ? 1 : 0;
  }
  // Left to the planner's rule where that gives the same.
  std::vector<uint32_t> usual(chunks);
  StageLayers(model.layers, layout, usual, model.multi_token_prediction_layers);
  if (layers != usual) layout.layers_per_stage = std::move(layers);
}

void MegatronReader::ReadStates() {
  Layout& layout = training_.layout;
  spec::Software& software = training_.software;
  const bool distributed = settings_.Switch("use-distributed-optimizer");
  const bool megatron_fsdp = settings_.Switch("use-megatron-fsdp");
  const bool custom_fsdp = settings_.Switch("use-custom-fsdp");
  const bool torch_fsdp = settings_.Switch("use-torch-fsdp2");
  layout.zero_stage = distributed ? 1 : 0;
  static constexpr std::pair<std::string_view, uint32_t> kStrategies[] = {
      {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
  const auto strategy = settings_.Word<uint32_t>("data-parallel-sharding-strategy", kStrategies);
  if (megatron_fsdp || custom_fsdp) layout.zero_stage = strategy.value_or(0);
  if (torch_fsdp) layout.zero_stage = 3;
  settings_.Whole("num-distributed-optimizer-instances", 1, kMostRanks, config_.copies);
  software.overlap_gradient = settings_.Switch("overlap-grad-reduce");
  software.overlap_parameter = settings_.Switch("overlap-param-gather");
  software.gradient_accumulation_fusion = !settings_.Switch("no-gradient-accumulation-fusion");
  const bool fp32_sums = settings_.Switch("accumulate-allreduce-grads-in-fp32");
  const bool short_sums = settings_.Switch("grad-reduce-in-bf16");
  const bool fp16 = settings_.Has("fp16");
  software.gradient_bytes = short_sums || (fp16 && !fp32_sums) ? 2 : 4;
  settings_.Switch("use-precision-aware-optimizer");
  static constexpr std::pair<std::string_view, uint32_t> kTypes[] = {
      {"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}};
  software.moment_bytes = settings_.Word<uint32_t>("exp-avg-dtype", kTypes).value_or(4);
  settings_.Text("exp-avg-sq-dtype");
  settings_.Text("main-grads-dtype");
  settings_.Text("main-params-dtype");
  if (settings_.Switch("optimizer-cpu-offload")) training_.offload = spec::Offload::kOptimizer;
  const double share = settings_.Real("optimizer-offload-fraction", 0, 1).value_or(1);
  if (training_.offload == spec::Offload::kOptimizer && share < 1) {
    Assume("the whole optimizer is offloaded (--optimizer-offload-fraction says a part)");
  }
}

void MegatronReader::ReadBatch() {
  settings_.Whole("micro-batch-size", 1, kMostMicro, config_.micro_batch);
  settings_.Whole("global-batch-size", 1, kMostSequences, config_.global_batch);
  if (config_.micro_batch == 0) {
    config_.micro_batch = 1;
    Assume("micro batch = 1 (--micro-batch-size is not said)");
  }
  if (config_.global_batch == 0) config_.micro_batches = 1;
}

void MegatronReader::ReadRecompute() {
  spec::Recompute& recompute = training_.recompute;
  static constexpr std::pair<std::string_view, RecomputeKind> kKinds[] = {
      {"full", RecomputeKind::kFull}, {"selective", RecomputeKind::kSelective}};
  if (settings_.Switch("recompute-activations")) recompute.kind = RecomputeKind::kSelective;
  if (const auto kind = settings_.Word<RecomputeKind>("recompute-granularity", kKinds)) {
    recompute.kind = *kind;
  }
  const std::string method = settings_.Text("recompute-method").value_or("uniform");
  uint32_t layers = 0;
  settings_.Whole("recompute-num-layers", 1, 10'000, layers);
  if (recompute.kind == RecomputeKind::kFull && method == "block") recompute.full_layers = layers;
  const std::vector<std::string> names = settings_.List("recompute-modules");
  if (recompute.kind != RecomputeKind::kSelective) return;
  const std::pair<std::string_view, bool*> known[] = {
      {"core_attn", &recompute.modules.core_attention},
      {"layernorm", &recompute.modules.layer_norm},
      {"moe_act", &recompute.modules.moe_activation},
      {"mla_up_proj", &recompute.modules.mla_up_projection},
      {"mlp", &recompute.modules.mlp},
      {"moe", &recompute.modules.moe}};
  std::vector<std::string_view> words;
  for (const auto& [word, flag] : known) words.push_back(word);
  if (names.empty()) recompute.modules.core_attention = true;
  for (const std::string& name : names) {
    bool found = name == "shared_experts";  // a part of `moe`
    for (const auto& [word, flag] : known) {
      if (word == name) found = *flag = true;
    }
    if (found) continue;
    const auto meant = Nearest(name, words);
    settings_.Refuse("recompute-modules",
                     "has no module " + Printable(name, 40) +
                         (meant ? ": did you mean " + std::string(*meant) + "?" : ""));
  }
}

void MegatronReader::ReadPrecision() {
  const bool fp16 = settings_.Switch("fp16");
  const bool bf16 = settings_.Switch("bf16");
  training_.precision = fp16 ? Precision::kFp16 : bf16 ? Precision::kBf16 : Precision::kFp32;
  const bool fp8 = settings_.Has("fp8-format") || settings_.Has("fp8-hybrid");
  const std::string recipe = settings_.Text("fp8-recipe").value_or("delayed");
  if (fp8) training_.precision = recipe == "mxfp8" ? Precision::kMxfp8 : Precision::kFp8;
  settings_.Text("fp4-recipe");
  if (settings_.Has("fp4-format")) training_.precision = Precision::kNvfp4;
  for (const std::string_view name :
       {"fp8-margin", "fp8-interval", "fp8-amax-history-len", "fp8-amax-compute-algo",
        "fp8-param-gather", "fp8-wgrad", "no-fp8-wgrad", "first-last-layers-bf16"}) {
    settings_.Has(name);
  }
}

void MegatronReader::ReadSoftware() {
  spec::Software& software = training_.software;
  software.framework = "megatron-core";
  const std::string backend = settings_.Text("attention-backend").value_or("auto");
  software.flash_attention = backend != "unfused" && backend != "local";
  settings_.Switch("use-flash-attn");
  software.loss_fusion = settings_.Switch("cross-entropy-loss-fusion");
  settings_.Text("cross-entropy-fusion-impl");
  software.deterministic = settings_.Switch("deterministic-mode");
  software.overlap_tensor = settings_.Switch("tp-comm-overlap") && training_.layout.tensor > 1;
  software.overlap_expert = settings_.Switch("overlap-moe-expert-parallel-comm");
  const bool graphs = settings_.Switch("enable-cuda-graph");
  const bool external = settings_.Switch("external-cuda-graph");
  const std::string impl = settings_.Text("cuda-graph-impl").value_or("none");
  software.cuda_graphs = graphs || external || impl != "none";
  settings_.Has("cuda-graph-scope");
}

}  // namespace

Result<RunConfig> ReadMegatron(std::string_view text, std::string_view source) {
  RunConfig config;
  config.framework = flags::Framework::kMegatron;
  Settings settings(std::string(source), "--");
  RETURN_IF_ERROR(ReadMegatronWords(text, source, settings, config));
  MegatronReader(settings, config).Run();
  PassOverMegatronWords(settings, config);
  RETURN_IF_ERROR(settings.status());
  return config;
}

}  // namespace longhaul::planner::configs::internal
