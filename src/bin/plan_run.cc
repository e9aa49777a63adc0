#include "bin/plan_run.h"

#include <unistd.h>

#include "io/file.h"
#include "spec/models/model_reader.h"

namespace longhaul::bin {
namespace {

constexpr uint64_t kMostModelBytes = 1 << 20;

// Ranks that the file itself says; 0 where it does not.
uint64_t RanksOf(const planner::configs::RunConfig& config) {
  if (config.devices > 0) return config.devices;
  const spec::Layout& layout = config.training.layout;
  const double ranks = double{1} * config.data * layout.tensor * layout.pipeline * layout.context;
  return ranks <= 1e7 ? static_cast<uint64_t>(ranks) : 0;
}

}  // namespace

Result<spec::Model> ReadModel(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) {
    ASSIGN_OR_RETURN(const std::string text, io::ReadText(name, kMostModelBytes));
    return spec::ParseModel(text, name);
  }
  Result<spec::Model> model = spec::FindModel(name);
  if (model.ok()) return model;
  return NotFound(model.status().message() + " (and no file has this name)");
}

Result<RunFile> ReadRunFile(const std::string& framework, const std::string& path) {
  const auto known = planner::flags::ParseFramework(framework);
  if (!known.ok()) return known.status().WithContext("--from");
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, planner::configs::kLargestRunConfig));
  RunFile file;
  file.path = path;
  ASSIGN_OR_RETURN(file.config, planner::configs::ReadRunConfig(*known, text, path));
  return file;
}

std::string ClusterOfRun(const std::string& cluster, const planner::configs::RunConfig& config) {
  const uint64_t ranks = RanksOf(config);
  if (ranks == 0 || cluster.find(':') != std::string::npos || access(cluster.c_str(), R_OK) == 0) {
    return cluster;
  }
  return cluster + ":" + std::to_string(ranks);
}

}  // namespace longhaul::bin
