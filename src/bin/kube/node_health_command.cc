#include "bin/kube/node_health_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bin/kube/kube_service.h"
#include "engines/kubernetes/service/node_health_service.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

constexpr const char* kNodeHealthHelp =
    "Cordon nodes while there is evidence that they are unhealthy\n\n"
    "Evidence is in node conditions, the device health in pod status, and DRA device taints. A\n"
    "cordoned node has it in its annotation longhaul.dev/cordoned, its condition\n"
    "longhaul.dev/Healthy and its events: kubectl describe node NAME. It is uncordoned when the\n"
    "evidence is gone. Runs until SIGTERM or Ctrl-C.";
constexpr const char* kNodeHealthExamples =
    "Examples:\n"
    "  longhaul kube node-health                         in a pod, or with ~/.kube/config\n"
    "  longhaul kube node-health --condition KernelDeadlock=True --condition GpuLost=True\n"
    "  longhaul kube node-health --most-cordoned 3 --taint=NoExecute";

struct NodeHealthOptions {
  KubeServiceOptions service{"node-health", "longhaul-node-health"};
  kubernetes::NodeHealthSettings settings;
  std::vector<std::string> conditions;
  std::string most_cordoned = "10%";
  bool device_taints = true;
};

class CheckingNodes final : public KubeService {
 public:
  CheckingNodes(io::EventLoop& loop, kubernetes::Client& client, const NodeHealthOptions& options,
                std::function<bool()> leads, KubeLog log)
      : service_(loop, client, options.settings, options.device_taints, std::move(leads),
                 std::move(log)) {}

  void Drain() override { service_.Drain(); }
  bool idle() const override { return service_.idle(); }

 private:
  kubernetes::NodeHealthService service_;
};

Status ReadSettings(NodeHealthOptions& options) {
  ASSIGN_OR_RETURN(options.settings.most_cordoned,
                   kubernetes::ParseNodeLimit(options.most_cordoned));
  if (options.conditions.empty()) return {};
  options.settings.conditions.clear();
  for (const std::string& text : options.conditions) {
    ASSIGN_OR_RETURN(kubernetes::ConditionRule rule, kubernetes::ParseConditionRule(text));
    options.settings.conditions.push_back(std::move(rule));
  }
  return {};
}

int RunNodeHealth(NodeHealthOptions options) {
  if (const Status status = ReadSettings(options); !status.ok()) {
    std::fprintf(stderr, "longhaul: %s\n", status.message().c_str());
    return kExitUsage;
  }
  const Status status =
      RunKubeService(options.service, [&options](io::EventLoop& loop, kubernetes::Client& client,
                                                 std::function<bool()> leads, KubeLog log) {
        return std::make_unique<CheckingNodes>(loop, client, options, std::move(leads),
                                               std::move(log));
      });
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddNodeHealthCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<NodeHealthOptions>();
  CLI::App* command = app.add_subcommand("node-health", kNodeHealthHelp);
  command->footer(kNodeHealthExamples);
  AddKubeServiceOptions(*command, options->service);
  command
      ->add_option("--condition", options->conditions,
                   "Node condition that is evidence, as TYPE=STATUS; may be repeated. Default: "
                   "KernelDeadlock, ReadonlyFilesystem, XfsShutdown, CperHardwareErrorFatal, "
                   "FrequentKubeletRestart and FrequentContainerdRestart, each =True")
      ->expected(1);
  command->add_flag("--device-taints,!--no-device-taints", options->device_taints,
                    "DRA device taints are evidence (default)");
  const auto seconds = [&](const char* name, Duration& time, const char* help,
                           const char* standard) {
    command
        ->add_option_function<uint32_t>(
            name, [options, &time](uint32_t number) { time = std::chrono::seconds(number); }, help)
        ->default_str(standard);
  };
  seconds("--confirm", options->settings.confirm,
          "Cordon a node when evidence has lasted for so many seconds", "30");
  seconds("--release", options->settings.release,
          "Uncordon it when all evidence has been gone for so many seconds", "300");
  command
      ->add_option("--most-cordoned", options->most_cordoned,
                   "Most nodes that are cordoned at a time: a number, or a share of all nodes "
                   "such as 10%; at least one")
      ->capture_default_str();
  command
      ->add_flag("--taint{NoSchedule}", options->settings.taint,
                 "Add the taint longhaul.dev/unhealthy to cordoned nodes, with the effect "
                 "NoSchedule or, with --taint=NoExecute, NoExecute, which evicts their pods")
      ->check(CLI::IsMember({"NoSchedule", "NoExecute"}));
  command->callback([&action, options] { action = [options] { return RunNodeHealth(*options); }; });
}

}  // namespace longhaul::bin
