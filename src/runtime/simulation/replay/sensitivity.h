// One constant of the replay at a time: by how much the effective training time depends on it.
#pragma once

#include <string>
#include <vector>

#include "runtime/simulation/replay/fault_trace.h"
#include "runtime/simulation/replay/replay.h"

namespace longhaul::runtime::simulation {

// The replay with another value of one constant.
struct Variant {
  std::string constant;  // "group set-up"
  std::string value;     // "60 s"
  ReplaySettings settings;
  TraceOptions trace;
};

// The variants of a replay, those of a constant one after the other. The first variant changes
// nothing: its constant is empty.
std::vector<Variant> SensitivityVariants(const ReplaySettings& settings, const TraceOptions& trace);

// The effective training time of a seed.
double EffectiveTimeOf(const Variant& variant, uint64_t seed);

}  // namespace longhaul::runtime::simulation
