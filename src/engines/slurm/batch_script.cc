#include "engines/slurm/batch_script.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "engines/slurm/run_comment.h"

namespace longhaul::engines::slurm {
namespace {

constexpr size_t kMaxJobName = 64;
// Any user may lower the priority of a job. Most sites count priorities in thousands.
constexpr const char* kSpareNice = "--nice=10000";

// Longhaul's own options of sbatch. --no-kill keeps the job when a node fails, --requeue lets Slurm
// start it again after a preemption or the failure of the first node, and the signal leaves time
// for a last checkpoint before the time limit.
std::vector<std::string> Arguments(const BatchOptions& options, uint32_t nodes,
                                   const std::string& role, const std::string& output) {
  // The name is shown to everybody, so only harmless characters of it are used.
  std::string name = "longhaul-";
  for (const char c : options.name.substr(0, kMaxJobName)) {
    name.push_back(IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.' ? c : '-');
  }
  std::vector<std::string> all = {
      "sbatch",
      "--parsable",
      "--no-kill",
      "--nodes=" + std::to_string(nodes),
      "--ntasks-per-node=1",
      "--job-name=" + name,
      "--comment=" + RunComment(role, options.run_directory),
      "--open-mode=append",
      "--output=" + SlurmDirectory(options.run_directory) + "/" + output};
  return all;
}

// The user's options for the nodes of a part, or of the growth.
std::vector<std::string> SettingsOf(const BatchOptions& options, size_t part) {
  std::vector<std::string> all = options.settings;
  const bool grows = part >= options.size.parts.size() && !options.growth.empty();
  if (!grows && options.parts.empty()) return all;
  const std::vector<std::string>& own =
      grows ? options.growth : options.parts[std::min(part, options.parts.size() - 1)].settings;
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::string Lines(const std::string& purpose, const std::vector<std::string>& command) {
  std::string text = "#!/bin/sh\n# " + purpose + "\nexec";
  for (const std::string& word : command) text += " " + ShellQuoted(word);
  return text + "\n";
}

}  // namespace

std::string SlurmDirectory(const std::string& run_directory) { return run_directory + "/slurm"; }

std::string ShellQuoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return IsLetterOrDigit(c) || std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> FirstJobArguments(const BatchOptions& options) {
  std::vector<std::string> all =
      Arguments(options, options.size.parts[0], std::string(kFirstRole), "output.log");
  all.insert(all.end(), {"--requeue", "--signal=B:USR1@120"});
  // The user's come last: of an option that is given twice, sbatch takes the last one.
  const std::vector<std::string> settings = SettingsOf(options, 0);
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

std::string FirstJobScript(const BatchOptions& options) {
  std::vector<std::string> command = {options.program, "slurm", "batch", options.run_directory};
  for (const std::string& setting : options.settings) command.push_back("--sbatch=" + setting);
  for (const Part& part : options.parts) {
    command.push_back("--part=--nodes=" + std::to_string(part.nodes));
    for (const std::string& setting : part.settings) command.back() += " " + setting;
  }
  if (!options.growth.empty()) command.push_back("--grow=" + Join(options.growth, " "));
  if (options.start_limit != BatchOptions().start_limit) {
    command.push_back("--start-limit=" + std::to_string(options.start_limit / Duration(1)) + "ns");
  }
  command.push_back("--");
  command.insert(command.end(), options.words.begin(), options.words.end());
  return Lines("The first job of a run: its controller, and agents on all nodes.", command);
}

std::vector<std::string> FurtherJobArguments(const BatchOptions& options, const Request& request,
                                             const std::vector<std::string>& held) {
  constexpr std::string_view kExclude = "--exclude=";
  const std::string role = request.part < options.size.parts.size()
                               ? "part-" + std::to_string(request.part + 1)
                               : std::string(kGrowthRole);
  std::vector<std::string> all = Arguments(options, request.nodes, role, "agents-%j.log");
  all.push_back("--no-requeue");  // the run asks for another job when it needs one
  if (request.spare) all.push_back(kSpareNice);
  std::vector<std::string> excluded = held;
  for (const std::string& setting : SettingsOf(options, request.part)) {
    if (setting.starts_with(kExclude)) {
      excluded.push_back(setting.substr(kExclude.size()));
    } else {
      all.push_back(setting);
    }
  }
  if (!excluded.empty()) all.push_back(std::string(kExclude) + Join(excluded, ","));
  return all;
}

std::string FurtherJobScript(const BatchOptions& options) {
  return Lines("A further job of a run: agents alone.", AgentsCommand(options));
}

// One task a node, whatever the job's options say of tasks; a task that ends, or a node that fails,
// ends no other one.
std::vector<std::string> AgentsCommand(const BatchOptions& options) {
  return {"srun",
          "--ntasks-per-node=1",
          "--no-kill",
          "--kill-on-bad-exit=0",
          "--wait=0",
          "--mpi=none",
          "--unbuffered",
          options.program,
          "slurm",
          "agent",
          options.run_directory,
          "--slots",
          std::to_string(options.workers)};
}

}  // namespace longhaul::engines::slurm
