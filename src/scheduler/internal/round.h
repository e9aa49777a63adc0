// One round of decisions over the state. scheduler.h says in which order things happen.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/decision.h"
#include "scheduler/internal/make_room.h"
#include "scheduler/internal/placer.h"
#include "scheduler/share/fair_order.h"

namespace longhaul::scheduler::internal {

class Round {
 public:
  Round(SchedulerState& state, Placer& placer, int64_t steps)
      : state_(state), placer_(placer), steps_(steps) {}

  std::vector<Decision> Run();
  bool unfinished() const { return steps_ <= 0; }

 private:
  // Confirmations and repairs (round.cc).
  void Settle();
  // Gangs that lost tasks (round_repair.cc).
  void Repair();
  void RepairJob(JobEntry& job);
  bool QuotaIsLeft(const JobEntry& job) const;
  bool RepairByPlan(JobEntry& job);
  bool Replace(JobEntry& job);
  bool ReplaceOn(JobEntry& job, const std::vector<HostTasks>& hosts, bool whole_gang);
  void SayRepaired(JobEntry& job, const std::vector<HeldTask>& placed);
  bool ShrinkToSurvivors(JobEntry& job);

  // Waiting jobs (round_walk.cc).
  void Walk();
  bool TryStart(JobEntry& job);
  bool StartWith(JobEntry& job, std::vector<int32_t> counts, Admit admit);
  int32_t CountFor(JobEntry& job, Admit admit);
  void Start(JobEntry& job, std::vector<HeldTask> tasks);
  JobNumber HeadOf(share::QueueIndex queue, bool preempting);
  bool Parked(const Line& line, bool preempting) const;
  share::FairOrder OrderNow(bool preempting) const;

  // Reservations (round_reserve.cc).
  void Reserve(JobEntry& job);
  void FillReservations();
  void RefreshReservations();
  void Publish(const Reservation& reservation);
  void Unreserve(JobNumber job);

  // Room (round_preempt.cc).
  void MakeRoom();
  bool TryMakeRoom(JobEntry& job);
  bool FindsRoom(JobEntry& job);
  void NoteSpared(const JobEntry& job);
  void Stop(JobNumber victim, const ChosenVictim& how, const JobEntry& winner,
            uint64_t transaction);

  // Moves (round_move.cc).
  void Defragment();
  bool BuyMoves(JobEntry& job, const Reservation& reservation);
  // Carries out what FindRoom proved: stops, shrinks and moves, and the start between them.
  void MakeTheRoom(JobEntry& job, const Room& room, uint64_t transaction);
  void SayMoved(JobEntry& job);

  // Elasticity (round_grow.cc).
  void Grow();
  bool PlanLands(const std::vector<std::pair<JobNumber, int32_t>>& counts);
  bool GrowBy(JobEntry& job, int32_t tasks);
  void ShrinkBy(JobEntry& job, int32_t tasks);

  std::vector<JobId> Leaving(const std::vector<HeldTask>& tasks, const JobEntry& job) const;
  Decision& Say(DecisionKind kind, uint64_t transaction, const JobEntry& job);

  // For gangs of one GPU: who may be stopped, by queue, cheapest first.
  struct OneGpuVictims {
    struct OfQueue {
      std::vector<std::pair<int64_t, JobNumber>> jobs;  // (cost, job)
      size_t next = 0;
    };
    std::map<share::QueueIndex, OfQueue> queues;
    // Nobody shares a GPU or could give up a part: whoever has a GPU frees it alone.
    bool plain = true;
  };
  OneGpuVictims& VictimsOf(const JobEntry& job);
  bool MayTake(const JobEntry& job, const spec::SharedAmounts& asked, const JobEntry& other) const;
  NodeIndex LandingWithout(const JobEntry& job, const spec::SharedAmounts& asked,
                           const JobEntry& other);
  enum class OneGpu : uint8_t { kStarted, kNobody, kToSearch };
  OneGpu TakeOneGpu(JobEntry& job, const spec::SharedAmounts& asked);

  // The lines of a queue by the turn of their first jobs, the next one on top. Good while nothing
  // opens a line again.
  struct Turns {
    struct Head {
      uint32_t line = 0;
      JobNumber first = kNoJob;
    };
    bool preempting = false;
    Seen seen;
    std::vector<Head> heads;
  };
  void Fill(share::QueueIndex queue, bool preempting, Turns& turns) const;

  SchedulerState& state_;
  Placer& placer_;
  int64_t steps_;
  std::map<share::QueueIndex, Turns> turns_;
  std::map<std::pair<share::QueueIndex, int32_t>, OneGpuVictims> one_gpu_;
  std::vector<JobNumber> begun_;  // placed by this round, which takes nothing from them
  std::vector<Decision> decisions_;
};

}  // namespace longhaul::scheduler::internal
