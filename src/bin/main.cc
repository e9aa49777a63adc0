// The `longhaul` program: its command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "bin/agent_command.h"
#include "bin/calibrate_command.h"
#include "bin/checkpoint/checkpoint_command.h"
#include "bin/client/client_commands.h"
#include "bin/command.h"
#include "bin/controller_command.h"
#include "bin/kube/kube_command.h"
#include "bin/plan/plan_command.h"
#include "bin/profile_command.h"
#include "bin/run_command.h"
#include "bin/simulate_command.h"
#include "bin/slurm_command.h"

namespace longhaul::bin {
namespace {

constexpr const char* kExamples = R"(Examples:
  longhaul run examples/headers-gpt.yaml                 train on a local cluster and write a report
  longhaul run --nodes 2 --procs 2 -- python3 train.py   keep an unmodified torchrun script alive
  longhaul plan llama-3.1-70b h100-sxm:512 --tokens 15T  predict time and cost, find the best layout
  longhaul controller --state-dir runs                   start a controller that keeps running
  longhaul submit examples/headers-gpt.yaml --watch      submit a job to it and follow the job

Exit codes: 0 success, 1 failure, 2 wrong usage. Guide: README.md.)";

// Reports an error when the first word is no command, with the probably intended one. CLI11 would
// report only a missing subcommand.
bool IsKnownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string_view> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  if (std::find(names.begin(), names.end(), word) != names.end()) return true;
  const auto meant = Nearest(word, names);
  std::fprintf(stderr, "longhaul: no command named %s%s: see longhaul --help\n",
               Printable(word).c_str(),
               meant.has_value() ? (" (did you mean " + std::string(*meant) + "?)").c_str() : "");
  return false;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Plan, schedule and run large-model training jobs, and keep them running through failures.",
      "longhaul");
  app.set_version_flag("--version", "longhaul " LONGHAUL_VERSION, "Print the version and exit");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  // What follows `run` may hold a whole other command: it is read there. So may what follows
  // `slurm submit`, which is a run, too. What follows `kube` is read by another program.
  const auto is_word = [&](int i, std::string_view word) { return argc > i && argv[i] == word; };
  int own_words = argc;
  if (is_word(1, "run") || is_word(1, "kube")) own_words = 2;
  if (is_word(1, "slurm") && (is_word(2, "submit") || is_word(2, "batch"))) own_words = 3;
  const std::vector<std::string> run_words(argv + own_words, argv + argc);

  Action action;
  AddRunCommand(app, action, run_words);
  AddSlurmCommand(app, action, run_words);
  AddPlanCommand(app, action);
  AddClientCommands(app, action);
  AddControllerCommand(app, action);
  AddAgentCommand(app, action);
  AddKubeCommand(app, action, run_words);
  AddProfileCommand(app, action);
  AddSimulateCommand(app, action);
  AddCalibrateCommand(app, action);
  AddCheckpointCommand(app, action);

  if (argc > 1 && argv[1][0] != '-' && !IsKnownCommand(app, argv[1])) return kExitUsage;
  try {
    app.parse(own_words, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version are "errors" of exit code 0; everything else is wrong usage.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return action ? action() : kExitUsage;
}

}  // namespace
}  // namespace longhaul::bin

int main(int argc, char** argv) { return longhaul::bin::Main(argc, argv); }
