// The processes of the workers: their rendezvous store, their start and end, and the release of
// jobs whose last worker has ended.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class NodeSnapshots;

class WorkerProcesses {
 public:
  WorkerProcesses(AgentContext& context, NodeSnapshots& snapshots)
      : context_(context), snapshots_(snapshots) {}

  void OpenStore(const proto::OpenStore& command);
  void StartWorkers(const proto::StartWorkers& command);
  void KillWorkers(const proto::KillWorkers& command);
  void Forget(const proto::ForgetJob& command);
  void Prepare(const proto::PrepareJobs& command);
  void Take(const TorchFound& fact);
  void Take(const StoreListening& fact);
  void Take(const WorkerForked& fact);
  void Take(const WorkerGone& fact);
  void Take(const WorkerContinues& fact);
  void Take(const WorkerLeft& fact);
  void Take(const ShutDownAsked& fact);
  // Kills workers whose grace period is over, and processes that were kept for too long.
  void RunTimers();
  void SignalOne(const JobId& id, uint64_t attempt, uint32_t rank, int signal);
  // Drops a job that is to be forgotten, unless work for it is still under way.
  void MaybeDrop(const JobId& id);

 private:
  void Spawn(const JobId& id, AgentJob& job, const StartOrder& start);
  void KillNow(const JobId& id, Attempt& attempt);
  void ReleaseUpTo(const JobId& id, AgentJob& job, uint64_t highest);
  void Release(const JobId& id, AgentJob& job, Attempt& attempt);
  void Keep(const JobId& id, AgentJob& job, Attempt& attempt, uint32_t rank);
  void EndKept(AgentJob& job);
  void Terminate(const JobId& id, Attempt& attempt, Duration grace);
  void ReportFailedStart(const std::string& job, uint64_t attempt, const std::string& reason,
                         bool permanent);
  void AfterEnd(const JobId& id, uint64_t attempt);

  AgentContext& context_;
  NodeSnapshots& snapshots_;
};

}  // namespace longhaul::runtime::agent
