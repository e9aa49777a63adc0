#include "engines/slurm/slurm_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "base/text.h"
#include "engines/slurm/node_calls.h"
#include "engines/slurm/run_comment.h"
#include "engines/slurm/slurm_commands.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "service/http/web_origin.h"
#include "service/security/tls_files.h"

namespace longhaul::engines::slurm {
namespace {

constexpr uint64_t kMaxTargetBytes = 32;
// For the job to leave nodes that are given back: a snapshot and a restart.
constexpr Duration kDrainLimit = std::chrono::minutes(2);

Status WriteJoinToken(const service::Endpoint& endpoint, const std::string& run_directory,
                      const std::string& node) {
  ASSIGN_OR_RETURN(const std::string token, MakeJoinToken(endpoint, node));
  return io::WritePrivateText(JoinTokenPath(run_directory, node), token + "\n");
}

std::string NodesText(uint32_t nodes) {
  return nodes == 1 ? "a node" : std::to_string(nodes) + " nodes";
}

std::string PurposeOf(const Request& request, size_t parts) {
  if (request.part >= parts) return " to grow";
  return parts == 1 ? "" : " of part " + std::to_string(request.part + 1);
}

// Cancels the further jobs of an earlier start of the run: nobody else does if its controller died.
Status CancelEarlier(const std::string& run_directory) {
  ASSIGN_OR_RETURN(const std::vector<RunJob> jobs, JobsOfRuns(run_directory));
  std::vector<std::string> earlier;
  for (const RunJob& job : jobs) {
    if (job.role != kFirstRole) earlier.push_back(job.now.id);
  }
  return Cancel(earlier);
}

}  // namespace

std::string FencePath(const std::string& run_directory, const Place& place) {
  return SlurmDirectory(run_directory) + "/fenced/" + place.node + "." + place.job;
}

std::string EndedPath(const std::string& run_directory) {
  return SlurmDirectory(run_directory) + "/ended";
}

std::string BoundsPath(const std::string& run_directory) {
  return SlurmDirectory(run_directory) + "/bounds";
}

std::string TargetPath(const std::string& run_directory) {
  return SlurmDirectory(run_directory) + "/size";
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
      allocation_({.size = options_.batch.size, .unused_limit = options_.unused_limit},
                  options_.first_job) {}

SlurmLauncher::~SlurmLauncher() { End(); }

std::optional<uint32_t> SlurmLauncher::awaited_agents() const {
  const RunSize& size = options_.batch.size;
  if (size.parts.size() == 1 && !size.elastic()) return std::nullopt;
  return size.minimum();
}

Status SlurmLauncher::Prepare(const std::string& directory) {
  io::FileSystem& files = io::PosixFileSystem();
  for (const char* name : {"/join", "/fenced"}) {
    RETURN_IF_ERROR(files.MakeDirectories(directory_ + name));
  }
  // Of an earlier start of the same job, which Slurm has requeued.
  (void)files.Remove(EndedPath(options_.batch.run_directory));
  RETURN_IF_ERROR(
      WriteTextAtomically(files, FirstJobPath(options_.batch.run_directory), options_.first_job));
  RETURN_IF_ERROR(WriteTextAtomically(files, BoundsPath(options_.batch.run_directory),
                                      BoundsText(options_.batch.size)));
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
  began_ = io::MonotonicNow();
  Poll();
}

void SlurmLauncher::Schedule() {
  loop_->After(options_.poll_period, [this] { Poll(); });
}

void SlurmLauncher::Poll() {
  if (ended_) return;
  // A job whose number is not known yet would seem to have ended.
  if (submissions_ > 0) return Schedule();
  ReadTarget();
  calls_->Enqueue([this, jobs = allocation_.jobs(), sweep = !swept_, endpoint = endpoint_,
                   directory = options_.batch.run_directory]() -> service::WorkQueue::Answer {
    const Status swept = sweep ? CancelEarlier(directory) : Status();
    const auto found = swept.ok() ? Query(jobs) : Result<std::vector<JobNow>>(swept);
    Result<Answers> now = found.ok() ? Result<Answers>({*found, {}}) : found.status();
    // Only the nodes of further jobs may be given back.
    if (now.ok() && jobs.size() > 1) {
      const auto busy = BusyAgents(endpoint);
      if (busy.ok()) now->busy = *busy;
    }
    return [this, swept = swept.ok(), now = std::move(now)] {
      if (ended_) return;
      swept_ = swept_ || swept;
      if (now.ok()) {
        if (std::exchange(silent_, false)) Show("Slurm answers again");
        Take(*now);
      } else if (!std::exchange(silent_, true)) {
        // Nothing is known, so nothing is lost: the agents' own connections show what lives.
        Show("Slurm does not answer: " + now.status().message());
      }
      Schedule();
    };
  });
}

void SlurmLauncher::ReadTarget() {
  const Result<std::string> text =
      io::ReadText(TargetPath(options_.batch.run_directory), kMaxTargetBytes);
  if (!text.ok()) return;
  const Result<int64_t> nodes = ParseInt64(Trim(*text));
  const RunSize& size = options_.batch.size;
  if (!nodes.ok() || *nodes < size.minimum() || *nodes > size.maximum) return;
  const auto target = static_cast<uint32_t>(*nodes);
  allocation_.SetTarget(target);
  if (std::exchange(target_, target) != target) Show("the run is to have " + NodesText(target));
}

// With --no-kill the job continues without its first node, whose processes Slurm takes for dead.
// Then the run stops with a last checkpoint, and the job is queued again, from there.
bool SlurmLauncher::HasLostItsNode(const JobNow& first) {
  if (std::find(first.nodes.begin(), first.nodes.end(), options_.node) != first.nodes.end()) {
    return false;
  }
  if (!std::exchange(lost_, true)) {
    Show("Slurm has taken this node out of job " + options_.first_job + ": the run ends here");
    StopRun();
  }
  return true;
}

void SlurmLauncher::StopRun() { (void)::kill(::getpid(), SIGTERM); }

void SlurmLauncher::Take(const Answers& answers) {
  const std::vector<JobNow>& jobs = answers.jobs;
  const auto first = std::find_if(
      jobs.begin(), jobs.end(), [this](const JobNow& job) { return job.id == options_.first_job; });
  // A first job that ends has been cancelled, for example: the signal for it reaches this process.
  if (first == jobs.end() || !first->lives() || HasLostItsNode(*first)) return;
  ShowWaiting(jobs);
  const Instant now = io::MonotonicNow();
  if (answers.busy) allocation_.SetBusy(*answers.busy, now);
  Carry(allocation_.Observe(jobs, now));
  FollowLeaving();
  CheckStart(jobs);
}

void SlurmLauncher::ShowWaiting(const std::vector<JobNow>& jobs) {
  for (const JobNow& job : jobs) {
    const Request* request = allocation_.RequestOf(job.id);
    if (request == nullptr || job.state != "PENDING") continue;
    std::string& shown = waiting_[job.id];
    if (std::exchange(shown, job.reason) == job.reason) continue;
    Show("job " + job.id + " waits for " + NodesText(request->nodes) +
         PurposeOf(*request, options_.batch.size.parts.size()) + ": " + Printable(job.reason, 80));
  }
}

// The nodes of the parts that have come stand idle until the last one is there.
void SlurmLauncher::CheckStart(const std::vector<JobNow>& jobs) {
  const Duration limit = options_.batch.start_limit;
  if (allocation_.complete()) began_.reset();
  if (!began_ || io::MonotonicNow() - *began_ < limit) return;
  std::string why;
  for (const JobNow& job : jobs) {
    const Request* request = allocation_.RequestOf(job.id);
    if (request == nullptr || job.runs()) continue;
    why += "; job " + job.id + " for " + NodesText(request->nodes) +
           PurposeOf(*request, options_.batch.size.parts.size()) + " is " + job.state + " (" +
           Printable(job.reason, 80) + ")";
  }
  Show("the run ends, because Slurm has not given all parts their nodes within " +
       longhaul::ToString(limit) + " (--start-limit)" + why);
  began_.reset();
  StopRun();
}

void SlurmLauncher::Carry(const Allocation::Orders& orders) {
  io::FileSystem& files = io::PosixFileSystem();
  for (const Place& place : orders.fenced) {
    if (!leaving_.contains(place.job)) {
      Show("Slurm has taken " + place.node + " out of job " + place.job +
           ": what still runs there is ended");
    }
    const Status marked =
        WriteTextAtomically(files, FencePath(options_.batch.run_directory, place), "");
    if (!marked.ok()) Show(marked.message());
  }
  for (const Place& place : orders.added) {
    if (place.job != options_.first_job) Welcome(place);
  }
  for (const std::string& job : orders.unused) {
    Show("the run has not used the nodes of job " + job + " for " +
         longhaul::ToString(options_.unused_limit));
  }
  for (const std::string& job : orders.release) Release(job);
  for (const Request& request : orders.requests) AskFor(request);
}

// A node of a further job.
void SlurmLauncher::Welcome(const Place& place) {
  waiting_.erase(place.job);
  if (!endpoint_.ca_file.empty()) {
    const Status token = WriteJoinToken(endpoint_, options_.batch.run_directory, place.node);
    if (!token.ok()) Show(token.message());
  }
  if (drained_.erase(place.node) == 0) return;
  const Status used = UncordonNode(endpoint_, place.node);
  if (!used.ok()) Show("cannot use " + place.node + " again: " + used.message());
}

void SlurmLauncher::AskFor(const Request& request) {
  ++submissions_;
  calls_->Enqueue([this, request, held = allocation_.held()]() -> service::WorkQueue::Answer {
    auto job =
        Submit(FurtherJobArguments(options_.batch, request, held), directory_ + "/further.sh");
    return [this, request, job = std::move(job)] {
      --submissions_;
      const std::string what =
          NodesText(request.nodes) + PurposeOf(request, options_.batch.size.parts.size());
      if (!job.ok()) {
        allocation_.Refused(request, io::MonotonicNow());
        return Show("Slurm was not asked for " + what + ": " + job.status().message());
      }
      allocation_.Asked(*job, request);
      Show("asked Slurm for " + what + " in job " + *job);
    };
  });
}

void SlurmLauncher::Release(const std::string& job) {
  Leaving& leaving = leaving_[job];
  leaving.nodes = allocation_.NodesOf(job);
  leaving.deadline = io::MonotonicNow() + kDrainLimit;
  Show("gives job " + job + " back to Slurm" +
       (leaving.nodes.empty() ? "" : ", with " + Join(leaving.nodes, " and ")));
  drained_.insert(leaving.nodes.begin(), leaving.nodes.end());
  if (leaving.nodes.empty()) return;
  calls_->Enqueue(
      [this, nodes = leaving.nodes, endpoint = endpoint_]() -> service::WorkQueue::Answer {
        const Status drained = DrainNodes(endpoint, nodes);
        return [this, drained] {
          if (!drained.ok()) Show("cannot drain nodes: " + drained.message());
        };
      });
}

// Cancels the jobs that the run has left.
void SlurmLauncher::FollowLeaving() {
  for (auto leaving = leaving_.begin(); leaving != leaving_.end();) {
    const std::string& job = leaving->first;
    if (allocation_.RequestOf(job) == nullptr) {
      leaving = leaving_.erase(leaving);
      continue;
    }
    const bool late = io::MonotonicNow() >= leaving->second.deadline;
    calls_->Enqueue([this, job, late, nodes = leaving->second.nodes,
                     endpoint = endpoint_]() -> service::WorkQueue::Answer {
      const Result<bool> idle = late ? Result<bool>(true) : AreIdle(endpoint, nodes);
      const Status cancelled = idle.ok() && *idle ? Cancel({job}) : idle.status();
      return [this, cancelled] {
        if (!cancelled.ok()) Show("cannot give a job back: " + cancelled.message());
      };
    });
    ++leaving;
  }
}

void SlurmLauncher::End() {
  if (std::exchange(ended_, true)) return;
  if (calls_ == nullptr) return;
  (void)WriteTextAtomically(io::PosixFileSystem(), EndedPath(options_.batch.run_directory), "");
  calls_.reset();  // waits for the call under way
  Status cancelled = Cancel(allocation_.further());
  // The number of a job that was submitted at the last moment is not known here.
  if (cancelled.ok() && submissions_ > 0) cancelled = CancelEarlier(options_.batch.run_directory);
  if (!cancelled.ok()) Show(cancelled.message());
}

}  // namespace longhaul::engines::slurm
