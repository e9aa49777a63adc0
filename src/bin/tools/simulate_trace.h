// `longhaul simulate --trace`: compares several schedulers on a workload trace.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::bin {

struct TraceFlags {
  std::string file;  // empty: no trace
  std::string format = "auto";
  std::string cluster;  // a file; empty: the Clos network below
  std::string month;
  std::string measured;  // a folder; empty: none
  uint32_t blocks = 2;
  uint32_t leaves = 4;  // a block
  uint32_t hosts = 8;   // a leaf, of 8 GPUs each
  std::string foresight = "true";
  std::vector<std::string> policies;
  double snapshot_hours = 1;
  std::string csv;
  std::string svg;
  std::string html;
  std::string check_fixes;  // a day, as 2017-10-12
  bool json = false;
};

void AddTraceOptions(CLI::App& command, TraceFlags& flags);

// Runs the command; returns the process's exit code.
int RunTrace(const TraceFlags& flags);

}  // namespace longhaul::bin
