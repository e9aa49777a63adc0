// `longhaul plan --from`: the user's present training configuration as a planner question.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/configs/run_config.h"
#include "planner/search/plan_request.h"

namespace longhaul::bin {

// Reads a model from a file, or a shipped model by its name.
Result<spec::Model> ReadModel(const std::string& name);

// The reason why no layout is legal with the fixed settings: the rule that the simplest layout
// breaks, or the feature that the requested framework lacks; empty where neither applies.
std::string WhyNothingIsLegal(const planner::search::PlanRequest& job);

struct RunFile {
  std::string path;
  planner::configs::RunConfig config;
};

// `framework` is megatron, deepspeed or torchtitan.
Result<RunFile> ReadRunFile(const std::string& framework, const std::string& path);

// "h100-sxm" with the number of devices of the run, where the run states one and the name has none.
std::string ClusterOfRun(const std::string& cluster, const planner::configs::RunConfig& config);

}  // namespace longhaul::bin
