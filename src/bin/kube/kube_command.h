// `longhaul kube`: becomes the program longhaul-kube, which is built and installed apart.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bin/command.h"

namespace longhaul::bin {

// Declares `kube`. `words` are the arguments after it, which that program reads.
void AddKubeCommand(CLI::App& app, Action& action, const std::vector<std::string>& words);

}  // namespace longhaul::bin
