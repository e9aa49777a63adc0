// POST /v1/plans: what to plan, as JSON (docs/openapi.yaml, PlanRequest).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::service {

struct PlanRequest {
  std::string model;       // of a shipped one; empty: model_text
  std::string model_text;  // a model file or a config.json, which spec::ParseModel accepts
  std::string device;      // of a shipped one
  uint32_t devices = 0;
  uint64_t batch = 0;  // sequences of a step; 0: the planner's default, as below
  uint64_t sequence = 0;
  std::string tokens;  // texts of the options of `longhaul plan` with the same names
  std::string precision;
  std::string framework;
  std::string fix;
  Duration limit = std::chrono::seconds(20);  // of the search
};

// Returns kInvalidArgument with the wrong key, and kNotFound for an unknown model or accelerator
// with the nearest names. The planner checks the rest.
Result<PlanRequest> ParsePlanRequest(std::string_view body);

// The words after `longhaul plan`. The model's text is to be on its standard input.
std::vector<std::string> PlannerArguments(const PlanRequest& request);

}  // namespace longhaul::service
