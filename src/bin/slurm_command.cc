#include "bin/slurm_command.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "bin/run_command.h"
#include "bin/slurm_run_commands.h"
#include "engines/slurm/batch_script.h"
#include "engines/slurm/slurm_agent.h"
#include "engines/slurm/slurm_commands.h"
#include "engines/slurm/slurm_launcher.h"
#include "frontend/run_directory.h"
#include "frontend/run_session.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "io/net/socket.h"

namespace longhaul::bin {
namespace {

namespace slurm = engines::slurm;

constexpr int kExitTimeLimit = 128 + SIGUSR1;  // of a run that Slurm's signal stopped
constexpr Duration kRestartDelay = std::chrono::seconds(5);
constexpr Duration kLostPeriod = std::chrono::seconds(10);
constexpr Duration kWaitPeriod = std::chrono::seconds(2);
constexpr uint32_t kUsualWorkers = 2;

constexpr const char* kSubmitHelp =
    "Submit a run to Slurm\n\n"
    "  longhaul slurm submit [Slurm's options] [longhaul run's options] JOB.yaml\n"
    "  longhaul slurm submit [Slurm's options] --nodes 4 --procs 8 -- python3 train.py";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int WrongSubmission(const std::string& message) {
  std::fprintf(stderr, "longhaul: %s\n", message.c_str());
  return kExitUsage;
}

// The words of `slurm submit` before those of `longhaul run`.
struct SubmitWords {
  std::vector<std::string> settings;  // of sbatch
  std::vector<std::string> parts;
  std::string growth;
  std::string start_limit;
  bool wait = false;
  bool dry_run = false;
};

// The options of `slurm submit`; each of Slurm's becomes a setting.
void AddSubmitOptions(CLI::App& app, SubmitWords& words) {
  const auto add = [&](const char* names, const char* option, const char* help) {
    app.add_option_function<std::string>(
        names,
        [&words, option](const std::string& value) {
          words.settings.push_back("--" + std::string(option) + "=" + value);
        },
        help);
  };
  add("-p,--partition", "partition", "Slurm's partition");
  add("-A,--account", "account", "Slurm's account");
  add("-q,--qos", "qos", "Slurm's quality of service");
  add("-t,--time", "time", "Slurm's time limit, such as 12:00:00");
  add("-C,--constraint", "constraint", "Features that the nodes must have");
  add("--exclude", "exclude", "Nodes that are not used");
  add("--gpus-per-node", "gpus-per-node", "GPUs of each node");
  add("--cpus-per-task", "cpus-per-task", "Processors of each node");
  add("--mem", "mem", "Memory of each node");
  add("--switches", "switches", "At most so many switches of the network, as COUNT@TIME");
  app.add_option_function<std::vector<std::string>>(
         "--sbatch",
         [&words](const std::vector<std::string>& values) {
           words.settings.insert(words.settings.end(), values.begin(), values.end());
         },
         "Another option of sbatch (--sbatch=--exclusive); may be repeated")
      ->allow_extra_args(false);
  app.add_option("--part", words.parts,
                 "Nodes of a kind: '--nodes=2 --constraint=h100'; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--grow", words.growth,
                 "sbatch's options for nodes beyond the first (default: the last part's)");
  app.add_option("--start-limit", words.start_limit,
                 "Longest wait for the nodes of all parts (default: 30min)");
  app.add_flag("--wait", words.wait, "Wait for the end and exit with the run's exit code");
  app.add_flag("--print-scripts", words.dry_run, "Print the batch scripts and submit nothing");
  app.footer(
      "Slurm's options come first; the other words are those of longhaul run. The run's directory\n"
      "(--run-dir, default: runs/NAME) must be on storage that all nodes share. Examples:\n"
      "  longhaul slurm submit -p gpu -t 12:00:00 --gpus-per-node 8 job.yaml\n"
      "  longhaul slurm submit --sbatch=--exclusive --nodes 4 --procs 8 -- python3 train.py\n"
      "  longhaul slurm submit --part '--nodes=2 --constraint=h100' \\\n"
      "      --part '--nodes=2 --partition=old' --nodes 4 --procs 8 -- python3 train.py");
}

// Splits off the options of `slurm submit`, which come first.
std::vector<std::string> TakeOwnWords(const CLI::App& app, std::vector<std::string>& words) {
  std::vector<std::string> own;
  size_t i = 0;
  while (i < words.size() && words[i].starts_with("-") && words[i] != "--") {
    const size_t equals = words[i].find('=');
    const CLI::Option* option = app.get_option_no_throw(words[i].substr(0, equals));
    if (option == nullptr) break;
    own.push_back(words[i++]);
    const bool takes_value = option->get_items_expected_max() > 0;
    if (takes_value && equals == std::string::npos && i < words.size()) own.push_back(words[i++]);
  }
  words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(i));
  return own;
}

// The size and the files of the run that the words of `longhaul run` describe.
Result<slurm::BatchOptions> BatchOf(const frontend::RunOptions& run,
                                    const std::vector<std::string>& words, const SubmitWords& own) {
  ASSIGN_OR_RETURN(const spec::JobSpec job, frontend::LoadJob(run.job));
  slurm::BatchOptions batch;
  batch.name = job.name;
  for (const std::string& part : own.parts) {
    ASSIGN_OR_RETURN(batch.parts.emplace_back(), slurm::ParsePart(part));
  }
  ASSIGN_OR_RETURN(batch.growth, slurm::ParseGrowth(own.growth));
  for (const std::string& setting : own.settings) RETURN_IF_ERROR(slurm::CheckSetting(setting));
  ASSIGN_OR_RETURN(batch.size, slurm::SizeOf(job, run.cluster_nodes, batch.parts));
  if (!own.start_limit.empty()) {
    const Result<Duration> limit = ParseDuration(own.start_limit);
    if (!limit.ok()) return limit.status().WithContext("--start-limit");
    batch.start_limit = *limit;
  }
  batch.workers =
      run.cluster_slots.value_or(job.resources.processes_per_node.value_or(kUsualWorkers));
  batch.words = words;
  batch.settings = own.settings;
  std::error_code error;
  batch.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return InternalError("the path of this program is unknown: " + error.message());
  return batch;
}

int Wait(const std::string& job, const std::string& run_directory) {
  for (;;) {
    const auto now = slurm::Query({job});
    const bool lives = now.ok() && ((*now)[0].lives() || (*now)[0].state == "COMPLETING");
    // Slurm forgets an ended job after some minutes, and its controller may be away for a moment.
    if (now.ok() && !lives) {
      const std::string& state = (*now)[0].state;
      std::printf("job %s: %s; the report is in %s\n", job.c_str(), state.c_str(),
                  run_directory.c_str());
      return state == "COMPLETED" ? kExitOk : kExitFailure;
    }
    if (!now.ok() && now.status().code() != Code::kUnavailable) return Fail(now.status());
    std::this_thread::sleep_for(kWaitPeriod);
  }
}

int Submit(std::vector<std::string> words) {
  io::MakeFilesPrivate();
  CLI::App app(kSubmitHelp, "longhaul slurm submit");
  SubmitWords own;
  AddSubmitOptions(app, own);
  std::vector<std::string> first = TakeOwnWords(app, words);
  const bool help = !words.empty() && (words[0] == "--help" || words[0] == "-h");
  if (help) first.push_back(words[0]);
  std::reverse(first.begin(), first.end());  // the order that CLI11 requires
  try {
    app.parse(first);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  frontend::RunOptions run;
  if (const auto ended = ReadRunWords(words, run)) return *ended;
  if (!run.controller.empty()) {
    return WrongSubmission("--controller is not for Slurm: the run has a controller of its own");
  }
  Result<slurm::BatchOptions> batch = BatchOf(run, words, own);
  if (!batch.ok()) return WrongSubmission(batch.status().message());
  if (own.dry_run) {
    batch->run_directory = std::filesystem::absolute(
        run.run_directory.empty() ? "runs/" + batch->name : run.run_directory);
    for (const std::string& word : slurm::FirstJobArguments(*batch)) {
      std::printf("%s ", slurm::ShellQuoted(word).c_str());
    }
    std::printf("first.sh\n\nfirst.sh:\n%s\nfurther.sh:\n%s", slurm::FirstJobScript(*batch).c_str(),
                slurm::FurtherJobScript(*batch).c_str());
    return kExitOk;
  }
  auto directory = frontend::MakeRunDirectory(run.run_directory, batch->name, run.resume);
  if (!directory.ok()) return Fail(directory.status());
  batch->run_directory = directory->path;
  io::FileSystem& files = io::PosixFileSystem();
  const std::string folder = slurm::SlurmDirectory(batch->run_directory);
  const std::string script = folder + "/first.sh";
  Status written = files.MakeDirectories(folder);
  if (written.ok()) {
    written = io::WriteTextAtomically(files, script, slurm::FirstJobScript(*batch));
  }
  if (!written.ok()) return Fail(written);
  { const io::OwnerLock given_to_the_job = std::move(directory->lock); }
  const auto job = slurm::Submit(slurm::FirstJobArguments(*batch), script);
  if (!job.ok()) return Fail(job.status());
  const slurm::RunSize& size = batch->size;
  const std::string most = size.elastic() ? " to " + std::to_string(size.maximum) : "";
  std::printf(
      "submitted %s as job %s of Slurm: %u%s nodes\n  output: %s/output.log\n  report: "
      "%s/report.md\n",
      batch->name.c_str(), job->c_str(), size.minimum(), most.c_str(), folder.c_str(),
      batch->run_directory.c_str());
  std::fflush(stdout);
  return own.wait ? Wait(*job, batch->run_directory) : kExitOk;
}

// Blocks until the job has ended. When the batch script ends on a node that the job has left, Slurm
// may take that for the end of the job, although it waits or runs elsewhere.
void AwaitEnd(const std::string& job) {
  for (;;) {
    const auto now = slurm::Query({job});
    if (now.ok() && !(*now)[0].lives()) return;
    std::this_thread::sleep_for(kLostPeriod);
  }
}

// Splits off the words that FirstJobScript writes before those of `longhaul run`.
SubmitWords TakeBatchWords(std::vector<std::string>& words) {
  SubmitWords own;
  size_t i = 1;
  const auto take = [&](std::string_view name, const auto& put) {
    if (i >= words.size() || !words[i].starts_with(name)) return false;
    put(words[i++].substr(name.size()));
    return true;
  };
  while (take("--sbatch=", [&](std::string value) { own.settings.push_back(std::move(value)); }) ||
         take("--part=", [&](std::string value) { own.parts.push_back(std::move(value)); }) ||
         take("--grow=", [&](std::string value) { own.growth = std::move(value); }) ||
         take("--start-limit=", [&](std::string value) { own.start_limit = std::move(value); })) {
  }
  if (i < words.size() && words[i] == "--") ++i;
  words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(std::min(i, words.size())));
  return own;
}

// In the batch step of the first job: `longhaul slurm batch RUN_DIR --sbatch=...  -- WORDS`.
int Batch(std::vector<std::string> words) {
  const std::string job = Environment("SLURM_JOB_ID");
  const std::string node = Environment("SLURMD_NODENAME");
  if (job.empty() || node.empty() || words.empty()) {
    return WrongSubmission("slurm batch is started by Slurm: use longhaul slurm submit");
  }
  const std::string run_directory = words[0];
  const SubmitWords own = TakeBatchWords(words);
  frontend::RunOptions run;
  if (const auto ended = ReadRunWords(words, run)) return *ended;
  Result<slurm::BatchOptions> batch = BatchOf(run, words, own);
  if (!batch.ok()) return WrongSubmission(batch.status().message());
  batch->run_directory = run_directory;

  std::string address = slurm::AddressOfNode(node);
  if (address.empty()) address = node;
  const Result<std::string> numeric = io::ResolveHost(address);
  if (!numeric.ok()) return Fail(numeric.status());
  run.run_directory = run_directory;
  run.cluster_nodes = batch->size.maximum;
  run.cluster_slots = batch->workers;
  run.replacement_delay = kRestartDelay;
  run.command_line = "longhaul slurm submit ...";
  // Slurm has started this job again, after a preemption or the loss of its first node.
  const std::string restarts = Environment("SLURM_RESTART_COUNT");
  if (!restarts.empty() && restarts != "0") run.resume = true;
  slurm::LauncherOptions launcher;
  launcher.batch = *batch;
  launcher.first_job = job;
  launcher.node = node;
  launcher.address = *numeric;
  const auto agents = std::make_shared<slurm::SlurmLauncher>(launcher);
  run.launcher = agents;
  const int code = frontend::Run(run);
  if (code == kExitTimeLimit || agents->lost()) {
    const Status requeued = slurm::Requeue(job);
    // Of a job that has left this node, an agent may have been faster.
    if (!requeued.ok() && !agents->lost()) return Fail(requeued);
    if (agents->lost()) AwaitEnd(job);
  }
  return code;
}

}  // namespace

void AddSlurmCommand(CLI::App& app, Action& action, const std::vector<std::string>& words) {
  CLI::App* command =
      app.add_subcommand("slurm", "Run on the nodes of a Slurm cluster")->group(kGroupRun);
  command->require_subcommand(1);
  command->add_subcommand("submit", "Submit a run to Slurm")->callback([&action, words] {
    action = [words] { return Submit(words); };
  });
  // Started by the scripts of `submit`, never by a person: not in the help.
  command->add_subcommand("batch", "Be the batch step of a run's first job")
      ->group("")
      ->callback([&action, words] { action = [words] { return Batch(words); }; });
  AddSlurmRunCommands(*command, action);
  auto agent = std::make_shared<slurm::SlurmAgentOptions>();
  CLI::App* started =
      command->add_subcommand("agent", "Be the agent of a node of a Slurm job")->group("");
  started->add_option("RUN_DIR", agent->run_directory)->required();
  started->add_option("--slots", agent->slots)->check(CLI::Range(1, 1024));
  started->callback(
      [&action, agent] { action = [agent] { return slurm::SlurmAgentMain(*agent); }; });
}

}  // namespace longhaul::bin
