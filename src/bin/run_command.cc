#include "bin/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "base/text.h"
#include "bin/command_line.h"
#include "io/process/process.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::bin {
namespace {

constexpr const char* kDescription =
    "Train on a local cluster, show progress and write a report.\n\n"
    "  longhaul run [options] JOB.yaml\n"
    "  longhaul run [options] [torchrun's options] -- COMMAND ...\n"
    "  longhaul run [options] [torchrun's options] SCRIPT.py ...";

struct Words {
  frontend::RunOptions options;
  std::string replacement_delay = "200ms";
  std::string job_file;
  bool dry_run = false;
};

void AddHangOptions(CLI::App& app, frontend::RunOptions& options) {
  app.add_option("--stopped-limit", options.job.stopped_limit,
                 "Continue a worker of a command that is stopped (SIGSTOP) for this time, and "
                 "restart all if it is stopped again (default: 30s; never)");
  app.add_option("--no-step-limit", options.job.no_step_limit,
                 "Restart the workers of a command after this time without a step and without "
                 "activity of any worker, or 3 times the slowest recent step if that is longer "
                 "(default: 2min; never)");
  app.add_option("--idle-limit", options.job.idle_limit,
                 "Restart the workers of a command that has reported no step after this time "
                 "without activity of any worker (default: 10min; never) (docs/hangs.md)");
}

void AddNumericOptions(CLI::App& app, frontend::RunOptions& options) {
  app.add_option("--not-finite", options.job.not_finite,
                 "Warn, stop the job, or go back to a snapshot and repeat the step when a loss is "
                 "NaN or infinite: warn, stop or rollback (default: warn)");
  app.add_option("--loss-spike", options.job.loss_spike,
                 "The same when several losses in a row are far above the ones before: warn, stop, "
                 "rollback or ignore (default: warn) (docs/numeric-faults.md)");
}

void AddOptions(CLI::App& app, Words& words) {
  frontend::RunOptions& options = words.options;
  app.add_option("job", words.job_file, "Job file (docs/job-file.md)");
  app.add_option("--inject", options.job.inject,
                 "Inject faults: 'kill worker 1 at step 40; kill agent 2 at step 90'");
  app.add_option("--step-pattern", options.job.step_pattern,
                 "Read the steps of a command from its output: nanogpt, lightning, huggingface, "
                 "torchtitan, megatron, deepspeed, or a regular expression with a group "
                 "(?P<step>\\d+) (docs/job-file.md)");
  AddHangOptions(app, options);
  AddNumericOptions(app, options);
  app.add_option("--framework", options.job.framework,
                 "Start the script as this framework's own launcher does, with its environment and "
                 "checkpoint arguments: pytorch, torchtitan, megatron, deepspeed, lightning or "
                 "accelerate (docs/frameworks.md)");
  app.add_flag_callback(
      "--no-fork-server", [&options] { options.job.fork_server = false; },
      "Start each Python worker by itself, not from a process that has loaded its packages "
      "(docs/fork-server.md)");
  app.add_flag("--dry-run", words.dry_run,
               "Print the command and the environment of the workers and start nothing");
  app.add_option("--name", options.job.name, "Use this name instead of the job file's");
  app.add_option("--set", options.job.set,
                 "Override a key of the job file (KEY=VALUE); may be repeated")
      ->take_all();
  app.add_option("--nodes", options.job.nodes,
                 "Set the number of nodes (default: the planner chooses)");
  app.add_option("--minimum-nodes", options.job.minimum_nodes,
                 "Let an elastic job start and continue with as few nodes (default: --nodes)");
  app.add_option("--maximum-nodes", options.job.maximum_nodes,
                 "Let the job grow into idle nodes up to this number (default: --nodes)");
  app.add_option("--procs", options.job.processes_per_node,
                 "Set the number of workers on each node");
  app.add_option("--run-dir", options.run_directory,
                 "Write the run's files to this directory (default: runs/NAME)");
  app.add_flag("--resume", options.resume,
               "Continue from the newest checkpoint in the run's directory");
  app.add_option(
      "--from", options.from,
      "Start a new run with the weights of another run's checkpoint: a run's folder (its newest "
      "good checkpoint), a step's folder or s3://BUCKET/PREFIX; to continue a run use --resume");
  app.add_option("--notify", options.notify_file,
                 "Notify the commands and web addresses of this file of faults and of the end "
                 "(docs/notify.md)");
  app.add_flag("--json", options.json, "Print one JSON object per line instead of the live view");
  app.add_flag("--quiet", options.quiet, "Print only the summary at the end");
  app.add_option("--cluster-nodes", options.cluster_nodes,
                 "Set the number of agents of the local cluster (default: 2)");
  app.add_option("--cluster-slots", options.cluster_slots,
                 "Set the number of workers that each agent takes (default: 2)");
  app.add_option("--node-replacement-delay", words.replacement_delay,
                 "Wait this long before a dead agent is replaced (default: 200ms)");
  app.add_option("--controller", options.controller,
                 "Use the controller at this URL instead of starting one");
  AddCredentialOptions(app, options.token_file, options.ca_file);
  app.footer(
      "Examples:\n"
      "  longhaul run examples/headers-gpt.yaml\n"
      "  longhaul run --resume examples/headers-gpt.yaml\n"
      "  longhaul run --from runs/headers-gpt examples/headers-gpt.yaml --name tuned\n"
      "  longhaul run --nodes 2 --procs 2 -- python3 examples/ddp.py");
}

// The words that AddOptions handles, and the rest: a job file, or torchrun's options and a command,
// which ends the search.
struct Split {
  std::vector<std::string> ours;
  std::vector<std::string> rest;
};

Split SplitWords(const std::vector<std::string>& words, const CLI::App& known) {
  Split split;
  bool program_follows = false;  // the first word that is no flag is the program
  const auto is_job_file = [](const std::string& word) {
    return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-m" || word == "--module" || word == "--no-python" || word == "--no_python") {
      program_follows = true;
    }
    // The words after the program are its own.
    const bool is_program = word.ends_with(".py") || (program_follows && !word.starts_with("-"));
    if (word == "--" || is_program) {
      split.rest.insert(split.rest.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    const CLI::Option* option =
        word.starts_with("-") ? known.get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
    if (option == nullptr) {
      (is_job_file(word) ? split.ours : split.rest).push_back(word);
      const bool value_follows = runtime::TorchrunFlagTakesNextWord(word) && i + 1 < words.size();
      if (value_follows) split.rest.push_back(words[++i]);
      continue;
    }
    split.ours.push_back(word);
    const bool takes_value = option->get_items_expected_max() > 0;
    if (takes_value && word.find('=') == std::string::npos && i + 1 < words.size()) {
      split.ours.push_back(words[++i]);
    }
  }
  return split;
}

std::string CommandLine(const std::vector<std::string>& words) {
  return words.empty() ? "longhaul run" : "longhaul run " + frontend::ShellLine(words);
}

int Wrong(const std::string& message) {
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  return kExitUsage;
}

// The NVIDIA GPUs of this machine, by their device files.
uint32_t CountGpus() {
  uint32_t gpus = 0;
  while (access(("/dev/nvidia" + std::to_string(gpus)).c_str(), F_OK) == 0) ++gpus;
  return gpus;
}

Result<uint32_t> ProcessesOn(const runtime::TorchrunArguments& arguments) {
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  switch (arguments.processes) {
    case runtime::ProcessCount::kNumber:
      return arguments.processes_per_node;
    case runtime::ProcessCount::kCpus:
      return cores;
    case runtime::ProcessCount::kAuto:
      return CountGpus() > 0 ? CountGpus() : cores;
    case runtime::ProcessCount::kGpus:
      break;
  }
  if (CountGpus() > 0) return CountGpus();
  return InvalidArgument("--nproc-per-node gpu: no GPU on this machine (no /dev/nvidia0)");
}

// Whether torchrun would show something of this worker: a stream that is redirected to a file is
// shown only when it is tee'd as well. Both streams share a log here, so one of them is enough.
bool ReachesTheConsole(const runtime::TorchrunArguments& arguments, uint32_t local_rank) {
  const auto streams = [local_rank](const runtime::StreamChoice& choice) {
    const auto named = choice.by_local_rank.find(local_rank);
    return named == choice.by_local_rank.end() ? choice.all : named->second;
  };
  constexpr int kBoth = runtime::StreamChoice::kStdout | runtime::StreamChoice::kStderr;
  return (streams(arguments.redirects) & ~streams(arguments.tee)) != kBoth;
}

// Copies the values of torchrun's options to the job.
Status TakeTorchrun(std::vector<std::string> rest, frontend::RunOptions& options) {
  frontend::JobRequest& job = options.job;
  // --nodes and --procs have been taken out of the way of the look for a job file.
  if (job.processes_per_node.has_value()) {
    rest.insert(rest.begin(), {"--procs", std::to_string(*job.processes_per_node)});
  }
  if (job.nodes.has_value()) rest.insert(rest.begin(), {"--nodes", std::to_string(*job.nodes)});
  ASSIGN_OR_RETURN(const runtime::TorchrunArguments arguments,
                   runtime::ParseTorchrunArguments(rest, io::CurrentEnvironment()));
  for (const std::string& warning : arguments.warnings) {
    std::fprintf(stderr, "longhaul: warning: %s\n", warning.c_str());
  }
  if (!arguments.log_directory.empty()) {
    std::fprintf(stderr,
                 "longhaul: warning: --log-dir is ignored: workers' output lies in logs/ of the "
                 "run's directory (--run-dir)\n");
  }
  job.command = arguments.argv;
  job.nodes = arguments.nodes;
  if (arguments.minimum_nodes < arguments.nodes) job.minimum_nodes = arguments.minimum_nodes;
  ASSIGN_OR_RETURN(job.processes_per_node, ProcessesOn(arguments));
  job.max_restarts = arguments.max_restarts;
  const runtime::TorchrunArguments defaults;
  if (arguments.run_id != defaults.run_id) {
    job.environment["TORCHELASTIC_RUN_ID"] = arguments.run_id;
  }
  if (arguments.role != defaults.role) job.environment["ROLE_NAME"] = arguments.role;
  for (uint32_t rank = 0; rank < *job.processes_per_node; ++rank) {
    const auto& shown = arguments.shown_local_ranks;
    const bool filtered = shown.has_value() && std::ranges::find(*shown, rank) == shown->end();
    if (filtered || !ReachesTheConsole(arguments, rank)) options.silent_local_ranks.push_back(rank);
  }
  options.line_prefix = arguments.line_prefix;
  options.role = arguments.role;
  return Status();
}

int DryRun(const frontend::RunOptions& options) {
  const Result<spec::JobSpec> job = frontend::LoadJob(options.job);
  if (!job.ok()) return Wrong(job.status().message());
  std::fputs(frontend::DescribeCommand(*job).c_str(), stdout);
  return kExitOk;
}

}  // namespace

std::optional<int> ReadRunWords(const std::vector<std::string>& arguments,
                                frontend::RunOptions& result) {
  CLI::App app(kDescription, "longhaul run");
  Words words;
  AddOptions(app, words);
  Split split = SplitWords(arguments, app);
  std::reverse(split.ours.begin(), split.ours.end());  // the order that CLI11 requires
  try {
    app.parse(split.ours);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  frontend::RunOptions& options = words.options;
  const Result<Duration> delay = ParseDuration(words.replacement_delay);
  if (!delay.ok()) return Wrong("--node-replacement-delay: " + delay.status().message());
  options.replacement_delay = *delay;
  options.command_line = CommandLine(arguments);
  options.job.file = words.job_file;
  if (words.job_file.empty() && split.rest.size() == 1 && !split.rest[0].starts_with("-") &&
      !split.rest[0].ends_with(".py")) {
    options.job.file = std::exchange(split.rest, {})[0];  // a job file of another name
  }
  if (!options.job.file.empty() && !split.rest.empty()) {
    return Wrong("unknown word " + Printable(split.rest[0]) + " beside the job file " +
                 options.job.file + " (longhaul run --help)");
  }
  if (!options.job.file.empty() && !options.job.framework.empty()) {
    return Wrong("--framework is for a script on the command line; write 'framework: " +
                 Printable(options.job.framework, 40) + "' into " + options.job.file);
  }
  if (options.job.file.empty() && split.rest.empty()) {
    return Wrong("nothing to run: name a job file, or a command after -- (longhaul run --help)");
  }
  if (options.job.file.empty()) {
    const Status taken = TakeTorchrun(split.rest, options);
    if (!taken.ok()) return Wrong(taken.message());
  }
  if (words.dry_run) return DryRun(options);
  result = std::move(options);
  return std::nullopt;
}

void AddRunCommand(CLI::App& app, Action& action, const std::vector<std::string>& words) {
  CLI::App* run =
      app.add_subcommand("run", "Train on a local cluster, show progress and write a report")
          ->group(kGroupRun);
  run->callback([&action, words] {
    action = [words] {
      frontend::RunOptions options;
      const std::optional<int> ended = ReadRunWords(words, options);
      return ended ? *ended : frontend::Run(options);
    };
  });
}

}  // namespace longhaul::bin
