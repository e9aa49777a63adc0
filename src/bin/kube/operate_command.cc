#include "bin/kube/operate_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "bin/kube/kube_service.h"
#include "engines/kubernetes/service/job_operator_service.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

constexpr const char* kOperateHelp =
    "Run LonghaulJobs: make their pods, and keep them\n\n"
    "Each job gets a controller pod and its worker pods, which start together. How it does is in\n"
    "its status and events: kubectl get lhj, kubectl describe lhj NAME. The pods need a "
    "scheduler,\n"
    "longhaul kube schedule or another one. Runs until SIGTERM or Ctrl-C.";
constexpr const char* kOperateExamples =
    "Examples:\n"
    "  longhaul kube operate --image registry.example/longhaul:0.1     in a pod\n"
    "  longhaul kube operate --image longhaul:dev --kubeconfig admin.yaml --account longhaul/op";

struct OperateOptions {
  KubeServiceOptions service{"operate", "longhaul-operator"};
  kubernetes::JobOperatorSettings settings;
  kubernetes::ControllerPollSettings poll;
  std::string account = "longhaul/longhaul-operator";
};

class Operating final : public KubeService {
 public:
  Operating(io::EventLoop& loop, kubernetes::Client& client, const OperateOptions& options,
            std::function<bool()> leads, KubeLog log)
      : service_(loop, client, options.settings, options.poll, std::move(leads), std::move(log)) {}

  void Drain() override { service_.Drain(); }
  bool idle() const override { return service_.idle(); }

 private:
  kubernetes::JobOperatorService service_;
};

int Operate(OperateOptions options) {
  const std::vector<std::string_view> parts = Split(options.account, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
    std::fprintf(stderr, "longhaul: --account: expected NAMESPACE/NAME\n");
    return kExitUsage;
  }
  options.poll.account = {std::string(parts[0]), std::string(parts[1])};
  options.settings.pods.operator_subject =
      "system:serviceaccount:" + std::string(parts[0]) + ":" + std::string(parts[1]);
  const Status status =
      RunKubeService(options.service, [&options](io::EventLoop& loop, kubernetes::Client& client,
                                                 std::function<bool()> leads, KubeLog log) {
        return std::make_unique<Operating>(loop, client, options, std::move(leads), std::move(log));
      });
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddOperateCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<OperateOptions>();
  CLI::App* command = app.add_subcommand("operate", kOperateHelp);
  command->footer(kOperateExamples);
  kubernetes::PodSettings& pods = options->settings.pods;
  AddKubeServiceOptions(*command, options->service);
  command
      ->add_option("--image", pods.image,
                   "Image of Longhaul, for the controllers and to copy "
                   "the program into the worker pods (required)")
      ->required();
  command->add_option("--program", pods.program, "Folder of the program in that image")
      ->capture_default_str();
  command
      ->add_option("--scheduler-name", pods.scheduler_name, "spec.schedulerName of the jobs' pods")
      ->capture_default_str();
  command
      ->add_option("--account", options->account,
                   "Service account of this operator, whose tokens the controllers of jobs accept")
      ->capture_default_str();
  command
      ->add_option_function<uint32_t>(
          "--lost-patience",
          [options](uint32_t time) {
            options->settings.lost_patience = std::chrono::seconds(time);
          },
          "Replace a worker pod whose agent is not connected for so many seconds")
      ->default_str("60");
  command->callback([&action, options] { action = [options] { return Operate(*options); }; });
}

}  // namespace longhaul::bin
