#include "engines/slurm/slurm_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "base/text.h"
#include "engines/slurm/slurm_commands.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "service/client/rest_client.h"
#include "service/http/web_origin.h"
#include "service/security/tls_files.h"

namespace longhaul::engines::slurm {
namespace {

// As long as a run may wait for a node that joins.
constexpr const char* kJoinTokenLife = "7d";

// Only an agent of this name can use the token, once.
Status WriteJoinToken(const service::Endpoint& endpoint, const std::string& run_directory,
                      const std::string& node) {
  service::RestClient client(endpoint);
  ASSIGN_OR_RETURN(
      const service::Json answer,
      client.Post("/v1/join-tokens", {{"node", AgentNameOf(node)}, {"expires", kJoinTokenLife}}));
  const auto token = answer.find("token");
  if (token == answer.end() || !token->is_string()) {
    return InternalError("the controller gave no join token for " + node);
  }
  return io::WritePrivateText(JoinTokenPath(run_directory, node), token->get<std::string>() + "\n");
}

std::string NodesText(uint32_t nodes) {
  return nodes == 1 ? "a node" : std::to_string(nodes) + " nodes";
}

}  // namespace

std::string FencePath(const std::string& run_directory, const Place& place) {
  return SlurmDirectory(run_directory) + "/fenced/" + place.node + "." + place.job;
}

std::string EndedPath(const std::string& run_directory) {
  return SlurmDirectory(run_directory) + "/ended";
}

std::string FirstJobPath(const std::string& run_directory) {
  return SlurmDirectory(run_directory) + "/first-job";
}

std::string JoinTokenPath(const std::string& run_directory, const std::string& node) {
  return SlurmDirectory(run_directory) + "/join/" + node + ".token";
}

SlurmLauncher::SlurmLauncher(LauncherOptions options)
    : options_(std::move(options)),
      directory_(SlurmDirectory(options_.batch.run_directory)),
      allocation_({.nodes = options_.batch.nodes}, options_.first_job) {}

SlurmLauncher::~SlurmLauncher() { End(); }

Status SlurmLauncher::Prepare(const std::string& directory) {
  io::FileSystem& files = io::PosixFileSystem();
  for (const char* name : {"/join", "/fenced"}) {
    RETURN_IF_ERROR(files.MakeDirectories(directory_ + name));
  }
  // Of an earlier start of the same job, which Slurm has requeued.
  (void)files.Remove(EndedPath(options_.batch.run_directory));
  RETURN_IF_ERROR(
      WriteTextAtomically(files, FirstJobPath(options_.batch.run_directory), options_.first_job));
  RETURN_IF_ERROR(
      WriteTextAtomically(files, directory_ + "/further.sh", FurtherJobScript(options_.batch)));
  if (service::IsLoopback(options_.address)) return {};  // all nodes are this machine
  const std::string names[] = {options_.address};
  return service::InitTls(directory, names, io::Now()).status();
}

Result<std::vector<std::string>> SlurmLauncher::Command(const service::Endpoint& endpoint) {
  endpoint_ = endpoint;
  ASSIGN_OR_RETURN(const std::vector<JobNow> jobs, Query({options_.first_job}));
  if (!endpoint.ca_file.empty()) {
    for (const std::string& node : jobs[0].nodes) {
      RETURN_IF_ERROR(WriteJoinToken(endpoint, options_.batch.run_directory, node));
    }
  }
  return AgentsCommand(options_.batch);
}

void SlurmLauncher::Begin(io::EventLoop& loop, std::function<void(const std::string&)> show) {
  loop_ = &loop;
  show_ = std::move(show);
  calls_ = std::make_unique<service::WorkQueue>(loop);
  Poll();
}

void SlurmLauncher::Poll() {
  if (ended_) return;
  calls_->Enqueue([this, jobs = allocation_.jobs()]() -> service::WorkQueue::Answer {
    auto now = Query(jobs);
    return [this, now = std::move(now)] {
      if (ended_) return;
      if (now.ok()) {
        if (std::exchange(silent_, false)) Show("Slurm answers again");
        Take(*now);
      } else if (!std::exchange(silent_, true)) {
        // Nothing is known, so nothing is lost: the agents' own connections tell what lives.
        Show("Slurm does not answer: " + now.status().message());
      }
      loop_->After(options_.poll_period, [this] { Poll(); });
    };
  });
}

void SlurmLauncher::Take(const std::vector<JobNow>& jobs) {
  const auto first = std::find_if(
      jobs.begin(), jobs.end(), [this](const JobNow& job) { return job.id == options_.first_job; });
  // A first job that ends has been cancelled, for example: the signal for it reaches this process.
  if (first == jobs.end() || !first->lives()) return;
  const auto& nodes = first->nodes;
  if (std::find(nodes.begin(), nodes.end(), options_.node) == nodes.end()) {
    // With --no-kill the job continues without its first node, whose processes Slurm takes for
    // dead. The signal stops the run with a last checkpoint; then the job is queued again, from
    // there.
    if (std::exchange(lost_, true)) return;
    Show("Slurm has taken this node out of job " + options_.first_job + ": the run ends here");
    (void)::kill(::getpid(), SIGTERM);
    return;
  }
  Carry(allocation_.Observe(jobs, io::MonotonicNow()));
}

void SlurmLauncher::Carry(const Allocation::Orders& orders) {
  io::FileSystem& files = io::PosixFileSystem();
  for (const Place& place : orders.fenced) {
    Show("Slurm has taken " + place.node + " out of job " + place.job +
         ": what still runs there is ended");
    const Status marked =
        WriteTextAtomically(files, FencePath(options_.batch.run_directory, place), "");
    if (!marked.ok()) Show(marked.message());
  }
  for (const Place& place : orders.added) {
    if (place.job == options_.first_job || endpoint_.ca_file.empty()) continue;
    const Status token = WriteJoinToken(endpoint_, options_.batch.run_directory, place.node);
    if (!token.ok()) Show(token.message());
  }
  if (orders.missing > 0) AskFor(orders.missing);
}

void SlurmLauncher::AskFor(uint32_t nodes) {
  calls_->Enqueue([this, nodes, held = allocation_.held()]() -> service::WorkQueue::Answer {
    auto job = Submit(FurtherJobArguments(options_.batch, nodes, held), directory_ + "/further.sh");
    return [this, nodes, job = std::move(job)] {
      if (!job.ok()) {
        allocation_.Refused(io::MonotonicNow());
        return Show("no replacement for " + NodesText(nodes) + ": " + job.status().message());
      }
      allocation_.Asked(*job, nodes);
      Show("asked Slurm for " + NodesText(nodes) + " in job " + *job);
      if (ended_) (void)Cancel({*job});
    };
  });
}

void SlurmLauncher::End() {
  if (std::exchange(ended_, true)) return;
  if (calls_ == nullptr) return;
  (void)WriteTextAtomically(io::PosixFileSystem(), EndedPath(options_.batch.run_directory), "");
  calls_.reset();  // waits for the call under way
  const Status cancelled = Cancel(allocation_.further());
  if (!cancelled.ok()) Show(cancelled.message());
}

}  // namespace longhaul::engines::slurm
