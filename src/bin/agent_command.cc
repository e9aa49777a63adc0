#include "bin/agent_command.h"

#include <chrono>
#include <cstdint>
#include <memory>

#include "bin/check_options.h"
#include "service/agent/agent_service.h"
#include "service/agent/native_stacks/stack_reader_main.h"
#include "service/agent/snapshot_keeper/snapshot_keeper.h"

namespace longhaul::bin {
namespace {

constexpr char kKernelLog[] = "/dev/kmsg";

// Started by an agent, never by a person: not in the help.
void AddSnapshotKeeperCommand(CLI::App& app, Action& action) {
  auto hold_s = std::make_shared<int64_t>(600);
  CLI::App* snapshot_keeper =
      app.add_subcommand("snapshot-keeper", "Keep an agent's snapshots in memory for the next")
          ->group("");
  snapshot_keeper->add_option("--hold-s", *hold_s, "Seconds without an agent until it ends")
      ->check(CLI::Range(0, 86'400));
  snapshot_keeper->callback([&action, hold_s] {
    action = [hold_s] { return service::SnapshotKeeperMain(std::chrono::seconds(*hold_s)); };
  });
}

// The same.
void AddStackReaderCommand(CLI::App& app, Action& action) {
  struct Given {
    service::StackReaderOptions options;
    uid_t user = 0;
  };
  auto given = std::make_shared<Given>();
  CLI::App* reader =
      app.add_subcommand("stack-reader", "Write the native stacks of processes")->group("");
  const CLI::Option* user = reader->add_option("--user", given->user, "Become this user");
  reader->add_option("--group", given->options.group, "Become this user's group");
  reader->add_option("PROCESS", given->options.processes, "Processes")
      ->required()
      ->check(CLI::PositiveNumber);
  reader->callback([&action, given, user] {
    if (user->count() > 0) given->options.user = given->user;
    action = [given] { return service::StackReaderMain(given->options); };
  });
}

}  // namespace

void AddAgentCommand(CLI::App& app, Action& action) {
  AddSnapshotKeeperCommand(app, action);
  AddStackReaderCommand(app, action);
  auto options = std::make_shared<service::AgentOptions>();
  options->snapshot_keeper = {"/proc/self/exe", "snapshot-keeper"};
  options->stack_reader = {"/proc/self/exe", "stack-reader"};
  CLI::App* command =
      app.add_subcommand("agent", "Run a node's agent until SIGTERM")->group(kGroupService);
  command
      ->add_option("--controller", options->controller,
                   "Controller's gRPC address (HOST:PORT); with controllers that stand by for each "
                   "other all of them, with commas between")
      ->required();
  command->add_option("--token-file", options->token_file,
                      "Token file of a controller on this machine that has no TLS");
  command->add_option(
      "--join-token-file", options->join_token_file,
      "Join a controller that has TLS with the token in this file; read at the first "
      "start only, after which the certificate is in the state directory");
  command->add_option("--ca-file", options->ca_file,
                      "Verify the controller with this authority when joining (default: by the "
                      "fingerprint in the join token)");
  command
      ->add_option("--node", options->node,
                   "Name of this node, which must not change: a-z, 0-9 and '-'")
      ->required();
  command->add_option("--slots", options->slots, "Number of workers that the node takes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--state-dir", options->state_directory,
                   "State directory, which is created if absent")
      ->required();
  command->add_option("--address", options->address, "Address at which other nodes reach this one")
      ->capture_default_str();
  command
      ->add_option(
          "--peer-bandwidth", options->peer_bytes_per_second,
          "Limit copies of snapshots to other nodes to this many bytes per second; 0: no limit")
      ->capture_default_str();
  command->add_option(
      "--trainer", options->trainer,
      "Program of the built-in trainer (default: $LONGHAUL_TRAINER, or beside this program)");
  AddCheckCommandOptions(*command, options->check_command);
  options->kernel_log = kKernelLog;
  command
      ->add_option("--kernel-log", options->kernel_log,
                   "File in which the kernel reports errors of this node's GPUs; off: none is read")
      ->capture_default_str();
  command->add_flag("--allow-root", options->allow_root,
                    "Run jobs as root when the agent is started as root");
  command->add_option("--run-as", options->run_as,
                      "Run jobs as this user when the agent is started as root");
  command->add_flag("!--no-control-groups", options->use_groups,
                    "Count the processes of jobs instead of making control groups");
  command->add_option("--parent", options->parent,
                      "End when this process ends, which started the agent");
  command->footer(
      "Examples:\n"
      "  longhaul agent --controller localhost:8701 --token-file /var/lib/longhaul/token \\\n"
      "    --node node-1 --slots 8 --state-dir /var/lib/longhaul-agent\n"
      "  longhaul agent --controller controller.example:8701 --join-token-file join.token \\\n"
      "    --node node-1 --slots 8 --state-dir /var/lib/longhaul-agent --address 10.0.0.7\n\n"
      "Environment: LONGHAUL_LOG=debug|info|warning|error|off, the lowest level that is logged.");
  command->callback([&action, command, options] {
    // Several agents of one machine would all report the same device.
    const bool of_local_cluster = options->parent != 0 && command->count("--kernel-log") == 0;
    if (of_local_cluster || options->kernel_log == "off") options->kernel_log.clear();
    action = [options] { return service::AgentMain(*options); };
  });
}

}  // namespace longhaul::bin
