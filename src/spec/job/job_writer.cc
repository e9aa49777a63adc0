// ToJson and ToYaml of spec/job/job.h.
#include <nlohmann/json.hpp>

#include "spec/internal/job_schema.h"
#include "spec/job/job.h"

namespace longhaul::spec {

namespace {

using Json = nlohmann::ordered_json;

// The visitor that writes every key it is shown, in order.
class JobWriter {
 public:
  template <typename Body>
  void Section(const char* key, Body body) {
    section_ = key;
    body();
    section_.clear();
  }
  void Constant(const char* key, const char* text) { Put(key, text); }
  template <typename T>
  void Whole(const char* key, const T& value, uint64_t, uint64_t) {
    Put(key, value);
  }
  template <typename T>
  void AutoWhole(const char* key, const std::optional<T>& value, uint64_t, uint64_t) {
    Put(key, value ? Json(*value) : Json("auto"));
  }
  void Flag(const char* key, bool value) { Put(key, value); }
  void AutoSize(const char* key, const std::optional<uint64_t>& value, uint64_t, uint64_t) {
    Put(key, value ? Json(*value) : Json("auto"));
  }
  void Topology(const char* key, const TopologySpec& value) {
    if (value.plain()) return Put(key, value.required);
    Json json = Json::object();
    if (!value.required.empty()) json["required"] = value.required;
    if (!value.preferred.empty()) json["preferred"] = value.preferred;
    if (value.slice.nodes > 0) {
      json["slice"] = {{"nodes", value.slice.nodes}, {"level", value.slice.level}};
    }
    if (value.rail_aligned) json["rail_aligned"] = true;
    if (value.spread.at_most > 0) {
      json["spread"] = {{"level", value.spread.level}, {"at_most", value.spread.at_most}};
    } else if (!value.spread.level.empty()) {
      json["spread"] = value.spread.level;
    }
    Put(key, std::move(json));
  }
  void Names(const char* key, const std::vector<std::string>& value) { Put(key, value); }
  void Labels(const char* key, const std::map<std::string, std::string>& value) {
    Json labels = Json::object();
    for (const auto& [name, text] : value) labels[name] = text;
    Put(key, std::move(labels));
  }
  void Real(const char* key, double value, const internal::RealRange&) { Put(key, value); }
  void Size(const char* key, uint64_t value, uint64_t, uint64_t) { Put(key, value); }
  void Text(const char* key, const std::string& value, size_t) { Put(key, value); }
  void TextList(const char* key, const std::vector<std::string>& value, size_t, size_t = 0) {
    Put(key, value);
  }
  void After(const char* key, const AfterSpec& value) {
    Put(key, {{"jobs", value.jobs}, {"when", value.when}});
  }
  void Environment(const char* key, const std::map<std::string, std::string>& value) {
    Put(key, Json::object());
    for (const auto& [name, text] : value) json_[key][name] = text;
  }
  void Faults(const char* key, const std::vector<PlannedFault>& value) {
    Put(key, Json::array());
    for (const PlannedFault& fault : value) json_[key].push_back(ToString(fault));
  }

  const Json& json() const { return json_; }

 private:
  void Put(const char* key, Json value) {
    (section_.empty() ? json_ : json_[section_])[key] = std::move(value);
  }

  Json json_ = Json::object();
  std::string section_;
};

Json JsonOf(const JobSpec& job) {
  JobWriter writer;
  if (job.built_in()) {
    internal::VisitBuiltIn(writer, job);
  } else {
    if (job.recipe.framework.empty()) {
      internal::VisitCommand(writer, job);
    } else {
      internal::VisitRecipe(writer, job);
    }
    internal::VisitStepPattern(writer, job);
  }
  internal::VisitShared(writer, job);
  Json json = writer.json();
  if (!job.built_in()) json["resources"].erase("micro_batch");
  for (const char* key : {"script", "module", "checkpoint_directory"}) {
    if (json.contains(key) && json[key] == "") json.erase(key);
  }
  if (job.array.size() == 0) json.erase("array");
  if (job.after.jobs.empty()) json.erase("after");
  return json;
}

// A text that isn't UTF-8 cannot come from ParseJob; from elsewhere it is mended, not thrown at.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ToJson(const JobSpec& job) { return Dump(JsonOf(job)); }

std::string ToYaml(const JobSpec& job) {
  // A value of JSON is a value of YAML; only the maps are written the way people do.
  std::string yaml;
  const Json json = JsonOf(job);
  for (const auto& [key, value] : json.items()) {
    yaml += key + ":";
    if (!value.is_object() || value.empty()) {
      yaml += " " + Dump(value) + "\n";
      continue;
    }
    yaml += "\n";
    for (const auto& [inner, leaf] : value.items()) {
      // A variable may be called null, which requires quotes.
      yaml += "  " + (key == "environment" ? Dump(inner) : inner) + ": " + Dump(leaf) + "\n";
    }
  }
  return yaml;
}

}  // namespace longhaul::spec
