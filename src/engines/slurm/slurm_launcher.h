// The agents of a run on Slurm: started by srun in the first job, followed with squeue, and
// replaced and added by further jobs (allocation.h). This class owns the further jobs: it submits
// them, and cancels them when the run ends. Those of an earlier start of the run, whose controller
// died, are cancelled at the start.
//
// Files in RUN/slurm, on storage that all nodes share:
//   first.sh, further.sh          the batch scripts
//   output.log, agents-JOB.log    what they print
//   join/NODE.token               for the agent of a node, where the controller has TLS; mode 0600
//   fenced/NODE.JOB               the node has left the job: its agent ends
//   ended                         the run has ended: all agents end
//   bounds                        the sizes that the run may have (run_size.h)
//   size                          the number of nodes that `longhaul slurm resize` has set
//   first-job                     the number of the first job, which agents requeue if they cannot
//                                 reach its controller any more
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engines/slurm/allocation.h"
#include "engines/slurm/batch_script.h"
#include "frontend/agent_launcher.h"
#include "service/agent/work_queue.h"

namespace longhaul::engines::slurm {

struct LauncherOptions {
  BatchOptions batch;
  std::string first_job;  // SLURM_JOB_ID
  std::string node;       // SLURMD_NODENAME
  std::string address;    // of this node, for its agents
  Duration poll_period = std::chrono::seconds(3);
  Duration unused_limit = kUnusedLimit;
};

// Until the agents of the first job have joined. srun starts their program on all nodes at once,
// from storage that the nodes share.
inline constexpr Duration kAgentsLimit = std::chrono::minutes(3);

class SlurmLauncher final : public frontend::AgentLauncher {
 public:
  explicit SlurmLauncher(LauncherOptions options);
  ~SlurmLauncher() override;

  std::string address() const override { return options_.address; }
  // Nodes of other parts and of the growth come when Slurm has them.
  std::optional<uint32_t> awaited_agents() const override;
  Duration agents_limit() const override { return kAgentsLimit; }
  Status Prepare(const std::string& directory) override;
  Result<std::vector<std::string>> Command(const service::Endpoint& endpoint) override;
  void Begin(io::EventLoop& loop, std::function<void(const std::string&)> show) override;
  void End() override;

  // Whether Slurm has taken the node of this process out of the job, which continues elsewhere.
  bool lost() const { return lost_; }

 private:
  // A further job that is given back: its nodes are drained, then it is cancelled.
  struct Leaving {
    std::vector<std::string> nodes;
    Instant deadline;
  };
  void Poll();
  void Schedule();
  void ReadTarget();
  // What Slurm and, if its answer is known, the run's controller have answered.
  struct Answers {
    std::vector<JobNow> jobs;
    std::optional<std::set<std::string>> busy;
  };
  void Take(const Answers& answers);
  bool HasLostItsNode(const JobNow& first);
  void ShowWaiting(const std::vector<JobNow>& jobs);
  void CheckStart(const std::vector<JobNow>& jobs);
  void Carry(const Allocation::Orders& orders);
  void Welcome(const Place& place);
  void AskFor(const Request& request);
  void Release(const std::string& job);
  void FollowLeaving();
  // Ends the run as a signal does, with a last checkpoint.
  void StopRun();
  void Show(const std::string& text) {
    if (show_) show_(text);
  }

  const LauncherOptions options_;
  const std::string directory_;  // RUN/slurm
  service::Endpoint endpoint_;
  Allocation allocation_;
  std::optional<Instant> began_;                // until all parts have had their nodes
  std::map<std::string, std::string> waiting_;  // job -> why it waits, as it was shown
  std::map<std::string, Leaving> leaving_;      // by job
  std::set<std::string> drained_;               // nodes that were given back
  uint32_t target_ = 0;                         // as it was shown; 0: none
  int submissions_ = 0;                         // that are under way
  io::EventLoop* loop_ = nullptr;
  std::function<void(const std::string&)> show_;
  std::unique_ptr<service::WorkQueue> calls_;  // of Slurm's programs, which block
  bool swept_ = false;                         // no job of an earlier start is left
  bool ended_ = false;
  bool lost_ = false;    // this process's node has left the job
  bool silent_ = false;  // Slurm's controller did not answer the last time
};

// The path of the mark that ends the agent of a node of a job.
std::string FencePath(const std::string& run_directory, const Place& place);
std::string EndedPath(const std::string& run_directory);
std::string BoundsPath(const std::string& run_directory);
std::string TargetPath(const std::string& run_directory);
std::string FirstJobPath(const std::string& run_directory);
std::string JoinTokenPath(const std::string& run_directory, const std::string& node);

}  // namespace longhaul::engines::slurm
