#include "bin/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "bin/agent_command.h"
#include "bin/client/client_commands.h"
#include "bin/command.h"
#include "bin/command_line.h"
#include "bin/controller_command.h"
#include "bin/explain_command.h"
#include "bin/other_program.h"
#include "bin/run_command.h"
#include "bin/slurm_command.h"

namespace longhaul::bin {
namespace {

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

}  // namespace

int RunProgram(int argc, char** argv) {
  CLI::App app(kSummary, "longhaul");
  DescribeProgram(app);

  // What follows `run` may hold a whole other command: it is read there. So may what follows
  // `slurm submit`, which is a run, too. What follows a command of another program is read there.
  const auto is_word = [&](int i, std::string_view word) { return argc > i && argv[i] == word; };
  int own_words = argc;
  if (is_word(1, "run") || (argc > 1 && IsOtherProgram(argv[1]))) own_words = 2;
  if (is_word(1, "slurm") && (is_word(2, "submit") || is_word(2, "batch"))) own_words = 3;
  const std::vector<std::string> words(argv + own_words, argv + argc);

  Action action;
  AddRunCommand(app, action, words);
  AddSlurmCommand(app, action, words);
  AddOtherProgram(app, action, kPlan, words);
  AddExplainCommand(app, action);
  AddClientCommands(app, action);
  AddControllerCommand(app, action);
  AddAgentCommand(app, action);
  for (const OtherProgram* other :
       {&kKube, &kProfile, &kSimulate, &kCalibrate, &kPipeline, &kCheckpoint}) {
    AddOtherProgram(app, action, *other, words);
  }

  if (argc > 1 && argv[1][0] != '-' && !IsKnownCommand(app, argv[1])) return kExitUsage;
  return ParseAndRun(app, action, own_words, argv);
}

}  // namespace longhaul::bin
