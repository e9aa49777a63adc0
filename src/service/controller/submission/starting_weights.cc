#include "service/controller/submission/starting_weights.h"

#include <cstdio>
#include <vector>

#include "base/hash.h"
#include "checkpoint/directory.h"
#include "checkpoint/reshard/find_weights.h"
#include "checkpoint/state.h"
#include "io/files/file.h"
#include "objects/files.h"
#include "trainer/model/parameters.h"

namespace longhaul::service {
namespace {

constexpr const char* kFile = "/from.json";

// The model's weights, whole, as the trainer's checkpoints name them.
std::vector<checkpoint::TensorInfo> WeightsOf(const spec::ModelSpec& model) {
  std::vector<checkpoint::TensorInfo> weights;
  const trainer::ParameterTable table(model);
  for (const trainer::Parameter& parameter : table.parameters()) {
    weights.push_back({parameter.name, "F32", parameter.box.whole});
  }
  return weights;
}

// Of what the file says beside it: a changed byte must not name other weights.
std::string HashOfConfig(const nlohmann::ordered_json& config) {
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx",
                static_cast<unsigned long long>(Hash64(config.dump())));
  return hash;
}

nlohmann::ordered_json Config(const std::string& folder, uint64_t step, uint64_t attempt) {
  return {{"folder", folder}, {"step", step}, {"attempt", attempt}};
}

}  // namespace

// The step is resolved and read to its end at the submission, so that a job does not wait in a
// queue to fail on its first start, and so that later steps of the source run do not change what it
// starts from.
Result<StartingPoint> FindStart(const spec::JobSpec& spec, const std::string& from,
                                const std::string& run_directory) {
  if (!spec.built_in()) {
    return InvalidArgument(
        "--from gives the built-in trainer's first weights: a command has checkpoints of its own");
  }
  const auto place = objects::Place::Open(from);
  if (!place.ok()) return place.status().WithContext("--from");
  const auto found = checkpoint::FindWeights(place->files(), place->path(), WeightsOf(spec.model));
  if (!found.ok()) return found.status().WithContext("--from");
  if (found->folder == run_directory + "/checkpoints") {
    return InvalidArgument(
        "--from: " + found->folder +
        " is the job's own: take another run directory, or continue by --resume");
  }
  StartingPoint start;
  start.config = Config(found->folder, found->step, found->attempt);
  start.text = " Its first weights are those of step " + std::to_string(found->step) + " in " +
               found->folder + ".";
  for (const std::string& damaged : found->passed_over) {
    start.text += " A newer step there is damaged (" + damaged + ").";
  }
  return start;
}

StartingPoint UnreadableStart(const std::string& from) { return {Config(from, 0, 0), ""}; }

Status WriteStart(const StartingPoint& start, const std::string& run_directory) {
  const std::string path = run_directory + kFile;
  io::FileSystem& files = io::PosixFileSystem();
  if (!start.config.is_null()) {
    nlohmann::ordered_json written = start.config;
    written["xxh3-64"] = HashOfConfig(start.config);
    return io::WriteTextAtomically(files, path, written.dump() + "\n");
  }
  const Status removed = files.Remove(path);  // of another run
  return removed.code() == Code::kNotFound ? Status() : removed;
}

Result<std::string> ReadStart(const std::string& run_directory) {
  const std::string path = run_directory + kFile;
  const auto text = io::ReadText(path, 1 << 16);
  if (text.status().code() == Code::kNotFound) return std::string();
  if (!text.ok()) return text.status();
  auto json = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("xxh3-64")) {  // absent in older files
    const nlohmann::ordered_json hash = json["xxh3-64"];
    json.erase("xxh3-64");
    if (hash != HashOfConfig(json)) return DataLoss(path + " is damaged: its hash differs");
  }
  if (json.is_object() && !json.contains("attempt") && json.contains("epoch")) {  // an older file
    json["attempt"] = json["epoch"];
    json.erase("epoch");
  }
  // What an older file has too, and nothing else: a damaged name of the hash is damage.
  const bool sound = json.is_object() && json.size() == 3 && json.contains("folder") &&
                     json["folder"].is_string() && json.contains("step") &&
                     json["step"].is_number_unsigned() && json.contains("attempt") &&
                     json["attempt"].is_number_unsigned();
  if (!sound) return DataLoss(path + " does not name the weights that the run began with");
  return json["folder"].get<std::string>() + "/" +
         checkpoint::CheckpointDirectory::NameOf(json["step"].get<uint64_t>(),
                                                 json["attempt"].get<uint64_t>());
}

}  // namespace longhaul::service
