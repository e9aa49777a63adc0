#include "engines/slurm/lost_controller.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "base/text.h"
#include "engines/slurm/batch_script.h"
#include "engines/slurm/slurm_commands.h"
#include "engines/slurm/slurm_launcher.h"
#include "engines/slurm/slurm_text.h"
#include "io/files/file.h"
#include "service/client/endpoint.h"

namespace longhaul::engines::slurm {
namespace {

constexpr uint64_t kMaxJobBytes = 32;

// Into the run's own log: the output of this process goes through a node that may be lost.
void LogToRun(const std::string& run_directory, const std::string& line) {
  std::ofstream(SlurmDirectory(run_directory) + "/output.log", std::ios::app)
      << "longhaul: " << line << "\n";
}

}  // namespace

std::string EndpointPath(const std::string& run_directory) {
  return run_directory + "/cluster/endpoint.json";
}

LostController GiveUpController(const std::string& address, const std::string& own_job,
                                const std::string& run_directory) {
  const Result<std::string> text = io::ReadText(FirstJobPath(run_directory), kMaxJobBytes);
  if (!text.ok()) return LostController::kTryAgain;
  const std::string first(Trim(*text));
  // This agent's own job is known to Slurm as long as it runs.
  const auto jobs = Query({own_job, first});
  if (!jobs.ok()) return LostController::kTryAgain;
  const bool runs = std::any_of(jobs->begin(), jobs->end(), [&first](const JobNow& job) {
    return job.id == first && job.runs();
  });
  const auto endpoint = service::ReadEndpoint(EndpointPath(run_directory));
  if (runs && endpoint.ok() && endpoint->agents == address) {
    LogToRun(run_directory, "the controller cannot be reached: job " + first + " is queued again");
    if (!Requeue(first).ok()) return LostController::kTryAgain;  // another agent was faster
  }
  if (own_job == first) return LostController::kStay;
  LogToRun(run_directory,
           "an agent of job " + own_job + " ends, because job " + first + " has no controller");
  return LostController::kEnd;
}

}  // namespace longhaul::engines::slurm
