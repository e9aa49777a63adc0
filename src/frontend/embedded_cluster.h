// A cluster on this machine for one run: a controller and its agents as child processes.
//
// A controller that dies is restarted at once, on the same ports and state; an agent that dies is
// replaced after a delay by a new one of the same name and state directory, which adopts the
// snapshots that a snapshot keeper still holds. All other processes that the dead agent started are
// killed.
//
// Files in the directory: endpoint.json, token and the event log (the controller's),
// controller.log, node-N.log, node-N/ (state of agent N, the same for all of its lives).
//
// With an AgentLauncher the agents run on other machines: one command starts them all, and is
// started again when it ends. The controller then listens at the launcher's address.
//
// Single-threaded: everything happens on the loop's thread, which must live as long as the cluster,
// because the children's parent-death signal depends on it. Makes this process the subreaper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "frontend/agent_launcher.h"
#include "io/event_loop.h"
#include "io/process/process.h"
#include "service/client/endpoint.h"

namespace longhaul::frontend {

struct ClusterOptions {
  std::string program;    // the longhaul binary: run as `controller ...` and `agent ...`
  std::string directory;  // must exist
  // Whether a child of this process is somebody else's, and is left alone. May be empty.
  std::function<bool(pid_t)> is_foreign;
  int lock_fd = -1;  // that children inherit and hold until they end; -1: none
  uint32_t agents = 2;
  uint32_t slots = 2;  // workers that an agent accepts
  // Starts the agents instead, with one command; null: they are children of this process.
  std::shared_ptr<AgentLauncher> launcher;
  Duration replacement_delay = std::chrono::milliseconds(200);
  Duration start_limit = std::chrono::seconds(20);  // until the controller is ready
  // With more deaths of children than this within the window, the cluster gives up.
  size_t deaths_allowed = 20;
  Duration deaths_window = std::chrono::seconds(10);
  // The time between the request to end and the kill.
  Duration stop_grace = std::chrono::seconds(5);
};

// The events that the cluster reports. Called on the loop's thread.
struct ClusterObserver {
  // The controller answered for the first time; the agents are being started.
  std::function<void(const service::Endpoint&)> on_ready;
  // The controller was restarted: endpoint.json is new.
  std::function<void(const service::Endpoint&)> on_restarted;
  // A child died or was replaced.
  std::function<void(const std::string& text)> on_event;
  // The cluster cannot continue; all of its processes have been killed.
  std::function<void(const Status& reason)> on_failed;
};

class EmbeddedCluster {
 public:
  EmbeddedCluster(io::EventLoop& loop, ClusterOptions options, ClusterObserver observer);
  ~EmbeddedCluster();  // kills what still runs
  EmbeddedCluster(const EmbeddedCluster&) = delete;
  EmbeddedCluster& operator=(const EmbeddedCluster&) = delete;

  // Starts the controller; the other processes follow on the loop. Must be called once.
  Status Start();

  // Ends the agents, then the controller, and calls `done` when all are gone.
  void Stop(std::function<void()> done);

  // Sends SIGKILL to all processes and waits until they are gone.
  void KillNow();

  // The process ids of the running children, the controller's first (0 while it is down).
  std::vector<pid_t> pids() const;

 private:
  struct Child {
    std::string name;
    uint32_t number = 0;  // of an agent, from 1; 0: the controller
    io::Process process;  // pid 0: not running
  };
  enum class Phase { kNew, kStarting, kRunning, kStopping, kEnded };

  // `argv[0]` is looked up in PATH unless `program` names the file.
  Status StartChild(Child& child, const std::string& program, std::vector<std::string> argv);
  Status StartController();
  void StartAgent(Child& agent);
  Status StartLaunchedAgents(Child& command);
  void AwaitEndpoint(Instant deadline);
  void OnDeath(Child& child);
  void OnControllerDeath(const std::string& how);
  void OnAgentDeath(Child& agent, const std::string& how);
  bool TooManyDeaths();
  void Fail(const Status& reason);
  void StopNext();
  void KillChild(Child& child);
  enum class SnapshotKeepers { kSpared, kKilled };  // that keep memory for the next agent
  void KillOrphans(SnapshotKeepers snapshot_keepers);
  std::string LogTail(const Child& child) const;
  bool AgentsRun() const;

  io::EventLoop& loop_;
  const ClusterOptions options_;
  const ClusterObserver observer_;
  Phase phase_ = Phase::kNew;
  Child controller_;
  std::vector<Child> agents_;
  service::Endpoint endpoint_;  // once ready
  std::deque<Instant> deaths_;
  std::function<void()> on_stopped_;
  std::vector<io::EventLoop::TimerId> timers_;  // fired ones too: cancelling them has no effect
};

}  // namespace longhaul::frontend
