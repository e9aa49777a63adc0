// What an agent does that has not reached the run's controller for long.
#pragma once

#include <string>

namespace longhaul::engines::slurm {

enum class LostController {
  kTryAgain,  // what Slurm does with the run is not known
  kStay,      // Slurm ends the agent with its job
  kEnd,       // the agent has to end: its job would hold its nodes for nothing
};

// If the first node of the run is dead, its controller is, too, and Slurm keeps the job without it:
// then Slurm is asked to queue that job again, once. If the job has ended, or waits to be started
// again, nobody needs this agent: the run asks for new nodes. A job that has started again has
// another controller, which does not know this agent, and is left alone. `address` is where this
// agent has looked for its controller, and `own_job` the Slurm job that it runs in.
LostController GiveUpController(const std::string& address, const std::string& own_job,
                                const std::string& run_directory);

// The file of the run's controller, which has its address.
std::string EndpointPath(const std::string& run_directory);

}  // namespace longhaul::engines::slurm
