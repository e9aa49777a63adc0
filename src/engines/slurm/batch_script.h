// The batch scripts of a run on Slurm, and the options of sbatch for them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/slurm/allocation.h"
#include "engines/slurm/run_size.h"

namespace longhaul::engines::slurm {

struct BatchOptions {
  std::string program;        // the longhaul binary, absolute, on storage that all nodes share
  std::string run_directory;  // absolute, on such storage, too
  std::string name;           // the run's
  RunSize size;
  uint32_t workers = 1;               // on each node
  std::vector<std::string> words;     // of `longhaul run`, for the batch step
  std::vector<std::string> settings;  // the user's options of sbatch, "--partition=gpu"
  std::vector<Part> parts;            // as the user gave them; none: one part without settings
  // The user's options of sbatch for the nodes by which the run grows; none: the last part's.
  std::vector<std::string> growth;
  Duration start_limit = std::chrono::minutes(30);  // for the nodes of the other parts
};

// The folder of a run's files for Slurm, below its run directory.
std::string SlurmDirectory(const std::string& run_directory);

// The first job: its batch step is the controller, which starts agents on all nodes.
std::vector<std::string> FirstJobArguments(const BatchOptions& options);
std::string FirstJobScript(const BatchOptions& options);

// A further job of agents alone, which join the controller that runs. It takes none of the nodes
// `held`, which have an agent, besides those that the user excludes.
std::vector<std::string> FurtherJobArguments(const BatchOptions& options, const Request& request,
                                             const std::vector<std::string>& held);
std::string FurtherJobScript(const BatchOptions& options);

// The command that starts one agent on each node of a job, from its batch step.
std::vector<std::string> AgentsCommand(const BatchOptions& options);

// A word as a shell reads it back.
std::string ShellQuoted(const std::string& word);

}  // namespace longhaul::engines::slurm
