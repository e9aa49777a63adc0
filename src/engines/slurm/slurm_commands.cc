#include "engines/slurm/slurm_commands.h"

#include <optional>
#include <utility>

#include "base/text.h"
#include "io/process/process.h"
#include "io/process/program_output.h"

namespace longhaul::engines::slurm {
namespace {

// Of the jobs of a run, or of all runs of a user, with their lists of hosts.
constexpr size_t kMostOutput = size_t{4} << 20;

Result<io::ProgramEnd> RunToEnd(std::vector<std::string> argv) {
  const std::string program = argv[0];
  io::ProcessOptions options;
  options.argv = std::move(argv);
  options.environment = io::CurrentEnvironment();
  Result<io::ProgramEnd> end = io::RunProgram(std::move(options), kCallLimit, kMostOutput);
  if (end.ok() || end.status().code() != Code::kNotFound) return end;
  return NotFound(program + " is not in PATH: Slurm's programs are needed on this machine");
}

Result<std::string> Call(std::vector<std::string> argv) {
  ASSIGN_OR_RETURN(io::ProgramEnd end, RunToEnd(std::move(argv)));
  return std::move(end.output);
}

// Of a program that prints nothing when it has succeeded. `failure`: what an exit code means.
Status Order(std::vector<std::string> argv, const std::string& failure) {
  ASSIGN_OR_RETURN(const io::ProgramEnd end, RunToEnd(std::move(argv)));
  if (end.status.exit_code == 0) return {};
  return FailedPrecondition(failure + ", for the reason above");
}

}  // namespace

Result<std::string> Submit(std::vector<std::string> arguments, const std::string& script) {
  arguments.push_back(script);
  ASSIGN_OR_RETURN(const std::string output, Call(std::move(arguments)));
  if (Trim(output).empty()) {
    return FailedPrecondition("sbatch refused " + script + ", for the reason above");
  }
  return ParseSubmitted(output);
}

Result<std::vector<JobNow>> Query(const std::vector<std::string>& jobs) {
  ASSIGN_OR_RETURN(const std::string output,
                   Call({"squeue", "--noheader", "--states=all", "--jobs=" + Join(jobs, ","),
                         "--format=" + std::string(kJobFormat) + "|end"}));
  std::vector<JobNow> found;
  for (const std::string_view line : Split(output, '\n')) {
    if (Trim(line).empty()) continue;
    if (!Trim(line).ends_with("|end")) return Unavailable("squeue's list is cut");
    ASSIGN_OR_RETURN(JobNow now, ParseJobLine(line));
    found.push_back(std::move(now));
  }
  // One of the jobs is the caller's own: an empty list is a failed call.
  if (found.empty()) return Unavailable("squeue lists none of the jobs " + Join(jobs, ","));
  return found;
}

Result<std::vector<RunJob>> JobsOfRuns(const std::string& run_directory) {
  // With squeue's line of titles, which distinguishes no jobs from a failed call.
  ASSIGN_OR_RETURN(const std::string output,
                   Call({"squeue", "--me", "--sort=i", "--format=" + std::string(kRunJobFormat)}));
  if (Trim(output).empty()) return Unavailable("squeue does not list the jobs of this user");
  std::vector<RunJob> jobs;
  for (const std::string_view line : Split(output, '\n')) {
    std::optional<RunJob> job = ParseRunJob(line);
    if (!job || (!run_directory.empty() && job->run_directory != run_directory)) continue;
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

Status Cancel(const std::vector<std::string>& jobs) {
  if (jobs.empty()) return {};
  std::vector<std::string> argv = {"scancel", "--quiet"};
  argv.insert(argv.end(), jobs.begin(), jobs.end());
  return Order(std::move(argv), "scancel did not cancel job" +
                                    std::string(jobs.size() == 1 ? " " : "s ") + Join(jobs, ", "));
}

Status Requeue(const std::string& job) {
  return Order({"scontrol", "requeue", job}, "scontrol did not queue job " + job + " again");
}

std::string AddressOfNode(const std::string& node) {
  const Result<std::string> output = Call({"scontrol", "--oneliner", "show", "node", node});
  if (!output.ok()) return "";
  for (const std::string_view word : Split(*output, ' ')) {
    if (word.starts_with("NodeAddr=")) return std::string(Trim(word.substr(9)));
  }
  return "";
}

}  // namespace longhaul::engines::slurm
