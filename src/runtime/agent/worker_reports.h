// Reports of workers: each one becomes an event once all local ranks have made it.
#pragma once

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class NodeSnapshots;

class WorkerReports {
 public:
  WorkerReports(AgentContext& context, NodeSnapshots& snapshots)
      : context_(context), snapshots_(snapshots) {}

  void Take(const WorkerPhase& fact);
  void Take(const WorkerStep& fact);
  void Take(const WorkerSealed& fact);
  void Take(const WorkerWaitsForSlot& fact);
  void Take(const WorkerRestored& fact);
  void Take(const WorkerRestoreFailed& fact);
  void Take(const WorkerResultText& fact);
  void Take(const WorkerOutputStep& fact);
  void Take(const WorkerQuiet& fact);
  void Take(const ReadyReport& fact);

 private:
  AgentContext& context_;
  NodeSnapshots& snapshots_;
};

}  // namespace longhaul::runtime::agent
