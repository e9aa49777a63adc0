// One `longhaul run`, from a checked job to the report.
//
//   check -> run directory -> cluster up -> submit -> follow -> stop the cluster -> report
//
// Two threads: the caller's thread runs an event loop (children, signals, the view); a second one
// exchanges messages with the controller and posts what it receives to the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "frontend/agent_launcher.h"
#include "frontend/job_request.h"

namespace longhaul::frontend {

struct RunOptions {
  JobRequest job;
  std::string run_directory;                 // empty: runs/NAME
  bool resume = false;                       // continue from the newest checkpoint there
  std::string from;                          // another checkpoint, to load the weights from
  bool json = false;                         // one JSON object for each line
  bool quiet = false;                        // only the report's summary
  std::vector<uint32_t> silent_local_ranks;  // a command's workers whose output isn't shown
  std::string line_prefix;       // of a command's output, with ${rank}, ...; empty: "[rank N] "
  std::string role = "default";  // of torchrun, for `line_prefix`
  std::optional<uint32_t> cluster_nodes;  // absent: 2, or the number that the job requires
  std::optional<uint32_t> cluster_slots;
  Duration replacement_delay = std::chrono::milliseconds(200);
  std::string controller;  // URL of an existing one; empty: an embedded cluster
  std::string token_file;
  std::string ca_file;       // of a controller with TLS; may be empty
  std::string notify_file;   // hooks (docs/notify.md); empty: none
  std::string command_line;  // for the report
  // Starts the agents of the cluster elsewhere; null: they are processes of this machine. The run
  // directory may have content, then: it was made for this run.
  std::shared_ptr<AgentLauncher> launcher;
};

// Runs the job to its end and returns the process's exit code: 0: the job succeeded; 1: it failed;
// 2: the job or an option is wrong; 128 + N: signal N stopped it. Must be called once, on the main
// thread, before other threads exist.
int Run(const RunOptions& options);

}  // namespace longhaul::frontend
