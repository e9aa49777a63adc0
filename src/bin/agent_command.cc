#include "bin/agent_command.h"

#include <chrono>
#include <cstdint>
#include <memory>

#include "service/agent/agent_service.h"
#include "service/agent/vault/vault.h"

namespace longhaul::bin {

void AddAgentCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<service::AgentOptions>();
  options->vault = {"/proc/self/exe", "vault"};
  CLI::App* command =
      app.add_subcommand("agent", "Run a node's agent until SIGTERM")->group(kGroupService);
  command->add_option("--controller", options->controller, "HOST:PORT of its side for agents")
      ->required();
  command->add_option("--token-file", options->token_file, "The controller's token file")
      ->required();
  command->add_option("--node", options->node, "This node's name, for ever: a-z, 0-9 and '-'")
      ->required();
  command->add_option("--slots", options->slots, "Workers it takes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--state-dir", options->state_directory, "Made when absent")->required();
  command->add_option("--address", options->address, "Where the other nodes reach this one")
      ->capture_default_str();
  command
      ->add_option("--peer-bandwidth", options->peer_bytes_per_second,
                   "Bytes a second for copies of snapshots to other nodes; 0: no limit")
      ->capture_default_str();
  command->add_option("--trainer", options->trainer,
                      "The built-in trainer's program (default: $LONGHAUL_TRAINER or beside this)");
  command->add_flag("--exit-with-parent", options->exit_with_parent,
                    "End when the process that started it does");
  command->callback(
      [&action, options] { action = [options] { return service::AgentMain(*options); }; });

  // Started by an agent, never by a person: not in the help.
  auto hold_s = std::make_shared<int64_t>(600);
  CLI::App* vault =
      app.add_subcommand("vault", "Keep an agent's snapshots in memory for the next")->group("");
  vault->add_option("--hold-s", *hold_s, "Seconds without an agent until it ends")
      ->check(CLI::Range(0, 86'400));
  vault->callback([&action, hold_s] {
    action = [hold_s] { return service::VaultMain(std::chrono::seconds(*hold_s)); };
  });
}

}  // namespace longhaul::bin
