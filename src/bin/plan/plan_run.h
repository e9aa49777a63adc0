// `longhaul plan --from`: what somebody runs now, as a question to the planner.
#pragma once

#include <string>

#include "base/status.h"
#include "planner/configs/run_config.h"
#include "planner/search/plan_request.h"

namespace longhaul::bin {

// A model's file, or a shipped name.
Result<spec::Model> ReadModel(const std::string& name);

// Why no layout is legal with what is fixed: the rule that the plainest one breaks, or what the
// framework that is asked for lacks; empty where neither is so.
std::string WhyNothingIsLegal(const planner::search::PlanRequest& job);

struct RunFile {
  std::string path;
  planner::configs::RunConfig config;
};

// `framework` is megatron, deepspeed or torchtitan.
Result<RunFile> ReadRunFile(const std::string& framework, const std::string& path);

// "h100-sxm" with the count that the run says, where there is one and the name has none.
std::string ClusterOfRun(const std::string& cluster, const planner::configs::RunConfig& config);

}  // namespace longhaul::bin
