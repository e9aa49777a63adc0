// Slurm's own programs, run as the user: sbatch, squeue, scancel, scontrol. Each call blocks for at
// most kCallLimit. Error messages of the programs go to this process's standard error.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "engines/slurm/run_comment.h"
#include "engines/slurm/slurm_text.h"

namespace longhaul::engines::slurm {

inline constexpr Duration kCallLimit = std::chrono::seconds(30);

// Submits a script with `arguments` (argv of sbatch, without the script). Returns the job's number.
Result<std::string> Submit(std::vector<std::string> arguments, const std::string& script);

// Returns those of the jobs that Slurm still knows, ended ones included. An error means that
// nothing is known: the controller of Slurm may be away for a while. Requires that one of the jobs
// is known.
Result<std::vector<JobNow>> Query(const std::vector<std::string>& jobs);

// Returns the jobs of the calling user's runs that have not ended, in the order of their numbers;
// with a run directory, those of that run.
Result<std::vector<RunJob>> JobsOfRuns(const std::string& run_directory);

// Does nothing without jobs. Jobs that have ended, or that Slurm does not know any more, are no
// error.
Status Cancel(const std::vector<std::string>& jobs);
// Fails for a job that waits already, or that may not be queued again.
Status Requeue(const std::string& job);

// The address of this node as Slurm's configuration names it; empty if unknown.
std::string AddressOfNode(const std::string& node);

}  // namespace longhaul::engines::slurm
