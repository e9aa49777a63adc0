#include "bin/kube/pod_commands.h"

#include <memory>
#include <utility>

#include "engines/kubernetes/pod/job_authority.h"
#include "engines/kubernetes/pod/pod_agent.h"
#include "engines/kubernetes/pod/run_job.h"
#include "engines/kubernetes/pod/service_account_identity.h"
#include "io/clock.h"
#include "service/controller/controller_main.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

void AddAuthority(CLI::App& app, Action& action) {
  auto options = std::make_shared<kubernetes::JobAuthorityOptions>();
  CLI::App* command = app.add_subcommand("authority", "Make the authority of a job's controller");
  command->group("");
  command->add_option("--state-dir", options->state_directory)->required();
  command->add_option("--address", options->address)->required();
  command->add_option("--publish", options->publish)->required();
  command->callback([&action, options] {
    action = [options] {
      const Status made = kubernetes::MakeJobAuthority(*options);
      return made.ok() ? kExitOk : Fail(made);
    };
  });
}

void AddCallerOptions(CLI::App& command, kubernetes::CallerOptions& callers) {
  command.add_option("--audience", callers.audience)->required();
  command.add_option("--namespace", callers.namespace_name)->required();
  command.add_option("--worker-prefix", callers.worker_prefix)->required();
  command.add_option("--operator", callers.operator_subject)->required();
}

void AddRunJob(CLI::App& app, Action& action) {
  auto options = std::make_shared<kubernetes::RunJobOptions>();
  CLI::App* command = app.add_subcommand("run-job", "Run the job of a controller pod");
  command->group("");
  command->add_option("--pod-dir", options->pod_directory)->required();
  command->add_option("--state-dir", options->state_directory)->required();
  command->add_option("--run-dir", options->run_directory)->required();
  command->add_option("--address", options->address)->required();
  command->add_option("--publish", options->publish)->required();
  command->add_option("--nodes", options->nodes)->required();
  command->add_option("--awaited", options->awaited)->required();
  command->add_option("--slots", options->slots)->required();
  AddCallerOptions(*command, options->callers);
  command->callback([&action, options] {
    action = [options] {
      options->callers.keys_file = options->pod_directory + "/token-keys.json";
      return kubernetes::RunJobMain(*options);
    };
  });
}

struct ControllerOptions {
  service::ControllerServiceOptions service;
  pid_t parent = 0;
  kubernetes::CallerOptions callers;
};

int RunPodController(ControllerOptions options) {
  const kubernetes::CallerOptions& callers = options.callers;
  Result<std::unique_ptr<kubernetes::ServiceAccountIdentity>> identity =
      kubernetes::ServiceAccountIdentity::Create(
          {callers.keys_file, callers.audience, callers.namespace_name, callers.operator_subject,
           callers.worker_prefix},
          io::Now());
  if (!identity.ok()) return Fail(identity.status());
  options.service.external = *std::move(identity);
  return service::ControllerMain(std::move(options.service), options.parent);
}

// The child of run-job.
void AddController(CLI::App& app, Action& action) {
  auto options = std::make_shared<ControllerOptions>();
  CLI::App* command = app.add_subcommand("controller", "Be the controller of a job");
  command->group("");
  command->add_option("--state-dir", options->service.state_directory)->required();
  command->add_option("--rest", options->service.rest)->required();
  command->add_option("--agents", options->service.agents)->required();
  command->add_option("--parent", options->parent)->required();
  command->add_option("--keys-file", options->callers.keys_file)->required();
  AddCallerOptions(*command, options->callers);
  command->callback(
      [&action, options] { action = [options] { return RunPodController(*options); }; });
}

void AddAgent(CLI::App& app, Action& action) {
  auto options = std::make_shared<kubernetes::PodAgentOptions>();
  CLI::App* command = app.add_subcommand("agent", "Be the agent of a worker pod");
  command->group("");
  command->add_option("--pod-dir", options->pod_directory)->required();
  command->add_option("--token-file", options->token_file)->required();
  command->add_option("--state-dir", options->state_directory)->required();
  command->add_option("--node", options->node)->required();
  command->add_option("--address", options->address)->required();
  command->add_option("--slots", options->slots)->check(CLI::Range(1, 1024))->required();
  command->callback(
      [&action, options] { action = [options] { return kubernetes::PodAgentMain(*options); }; });
}

}  // namespace

void AddPodCommands(CLI::App& app, Action& action) {
  AddAuthority(app, action);
  AddRunJob(app, action);
  AddController(app, action);
  AddAgent(app, action);
}

}  // namespace longhaul::bin
