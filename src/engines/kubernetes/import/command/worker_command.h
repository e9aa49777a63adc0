// The command of a container as the command of Longhaul's workers.
//
// A launcher in it, also one in the script of a shell, is replaced by what it would have started.
// A command without one stays as it is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engines/kubernetes/import/command/command_words.h"
#include "engines/kubernetes/import/command/launcher.h"
#include "engines/kubernetes/import/import_report.h"

namespace longhaul::engines::kubernetes {

struct ContainerCommand {
  std::vector<std::string> words;  // command and args; not empty
  std::string path;                // of the command
  CommandVariables variables;
  // Variables of the other operator, and Longhaul's that have the same meaning.
  std::vector<std::pair<std::string, std::string>> renamed;
};

struct WorkerCommand {
  std::vector<std::string> argv;
  bool launched = false;  // by a launcher, whose options are:
  LauncherOptions options;
};

// Requires container.words not to be empty.
WorkerCommand TranslateCommand(const ContainerCommand& container, Translation& translation);

}  // namespace longhaul::engines::kubernetes
