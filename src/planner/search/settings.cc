#include "planner/search/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::planner::search {
namespace {

using spec::ContextKind;
using spec::Dimension;
using spec::Offload;
using spec::PipelineSchedule;
using spec::PlacementOrder;
using spec::Precision;
using spec::Recompute;
using spec::RecomputeKind;
using spec::RecomputeRun;

template <typename T, size_t N>
using Words = std::array<std::pair<std::string_view, T>, N>;

constexpr Words<PipelineSchedule, 5> kSchedules = {
    {{"1f1b", PipelineSchedule::kOneForwardOneBackward},
     {"gpipe", PipelineSchedule::kGpipe},
     {"zb-h1", PipelineSchedule::kZeroBubbleH1},
     {"zb-v", PipelineSchedule::kZeroBubbleV},
     {"dualpipe", PipelineSchedule::kDualPipe}}};
constexpr Words<ContextKind, 3> kContextKinds = {{{"ring", ContextKind::kRing},
                                                  {"all-to-all", ContextKind::kAllToAll},
                                                  {"all-gather", ContextKind::kAllGather}}};
constexpr Words<Offload, 3> kOffloads = {{{"none", Offload::kNone},
                                          {"optimizer", Offload::kOptimizer},
                                          {"activations", Offload::kActivations}}};
constexpr Words<Dimension, 4> kDimensions = {{{"tensor", Dimension::kTensor},
                                              {"context", Dimension::kContext},
                                              {"data", Dimension::kData},
                                              {"pipeline", Dimension::kPipeline}}};
constexpr Words<Precision, 6> kPrecisions = {{{"fp32", Precision::kFp32},
                                              {"fp16", Precision::kFp16},
                                              {"bf16", Precision::kBf16},
                                              {"fp8", Precision::kFp8},
                                              {"mxfp8", Precision::kMxfp8},
                                              {"nvfp4", Precision::kNvfp4}}};
constexpr Words<bool spec::RecomputeModules::*, 6> kModules = {
    {{"core_attention", &spec::RecomputeModules::core_attention},
     {"layer_norm", &spec::RecomputeModules::layer_norm},
     {"moe_activation", &spec::RecomputeModules::moe_activation},
     {"mla_up_projection", &spec::RecomputeModules::mla_up_projection},
     {"mlp", &spec::RecomputeModules::mlp},
     {"moe", &spec::RecomputeModules::moe}}};
constexpr Words<std::string_view, 12> kShort = {{{"gpus", "devices"},
                                                 {"tp", "tensor"},
                                                 {"pp", "pipeline"},
                                                 {"vp", "virtual_pipeline"},
                                                 {"cp", "context"},
                                                 {"ep", "expert"},
                                                 {"etp", "expert_tensor"},
                                                 {"dp", "data"},
                                                 {"sp", "sequence_parallel"},
                                                 {"mb", "micro"},
                                                 {"zero_stage", "zero"},
                                                 {"overlap.expert", "overlap_expert"}}};
constexpr Words<bool, 4> kFlags = {{{"true", true}, {"false", false}, {"1", true}, {"0", false}}};

template <typename T, size_t N>
std::string_view WordOf(const Words<T, N>& words, const T& value) {
  for (const auto& [word, each] : words) {
    if (each == value) return word;
  }
  return "";
}

template <typename T, size_t N>
Result<T> ParseWord(std::string_view key, std::string_view text, const Words<T, N>& words) {
  std::vector<std::string_view> known;
  std::string list;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    known.push_back(word);
    list += (list.empty() ? "" : ", ") + std::string(word);
  }
  return InvalidArgument(std::string(key) + ": '" + Printable(text, 40) + "' is none of " + list);
}

Result<uint32_t> ParseSize(std::string_view key, std::string_view text, uint64_t low,
                           uint64_t high) {
  const Result<uint64_t> number = ParseUint64(text);
  if (number.ok() && *number >= low && *number <= high) return static_cast<uint32_t>(*number);
  return InvalidArgument(std::string(key) + ": '" + Printable(text, 40) +
                         "' is not a whole number from " + std::to_string(low) + " to " +
                         WithThousands(static_cast<int64_t>(high)));
}

Result<Recompute> ParseRecompute(std::string_view text) {
  Recompute recompute;
  if (text == "none") return recompute;
  if (text == "stage") {
    recompute.kind = RecomputeKind::kByStage;
    return recompute;
  }
  if (text == "full" || text.starts_with("full:")) {
    recompute.kind = RecomputeKind::kFull;
    if (text == "full") return recompute;
    ASSIGN_OR_RETURN(recompute.full_layers, ParseSize("recompute", text.substr(5), 1, 10'000));
    return recompute;
  }
  recompute.kind = RecomputeKind::kSelective;
  for (const std::string_view word : Split(text, '+')) {
    const auto module = ParseWord("recompute", word, kModules);
    if (!module.ok()) {
      return InvalidArgument(module.status().message() + "; or say none, full, full:LAYERS");
    }
    recompute.modules.*(*module) = true;
  }
  return recompute;
}

constexpr uint32_t kMostStages = 10'000;

// "full:2.mlp+layer_norm:3" of one stage.
Status ParseStageRuns(uint32_t stage, std::string_view text, std::vector<RecomputeRun>& runs) {
  if (text == "none") return {};
  for (const std::string_view part : Split(text, '.')) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) {
      return InvalidArgument("recompute: '" + Printable(part, 40) +
                             "' is not MODULES:LAYERS, as in full:2.mlp+layer_norm:3");
    }
    RecomputeRun run{stage, 0, RecomputeKind::kFull, {}};
    ASSIGN_OR_RETURN(run.layers, ParseSize("recompute", part.substr(colon + 1), 1, 10'000));
    if (part.substr(0, colon) != "full") {
      ASSIGN_OR_RETURN(const Recompute of_run, ParseRecompute(part.substr(0, colon)));
      run.kind = of_run.kind;
      run.modules = of_run.modules;
    }
    if (run.kind == RecomputeKind::kByStage) {
      return InvalidArgument("recompute: a stage's run cannot be 'stage'");
    }
    runs.push_back(run);
  }
  return {};
}

// "full:2.mlp:3/mlp:4@6/none": stages with slashes between, @N for N alike.
Status ParseByStage(std::string_view text, Fixed& fixed) {
  fixed.recompute = Recompute{};
  fixed.recompute->kind = RecomputeKind::kByStage;
  fixed.stage_recompute.clear();
  uint32_t stage = 0;
  for (std::string_view part : Split(text, '/')) {
    uint32_t alike = 1;
    if (const size_t at = part.find('@'); at != std::string_view::npos) {
      ASSIGN_OR_RETURN(alike, ParseSize("recompute", part.substr(at + 1), 1, kMostStages));
      part = part.substr(0, at);
    }
    for (uint32_t i = 0; i < alike; ++i) {
      if (stage >= kMostStages) return InvalidArgument("recompute: more than 10,000 stages");
      RETURN_IF_ERROR(ParseStageRuns(stage++, part, fixed.stage_recompute));
    }
  }
  if (fixed.stage_recompute.empty()) fixed.recompute = Recompute{};
  return {};
}

Result<PlacementOrder> ParseOrder(std::string_view text) {
  PlacementOrder order{};
  const std::vector<std::string_view> words = Split(text, '-');
  std::array<bool, 4> seen{};
  bool sound = words.size() == order.size();
  for (size_t i = 0; sound && i < order.size(); ++i) {
    const auto dimension = ParseWord("order", words[i], kDimensions);
    if (!dimension.ok()) return dimension.status();
    order[i] = *dimension;
    bool& mentioned = seen[static_cast<size_t>(*dimension)];
    sound = !mentioned;
    mentioned = true;
  }
  if (sound) return order;
  return InvalidArgument("order: '" + Printable(text, 60) +
                         "' must name each of tensor, context, data and pipeline once, as in "
                         "tensor-context-data-pipeline");
}

constexpr uint64_t kMostRanks = 1'000'000;

// A key whose value is a size; `member` is where it goes.
struct SizeKey {
  std::string_view name;
  std::optional<uint32_t> Fixed::*member;
  uint64_t low;
  uint64_t high;
};
constexpr auto kSizes = std::to_array<SizeKey>({
    {"devices", &Fixed::devices, 1, 10'000'000},
    {"tensor", &Fixed::tensor, 1, kMostRanks},
    {"pipeline", &Fixed::pipeline, 1, kMostRanks},
    {"virtual_pipeline", &Fixed::virtual_pipeline, 1, 10'000},
    {"context", &Fixed::context, 1, kMostRanks},
    {"expert", &Fixed::expert, 1, kMostRanks},
    {"expert_tensor", &Fixed::expert_tensor, 1, kMostRanks},
    {"data", &Fixed::data, 1, kMostRanks},
    {"micro", &Fixed::micro_batch, 1, kMostRanks},
    {"zero", &Fixed::zero_stage, 0, 3},
    {"shard_group", &Fixed::shard_group, 0, kMostRanks},
});
constexpr auto kOthers =
    std::to_array<std::string_view>({"sequence_parallel", "schedule", "context_kind",
                                     "overlap_expert", "recompute", "offload", "order", "layers"});

Status SetWord(std::string_view key, std::string_view value, Fixed& fixed) {
  if (key == "schedule") {
    ASSIGN_OR_RETURN(fixed.schedule, ParseWord(key, value, kSchedules));
  } else if (key == "context_kind") {
    ASSIGN_OR_RETURN(fixed.context_kind, ParseWord(key, value, kContextKinds));
  } else if (key == "offload") {
    ASSIGN_OR_RETURN(fixed.offload, ParseWord(key, value, kOffloads));
  } else if (key == "recompute") {
    fixed.stage_recompute.clear();
    // A list of runs is recognised by its separators; "full:2" alone applies to all stages.
    const bool runs = value.find_first_of("/@.") != std::string_view::npos ||
                      (value.find(':') != std::string_view::npos && !value.starts_with("full:"));
    if (runs) return ParseByStage(value, fixed);
    ASSIGN_OR_RETURN(fixed.recompute, ParseRecompute(value));
  } else if (key == "order") {
    ASSIGN_OR_RETURN(fixed.order, ParseOrder(value));
  } else if (key == "sequence_parallel") {
    ASSIGN_OR_RETURN(fixed.sequence_parallel, ParseWord(key, value, kFlags));
  } else if (key == "overlap_expert") {
    ASSIGN_OR_RETURN(fixed.overlap_expert, ParseWord(key, value, kFlags));
  } else {
    std::vector<uint32_t> layers;
    for (const std::string_view part : Split(value, '+')) {
      if (layers.size() >= 10'000) return InvalidArgument("layers: more than 10,000 stages");
      ASSIGN_OR_RETURN(layers.emplace_back(), ParseSize("layers", part, 0, 10'000));
    }
    fixed.layers_per_stage = std::move(layers);
  }
  return {};
}

// Short and long names are equal. An unknown key names the nearest known one, else all of them.
Status SetKey(std::string_view key, std::string_view value, Fixed& fixed) {
  for (const auto& [word, name] : kShort) {
    if (word == key) key = name;
  }
  for (const SizeKey& size : kSizes) {
    if (size.name != key) continue;
    ASSIGN_OR_RETURN(fixed.*size.member, ParseSize(key, value, size.low, size.high));
    return {};
  }
  if (std::find(kOthers.begin(), kOthers.end(), key) != kOthers.end()) {
    return SetWord(key, value, fixed);
  }
  const std::vector<std::string_view> known = LayoutKeys();
  const auto nearest = Nearest(key, known);
  std::string text = "no layout key named '" + Printable(key, 40) + "'";
  if (nearest) return NotFound(text + ", did you mean '" + std::string(*nearest) + "'?");
  for (size_t i = 0; i < known.size(); ++i) {
    text += (i == 0 ? "; known are " : ", ") + std::string(known[i]);
  }
  return NotFound(text);
}

// What is not fixed keeps the value of the training. Layers of each stage belong to one number of
// stages, so a change of that number drops them.
void Overwrite(const Fixed& fixed, spec::Training& training) {
  spec::Layout& layout = training.layout;
  layout.tensor = fixed.tensor.value_or(layout.tensor);
  layout.pipeline = fixed.pipeline.value_or(layout.pipeline);
  layout.virtual_pipeline = fixed.virtual_pipeline.value_or(layout.virtual_pipeline);
  layout.context = fixed.context.value_or(layout.context);
  layout.expert = fixed.expert.value_or(layout.expert);
  layout.expert_tensor = fixed.expert_tensor.value_or(layout.expert_tensor);
  layout.data = fixed.data.value_or(layout.data);
  layout.zero_stage = fixed.zero_stage.value_or(layout.zero_stage);
  layout.shard_group = fixed.shard_group.value_or(layout.shard_group);
  layout.sequence_parallel = fixed.sequence_parallel.value_or(layout.sequence_parallel);
  layout.schedule = fixed.schedule.value_or(layout.schedule);
  layout.context_kind = fixed.context_kind.value_or(layout.context_kind);
  layout.order = fixed.order.value_or(layout.order);
  bool& overlap = training.software.overlap_expert;
  overlap = fixed.overlap_expert.value_or(overlap);
  if (fixed.layers_per_stage) {
    layout.layers_per_stage = *fixed.layers_per_stage;
  } else if (fixed.pipeline || fixed.virtual_pipeline) {
    layout.layers_per_stage.clear();
  }
  training.batch.micro = fixed.micro_batch.value_or(training.batch.micro);
  if (fixed.recompute) {
    training.recompute = *fixed.recompute;
    training.stage_recompute = fixed.stage_recompute;
  }
  training.offload = fixed.offload.value_or(training.offload);
}

// Sets the overlap where the rest of the layout determines it: DualPipe always has it, a layout
// whose experts are not spread has nothing to overlap. Rejects an impossible request.
Status SettleOverlap(const Fixed& asked, const spec::Model& model, spec::Training& training) {
  const spec::Layout& layout = training.layout;
  const bool exchanges = model.experts && layout.expert > 1;
  const bool always =
      exchanges && layout.pipeline > 1 && layout.schedule == PipelineSchedule::kDualPipe;
  if (asked.overlap_expert == true && !exchanges) {
    return InvalidArgument(
        "overlap_expert=true: there is no exchange of experts' tokens to overlap, the layout has "
        "expert " +
        std::to_string(layout.expert) +
        (model.experts ? ": give expert 2 or more" : " and the model has no experts"));
  }
  if (asked.overlap_expert == false && always) {
    return InvalidArgument(
        "overlap_expert=false: schedule dualpipe always overlaps the experts' exchange; choose "
        "another schedule");
  }
  training.software.overlap_expert = exchanges && (training.software.overlap_expert || always);
  return {};
}

// Data as large as the devices allow, where the change left it free.
void FollowWithData(const spec::DeviceCluster& cluster, spec::Layout& layout) {
  const uint64_t model = uint64_t{layout.tensor} * layout.pipeline * layout.context;
  if (model == 0 || cluster.devices % model != 0) return;
  layout.data = static_cast<uint32_t>(cluster.devices / model);
  if (layout.shard_group > 0 &&
      (uint64_t{layout.data} * layout.context) % layout.shard_group != 0) {
    layout.shard_group = 0;
  }
}

}  // namespace

std::vector<std::string_view> LayoutKeys() {
  std::vector<std::string_view> keys;
  for (const SizeKey& key : kSizes) keys.push_back(key.name);
  keys.insert(keys.end(), kOthers.begin(), kOthers.end());
  return keys;
}

Status ParseFixed(std::string_view text, Fixed& fixed) {
  for (const std::string_view part : Split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return InvalidArgument("'" + Printable(part, 60) +
                             "' is not KEY=VALUE, as in tensor=8,pipeline=4");
    }
    RETURN_IF_ERROR(SetKey(Trim(part.substr(0, equals)), Trim(part.substr(equals + 1)), fixed));
  }
  return {};
}

std::string_view ToText(PipelineSchedule schedule) { return WordOf(kSchedules, schedule); }
std::string_view ToText(ContextKind kind) { return WordOf(kContextKinds, kind); }
std::string_view ToText(Offload offload) { return WordOf(kOffloads, offload); }
std::string_view ToText(Precision precision) { return WordOf(kPrecisions, precision); }

std::string ToText(const PlacementOrder& order) {
  std::string text;
  for (const Dimension dimension : order) {
    text += (text.empty() ? "" : "-") + std::string(WordOf(kDimensions, dimension));
  }
  return text;
}

std::string ToText(const Recompute& recompute) {
  if (recompute.kind == RecomputeKind::kNone) return "none";
  if (recompute.kind == RecomputeKind::kFull) {
    return recompute.full_layers == 0 ? "full" : "full:" + std::to_string(recompute.full_layers);
  }
  if (recompute.kind == RecomputeKind::kByStage) return "stage";
  std::string text;
  for (const auto& [word, module] : kModules) {
    if (recompute.modules.*module) text += (text.empty() ? "" : "+") + std::string(word);
  }
  return text.empty() ? "selective" : text;
}

std::vector<std::string> StageRecomputeTexts(const spec::Training& training) {
  std::vector<std::string> stages(training.layout.pipeline);
  for (const RecomputeRun& run : training.stage_recompute) {
    if (run.stage >= stages.size() || run.kind == RecomputeKind::kNone) continue;
    std::string& text = stages[run.stage];
    text += (text.empty() ? "" : ".") + ToText(Recompute{run.kind, run.modules, 0}) + ":" +
            std::to_string(run.layers);
  }
  for (std::string& text : stages) {
    if (text.empty()) text = "none";
  }
  return stages;
}

std::string RecomputeText(const spec::Training& training) {
  if (training.recompute.kind != RecomputeKind::kByStage || training.stage_recompute.empty()) {
    return ToText(training.recompute);
  }
  const std::vector<std::string> stages = StageRecomputeTexts(training);
  std::string text;
  for (size_t i = 0; i < stages.size();) {
    size_t end = i;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    text += (text.empty() ? "" : "/") + stages[i];
    // The count distinguishes one stage from a choice for all stages.
    if (end - i > 1 || stages.size() == 1) text += "@" + std::to_string(end - i);
    i = end;
  }
  return text;
}

Result<Precision> ParsePrecision(std::string_view text) {
  return ParseWord("precision", text, kPrecisions);
}

std::string LayoutText(const spec::Training& training) {
  const spec::Layout& layout = training.layout;
  std::string text = "tensor=" + std::to_string(layout.tensor);
  const auto add = [&text](bool wanted, std::string_view key, const std::string& value) {
    if (wanted) text += "," + std::string(key) + "=" + value;
  };
  add(layout.tensor > 1, "sequence_parallel", layout.sequence_parallel ? "true" : "false");
  add(layout.context > 1, "context", std::to_string(layout.context));
  add(layout.context > 1, "context_kind", std::string(ToText(layout.context_kind)));
  add(true, "pipeline", std::to_string(layout.pipeline));
  add(layout.pipeline > 1, "schedule", std::string(ToText(layout.schedule)));
  add(layout.virtual_pipeline > 1, "virtual_pipeline", std::to_string(layout.virtual_pipeline));
  add(true, "data", std::to_string(layout.data));
  add(layout.expert > 1, "expert", std::to_string(layout.expert));
  add(layout.expert > 1 || layout.expert_tensor > 1, "expert_tensor",
      std::to_string(layout.expert_tensor));
  add(layout.expert > 1 && training.software.overlap_expert, "overlap_expert", "true");
  add(true, "micro", std::to_string(training.batch.micro));
  add(true, "zero", std::to_string(layout.zero_stage));
  add(layout.shard_group > 0, "shard_group", std::to_string(layout.shard_group));
  add(true, "recompute", RecomputeText(training));
  add(training.offload != Offload::kNone, "offload", std::string(ToText(training.offload)));
  add(layout.order != spec::kUsualOrder, "order", ToText(layout.order));
  std::string layers;
  for (const uint32_t each : layout.layers_per_stage) {
    layers += (layers.empty() ? "" : "+") + std::to_string(each);
  }
  add(!layers.empty(), "layers", layers);
  return text;
}

Status Change(std::string_view key_and_value, Question& question) {
  const size_t equals = key_and_value.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgument("'" + Printable(key_and_value, 60) +
                           "' is not KEY=VALUE, as in network.gb_per_s=100");
  }
  const std::string_view key = Trim(key_and_value.substr(0, equals));
  const std::string_view value = Trim(key_and_value.substr(equals + 1));
  spec::Training& training = question.training;
  const std::vector<std::string_view> cluster_keys = spec::ClusterKeys();
  if (key == "batch") {
    ASSIGN_OR_RETURN(training.batch.global, ParseSize(key, value, 1, 1'000'000'000));
  } else if (key == "sequence") {
    ASSIGN_OR_RETURN(question.model.sequence_length, ParseSize(key, value, 1, 1u << 27));
  } else if (key == "precision") {
    ASSIGN_OR_RETURN(training.precision, ParsePrecision(value));
  } else if (std::find(cluster_keys.begin(), cluster_keys.end(), key) != cluster_keys.end()) {
    RETURN_IF_ERROR(spec::SetClusterKey(key, value, question.cluster));
    RETURN_IF_ERROR(spec::CheckDeviceCluster(question.cluster));
    FollowWithData(question.cluster, training.layout);
  } else {
    Fixed fixed;
    const Status status = SetKey(key, value, fixed);
    if (status.code() == Code::kNotFound) {
      return NotFound(status.message() +
                      "; or a cluster's key (network.gb_per_s, memory_gib, ...), "
                      "batch, sequence, precision");
    }
    RETURN_IF_ERROR(status);
    Overwrite(fixed, training);
    RETURN_IF_ERROR(SettleOverlap(fixed, question.model, training));
    if (!fixed.data) FollowWithData(question.cluster, training.layout);
    if (training.layout.tensor == 1) training.layout.sequence_parallel = false;
    if (training.layout.pipeline == 1) training.layout.virtual_pipeline = 1;
  }
  return spec::CheckTraining(question.model, question.cluster, training);
}

}  // namespace longhaul::planner::search
