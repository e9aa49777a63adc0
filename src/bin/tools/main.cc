// longhaul-tools: the commands that need no cluster, as a program of their own, so that a run needs
// neither their libraries nor the time to build them. `longhaul plan` and the others start it.
#include <CLI/CLI.hpp>

#include "bin/command.h"
#include "bin/command_line.h"
#include "bin/tools/calibrate_command.h"
#include "bin/tools/checkpoint/checkpoint_command.h"
#include "bin/tools/pipeline_command.h"
#include "bin/tools/plan/plan_command.h"
#include "bin/tools/profile_command.h"
#include "bin/tools/simulate_command.h"

int main(int argc, char** argv) {
  using namespace longhaul::bin;
  CLI::App app(kSummary, "longhaul");
  DescribeProgram(app);
  Action action;
  AddPlanCommand(app, action);
  AddProfileCommand(app, action);
  AddSimulateCommand(app, action);
  AddCalibrateCommand(app, action);
  AddPipelineCommand(app, action);
  AddCheckpointCommand(app, action);
  return ParseAndRun(app, action, argc, argv);
}
