#include "bin/kube/install_command.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bin/kube/kube_access.h"
#include "engines/kubernetes/install/install_objects.h"
#include "engines/kubernetes/service/object_installer.h"

namespace longhaul::bin {
namespace {

namespace kubernetes = engines::kubernetes;
using kubernetes::InstallPart;
using kubernetes::InstallResult;
using Json = nlohmann::ordered_json;

constexpr const char* kInstallHelp =
    "Install Longhaul in a cluster: definition, scheduler and operator\n\n"
    "Applies the manifests of deploy/kubernetes with the name of your image. Their objects are in\n"
    "the namespace longhaul; a second call brings them up to date. --dry-run prints them, each\n"
    "right with its reason, and calls no cluster.";
constexpr const char* kInstallExamples =
    "Examples:\n"
    "  longhaul kube install --image registry.example/longhaul:0.1 --dry-run | less\n"
    "  longhaul kube install --image registry.example/longhaul:0.1\n"
    "  longhaul kube install --image registry.example/longhaul:0.1 --flow-schema\n"
    "  longhaul kube install --image registry.example/longhaul:0.1 --node-health\n"
    "  longhaul kube install --image registry.example/longhaul:0.1 --only scheduler\n"
    "  longhaul kube install --image registry.example/longhaul:0.1 --dry-run | kubectl diff -f -";
constexpr const char* kUninstallHelp =
    "Remove what `longhaul kube install` has made\n\n"
    "The definition of LonghaulJob and the namespace stay, and so do all jobs. Jobs that run\n"
    "continue, and a job that is deleted waits for an operator.";
constexpr const char* kUninstallExamples =
    "Examples:\n"
    "  longhaul kube uninstall\n"
    "  kubectl delete customresourcedefinition longhauljobs.longhaul.dev   # all jobs, too";

struct InstallOptions {
  KubeAccessOptions access;
  std::string image;
  std::vector<std::string> only;
  bool flow_schema = false;
  bool node_health = false;
  bool dry_run = false;
  bool force = false;
  bool json = false;
  bool remove = false;
};

std::vector<InstallPart> PartsOf(const InstallOptions& options) {
  constexpr InstallPart kAll[] = {InstallPart::kDefinition, InstallPart::kScheduler,
                                  InstallPart::kOperator, InstallPart::kFlowSchema,
                                  InstallPart::kNodeHealth};
  const auto wanted = [&options](InstallPart part) {
    if (options.remove) return true;
    if (part == InstallPart::kFlowSchema) return options.flow_schema;
    if (part == InstallPart::kNodeHealth) return options.node_health;
    const std::vector<std::string>& only = options.only;
    return only.empty() || std::find(only.begin(), only.end(), PartName(part)) != only.end();
  };
  std::vector<InstallPart> parts;
  std::copy_if(std::begin(kAll), std::end(kAll), std::back_inserter(parts), wanted);
  return parts;
}

Json ObjectsAsJson(const std::vector<kubernetes::InstallObject>& objects) {
  Json items = Json::array();
  for (const kubernetes::InstallObject& object : objects) items.push_back(object.object);
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

std::string_view Word(InstallResult result) {
  switch (result) {
    case InstallResult::kApplied:
      return "applied";
    case InstallResult::kRemoved:
      return "removed";
    case InstallResult::kAbsent:
      return "absent";
    case InstallResult::kRefused:
      return "refused";
  }
  return "";
}

// Applies or removes the objects, and prints what becomes of each.
Status Carry(const InstallOptions& options, std::vector<kubernetes::InstallObject> objects) {
  std::signal(SIGPIPE, SIG_IGN);
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(const KubeConnection connection, ConnectKube(*loop, options.access, 1));
  Status failure;
  Json results = Json::array();
  kubernetes::ObjectInstaller::Events events;
  events.done = [&](const kubernetes::InstallObject& object, InstallResult result,
                    const Status& status) {
    if (!status.ok()) failure = status.WithContext(object.label);
    results.push_back({{"object", object.label}, {"result", Word(result)}});
    if (!options.json)
      std::printf("%s %s\n", object.label.c_str(), std::string(Word(result)).c_str());
    std::fflush(stdout);
  };
  events.end = [&] { loop->Stop(); };
  kubernetes::ObjectInstaller installer(*connection.client, std::move(objects), options.remove,
                                        options.force, std::move(events));
  installer.Start();
  loop->Run();
  if (options.json) std::printf("%s\n", Json{{"objects", std::move(results)}}.dump(2).c_str());
  return failure;
}

int Install(const InstallOptions& options) {
  std::vector<kubernetes::InstallObject> objects;
  std::string text;
  for (const InstallPart part : PartsOf(options)) {
    const Result<std::string> manifest =
        kubernetes::ManifestOf(part, options.remove ? "removed" : options.image);
    if (!manifest.ok()) {
      std::fprintf(stderr, "longhaul: --image: %s\n", manifest.status().message().c_str());
      return kExitUsage;
    }
    auto read = kubernetes::ReadInstallObjects(part, *manifest);
    if (!read.ok()) return Fail(read.status());
    for (kubernetes::InstallObject& object : *read) {
      if (options.remove && StaysInstalled(object)) continue;
      objects.push_back(std::move(object));
    }
    text += (text.empty() ? "" : "---\n") + *manifest;
  }
  if (options.dry_run) {
    std::fputs(options.json ? (ObjectsAsJson(objects).dump(2) + "\n").c_str() : text.c_str(),
               stdout);
    return kExitOk;
  }
  const Status status = Carry(options, std::move(objects));
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddInstallCommands(CLI::App& app, Action& action) {
  auto options = std::make_shared<InstallOptions>();
  CLI::App* install = app.add_subcommand("install", kInstallHelp);
  install->footer(kInstallExamples);
  install->add_option("--image", options->image, "Image of Longhaul, in a registry of yours")
      ->required();
  install->add_option("--only", options->only, "Install this part alone; may be repeated")
      ->check(CLI::IsMember({"definition", "scheduler", "operator"}));
  install->add_flag("--flow-schema", options->flow_schema,
                    "Give the requests of both programs the priority of the stock scheduler's");
  install->add_flag("--node-health", options->node_health,
                    "Cordon unhealthy nodes, too; its account can patch every node");
  install->add_flag("--dry-run", options->dry_run, "Print the manifests, and call no cluster");
  install->add_flag("--force", options->force,
                    "Take over fields that somebody else has changed since");
  AddKubeAccessOptions(*install, options->access);
  install->add_flag("--json", options->json, "Print JSON");
  install->callback([&action, options] { action = [options] { return Install(*options); }; });

  auto removal = std::make_shared<InstallOptions>();
  removal->remove = true;
  CLI::App* uninstall = app.add_subcommand("uninstall", kUninstallHelp);
  uninstall->footer(kUninstallExamples);
  AddKubeAccessOptions(*uninstall, removal->access);
  uninstall->add_flag("--json", removal->json, "Print JSON");
  uninstall->callback([&action, removal] { action = [removal] { return Install(*removal); }; });
}

}  // namespace longhaul::bin
