// The simulated training job: phases, steps and snapshots of its workers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class SimNodes;

class SimTraining {
 public:
  SimTraining(World& world, SimNodes& machines) : world_(world), machines_(machines) {}

  void EnterPhase(size_t node, const WorkerId& worker, proto::PhaseEntered::Phase phase);
  void StopStretch();      // the first worker has been stopped
  void ContinueStretch();  // no worker is stopped any more
  // `unseen`: no connection of the worker is closed, so the others only wait for it.
  void WorkerGoneFromAttempt(const SimWorker& worker, bool unseen = false);

 private:
  // The time by which slow links make each step longer.
  Duration LinkDelay() const;
  // The time until the groups can be formed over all links.
  Duration Outage() const;
  void Join(size_t node, const WorkerId& worker);
  // Whether a worker on the node stops for ever in this phase.
  bool IsBroken(const SimNode& node, proto::PhaseEntered::Phase phase) const;
  void Jam(size_t node, const WorkerId& worker);
  void PhaseComplete(proto::PhaseEntered::Phase phase);
  void RestoreState(size_t node, const WorkerId& worker);
  void BeginStretch();
  // All steps are done: the workers end well.
  void Finish();
  void EndStretch(uint64_t attempt, uint64_t first, uint64_t last, bool snapshot);
  void WaitForSlot(uint64_t attempt, uint64_t first, uint64_t last, Duration waited);
  // The rank whose loss is NaN in one of these steps, because of its device; nothing: none.
  std::optional<uint32_t> RankWithNan(uint64_t first, uint64_t last);
  void ReportSteps(uint64_t first, uint64_t last, bool snapshot);
  void Seal();
  proto::RankContent ContentOf(uint32_t rank) const;
  uint64_t StateOf(uint32_t rank, uint32_t world) const;
  // Each returns why the worker's source can't be restored; empty when it can.
  std::string WhyNotFromMemory(const SimNode& node, uint64_t step);
  std::string WhyNotFromPeer(const WorkerId& worker, const proto::Restore& restore);
  std::string WhyNotInPieces(const SimWorker& worker, std::vector<proto::Restore::Piece>& bad);
  std::string WhyNotFromDisk(const proto::Restore& restore);
  template <typename Action>
  void ForEachPlace(Action action);  // (rank, node index) of the present attempt, living workers

  World& world_;
  SimNodes& machines_;
  uint64_t nan_step_ = 0;     // the newest at which a device has computed NaN
  bool slot_waited_ = false;  // the wait for a slot (slot_wait_step) has begun
};

}  // namespace longhaul::runtime::simulation
