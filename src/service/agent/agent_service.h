// The service of one node's agent: runtime::AgentCore on a real machine.
//
// One thread, the loop's, owns the core, the workers' processes, the worker APIs, the arenas and
// the stores. Two helpers do what may block: the link to the controller (link/) and the
// disk (disk_worker.h). The service feeds each fact to the core and carries out each effect.
// Workers continue when the controller is away.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "io/files/owner_lock.h"
#include "runtime/agent/agent_core.h"
#include "runtime/rendezvous/store_server.h"
#include "service/agent/agent_memory.h"
#include "service/agent/agent_options.h"
#include "service/agent/check/node_checker.h"
#include "service/agent/copy_worker.h"
#include "service/agent/devices/kernel_log.h"
#include "service/agent/disk_worker.h"
#include "service/agent/identity/agent_credentials.h"
#include "service/agent/identity/identity_renewal.h"
#include "service/agent/link/controller_link.h"
#include "service/agent/peer/peer_server.h"
#include "service/agent/peer/peer_worker.h"
#include "service/agent/snapshot_check.h"
#include "service/agent/work_queue.h"
#include "service/agent/worker_api_server.h"
#include "service/agent/worker_launcher.h"
#include "service/agent/worker_probes.h"

namespace longhaul::service {

class AgentService final : private WorkerApiHost {
 public:
  // Workers die with the thread that starts them, which is the loop's. `loop` must outlive this.
  // With `run_as` this process takes the supplementary groups of that account.
  static Result<std::unique_ptr<AgentService>> Create(io::EventLoop& loop,
                                                      const AgentOptions& options);
  // Kills the remaining workers.
  ~AgentService() override;
  AgentService(const AgentService&) = delete;
  AgentService& operator=(const AgentService&) = delete;

  // Waits until the controller has ended the jobs here, at most for `limit` and not without a
  // controller. Then shuts down as ShutDown does with cluster_ended. Call once, instead of
  // ShutDown.
  void ShutDownOnceReleased(Duration limit, Duration grace, std::function<void()> done);

  // Ends the workers (SIGTERM, SIGKILL after `grace`), persists the newest snapshot, reports to the
  // controller if it is connected, then calls `done`. Call once. `cluster_ended`:
  // runtime::ShutDownAsked.
  void ShutDown(Duration grace, std::function<void()> done, bool cluster_ended = false);

 private:
  AgentService(io::EventLoop& loop, const AgentOptions& options, uint64_t incarnation,
               std::unique_ptr<AgentMemory> memory, const runtime::AgentFacts& facts,
               io::OwnerLock lock, std::optional<io::UserAccount> user);
  WorkerLauncherOptions LaunchOptions() const;
  const io::UserAccount* user() const { return user_.has_value() ? &*user_ : nullptr; }

  Status StartLink(const AgentCredentials& credentials, uint64_t incarnation);
  void StartChecker(const std::string& peer_secret);
  void WatchDevices();
  void FeedCopies();  // that other nodes send
  ControllerLinkObserver ObserveLink();
  // Steps the core: at once, or after the present step when an effect calls this.
  void Feed(runtime::AgentInput input);
  void ArmTimer();
  void SeeWhetherDone();
  void SeeWhetherReleased();
  void CheckCheckpoints();  // repeats every kCheckpointsPeriod

  void Do(const runtime::Send& effect);
  void Do(const runtime::FindTorch& effect);
  void Do(const runtime::OpenStoreAt& effect);
  void Do(const runtime::CloseStores& effect);
  void Do(const runtime::SpawnWorker& effect);
  void Do(const runtime::LeaveGroup& effect);
  void Do(const runtime::ContinueWorker& effect);
  void Do(const runtime::SignalWorker& effect);
  void Do(const runtime::PersistPieces& effect);
  void Do(const runtime::WriteManifest& effect);
  void Do(const runtime::CopyOut& effect);
  void Do(const runtime::FetchBack& effect);
  void Do(const runtime::SendCopies& effect);
  void Do(const runtime::SendInterval& effect);
  void Do(const runtime::ProbeWorkersNow& effect);
  void Do(const runtime::SampleWorkersNow& effect);
  void Do(const runtime::DropJob& effect);
  void Do(const runtime::PrepareFork& effect);
  void Do(const runtime::EndFork& effect);
  void Do(const runtime::KillNode& effect);

  // WorkerApiHost.
  std::optional<worker_api::WelcomeContent> Welcome(const runtime::WorkerId& worker) override;
  bool IsProcessOf(const runtime::WorkerId& worker, pid_t process) override;
  Result<std::shared_ptr<const io::SharedMemory>> Arena(const runtime::WorkerId& worker,
                                                        uint64_t bytes) override;
  void Gather(const runtime::WorkerId& worker, std::optional<checkpoint::StatePlan> plan,
              PiecesReady ready) override;
  static Result<Pieces> PlanInMemory(const checkpoint::StatePlan& plan);
  void TakeInput(runtime::AgentInput input) override;

  // The name under which a rank's arena is kept here: see proto::StartWorkers. Requires a rank of
  // `start`.
  static uint32_t ArenaOf(const proto::StartWorkers& start, uint32_t rank);
  void SpawnNow(const runtime::SpawnWorker& order);
  // Fetches the worker's state from another node first. If that fails, the worker starts without a
  // copy and reports this itself, and the controller chooses the next tier.
  void FetchThenSpawn(const runtime::SpawnWorker& order);

  using JobAttempt = std::pair<JobId, uint64_t>;

  io::EventLoop& loop_;
  const AgentOptions options_;
  const std::string component_ = "agent." + options_.node;  // in the log
  const io::OwnerLock lock_;                                // on the state directory
  const std::optional<io::UserAccount> user_;               // of the workers; none: the agent's
  runtime::AgentCore core_;
  bool stepping_ = false;
  std::deque<runtime::AgentInput> inputs_;
  io::EventLoop::TimerId timer_ = 0;

  bool connected_ = false;
  std::set<std::string> logged_reasons_;  // why no stream was opened since the last one
  std::function<void()> done_;            // set while shutting down
  std::optional<io::EventLoop::TimerId> settle_timer_;
  std::function<void()> on_released_;  // set while waiting for the controller to end the jobs
  io::EventLoop::TimerId release_timer_ = 0;
  io::EventLoop::TimerId checkpoints_timer_ = 0;

  std::map<JobAttempt, std::unique_ptr<runtime::StoreServer>> stores_;
  std::map<JobId, runtime::StartOrder> starts_;  // the newest of each job
  std::map<JobAttempt, uint64_t> intervals_;     // only if changed since the start
  std::map<runtime::WorkerId, bool> fetching_;   // not started yet; true: must not be started
  // Damaged pieces of workers that have not reported yet that they can't continue.
  std::map<runtime::WorkerId, std::vector<proto::Restore::Piece>> bad_pieces_;
  std::unique_ptr<AgentMemory> memory_;
  std::unique_ptr<SnapshotCheck> check_;
  std::unique_ptr<KernelLog> kernel_log_;  // absent: not read
  std::unique_ptr<WorkerApiServer> endpoints_;
  std::unique_ptr<WorkerLauncher> launcher_;
  std::unique_ptr<WorkerProbes> probes_;
  WorkQueue interpreters_{loop_};  // starts the Python of commands, to ask for their PyTorch
  std::unique_ptr<DiskWorker> disk_;
  std::unique_ptr<CopyWorker> copies_;
  std::unique_ptr<PeerServer> peer_server_;
  std::unique_ptr<IdentityRenewal> renewal_;  // none: without TLS
  std::unique_ptr<PeerWorker> peers_;
  std::unique_ptr<NodeChecker> checker_;
  std::unique_ptr<ControllerLink> link_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

// `longhaul agent`: runs until SIGTERM or SIGINT, which shut it down; a second signal ends it at
// once. Returns the process's exit code.
int AgentMain(const AgentOptions& options);

}  // namespace longhaul::service
