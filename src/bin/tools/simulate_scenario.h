// `longhaul simulate --scenario`: runs a file of faults in virtual time (docs/scenarios.md).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace longhaul::bin {

struct ScenarioFlags {
  std::string file;
  uint64_t seed = 1;
  std::string log;  // written to this file, one event a line; empty: nowhere
  bool twice = false;
  bool json = false;
};

// Adds --scenario, after all options that it excludes.
void AddScenarioOption(CLI::App& command, std::string& file);

// Runs the command; returns the process's exit code.
int RunScenario(const ScenarioFlags& flags);

}  // namespace longhaul::bin
