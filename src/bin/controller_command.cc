#include "bin/controller_command.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "service/controller/controller_service.h"

namespace longhaul::bin {
namespace {

struct Options {
  service::ControllerServiceOptions service;
  bool exit_with_parent = false;
};

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

int RunController(Options options) {
  // Before any thread exists, so that all inherit the mask and one place waits for the signals.
  const sigset_t ending = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  if (options.exit_with_parent) {
    const pid_t parent = ::getppid();
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) return kExitFailure;  // it has just gone
  }
  options.service.kill_controller = [] { ::kill(::getpid(), SIGKILL); };
  options.service.on_violation = [](const Status& violation) {
    std::fprintf(stderr,
                 "longhaul: the controller stops before it acts on a wrong state: %s\n"
                 "Workers go on. Please report it with violation.txt and events.db.\n",
                 violation.message().c_str());
    ::_exit(kExitFailure);
  };
  auto controller = service::ControllerService::Start(options.service);
  if (!controller.ok()) {
    Fail(controller.status());
    return controller.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  const service::Endpoint& endpoint = (*controller)->endpoint();
  std::printf("controller ready: REST on %s, agents on %s, state in %s\n", endpoint.rest.c_str(),
              endpoint.agents.c_str(), options.service.state_directory.c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ending, &signal);
  (*controller)->Stop();
  return kExitOk;
}

}  // namespace

void AddControllerCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("controller", "Run a controller until SIGTERM")->group(kGroupService);
  command
      ->add_option("--state-dir", options->service.state_directory,
                   "Where its log, token and endpoint.json lie; made when absent")
      ->required();
  command
      ->add_option("--config", options->service.config_file,
                   "Queues, quotas, priorities and the cluster, in YAML (docs/controller-file.md); "
                   "read at each start, what runs goes on")
      ->check(CLI::ExistingFile);
  command->footer(
      "Example:\n  longhaul controller --state-dir /var/lib/longhaul --config controller.yaml");
  command->add_option("--rest", options->service.rest, "HOST:PORT for REST; port 0: any free one")
      ->capture_default_str();
  command
      ->add_option("--agents", options->service.agents,
                   "HOST:PORT for agents; port 0: any free one")
      ->capture_default_str();
  command->add_option("--token-file", options->service.token_file,
                      "The secret that agents and clients show (default: STATE_DIR/token)");
  command->add_flag(
      "--allow-remote", options->service.allow_remote,
      "Listen on addresses that others reach; both protocols are plain, so put TLS or "
      "a private network in front");
  command->add_flag("--exit-with-parent", options->exit_with_parent,
                    "End when the process that started it does");
  command->callback([&action, options] { action = [options] { return RunController(*options); }; });
}

}  // namespace longhaul::bin
