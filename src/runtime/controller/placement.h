// Carries out the scheduler's decisions: starts gangs, lets gangs vacate their nodes (vacate.cc),
// and keeps jobs waiting whose nodes are not free or have not joined yet.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class CheckpointHandler;
class AttemptStarter;
class FaultHandler;
class JobCloser;
class RunTimeLimits;

class Placement {
 public:
  Placement(ControllerContext& context, AttemptStarter& starter, FaultHandler& faults,
            JobCloser& closer, RunTimeLimits& run_times)
      : context_(context),
        starter_(starter),
        faults_(faults),
        closer_(closer),
        run_times_(run_times) {}

  // Runs the rounds of the scheduler that are due, and tries to start the jobs that wait for nodes.
  void Schedule();
  // Sets the gang to the scheduler's target. Returns false when one of its nodes is not available
  // yet.
  bool TakeTarget(JobRecord& job);
  // The job ends: returns its slots and removes it from the scheduler.
  void Release(JobRecord& job);
  // Whether the job waits for nodes that are assigned to it.
  bool IsPending(const std::string& job) const { return pending_.contains(job); }

  // The job takes a last snapshot, leaves its nodes and ends as stopped. Requires that it has
  // nodes.
  void BeginEnding(JobRecord& job, const std::string& reason);
  // Ends the workers now, with the snapshot that exists. Requires that the job is leaving.
  void StopForVacate(JobRecord& job);
  // Advances the departure as far as possible now; no effect when the job is not leaving.
  void AdvanceVacate(JobRecord& job);
  void OnVacateOverdue(JobRecord& job);
  // Sends the node of a leaving gang the command for its present stage.
  void SendVacateCommand(const JobRecord& job, const NodeId& node);

  // Orders nodes that the job has left to release its memory where it is of no more use: its state
  // is on disk and others work there, or it runs elsewhere with newer state.
  void FreeLeft(JobRecord& job);
  void FreeLeftOn(const NodeId& node);

 private:
  void Carry(const scheduling::Verdict& verdict);
  // The verdict removes the nodes of the job.
  void SendAway(JobRecord& job, const std::string& reason);
  // Takes the next step for the job's state: begins, advances, decides or follows its target.
  void Proceed(JobRecord& job);
  // Starts a job whose nodes are all available.
  void TryBegin(JobRecord& job);
  // Leaves for the target, if it is another gang, as soon as it is available.
  void Follow(JobRecord& job);
  bool CanTake(const JobRecord& job, size_t place) const;
  // Sets the target to the scheduler's decision.
  void TakePlaces(JobRecord& job);
  // The workers of a leaving gang have ended: others may take its devices, so that two gangs that
  // exchange devices do not block each other. It holds its slots until it has its next place.
  void FreeDevices(JobRecord& job);
  // The scheduler was made anew and may have chosen other devices for running jobs.
  void NoteNewDevices();
  bool OwnDevicesFree(const JobRecord& job, size_t place) const;
  // Returns the first node of the target that is not available; nothing when all are.
  std::optional<NodeId> MissingNode(const JobRecord& job) const;
  void ReplaceGang(JobRecord& job);
  void NoteSize(JobRecord& job, size_t before);
  // The gang or its nodes have changed: from now on the job holds these accelerators.
  void NoteUsage(const JobRecord& job);
  void FreeSlots(const JobRecord& job);

  void BeginVacate(JobRecord& job, Vacate::Then then, const std::string& reason);
  void FinishVacate(JobRecord& job);
  void EndVacated(JobRecord& job);

  ControllerContext& context_;
  AttemptStarter& starter_;
  FaultHandler& faults_;
  JobCloser& closer_;
  RunTimeLimits& run_times_;
  bool scheduling_ = false;
  std::set<std::string> pending_;  // jobs whose nodes are not free or have not joined yet
};

}  // namespace longhaul::runtime::controller
