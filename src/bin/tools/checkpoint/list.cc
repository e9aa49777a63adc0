// ls and show.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "bin/table.h"
#include "bin/tools/checkpoint/parts.h"
#include "checkpoint/directory.h"
#include "checkpoint/formats/compare.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "objects/files.h"

namespace longhaul::bin::checkpoints {
namespace {

using checkpoint::Catalog;
using checkpoint::CheckpointDirectory;
using checkpoint::Manifest;

std::string Size(uint64_t bytes) { return ToString(Bytes(static_cast<int64_t>(bytes))); }

uint64_t FileBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  return bytes;
}

std::string NameOf(const checkpoint::UnusableStep& step) {
  return CheckpointDirectory::NameOf(step.step, step.attempt);
}

nlohmann::ordered_json StepsJson(const std::string& folder, const checkpoint::StepSurvey& steps) {
  nlohmann::ordered_json json;
  json["folder"] = folder;
  json["checkpoints"] = nlohmann::ordered_json::array();
  for (const Manifest& m : steps.committed) {
    json["checkpoints"].push_back({{"name", CheckpointDirectory::NameOf(m.step, m.attempt)},
                                   {"step", m.step},
                                   {"attempt", m.attempt},
                                   {"job", m.job},
                                   {"world", m.world},
                                   {"replicated", m.replicated},
                                   {"files", m.files.size()},
                                   {"tensors", m.tensors.size()},
                                   {"bytes", FileBytes(m)},
                                   {"samples_consumed", m.data.samples_consumed}});
  }
  json["damaged"] = nlohmann::ordered_json::array();
  for (const auto& step : steps.damaged) {
    json["damaged"].push_back({{"name", NameOf(step)}, {"step", step.step}, {"what", step.reason}});
  }
  json["uncommitted"] = nlohmann::ordered_json::array();
  for (const auto& step : steps.uncommitted) json["uncommitted"].push_back(NameOf(step));
  return json;
}

int Ls(const std::string& path, bool as_json) {
  const auto place = objects::Place::Open(path);
  if (!place.ok()) return Fail(place.status());
  const Result<std::string> folder = RunFolder(place->files(), place->path());
  if (!folder.ok()) return Fail(folder.status());
  CheckpointDirectory directory(place->files(), *folder);
  const auto steps = directory.Survey();
  if (!steps.ok()) return Fail(steps.status());
  if (as_json) {
    Print(StepsJson(*folder, *steps));
    return kExitOk;
  }
  Table table({"STEP", "ATTEMPT", "RANKS", "FILES", "TENSORS", "SIZE", "JOB", "NAME"});
  for (const Manifest& m : steps->committed) {
    table.Add({std::to_string(m.step), std::to_string(m.attempt), std::to_string(m.world),
               std::to_string(m.files.size()), std::to_string(m.tensors.size()), Size(FileBytes(m)),
               Clean(m.job), CheckpointDirectory::NameOf(m.step, m.attempt)});
  }
  std::printf("%s", table.Text().c_str());
  for (const auto& step : steps->damaged) {
    std::printf("damaged: %s: %s\n", NameOf(step).c_str(), Clean(step.reason).c_str());
  }
  for (const auto& step : steps->uncommitted) {
    std::printf("not committed: %s (being written, or left by a crash)\n", NameOf(step).c_str());
  }
  return kExitOk;
}

nlohmann::ordered_json ShapeJson(const std::vector<int64_t>& shape) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const int64_t extent : shape) json.push_back(extent);
  return json;
}

void ShowJson(const Catalog& catalog) {
  nlohmann::ordered_json json;
  json["path"] = catalog.path;
  json["format"] = ToString(catalog.format);
  if (catalog.step > 0) json["step"] = catalog.step;
  if (catalog.world > 0) {
    json["attempt"] = catalog.attempt;
    json["job"] = catalog.job;
    json["world"] = catalog.world;
  }
  json["bytes"] = catalog.TotalBytes();
  json["files"] = nlohmann::ordered_json::array();
  for (const auto& file : catalog.files) {
    json["files"].push_back({{"path", file.path}, {"bytes", file.bytes}});
  }
  json["tensors"] = nlohmann::ordered_json::array();
  size_t next = 0;
  for (uint32_t i = 0; i < catalog.tensors.size(); ++i) {
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (; next < catalog.shards.size() && catalog.shards[next].tensor == i; ++next) {
      const auto& shard = catalog.shards[next];
      pieces.push_back({{"file", shard.file},
                        {"at", shard.file_offset},
                        {"offset", ShapeJson(shard.box.offsets())},
                        {"extent", ShapeJson(shard.box.shape())}});
    }
    json["tensors"].push_back({{"name", catalog.tensors[i].name},
                               {"dtype", catalog.tensors[i].dtype},
                               {"shape", ShapeJson(catalog.tensors[i].shape)},
                               {"pieces", std::move(pieces)}});
  }
  if (catalog.tree.has_value()) json["tree"] = *catalog.tree;
  json["metadata"] = catalog.metadata;
  Print(json);
}

int Show(const std::string& path, bool as_json) {
  const auto place = objects::Place::Open(path);
  if (!place.ok()) return Fail(place.status());
  const Result<Catalog> catalog = checkpoint::OpenCheckpoint(place->files(), place->path());
  if (!catalog.ok()) return Fail(catalog.status());
  if (as_json) {
    ShowJson(*catalog);
    return kExitOk;
  }
  std::printf("%s: %s, %zu tensors, %s in %zu files\n", Clean(catalog->path).c_str(),
              std::string(ToString(catalog->format)).c_str(), catalog->tensors.size(),
              Size(catalog->TotalBytes()).c_str(), catalog->files.size());
  if (catalog->world > 0) {
    std::printf("job %s, step %llu, attempt %llu, written by %u ranks\n",
                Clean(catalog->job).c_str(), static_cast<unsigned long long>(catalog->step),
                static_cast<unsigned long long>(catalog->attempt), catalog->world);
  }
  std::vector<size_t> pieces(catalog->tensors.size());
  for (const auto& shard : catalog->shards) ++pieces[shard.tensor];
  Table table({"TENSOR", "FORM", "SIZE", "PIECES"});
  for (uint32_t i = 0; i < catalog->tensors.size(); ++i) {
    table.Add({Clean(catalog->tensors[i].name), FormOf(catalog->tensors[i]),
               Size(catalog->TensorBytes(i)), std::to_string(pieces[i])});
  }
  std::printf("%s", table.Text().c_str());
  return kExitOk;
}

}  // namespace

void AddLs(CLI::App& command, Action& action) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = command.add_subcommand("ls", "List a run's checkpoints, newest first");
  sub->add_option("RUN", *path, "Run's folder, folder of its checkpoints, or s3://BUCKET/PREFIX")
      ->required();
  sub->add_flag("--json", *json, "Print one JSON object");
  sub->footer(
      "Examples:\n"
      "  longhaul checkpoint ls runs/headers-gpt\n"
      "  longhaul checkpoint ls s3://models/runs/headers-gpt\n"
      "  longhaul checkpoint ls runs/headers-gpt --json | jq .checkpoints[0].step");
  sub->callback([path, json, &action] { action = [path, json] { return Ls(*path, *json); }; });
}

void AddShow(CLI::App& command, Action& action) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = command.add_subcommand("show", "Show the contents of a checkpoint");
  sub->add_option("CHECKPOINT", *path, "Checkpoint of any format")->required();
  sub->add_flag("--json", *json, "Print one JSON object with tensors, pieces, files and values");
  sub->footer(
      "Examples:\n"
      "  longhaul checkpoint show runs/headers-gpt\n"
      "  longhaul checkpoint show model.safetensors --json");
  sub->callback([path, json, &action] { action = [path, json] { return Show(*path, *json); }; });
}

}  // namespace longhaul::bin::checkpoints
