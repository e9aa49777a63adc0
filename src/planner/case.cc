#include "planner/case.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "planner/internal/case_defaults.h"
#include "planner/internal/case_reader.h"
#include "spec/model/model_reader.h"
#include "spec/model/model_schema.h"

namespace longhaul::planner {

namespace {

using internal::CaseReader;
using internal::RawCase;
using Json = nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kMaxIdBytes = 200;
constexpr uint64_t kMaxDevices = 10'000'000;
constexpr size_t kMaxStages = 10'000;

constexpr spec::Words<spec::NetworkKind, 4> kNetworks = {
    {{"infiniband", spec::NetworkKind::kInfiniband},
     {"roce", spec::NetworkKind::kRoce},
     {"omnipath", spec::NetworkKind::kOmnipath},
     {"ethernet", spec::NetworkKind::kEthernet}}};
constexpr spec::Words<spec::RecomputeKind, 3> kRecomputes = {
    {{"none", spec::RecomputeKind::kNone},
     {"selective", spec::RecomputeKind::kSelective},
     {"full", spec::RecomputeKind::kFull}}};
constexpr spec::Words<spec::Precision, 6> kPrecisions = {{{"fp32", spec::Precision::kFp32},
                                                          {"fp16", spec::Precision::kFp16},
                                                          {"bf16", spec::Precision::kBf16},
                                                          {"fp8", spec::Precision::kFp8},
                                                          {"mxfp8", spec::Precision::kMxfp8},
                                                          {"nvfp4", spec::Precision::kNvfp4}}};
constexpr spec::Words<std::string_view, 4> kMoments = {
    {{"fp32", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}, {"fp8", "fp8"}}};

void ReadCluster(CaseReader& reader, spec::DeviceCluster& cluster, RawCase& raw) {
  reader.Text("gpu", raw.gpu, 100);
  reader.Whole("gpus", cluster.devices, 1, kMaxDevices);
  reader.Whole("gpus_per_node", cluster.devices_per_node, 1, 1'024);
  reader.Whole("nvlink_domain", cluster.island, 1, 65'536);
  reader.Map("network", [&] {
    reader.Word("kind", cluster.network.kind, kNetworks);
    reader.Real("gb_per_s_per_gpu", raw.network_gb_per_s, 0, 100'000);
    reader.Whole("rails", cluster.network.rails, 1, 1'024);
  });
  reader.Real("memory_gib", raw.memory_gib, 0, 1'000'000);
  reader.Real("memory_gb_per_s", raw.memory_gb_per_s, 0, 10'000'000);
  reader.Real("power_limit_w", raw.power_limit_w, 0, 100'000);
}

void ReadLayout(CaseReader& reader, spec::Layout& layout) {
  reader.Whole("tensor", layout.tensor, 1, 1'000'000);
  reader.Whole("pipeline", layout.pipeline, 1, 1'000'000);
  reader.Whole("virtual_pipeline", layout.virtual_pipeline, 1, 10'000);
  reader.Whole("context", layout.context, 1, 1'000'000);
  reader.Whole("expert", layout.expert, 1, 1'000'000);
  reader.Whole("expert_tensor", layout.expert_tensor, 1, 1'000'000);
  reader.Whole("data", layout.data, 1, kMaxDevices);
  reader.Flag("sequence_parallel", layout.sequence_parallel);
  reader.Whole("zero_stage", layout.zero_stage, 0, 3);
  reader.Whole("shard_group", layout.shard_group, 0, kMaxDevices);
  reader.WholeList("layers_per_stage", layout.layers_per_stage, 10'000, kMaxStages);
}

void ReadSoftware(CaseReader& reader, spec::Software& software, RawCase& raw) {
  reader.Text("framework", software.framework, 100);
  reader.Text("release", software.release, 100);
  reader.Flag("flash_attention", software.flash_attention);
  reader.Flag("compile", software.compiled);
  reader.Flag("cuda_graphs", software.cuda_graphs);
  reader.Map("overlap", [&] {
    reader.Flag("gradient", software.overlap_gradient);
    reader.Flag("parameter", software.overlap_parameter);
    reader.Flag("tensor", software.overlap_tensor);
    reader.Flag("expert", software.overlap_expert);
  });
  reader.Flag("deterministic", software.deterministic);
  reader.Flag("loss_fusion", software.loss_fusion);
  reader.Flag("gradient_accumulation_fusion", software.gradient_accumulation_fusion);
  std::string_view moments;
  reader.Word("optimizer_moment_dtype", moments, kMoments);
  raw.moment_dtype = moments;
}

void ReadModules(CaseReader& reader, const std::vector<std::string>& names,
                 spec::RecomputeModules& modules) {
  const std::pair<std::string_view, bool*> known[] = {
      {"core_attention", &modules.core_attention},
      {"layer_norm", &modules.layer_norm},
      {"moe_activation", &modules.moe_activation},
      {"mla_up_projection", &modules.mla_up_projection},
      {"mlp", &modules.mlp},
      {"moe", &modules.moe}};
  std::vector<std::string_view> words;
  for (const auto& [word, flag] : known) words.push_back(word);
  for (const std::string& name : names) {
    bool found = false;
    for (const auto& [word, flag] : known) {
      if (word == name) found = *flag = true;
    }
    if (found) continue;
    std::string why = "no module is called '" + Printable(name, 40) + "'";
    if (const auto nearest = Nearest(name, words)) {
      why += ", did you mean '" + std::string(*nearest) + "'";
    }
    reader.Refuse("recompute.modules", why);
  }
}

void ReadCase(CaseReader& reader, Case& parsed, RawCase& raw) {
  Question& question = parsed.question;
  spec::Training& training = question.training;
  reader.Text("case", parsed.id, kMaxIdBytes);
  reader.Map("model", [&] { spec::VisitModel(reader, question.model); });
  reader.Map("cluster", [&] { ReadCluster(reader, question.cluster, raw); });
  reader.Map("layout", [&] { ReadLayout(reader, training.layout); });
  reader.Map("batch", [&] {
    reader.Whole("global", training.batch.global, 1, 1'000'000'000);
    reader.Whole("micro", training.batch.micro, 1, 1'000'000);
  });
  reader.Map("recompute", [&] {
    reader.Word("kind", training.recompute.kind, kRecomputes);
    reader.TextList("modules", raw.recompute_modules, 20);
  });
  ReadModules(reader, raw.recompute_modules, training.recompute.modules);
  reader.Word("precision", training.precision, kPrecisions);
  reader.Map("software", [&] { ReadSoftware(reader, training.software, raw); });
  reader.Finish();
}

// Where a model's depth or width is missing but it has a name, the shipped sizes of that name are
// what its other keys are laid over. No case with sizes depends on a name.
Status TakeNamedModel(const Json& json, spec::Model& model, RawCase& raw) {
  const auto found = json.find("model");
  if (found == json.end() || !found->is_object()) return {};
  const auto has = [&](const char* key) {
    return found->contains(key) && !(*found)[key].is_null();
  };
  if ((has("layers") && has("hidden")) || !has("name") || !(*found)["name"].is_string()) return {};
  const auto& name = (*found)["name"].get_ref<const std::string&>();
  Result<spec::Model> shipped = spec::FindSpelled(name);
  if (!shipped.ok()) return shipped.status();
  raw.shipped_model = shipped->name;
  model = *std::move(shipped);
  return {};
}

// "chunk by chunk" from one entry a stage: each stage's layers spread over its chunks.
void SpreadStages(spec::Layout& layout) {
  std::vector<uint32_t>& layers = layout.layers_per_stage;
  if (layout.virtual_pipeline == 1 || layers.size() != layout.pipeline) return;
  std::vector<uint32_t> chunks;
  for (uint32_t chunk = 0; chunk < layout.virtual_pipeline; ++chunk) {
    for (const uint32_t stage : layers) {
      const uint32_t rest = stage % layout.virtual_pipeline;
      chunks.push_back(stage / layout.virtual_pipeline + (chunk < rest ? 1 : 0));
    }
  }
  layers = std::move(chunks);
}

}  // namespace

Status ParseCase(std::string_view line, Case& parsed) {
  parsed = Case();
  if (line.size() > kMaxLineBytes) {
    return InvalidArgument("the case has " + std::to_string(line.size()) +
                           " bytes: at most 1,048,576");
  }
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) return InvalidArgument("the case is not valid JSON");
  if (!json.is_object()) return InvalidArgument("a case is a JSON object, such as {\"case\": ...}");
  CaseReader reader(json);
  RawCase raw;
  const Status named = TakeNamedModel(json, parsed.question.model, raw);
  ReadCase(reader, parsed, raw);
  RETURN_IF_ERROR(reader.status());
  if (!named.ok()) return named.WithContext("model: layers or hidden are missing");
  if (reader.absent("precision")) {
    parsed.question.training.precision = spec::Precision::kBf16;
    parsed.assumed.push_back("precision = bf16");
  }
  parsed.unknown = reader.unknown();
  SpreadStages(parsed.question.training.layout);
  RETURN_IF_ERROR(internal::FillDefaults(reader, raw, parsed));
  const Status model = CheckModel(parsed.question.model);
  return model.ok() ? Status() : model.WithContext("model");
}

std::string AnswerCase(std::string_view line, const EvaluateQuestion& evaluate,
                       const BandOf& band) {
  Case asked;
  if (const Status status = ParseCase(line, asked); !status.ok()) {
    return ErrorText(asked.id, status);
  }
  if (const Status status = DecideOpen(evaluate, asked); !status.ok()) {
    return ErrorText(asked.id, status);
  }
  const Evaluation evaluation = evaluate(asked.question);
  return AnswerText(asked, evaluation, band(asked, evaluation));
}

}  // namespace longhaul::planner
