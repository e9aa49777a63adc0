// `longhaul simulate --replay`: published failures against the real controller in virtual time.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace longhaul::bin {

struct ReplayFlags {
  std::string source;  // "llama3", or the file of a trace; empty: no replay
  std::string write;   // the file that gets the trace; empty: none
  bool weibull = false;
  bool lemons = false;
  bool racks = false;
  bool offenders = false;
  uint32_t threads = 0;     // 0: one a processor
  std::string sensitivity;  // an SVG file; empty: none
  // Of the command's other options.
  std::optional<uint32_t> nodes;  // with the spares
  std::optional<uint32_t> spares;
  double days = 54;
  double factor = 1;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  bool json = false;
};

void AddReplayOptions(CLI::App& command, ReplayFlags& flags);

// Runs the command; returns the process's exit code.
int RunReplay(const ReplayFlags& flags);

}  // namespace longhaul::bin
