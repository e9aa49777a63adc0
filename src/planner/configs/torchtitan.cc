// torchtitan's TOML: keys and defaults of torchtitan/config/job_config.py at v0.2.2. (Later
// releases take Python instead.)
#define TOML_EXCEPTIONS 0
// The library asserts (with NDEBUG: assumes in optimization) conditions that a hostile file ("[[[")
// breaks. Without either it finds the error itself.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "base/text.h"
#include "planner/configs/internal/readers.h"
#include "planner/configs/internal/settings.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::configs::internal {
namespace {

using spec::Layout;
using spec::RecomputeKind;

constexpr auto kPassedOverOptions = std::to_array<std::string_view>({
    "job.*",
    "profiling.*",
    "metrics.*",
    "lr_scheduler.*",
    "checkpoint.*",
    "comm.*",
    "memory_estimation.*",
    "fault_tolerance.*",
    "experimental.*",
    "validation.*",
    "debug.*",
    "model.hf_assets_path",
    "model.tokenizer_path",
    "model.print_after_conversion",
    "optimizer.*",
    "training.dataset",
    "training.dataset_path",
    "training.max_norm",
    "training.steps",
    "training.gc_freq",
    "training.gc_debug",
    "training.dataloader.*",
    "training.seed",
    "training.deterministic",
    "training.debug_moe_force_load_balance",
    "training.mixed_precision_reduce",
    "parallelism.context_parallel_load_balancer",
    "parallelism.context_parallel_rotate_method",
    "parallelism.disable_loss_parallel",
    "parallelism.enable_compiled_autograd",
    "parallelism.expert_parallel_comm_backend",
    "parallelism.pipeline_parallel_expert_parallel_overlap",
    "activation_checkpoint.early_stop",
    "activation_checkpoint.per_op_sac_*",
    "activation_checkpoint.visualize_*",
    "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.determinism_check",
    "activation_checkpoint.debug",
    "compile.components",
    "compile.backend",
    "quantize.*",
});

struct Shipped {
  std::string_view flavor;  // "llama3 8B"
  std::string_view name;    // of spec::FindModel
};

// Flavors whose shape a shipped model has.
constexpr Shipped kShipped[] = {
    {"llama3 8B", "llama-3.1-8b"},
    {"llama3 8B_flex", "llama-3.1-8b"},
    {"llama3 8B_varlen", "llama-3.1-8b"},
    {"llama3 70B", "llama-3.1-70b"},
    {"llama3 405B", "llama-3.1-405b"},
    {"qwen3 0.6B", "qwen3-0.6b"},
    {"qwen3 1.7B", "qwen3-1.7b"},
    {"qwen3 4B", "qwen3-4b"},
    {"qwen3 8B", "qwen3-8b"},
    {"qwen3 14B", "qwen3-14b"},
    {"qwen3 32B", "qwen3-32b"},
    {"qwen3 30B-A3B", "qwen3-30b-a3b"},
    {"qwen3 235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3 16B", "deepseek-v2-lite"},
    {"deepseek_v3 236B", "deepseek-v2"},
    {"deepseek_v3 671B", "deepseek-v3"},
};

std::string TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* real = node.as_floating_point()) {
    std::ostringstream text;
    text.precision(17);
    text << real->get();
    return text.str();
  }
  return "?";  // a date or a list in a list
}

// Tables become names with dots. A list in a list becomes one text with commas.
void Flatten(const toml::table& table, const std::string& path, Settings& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = (path.empty() ? "" : path + ".") + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      Flatten(*inner, name, settings);
      continue;
    }
    std::vector<std::string> values;
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& entry : *list) {
        const toml::array* inner = entry.as_array();
        if (inner == nullptr) {
          values.push_back(TextOf(entry));
          continue;
        }
        std::vector<std::string> words;
        for (const toml::node& word : *inner) words.push_back(TextOf(word));
        values.push_back(Join(words, ","));
      }
    } else {
      values.push_back(TextOf(node));
    }
    settings.Add(name, std::move(values));
  }
}

class TorchtitanReader {
 public:
  TorchtitanReader(Settings& settings, RunConfig& config)
      : settings_(settings), config_(config), layout_(config.training.layout) {}

  void Run() {
    ReadModel();
    ReadData();
    ReadPipeline();
    ReadBatch();
    ReadRecompute();
    ReadRest();
  }

 private:
  void ReadModel();
  void ReadData();
  void ReadPipeline();
  void ReadStages();
  void ReadBatch();
  void ReadRecompute();
  void ReadRest();
  void Assume(const std::string& what) { config_.assumed.push_back(what); }

  Settings& settings_;
  RunConfig& config_;
  Layout& layout_;
};

void TorchtitanReader::ReadModel() {
  const std::string model = settings_.Text("model.name").value_or("llama3");
  const std::string flavor = settings_.Text("model.flavor").value_or("debugmodel");
  config_.model_name = model + " " + flavor;
  for (const Shipped& shipped : kShipped) {
    if (shipped.flavor != config_.model_name) continue;
    const auto found = spec::FindModel(shipped.name);
    if (found.ok()) config_.model = *found;
  }
  config_.sequence_length = 2048;
  settings_.Whole("training.seq_len", 1, kMostTokens, config_.sequence_length);
}

// Degrees; -1 of shards: what is left over.
void TorchtitanReader::ReadData() {
  settings_.Whole("parallelism.tensor_parallel_degree", 1, 65'536, layout_.tensor);
  layout_.sequence_parallel = layout_.tensor > 1;
  settings_.Whole("parallelism.context_parallel_degree", 1, 65'536, layout_.context);
  layout_.context_kind = spec::ContextKind::kAllGather;
  static constexpr std::pair<std::string_view, spec::ContextKind> kKinds[] = {
      {"allgather", spec::ContextKind::kAllGather}, {"alltoall", spec::ContextKind::kRing}};
  if (const auto kind =
          settings_.Word<spec::ContextKind>("parallelism.context_parallel_rotate_method", kKinds)) {
    layout_.context_kind = *kind;
  }
  settings_.Whole("parallelism.expert_parallel_degree", 1, 65'536, layout_.expert);
  settings_.Whole("parallelism.expert_tensor_parallel_degree", 1, 65'536, layout_.expert_tensor);
  settings_.Whole("parallelism.data_parallel_replicate_degree", 1, kMostRanks, config_.copies);
  const std::string_view at = "parallelism.data_parallel_shard_degree";
  const auto shards = settings_.Real(at, -1, static_cast<double>(kMostRanks));
  bool sharded = true;
  if (shards && *shards != -1) {
    if (*shards < 1 || *shards != static_cast<uint32_t>(*shards)) {
      settings_.Refuse(at, "must be -1 (what is left over) or a number of ranks");
      return;
    }
    const double data = *shards * config_.copies;
    if (data > static_cast<double>(kMostRanks))
      return settings_.Refuse(at, "is beyond any cluster");
    config_.data = static_cast<uint32_t>(data);
    sharded = *shards > 1 || layout_.context > 1;  // context ranks shard the weights too
  }
  static constexpr std::pair<std::string_view, uint32_t> kStages[] = {
      {"default", 3}, {"always", 3}, {"never", 2}};
  const auto stage = settings_.Word<uint32_t>("parallelism.fsdp_reshard_after_forward", kStages);
  layout_.zero_stage = sharded ? stage.value_or(3) : 0;
}

void TorchtitanReader::ReadPipeline() {
  settings_.Whole("parallelism.pipeline_parallel_degree", 1, 65'536, layout_.pipeline);
  using spec::PipelineSchedule;
  static constexpr std::pair<std::string_view, PipelineSchedule> kSchedules[] = {
      {"1F1B", PipelineSchedule::kOneForwardOneBackward},
      {"Interleaved1F1B", PipelineSchedule::kOneForwardOneBackward},
      {"GPipe", PipelineSchedule::kGpipe},
      {"ZBVZeroBubble", PipelineSchedule::kZeroBubbleV},
      {"DualPipeV", PipelineSchedule::kDualPipe}};
  const std::string_view key = "parallelism.pipeline_parallel_schedule";
  const auto schedule = settings_.Word<PipelineSchedule>(key, kSchedules);
  const std::string csv = settings_.Text("parallelism.pipeline_parallel_schedule_csv").value_or("");
  if (!csv.empty())
    config_.unknown.push_back(
        "parallelism.pipeline_parallel_schedule_csv (a schedule of one's own)");
  if (layout_.pipeline > 1) {
    layout_.schedule = schedule.value_or(PipelineSchedule::kOneForwardOneBackward);
    const std::string name = settings_.Text(key).value_or("1F1B");
    layout_.virtual_pipeline = name == "1F1B" || name == "GPipe" ? 1 : 2;
  }
  ReadStages();
}

void TorchtitanReader::ReadStages() {
  const std::string at = "parallelism.";
  uint32_t first = 1;
  uint32_t last = 1;
  uint32_t each = 0;
  settings_.Whole(at + "pipeline_parallel_first_stage_less_layers", 0, 10'000, first);
  settings_.Whole(at + "pipeline_parallel_last_stage_less_layers", 0, 10'000, last);
  settings_.Whole(at + "pipeline_parallel_layers_per_stage", 1, 10'000, each);
  const std::vector<std::string> stages = settings_.List(at + "module_fqns_per_model_part");
  if (layout_.pipeline == 1) return;
  if (!stages.empty()) {
    if (stages.size() > 10'000 || stages.size() % layout_.pipeline != 0) {
      return settings_.Refuse(at + "module_fqns_per_model_part",
                              "has " + std::to_string(stages.size()) + " parts, which " +
                                  std::to_string(layout_.pipeline) + " ranks cannot share evenly");
    }
    layout_.virtual_pipeline = static_cast<uint32_t>(stages.size()) / layout_.pipeline;
    for (const std::string& modules : stages) {
      const auto words = Split(modules, ',');
      layout_.layers_per_stage.push_back(
          static_cast<uint32_t>(std::count_if(words.begin(), words.end(), [](std::string_view w) {
            return w.starts_with("layers.");
          })));
    }
    return;
  }
  if (!config_.model) return;
  // Its own rule: embedding and output weigh so many layers; what is over goes to the first stages.
  const uint32_t layers = config_.model->layers;
  const uint32_t weight = layers + first + last;
  if (each > 0) {
    const uint32_t chunks = (weight + each - 1) / each;
    if (chunks % layout_.pipeline != 0) {
      return settings_.Refuse(at + "pipeline_parallel_layers_per_stage",
                              std::to_string(each) + " makes " + std::to_string(chunks) +
                                  " stages, which " + std::to_string(layout_.pipeline) +
                                  " ranks cannot share evenly");
    }
    layout_.virtual_pipeline = chunks / layout_.pipeline;
  }
  const uint32_t chunks = layout_.pipeline * layout_.virtual_pipeline;
  if (chunks > 10'000 || chunks > weight) return;
  std::vector<uint32_t> split;
  for (uint32_t i = 0; i < chunks; ++i) {
    uint32_t share = weight / chunks + (i < weight % chunks ? 1 : 0);
    if (i == 0) share -= std::min(share, first);
    if (i + 1 == chunks) share -= std::min(share, last);
    split.push_back(share);
  }
  const bool even =
      std::all_of(split.begin(), split.end(), [&](uint32_t n) { return n == split[0]; });
  uint64_t sum = 0;
  for (const uint32_t n : split) sum += n;
  if (!even && sum == layers) layout_.layers_per_stage = std::move(split);
}

// With a pipeline the local batch is cut into micro-batches; without, it is one.
void TorchtitanReader::ReadBatch() {
  uint32_t local = 8;
  uint32_t micro = 1;
  settings_.Whole("training.local_batch_size", 1, kMostSequences, local);
  settings_.Whole("parallelism.pipeline_parallel_microbatch_size", 1, kMostMicro, micro);
  config_.micro_batch = layout_.pipeline > 1 ? micro : local;
  const auto global =
      settings_.Real("training.global_batch_size", -1, static_cast<double>(kMostSequences));
  if (global && *global >= 1) {
    config_.global_batch = static_cast<uint32_t>(*global);
    return;
  }
  if (local % config_.micro_batch != 0) {
    return settings_.Refuse("training.local_batch_size", std::to_string(local) +
                                                             " is no multiple of the micro batch " +
                                                             std::to_string(config_.micro_batch));
  }
  config_.micro_batches = local / config_.micro_batch;
}

void TorchtitanReader::ReadRecompute() {
  static constexpr std::pair<std::string_view, RecomputeKind> kModes[] = {
      {"none", RecomputeKind::kNone},
      {"selective", RecomputeKind::kSelective},
      {"full", RecomputeKind::kFull},
      {"memory_budget", RecomputeKind::kSelective}};
  const auto mode = settings_.Word<RecomputeKind>("activation_checkpoint.mode", kModes);
  config_.training.recompute.kind = mode.value_or(RecomputeKind::kSelective);
  const std::string option =
      settings_.Text("activation_checkpoint.selective_ac_option").value_or("2");
  settings_.Has("activation_checkpoint.memory_budget");
  if (config_.training.recompute.kind == RecomputeKind::kSelective && option != "op") {
    Assume("recompute = selective by operator (the file says every layer of " +
           Printable(option, 20) + ")");
  }
}

void TorchtitanReader::ReadRest() {
  spec::Software& software = config_.training.software;
  software.framework = "torchtitan";
  software.loss_fusion = false;
  software.gradient_accumulation_fusion = false;
  software.compiled = settings_.Switch("compile.enable");
  software.overlap_tensor =
      settings_.Switch("parallelism.enable_async_tensor_parallel") && layout_.tensor > 1;
  if (settings_.Switch("training.enable_cpu_offload")) {
    config_.training.offload = spec::Offload::kOptimizer;
    Assume("the optimizer is offloaded (torchtitan offloads weights and gradients too)");
  }
  const std::string dtype = settings_.Text("training.dtype").value_or("float32");
  const std::string compute = settings_.Text("training.mixed_precision_param").value_or("bfloat16");
  config_.training.precision =
      dtype == "float32" && compute == "float32" ? spec::Precision::kFp32 : spec::Precision::kBf16;
  if (dtype == "bfloat16") Assume("weights and moments in fp32 (training.dtype says bfloat16)");
  for (const std::string& converter : settings_.List("model.converters")) {
    if (converter.find("float8") != std::string::npos) {
      config_.training.precision = spec::Precision::kFp8;
    } else if (converter.find("mx") != std::string::npos) {
      config_.training.precision = spec::Precision::kMxfp8;
    } else {
      config_.unknown.push_back("model.converters: " + Printable(converter, 60));
    }
  }
}

// The tables of letters that toml++ has are undefined for some beyond ASCII (U+00C0 for a key).
// No key or value that matters here has any: they become question marks, an error outside of texts.
std::string Ascii(std::string_view text) {
  std::string ascii(text);
  std::replace_if(
      ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) > 127; }, '?');
  return ascii;
}

}  // namespace

Result<RunConfig> ReadTorchtitan(std::string_view text, std::string_view source) {
  const toml::parse_result parsed = toml::parse(Ascii(text));
  if (!parsed) {
    return InvalidArgument(std::string(source) + ":" +
                           std::to_string(parsed.error().source().begin.line) +
                           ": not valid TOML: " + Printable(parsed.error().description()));
  }
  Settings settings(std::string(source), "");
  Flatten(parsed.table(), "", settings);
  RunConfig config;
  config.framework = flags::Framework::kTorchtitan;
  TorchtitanReader(settings, config).Run();
  config.passed_over = settings.PassOver(kPassedOverOptions, config.unknown);
  RETURN_IF_ERROR(settings.status());
  return config;
}

}  // namespace longhaul::planner::configs::internal
