// `longhaul slurm`: runs on the nodes of a Slurm cluster, as an ordinary user.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bin/command.h"

namespace longhaul::bin {

// Declares `slurm`. `words` are the arguments after it on the command line; those of its
// subcommands are read here and not by `app`, because they contain the words of a `longhaul run`.
void AddSlurmCommand(CLI::App& app, Action& action, const std::vector<std::string>& words);

}  // namespace longhaul::bin
