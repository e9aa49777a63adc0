// Starts the workers of a job: opens an attempt, chooses its restore source, orders the store and
// the workers, and follows them until they step.
#pragma once

#include <cstdint>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class CheckpointHandler;
class FaultHandler;
class StartChecks;

// How long a new attempt may take until its first step. Where the first node fetches a checkpoint
// before it opens the store, this includes the transfer.
Duration StartLimitOf(const JobRecord& job, const ControllerOptions& options);

class AttemptStarter {
 public:
  AttemptStarter(ControllerContext& context, CheckpointHandler& checkpoints, FaultHandler& faults,
                 StartChecks& checks)
      : context_(context), checkpoints_(checkpoints), faults_(faults), checks_(checks) {}

  // Begins a new attempt. Everything of lower attempts is void from now on.
  void OpenAttempt(JobRecord& job);
  // The check before the start has ended: orders the store.
  void Proceed(JobRecord& job);
  // The command that starts the workers of a place in the present attempt.
  proto::StartWorkers StartOf(const JobRecord& job, size_t place) const;
  // A node of the gang has reconnected: it receives its start commands again.
  void StartAgain(const JobRecord& job, size_t place);
  void OnStoreOpened(const proto::Event& event);
  void OnWorkersStarted(const proto::Event& event);
  void OnPhaseEntered(const proto::Event& event);

  // The controller has started again.
  void WatchStartsAgain();

 private:
  // Sets the deadline of the start, or of its present phase.
  void WatchStart(const JobRecord& job);
  void SendOpenStore(const JobRecord& job);
  void SendStart(const JobRecord& job, size_t place);
  // The node that keeps copies of a place's snapshots; null: none.
  const Node* PeerOf(const JobRecord& job, size_t place) const;

  ControllerContext& context_;
  CheckpointHandler& checkpoints_;
  FaultHandler& faults_;
  StartChecks& checks_;
};

}  // namespace longhaul::runtime::controller
