#include "bin/slurm_run_commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "engines/slurm/batch_script.h"
#include "engines/slurm/run_comment.h"
#include "engines/slurm/slurm_commands.h"
#include "engines/slurm/slurm_launcher.h"
#include "io/clock.h"
#include "io/files/file.h"

namespace longhaul::bin {
namespace {

namespace slurm = engines::slurm;

constexpr Duration kLookAgain = std::chrono::seconds(1);
// A run that is cancelled saves a checkpoint; Slurm kills what is left after its KillWait, 30 s by
// default.
constexpr Duration kEndLimit = std::chrono::seconds(90);
constexpr uint64_t kMostBoundsBytes = 64;

// As the comments of the jobs have it. No slash at the end.
std::string WholePath(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::absolute(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

std::string RoleText(const std::string& role) {
  if (role == slurm::kFirstRole) return "part 1, controller";
  if (role == slurm::kGrowthRole) return "growth";
  std::string text = role;
  std::replace(text.begin(), text.end(), '-', ' ');
  return text;
}

int ShowStatus(const std::string& directory) {
  const auto jobs = slurm::JobsOfRuns(directory.empty() ? "" : WholePath(directory));
  if (!jobs.ok()) return Fail(jobs.status());
  if (jobs->empty()) {
    std::printf("Slurm has no jobs of %s\n",
                directory.empty() ? "runs of this user" : ("the run in " + directory).c_str());
    return kExitOk;
  }
  std::vector<std::string> runs;
  for (const slurm::RunJob& job : *jobs) {
    if (std::find(runs.begin(), runs.end(), job.run_directory) != runs.end()) continue;
    runs.push_back(job.run_directory);
    std::printf("%s\n  %-10s %-12s %-20s %-24s %s\n", Printable(job.run_directory, 400).c_str(),
                "JOB", "STATE", "PART", "NODES", "REASON");
    for (const slurm::RunJob& each : *jobs) {
      if (each.run_directory != job.run_directory) continue;
      const std::string nodes = each.now.nodes.empty() ? "waits for " + std::to_string(each.nodes)
                                                       : Join(each.now.nodes, ",");
      const std::string reason = each.now.runs() ? "" : Printable(each.now.reason, 80);
      std::printf("  %-10s %-12s %-20s %-24s %s\n", each.now.id.c_str(), each.now.state.c_str(),
                  RoleText(each.role).c_str(), nodes.c_str(), reason.c_str());
    }
  }
  return kExitOk;
}

std::vector<std::string> NumbersOf(const std::vector<slurm::RunJob>& jobs) {
  std::vector<std::string> numbers;
  for (const slurm::RunJob& job : jobs) numbers.push_back(job.now.id);
  return numbers;
}

// The first job ends the others in order, after a last checkpoint. What is left is cancelled here.
int CancelRun(const std::string& directory) {
  const std::string path = WholePath(directory);
  auto jobs = slurm::JobsOfRuns(path);
  if (!jobs.ok()) return Fail(jobs.status());
  if (jobs->empty()) return Fail(NotFound("Slurm has no jobs of the run in " + path));
  std::vector<std::string> first;
  for (const slurm::RunJob& job : *jobs) {
    if (job.role == slurm::kFirstRole) first.push_back(job.now.id);
  }
  Status cancelled = slurm::Cancel(first.empty() ? NumbersOf(*jobs) : first);
  if (!cancelled.ok()) return Fail(cancelled);
  std::printf("cancelled the run in %s: job%s %s\n", path.c_str(), jobs->size() == 1 ? "" : "s",
              Join(NumbersOf(*jobs), ", ").c_str());
  std::fflush(stdout);
  const Instant deadline = io::MonotonicNow() + kEndLimit;
  while (jobs.ok() && !jobs->empty() && io::MonotonicNow() < deadline) {
    // A job that still waits has no process that could end it.
    const bool alone = std::none_of(jobs->begin(), jobs->end(), [](const slurm::RunJob& job) {
      return job.role == slurm::kFirstRole;
    });
    if (alone) (void)slurm::Cancel(NumbersOf(*jobs));
    std::this_thread::sleep_for(kLookAgain);
    jobs = slurm::JobsOfRuns(path);
  }
  if (!jobs.ok()) return Fail(jobs.status());
  if (jobs->empty()) return kExitOk;
  cancelled = slurm::Cancel(NumbersOf(*jobs));
  if (!cancelled.ok()) return Fail(cancelled);
  return Fail(DeadlineExceeded("the run has not ended within " + longhaul::ToString(kEndLimit) +
                               ", and Slurm was asked to end job " + Join(NumbersOf(*jobs), ", ")));
}

int Resize(const std::string& directory, uint32_t nodes) {
  const std::string path = WholePath(directory);
  const std::string bounds_path = slurm::BoundsPath(path);
  const Result<std::string> bounds = io::ReadText(bounds_path, kMostBoundsBytes);
  if (!bounds.ok()) {
    return Fail(
        NotFound("no run on Slurm has started in " + path + ": there is no " + bounds_path));
  }
  if (const Status fits = slurm::CheckTarget(*bounds, nodes); !fits.ok()) {
    return Fail(fits.code() == Code::kDataLoss ? fits.WithContext(bounds_path) : fits);
  }
  const Status written = io::WriteTextAtomically(io::PosixFileSystem(), slurm::TargetPath(path),
                                                 std::to_string(nodes) + "\n");
  if (!written.ok()) return Fail(written);
  std::printf("the run in %s is to have %u nodes; its log is %s/output.log\n", path.c_str(), nodes,
              slurm::SlurmDirectory(path).c_str());
  return kExitOk;
}

}  // namespace

void AddSlurmRunCommands(CLI::App& slurm, Action& action) {
  const auto directory = std::make_shared<std::string>();
  const auto nodes = std::make_shared<uint32_t>(0);
  CLI::App* status =
      slurm.add_subcommand("status", "Show the Slurm jobs of a run, or of all runs of this user");
  status->add_option("RUN_DIR", *directory, "The run's directory (default: all runs)");
  status->callback(
      [&action, directory] { action = [directory] { return ShowStatus(*directory); }; });
  CLI::App* cancel =
      slurm.add_subcommand("cancel", "End a run with a checkpoint, and all of its Slurm jobs");
  cancel->add_option("RUN_DIR", *directory, "The run's directory")->required();
  cancel->callback(
      [&action, directory] { action = [directory] { return CancelRun(*directory); }; });
  CLI::App* resize = slurm.add_subcommand(
      "resize", "Let an elastic run grow or shrink to a number of nodes within its bounds");
  resize->add_option("RUN_DIR", *directory, "The run's directory")->required();
  resize->add_option("NODES", *nodes, "The number of nodes")
      ->required()
      ->check(CLI::Range(1u, 100'000u));
  resize->callback([&action, directory, nodes] {
    action = [directory, nodes] { return Resize(*directory, *nodes); };
  });
}

}  // namespace longhaul::bin
