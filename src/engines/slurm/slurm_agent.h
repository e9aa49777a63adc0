// `longhaul slurm agent`: the agent of one node of a Slurm job.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::engines::slurm {

struct SlurmAgentOptions {
  std::string run_directory;
  uint32_t slots = 1;
};

// Runs until the run ends, the node is fenced (slurm_launcher.h), or a signal comes. The node, the
// job and the folder for node-local files are read from Slurm's environment. Returns the process's
// exit code.
int SlurmAgentMain(const SlurmAgentOptions& options);

}  // namespace longhaul::engines::slurm
