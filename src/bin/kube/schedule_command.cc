#include "bin/kube/schedule_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "bin/kube/kube_service.h"
#include "engines/kubernetes/service/pod_scheduler_service.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;

constexpr const char* kScheduleHelp =
    "Schedule the pods whose spec.schedulerName is 'longhaul'\n\n"
    "Pods with the label scheduling.x-k8s.io/pod-group, or with spec.schedulingGroup, start\n"
    "together with their PodGroup or not at all, on as few switches as possible. Why a pod waits\n"
    "is in its condition PodScheduled and in its events. Runs until SIGTERM or Ctrl-C.";
constexpr const char* kScheduleExamples =
    "Examples:\n"
    "  longhaul kube schedule                            in a pod, or with ~/.kube/config\n"
    "  longhaul kube schedule --kubeconfig admin.yaml --context training\n"
    "  longhaul kube schedule --topology-label example.com/leaf --topology-label example.com/block";

struct ScheduleOptions {
  KubeServiceOptions service{"schedule", "longhaul-scheduler"};
  kubernetes::PodSchedulerSettings settings;
};

class Scheduling final : public KubeService {
 public:
  Scheduling(io::EventLoop& loop, kubernetes::Client& client,
             const kubernetes::PodSchedulerSettings& settings, std::function<bool()> leads,
             KubeLog log)
      : service_(loop, client, settings, std::move(leads), std::move(log)) {}

  void Drain() override { service_.Drain(); }
  bool idle() const override { return service_.idle(); }

 private:
  kubernetes::PodSchedulerService service_;
};

Status Schedule(const ScheduleOptions& options) {
  return RunKubeService(options.service, [&options](io::EventLoop& loop, kubernetes::Client& client,
                                                    std::function<bool()> leads, KubeLog log) {
    return std::make_unique<Scheduling>(loop, client, options.settings, std::move(leads),
                                        std::move(log));
  });
}

}  // namespace

void AddScheduleCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app.add_subcommand("schedule", kScheduleHelp);
  command->footer(kScheduleExamples);
  kubernetes::PodSchedulerSettings& settings = options->settings;
  AddKubeServiceOptions(*command, options->service);
  command
      ->add_option("--scheduler-name", settings.scheduler_name,
                   "Schedule the pods with this spec.schedulerName")
      ->capture_default_str();
  command
      ->add_option("--topology-label", settings.cluster.topology_labels,
                   "Label of the nodes that names their domain in the network; repeat it for each "
                   "level, lowest first")
      ->expected(1)
      ->capture_default_str();
  command
      ->add_option("--device-resource", settings.cluster.device_resources,
                   "Resource of a device plugin that offers accelerators; may be repeated")
      ->expected(1)
      ->capture_default_str();
  command
      ->add_option_function<uint32_t>(
          "--incomplete-patience",
          [options](uint32_t time) {
            options->settings.incomplete_patience = std::chrono::seconds(time);
          },
          "Remove a gang that has begun to start and misses pods after so many seconds")
      ->default_str("30");
  command
      ->add_option_function<uint32_t>(
          "--report-period",
          [options](uint32_t time) {
            options->settings.report_period = std::chrono::seconds(time);
          },
          "Write why a pod waits at most once in so many seconds")
      ->check(CLI::Range(1, 86'400))
      ->default_str("60");
  command
      ->add_option("--connections", options->service.connections,
                   "Connections for binds, deletions and evictions")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->callback([&action, options] {
    action = [options] {
      if (options->settings.cluster.topology_labels.size() > spec::kMaxLevels) {
        std::fprintf(stderr, "longhaul: --topology-label: at most %u levels\n", spec::kMaxLevels);
        return kExitUsage;
      }
      const Status status = Schedule(*options);
      return status.ok() ? kExitOk : Fail(status);
    };
  });
}

}  // namespace longhaul::bin
