#include "bin/tools/plan/plan_run.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "io/files/file.h"
#include "spec/model/model_reader.h"

namespace longhaul::bin {
namespace {

constexpr uint64_t kMostModelBytes = 1 << 20;

// The number of ranks in the file; 0 where it has none.
uint64_t RanksOf(const planner::configs::RunConfig& config) {
  if (config.devices > 0) return config.devices;
  const spec::Layout& layout = config.training.layout;
  const double ranks = double{1} * config.data * layout.tensor * layout.pipeline * layout.context;
  return ranks <= 1e7 ? static_cast<uint64_t>(ranks) : 0;
}

// A text that begins as JSON and isn't: most often one that was cut.
Status WithHint(const Status& status, const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{' || nlohmann::json::accept(text)) {
    return status;
  }
  return InvalidArgument(status.message() + " (it begins as JSON and is not valid JSON: cut off?)");
}

}  // namespace

std::string WhyNothingIsLegal(const planner::search::PlanRequest& job) {
  const planner::search::Fixed& fixed = job.fixed;
  spec::Training training = job.base;
  spec::Layout& layout = training.layout;
  layout = spec::Layout();
  layout.tensor = fixed.tensor.value_or(1);
  layout.pipeline = fixed.pipeline.value_or(1);
  layout.virtual_pipeline = fixed.virtual_pipeline.value_or(1);
  layout.context = fixed.context.value_or(1);
  layout.expert = fixed.expert.value_or(1);
  layout.expert_tensor = fixed.expert_tensor.value_or(1);
  layout.sequence_parallel = fixed.sequence_parallel.value_or(layout.tensor > 1);
  layout.zero_stage = fixed.zero_stage.value_or(0);
  layout.shard_group = fixed.shard_group.value_or(0);
  if (fixed.schedule) layout.schedule = *fixed.schedule;
  if (fixed.context_kind) layout.context_kind = *fixed.context_kind;
  if (fixed.order) layout.order = *fixed.order;
  if (fixed.layers_per_stage) layout.layers_per_stage = *fixed.layers_per_stage;
  const uint64_t copies = uint64_t{layout.tensor} * layout.pipeline * layout.context;
  const uint64_t devices = job.cluster.devices;
  const uint64_t left = devices % copies == 0 ? devices / copies : 1;
  layout.data = fixed.data.value_or(static_cast<uint32_t>(left));
  training.batch.micro = fixed.micro_batch.value_or(1);
  if (fixed.recompute) training.recompute = *fixed.recompute;
  if (fixed.offload) training.offload = *fixed.offload;
  const Status legal = spec::CheckTraining(job.model, job.cluster, training);
  if (!legal.ok()) return legal.message();
  if (job.reach != planner::search::Reach::kOneFramework) return "";
  const planner::Question question{job.model, job.cluster, training};
  return planner::flags::CheckExpressible(job.framework, question).message();
}

Result<spec::Model> ReadModel(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) {
    ASSIGN_OR_RETURN(const std::string text, io::ReadText(name, kMostModelBytes));
    Result<spec::Model> model = spec::ParseModel(text, name);
    if (!model.ok()) return WithHint(model.status(), text);
    return model;
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
