// Carries out what the scheduler decides: verdicts become gangs, gangs leave their nodes in good
// order (vacate.cc), and jobs whose nodes are not free or not there yet wait.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class CheckpointHandler;
class AttemptStarter;
class FaultHandler;

class Placement {
 public:
  Placement(ControllerContext& context, AttemptStarter& starter, FaultHandler& faults)
      : context_(context), starter_(starter), faults_(faults) {}

  // Runs the rounds of the scheduler that are due, and tries the jobs that wait for nodes.
  void Schedule();
  // Makes the gang what the scheduler says. Returns false when a node of it can't be had yet.
  bool TakeTarget(JobRecord& job);
  // A job that ends gives its slots and its place with the scheduler back.
  void Release(JobRecord& job);
  // Whether the job waits for nodes that it was given.
  bool IsPending(const std::string& job) const { return pending_.contains(job); }

  // The workers end now, with whatever snapshot there is. Requires that the job is leaving.
  void StopForVacate(JobRecord& job);
  // Continues to leave the nodes as far as possible now; no effect when the job is not leaving.
  void AdvanceVacate(JobRecord& job);
  void OnVacateOverdue(JobRecord& job);
  // What a node of a gang that leaves is to do.
  void SendVacateCommand(const JobRecord& job, const NodeId& node);

  // Tells nodes that the job has left to release its memory, where it is of no more use: its state
  // is on disk and others work there, or it runs elsewhere with newer state.
  void FreeLeft(JobRecord& job);
  void FreeLeftOn(const NodeId& node);

 private:
  void Carry(const scheduling::Verdict& verdict);
  // A verdict that takes the nodes of the job away.
  void SendAway(JobRecord& job, const std::string& reason);
  // Continues with the job as its state is: begins, advances, decides or follows its target.
  void Proceed(JobRecord& job);
  // Starts a job whose nodes are all there and free.
  void TryBegin(JobRecord& job);
  // Leaves for the target as soon as that can be had, if it is another gang.
  void Follow(JobRecord& job);
  bool CanTake(const JobRecord& job, const NodeId& node) const;
  // The first place of the target whose node can't be had; nothing when all can.
  std::optional<NodeId> MissingNode(const JobRecord& job) const;
  void ReplaceGang(JobRecord& job);
  void NoteSize(JobRecord& job, size_t before);
  void FreeSlots(const JobRecord& job);

  void BeginVacate(JobRecord& job, Vacate::Then then, const std::string& reason);
  void FinishVacate(JobRecord& job);

  ControllerContext& context_;
  AttemptStarter& starter_;
  FaultHandler& faults_;
  bool scheduling_ = false;
  std::set<std::string> pending_;  // jobs with nodes that are not free or not there yet
};

}  // namespace longhaul::runtime::controller
