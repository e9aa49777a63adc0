// The gaps of a case that need no calculator: filled with the usual settings of the framework.
#pragma once

#include <optional>
#include <string>

#include "planner/case.h"
#include "planner/internal/case_reader.h"

namespace longhaul::planner::internal {

// Values that the reader found and that have no field in the question.
struct RawCase {
  std::string shipped_model;  // whose sizes were taken; empty: none
  std::string gpu;
  std::optional<double> network_gb_per_s;
  std::optional<double> memory_gib;
  std::optional<double> memory_gb_per_s;
  std::optional<double> power_limit_w;
  std::string moment_dtype;
  std::vector<std::string> recompute_modules;
};

// Fills the gaps of `filled.question`, marks the open ones, and lists both in `filled.assumed`.
// Rejects an unknown device and a cluster without a size.
Status FillDefaults(const CaseReader& reader, const RawCase& raw, Case& filled);

}  // namespace longhaul::planner::internal
