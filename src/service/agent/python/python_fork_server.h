// The fork server of a Python program: which programs have one, and how it is started.
//
// It loads the packages that the program imports, and forks the program's workers from then on
// (fork_server/server.py, worker_api/fork_server.h). A job whose environment has
// LONGHAUL_FORK_SERVER=0 has no fork server. Pure: text in, values out.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "service/agent/fork_server/fork_server_link.h"

namespace longhaul::service {

// In a forked worker's environment, so that it can tell.
inline constexpr char kForkedVariable[] = "LONGHAUL_FORKED";

struct PythonProgram {
  std::vector<std::string> interpreter;  // with its options
  std::vector<std::string> words;        // a script, or -m and a module, and the arguments

  friend bool operator==(const PythonProgram&, const PythonProgram&) = default;
};

// The command as a Python program; nothing when it is none, or runs without a file (-c), or has
// options under which a forked process would not behave alike.
std::optional<PythonProgram> ParsePythonProgram(std::span<const std::string> argv);

// The fork server for workers with this environment. `packages`: folders with packages that are not
// the program's own, beside those that are installed. `modules`: a file in which fork servers of
// the job leave the names of what workers have loaded, for those that begin later.
ForkServerCommand PythonForkServer(const PythonProgram& program,
                                   std::map<std::string, std::string> environment,
                                   std::string working_directory,
                                   const std::vector<std::string>& packages,
                                   const std::string& modules);

// Whether the job's or the agent's environment does without.
bool ForkServerIsOff(const std::map<std::string, std::string>& environment);

}  // namespace longhaul::service
