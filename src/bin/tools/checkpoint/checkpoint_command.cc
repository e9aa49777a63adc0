#include "bin/tools/checkpoint/checkpoint_command.h"

#include "bin/other_program.h"
#include "bin/tools/checkpoint/parts.h"

namespace longhaul::bin {

void AddCheckpointCommand(CLI::App& app, Action& action) {
  CLI::App* command = AddOwnCommand(app, kCheckpoint);
  command->require_subcommand(1);
  checkpoints::AddLs(*command, action);
  checkpoints::AddShow(*command, action);
  checkpoints::AddVerify(*command, action);
  checkpoints::AddDiff(*command, action);
  checkpoints::AddConvert(*command, action);
  checkpoints::AddPrune(*command, action);
  checkpoints::AddPlan(*command, action);
  command->footer(
      "A CHECKPOINT is a step of a run (runs/NAME/checkpoints/step-...), a run's folder of steps\n"
      "(its newest), a safetensors file or folder, a file of torch.save, or a folder of\n"
      "torch.distributed.checkpoint. No code in it is ever executed.\n\n"
      "Examples:\n"
      "  longhaul checkpoint ls runs/headers-gpt\n"
      "  longhaul checkpoint verify runs/headers-gpt\n"
      "  longhaul checkpoint diff before.pt runs/headers-gpt\n"
      "  longhaul checkpoint convert runs/headers-gpt model.safetensors\n"
      "  longhaul checkpoint plan runs/headers-gpt --layout tp=2,pp=2,dp=2,zero=1\n\n"
      "Exit codes: 0 success, 1 failure (damage, a difference), 2 wrong usage, 130 stopped.");
}

}  // namespace longhaul::bin
