#include "bin/controller_command.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "io/files/private_files.h"
#include "service/controller/controller_main.h"
#include "service/security/tls_files.h"

namespace longhaul::bin {
namespace {

struct Options {
  service::ControllerServiceOptions service;
  pid_t parent = 0;  // 0: none
  int64_t lease_ms = 1000;
};

int RunController(Options options) {
  service::SharedLogOptions& log = options.service.shared_log;
  log.lease = std::chrono::milliseconds(options.lease_ms);
  if (options.service.state_directory.empty()) {
    std::fprintf(stderr, "longhaul: --state-dir is required\n");
    return kExitUsage;
  }
  return service::ControllerMain(std::move(options.service), options.parent);
}

struct InitOptions {
  std::string directory;
  std::vector<std::string> names;
};

int Init(const InitOptions& options) {
  io::MakeFilesPrivate();
  const auto made = service::InitTls(options.directory, options.names, io::Now());
  if (!made.ok()) return Fail(made.status());
  std::printf(
      "%s the authority in %s/tls/ca.crt\n"
      "made the server's certificate %s/tls/server.crt, valid until %s\n"
      "the controller uses TLS from its next start on; clients verify it with --ca-file ca.crt\n",
      made->new_authority ? "made" : "kept", options.directory.c_str(), options.directory.c_str(),
      ToString(made->server_until).c_str());
  return kExitOk;
}

void AddInit(CLI::App& controller, Action& action) {
  auto options = std::make_shared<InitOptions>();
  CLI::App* init = controller.add_subcommand(
      "init", "Make an authority and a server certificate, so that the controller uses TLS");
  init->add_option("DIR", options->directory, "State directory of the controller")->required();
  init->add_option("--name", options->names,
                   "DNS name or address at which clients and agents reach the controller; repeat "
                   "for more (localhost, 127.0.0.1 and ::1 are always included)")
      ->allow_extra_args(false);
  init->footer(
      "The authority is valid for ten years, the certificate for a year. Run it again to renew "
      "the\n"
      "certificate or to change its names: an existing authority is kept. Example:\n"
      "  longhaul controller init /var/lib/longhaul --name controller.example --name 10.0.0.1");
  init->callback([&action, options] { action = [options] { return Init(*options); }; });
}

}  // namespace

void AddControllerCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("controller", "Run a controller until SIGTERM")->group(kGroupService);
  command->add_option(
      "--state-dir", options->service.state_directory,
      "Store the event log, the token and endpoint.json in this directory, which is "
      "created if absent (required)");
  command
      ->add_option("--config", options->service.config_file,
                   "Read queues, quotas, priorities and the cluster from this file "
                   "(docs/controller-file.md); "
                   "read at each start, running jobs continue")
      ->check(CLI::ExistingFile);
  command->add_option("--notify", options->service.notify_file,
                      "Notify the commands and web addresses of this file of the faults and ends "
                      "of all jobs (docs/notify.md); the commands run as the controller's user");
  command->footer(
      "Example:\n  longhaul controller --state-dir /var/lib/longhaul --config controller.yaml\n\n"
      "Environment: LONGHAUL_LOG=debug|info|warning|error|off, the lowest level that is logged.");
  command
      ->add_option("--rest", options->service.rest,
                   "Listen for REST on HOST:PORT; port 0: any free port")
      ->capture_default_str();
  command
      ->add_option("--agents", options->service.agents,
                   "Listen for agents on HOST:PORT; port 0: any free port")
      ->capture_default_str();
  command->add_option(
      "--token-file", options->service.token_file,
      "Read the secret of agents and clients from this file (default: STATE_DIR/token)");
  command->add_option(
      "--log", options->service.shared_log.address,
      "Keep the event log in this PostgreSQL database (postgresql://HOST/DATABASE), "
      "in which several controllers may stand by for each other "
      "(docs/standby.md); default: STATE_DIR/events.db");
  command
      ->add_option("--lease-ms", options->lease_ms,
                   "With --log, milliseconds after which another controller takes over from one "
                   "that has not renewed its lease")
      ->check(CLI::Range(200, 60'000))
      ->capture_default_str();
  command->add_flag("--behind-proxy", options->service.behind_proxy,
                    "Accept any Host header, for a proxy on this machine that has another name");
  command->add_option("--parent", options->parent,
                      "Stop all jobs and end when this process ends, which started the controller");
  command->callback([&action, command, options] {
    if (!command->get_subcommands().empty()) return;
    action = [options] { return RunController(*options); };
  });
  AddInit(*command, action);
}

}  // namespace longhaul::bin
