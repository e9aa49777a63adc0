// Translates the command line of a launcher: torchrun, torch.distributed.launch or dlrover-run.
//
// A launcher starts the processes of a pod, gives them their ranks and restarts them. Longhaul does
// that itself, so a job has the command that the launcher would have started, and the launcher's
// options become fields of the job or entries of the report.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/kubernetes/import/command/command_words.h"
#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

// What the options of a launcher state about the job; absent: not stated.
struct LauncherOptions {
  std::optional<int64_t> minimum_nodes;
  std::optional<int64_t> maximum_nodes;  // as minimum_nodes, unless a range was given
  std::string processes;                 // on each node: "8", "auto", "gpu", "cpu"; empty: absent
  std::optional<int64_t> max_restarts;
  std::optional<int64_t> node_unit;  // the number of nodes is a multiple of it
};

struct FoundLauncher {
  std::string name;         // "torchrun"
  std::string interpreter;  // of the script
  size_t words = 1;         // so many words name it
};

// Whether the words begin with a launcher: by its name, or as a module of a Python.
std::optional<FoundLauncher> FindLauncher(std::span<const CommandWord> words);
// Whether a word is or names a launcher, at whatever place.
bool NamesLauncher(const CommandWord& word);

// The command of each worker, from the words after the launcher's name. `path`: of the command, for
// the report.
std::vector<CommandWord> TranslateLauncher(const FoundLauncher& launcher,
                                           std::span<const CommandWord> words,
                                           const std::string& path, Translation& translation,
                                           LauncherOptions& options);

// The same for an option that is given as a variable: PET_MAX_RESTARTS=3. False if the name is no
// option of a launcher.
bool TranslateLauncherVariable(const std::string& name, const std::string& value,
                               const std::string& path, Translation& translation,
                               LauncherOptions& options);

}  // namespace longhaul::engines::kubernetes
