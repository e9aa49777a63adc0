// longhaul-kube: `longhaul kube` as a program of its own, so that a run on one machine needs
// neither its libraries nor the time to build them. `longhaul kube` starts it.
#include <CLI/CLI.hpp>

#include "bin/command.h"
#include "bin/kube/import_command.h"
#include "bin/kube/install_command.h"
#include "bin/kube/node_health_command.h"
#include "bin/kube/operate_command.h"
#include "bin/kube/pod_commands.h"
#include "bin/kube/schedule_command.h"

namespace longhaul::bin {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Longhaul on Kubernetes", "longhaul kube");
  app.set_version_flag("--version", "longhaul " LONGHAUL_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Action action;
  AddScheduleCommand(app, action);
  AddOperateCommand(app, action);
  AddNodeHealthCommand(app, action);
  AddImportCommand(app, action);
  AddInstallCommands(app, action);
  AddPodCommands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return action ? action() : kExitUsage;
}

}  // namespace
}  // namespace longhaul::bin

int main(int argc, char** argv) { return longhaul::bin::Main(argc, argv); }
