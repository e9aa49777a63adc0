// Commands of the controller to running workers: another snapshot interval, probes, and planned
// faults.
#pragma once

#include <optional>
#include <vector>

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class WorkerProcesses;

class WorkerControl {
 public:
  WorkerControl(AgentContext& context, WorkerProcesses& processes)
      : context_(context), processes_(processes) {}

  void SetInterval(const proto::SetSnapshotInterval& command);
  void Probe(const proto::ProbeWorkers& command);
  void Sample(const proto::SampleWorkers& command);
  void Inject(const proto::InjectFault& command);
  void Take(const ProbedWorkers& fact);
  void Take(const SampledWorkers& fact);
  // Whether a planned fault has stopped the worker for a time that is not over.
  bool HasStopped(const WorkerId& worker) const;
  // Continues workers that a planned fault has stopped for a time.
  void RunTimers();
  std::optional<Instant> NextDeadline() const;

 private:
  static std::vector<uint32_t> AliveRanks(const AgentJob& job, uint64_t attempt);

  AgentContext& context_;
  WorkerProcesses& processes_;
  std::vector<Resume> resumes_;
};

}  // namespace longhaul::runtime::agent
