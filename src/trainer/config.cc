#include "trainer/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace longhaul::trainer {
namespace {

using Json = nlohmann::json;

// Reads values of one object; the first failure stays.
class Section {
 public:
  Section(const Json& root, const char* name, Status& status) : name_(name), status_(status) {
    if (!root.contains(name)) return;
    if (root[name].is_object()) {
      json_ = &root[name];
    } else {
      Refuse("", "is not an object");
    }
  }

  template <typename T>
  void Whole(const char* key, T& value, uint64_t least, uint64_t most) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_number_unsigned() || found->get<uint64_t>() < least ||
        found->get<uint64_t>() > most) {
      return Refuse(key, "must be a whole number from " + std::to_string(least) + " to " +
                             std::to_string(most));
    }
    value = static_cast<T>(found->get<uint64_t>());
  }

  void Real(const char* key, double& value, double least, double most) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most)) {
      return Refuse(key,
                    "must be a number from " + Json(least).dump() + " to " + Json(most).dump());
    }
    value = found->get<double>();
  }

  void Text(const char* key, std::string& value) {
    const Json* found = Find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return Refuse(key, "must be a text");
    value = found->get<std::string>();
  }

  // The key's value; nothing when it is absent, null or "auto".
  const Json* Find(const char* key) const {
    if (json_ == nullptr || !json_->contains(key)) return nullptr;
    const Json& value = (*json_)[key];
    return value.is_null() || value == "auto" ? nullptr : &value;
  }

  void Refuse(const std::string& key, const std::string& why) {
    const std::string path = key.empty() ? name_ : name_ + "." + key;
    if (status_.ok()) status_ = InvalidArgument("trainer configuration: " + path + " " + why);
  }

 private:
  std::string name_;
  Status& status_;
  const Json* json_ = nullptr;
};

// The vocabulary is fixed: 256 bytes and a separator.
void ReadModel(const Json& json, spec::ModelSpec& model, Status& status) {
  Section section(json, "model", status);
  section.Whole("layers", model.layers, 1, 1024);
  section.Whole("hidden", model.hidden, 1, 1 << 16);
  section.Whole("heads", model.heads, 1, 1 << 10);
  section.Whole("sequence", model.sequence, 1, 1 << 20);
  section.Whole("vocabulary", model.vocabulary, 257, 257);
  if (model.hidden % model.heads != 0) section.Refuse("hidden", "is not divisible by heads");
}

void ReadTrain(const Json& json, spec::TrainSpec& train, Status& status) {
  Section section(json, "train", status);
  section.Whole("steps", train.steps, 1, uint64_t{1} << 40);
  section.Whole("global_batch", train.global_batch, 1, 1 << 24);
  section.Real("learning_rate", train.learning_rate, 0, 10);
  section.Whole("warmup_steps", train.warmup_steps, 0, uint64_t{1} << 40);
  section.Real("final_learning_rate_ratio", train.final_learning_rate_ratio, 0, 1);
  section.Real("weight_decay", train.weight_decay, 0, 10);
  section.Real("beta1", train.beta1, 0, 0.999999);
  section.Real("beta2", train.beta2, 0, 0.999999);
  section.Real("clip", train.clip, 0, 1e9);
  section.Whole("seed", train.seed, 0, UINT64_MAX);
  section.Whole("evaluate_every", train.evaluate_every, 0, uint64_t{1} << 40);
  section.Whole("evaluate_sequences", train.evaluate_sequences, 0, 1 << 24);
}

void ReadLayout(const Json& json, TrainerConfig& config, Status& status) {
  Section section(json, "layout", status);
  section.Whole("data", config.layout.data, 1, 1 << 20);
  section.Whole("tensor", config.layout.tensor, 1, 1 << 10);
  section.Whole("pipeline", config.layout.pipeline, 1, 1 << 10);
  const std::string why =
      spec::WhyNoLayout(config.model, config.layout.tensor, config.layout.pipeline);
  if (!why.empty()) section.Refuse("", "is not possible: " + why);
}

void ReadTrace(const Json& json, TrainerConfig& config, Status& status) {
  Section section(json, "trace", status);
  section.Whole("first_step", config.trace.first_step, 0, uint64_t{1} << 40);
  section.Whole("steps", config.trace.steps, 1, 100);
}

void ReadFrom(const Json& json, TrainerConfig& config, Status& status) {
  if (!json.contains("from")) return;
  Section section(json, "from", status);
  StartingWeights& from = config.from.emplace();
  section.Text("folder", from.folder);
  section.Whole("step", from.step, 0, UINT64_MAX);
  section.Whole("attempt", from.attempt, 0, UINT64_MAX);
  if (from.folder.empty()) section.Refuse("folder", "is missing");
}

}  // namespace

Result<TrainerConfig> ParseTrainerConfig(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return InvalidArgument("trainer configuration is not a JSON object");
  TrainerConfig config;
  Status status;
  ReadModel(json, config.model, status);
  ReadTrain(json, config.train, status);
  ReadLayout(json, config, status);
  ReadTrace(json, config, status);
  ReadFrom(json, config, status);
  Section sample(json, "sample", status);
  sample.Text("prompt", config.sample.prompt);
  sample.Whole("bytes", config.sample.bytes, 0, 1 << 16);
  sample.Real("temperature", config.sample.temperature, 0, 100);
  Section resources(json, "resources", status);
  resources.Whole("micro_batch", config.micro_batch, 1, config.train.global_batch);

  Json outer;
  outer["trainer"] = json;  // so that top-level keys are read by the same checks
  Section top(outer, "trainer", status);
  top.Whole("micro_batch", config.micro_batch, 1, config.train.global_batch);
  top.Text("data_directory", config.data_directory);
  top.Text("run_directory", config.run_directory);
  if (const Json* record = top.Find("record_samples"); record != nullptr) {
    if (!record->is_boolean()) top.Refuse("record_samples", "must be true or false");
    if (record->is_boolean()) config.record_samples = record->get<bool>();
  }
  if (config.data_directory.empty()) top.Refuse("data_directory", "is missing");
  if (config.record_samples && config.run_directory.empty()) {
    top.Refuse("run_directory", "is missing, record_samples needs it");
  }
  if (config.trace.first_step > 0 && config.run_directory.empty()) {
    top.Refuse("run_directory", "is missing, trace.first_step needs it");
  }
  if (!status.ok()) return status;
  return config;
}

}  // namespace longhaul::trainer
