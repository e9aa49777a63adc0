// Turns the command line of `longhaul run` into a checked job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::frontend {

struct JobRequest {
  std::string file;                                // a job file; or:
  std::vector<std::string> command;                // argv of each worker
  std::string framework;                           // of the command's script; empty: none
  std::map<std::string, std::string> environment;  // with a command: added to the agents' own
  std::string name;                                // instead of the job's own
  std::string inject;                              // further faults
  std::string step_pattern;                        // instead of the job's own
  std::string stopped_limit;                       // of hang.stopped; empty: the job's own
  std::string no_step_limit;                       // of hang.no_step
  std::string idle_limit;                          // of hang.idle
  std::string not_finite;                          // numeric.not_finite; empty: the job's own
  std::string loss_spike;                          // numeric.spike
  std::vector<std::string> set;  // "train.steps=100": replaces the value in the file
  std::optional<uint32_t> nodes;
  std::optional<uint32_t> minimum_nodes;
  std::optional<uint32_t> maximum_nodes;
  std::optional<uint32_t> processes_per_node;
  std::optional<uint32_t> max_restarts;
  bool fork_server = true;  // for a Python program; false: its workers are always started
  // A command without a working directory starts where this program was started; otherwise where
  // the agents were.
  bool starts_here = true;
};

// Returns the job, checked as far as possible without a cluster. A message names the file and,
// where possible, the line, the key and the remedy.
Result<spec::JobSpec> LoadJob(const JobRequest& request);

// Returns a job's text with "key.path=value" inserted; a value is JSON where it parses as such,
// else text. Exposed for its test.
Result<std::string> ApplySettings(const std::string& json,
                                  const std::vector<std::string>& settings);

// A checkpoint's location as other processes can use it: s3://... unchanged, a path made absolute.
std::string WholePlace(const std::string& place);

// What a job will run, for a user to read: its command, the variables that it adds to torchrun's,
// and the pattern of its steps.
std::string DescribeCommand(const spec::JobSpec& job);

// The words as a shell reads them back: quoted where necessary, separated by blanks.
std::string ShellLine(const std::vector<std::string>& words);

// The name of a job that was made from a command: the name of its script or its program.
std::string NameOfCommand(const std::vector<std::string>& command);

}  // namespace longhaul::frontend
