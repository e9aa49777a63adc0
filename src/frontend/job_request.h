// From what stands on the command line of `longhaul run` to a checked job.
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
  std::map<std::string, std::string> environment;  // with a command: added to the agents' own
  std::string name;                                // instead of the job's own
  std::string inject;                              // further faults
  std::string step_pattern;                        // instead of the job's own
  std::vector<std::string> set;  // "train.steps=100": instead of what the file says
  std::optional<uint32_t> nodes;
  std::optional<uint32_t> minimum_nodes;
  std::optional<uint32_t> maximum_nodes;
  std::optional<uint32_t> processes_per_node;
  std::optional<uint32_t> max_restarts;
};

// The job, checked as far as it can be without a cluster. A message names the file and, where it
// can, the line, the key and the remedy.
Result<spec::JobSpec> LoadJob(const JobRequest& request);

// A job's text with "key.path=value" put into it; values are JSON where they can be read as such,
// else text. Exposed for its test.
Result<std::string> ApplySettings(const std::string& json,
                                  const std::vector<std::string>& settings);

// A checkpoint's place as others can use it: s3://... as it is, a path whole.
std::string WholePlace(const std::string& place);

// The name of a job made of a command: of its script, or its program.
std::string NameOfCommand(const std::vector<std::string>& command);

}  // namespace longhaul::frontend
