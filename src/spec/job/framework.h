// Recipes: how a training framework is started, as an ordinary command with its environment.
//
// A job with `framework` names a script or a module and its arguments. Expand turns them into the
// command, the environment and the pattern of steps that a user would write by hand after reading
// the framework's own start script (docs/frameworks.md). The rest of the program sees only these.
// Leaves out what the framework's script decides itself, such as how DeepSpeed's script loads its
// checkpoint. Pure: nothing is looked up on the machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::spec {

// The keys of a job that its framework's recipe reads.
struct RecipeSpec {
  std::string framework;  // a name of FrameworkNames(); empty: the job has a command of its own
  std::string python = "python3";
  std::string script;  // a file, or:
  std::string module;  // as in `python3 -m`
  std::vector<std::string> args;
  std::string checkpoint_directory;             // empty: checkpoints/NAME
  std::optional<uint64_t> checkpoint_interval;  // steps; absent: as the recipe says

  friend bool operator==(const RecipeSpec&, const RecipeSpec&) = default;
};

// In the order of docs/frameworks.md.
std::span<const std::string_view> FrameworkNames();

// What a recipe fills in.
struct Expansion {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // only where the job does not set the variable
  std::string step_pattern;                        // a preset's name; empty: none
};

// Returns the module that a framework starts when a job names neither a script nor a module; empty
// if it has none.
std::string_view DefaultModule(std::string_view framework);

// Whether the framework has documented arguments for the place and the interval of checkpoints.
bool HasCheckpointArguments(std::string_view framework);

// Expands the recipe of the job `job_name`. An argument that the user gave is never added or
// changed. Requires a known framework, at most one of script and module, and one of them unless the
// framework has a default module.
Expansion Expand(const RecipeSpec& recipe, std::string_view job_name);

}  // namespace longhaul::spec
