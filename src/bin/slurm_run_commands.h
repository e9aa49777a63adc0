// `longhaul slurm status`, `cancel` and `resize`: a run on Slurm as one, whatever number of jobs of
// Slurm it has.
#pragma once

#include <CLI/CLI.hpp>

#include "bin/command.h"

namespace longhaul::bin {

// Declares them below `slurm`.
void AddSlurmRunCommands(CLI::App& slurm, Action& action);

}  // namespace longhaul::bin
