// What `longhaul simulate --replay` prints: tables, JSON and the chart of sensitivities. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/simulation/replay/replay.h"

namespace longhaul::bin {

// The replay of one seed.
struct ReplayOutcome {
  uint64_t seed = 0;
  size_t failures = 0;  // in the trace
  runtime::simulation::SimulationResult result;
  runtime::simulation::TimeParts parts;
  // Of kBaselines, in order.
  std::vector<runtime::simulation::TimeParts> baselines;
  double cpu_s = 0;
};

// The effective training time of a variant, over the seeds.
struct VariantOutcome {
  std::string constant;
  std::string value;
  std::vector<double> effective;
};

// Requires at least one value.
double MedianOf(std::vector<double> values);

std::string ReplayRow(const ReplayOutcome& outcome);
std::string ReplayRowHead();
// Over all seeds: effective time, by part, by cause, and beside the models of other systems.
std::string ReplayTables(const std::vector<ReplayOutcome>& outcomes);
std::string ReplayJson(const ReplayOutcome& outcome);

std::string VariantJson(const VariantOutcome& variant);

// The first variant is the one that changes nothing.
std::string SensitivityTable(const std::vector<VariantOutcome>& variants);
std::string SensitivitySvg(const std::vector<VariantOutcome>& variants, const std::string& title);

}  // namespace longhaul::bin
