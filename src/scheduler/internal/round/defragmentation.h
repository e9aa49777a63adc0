// The pass that moves running jobs so that their free slots together hold a waiting gang.
//
// A set of moves is carried out only if the wait that it saves is worth twice the GPU-time that the
// moves lose, and if all moves so far stay within Policy::move_budget_milli of the cluster's time.
#pragma once

#include <optional>

#include "scheduler/internal/room/make_room.h"
#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class Defragmentation {
 public:
  // `context` outlives this.
  explicit Defragmentation(RoundContext& context) : context_(context) {}

  // Once per Policy::defragment_period: searches moves for the first gangs that hold a reservation,
  // and starts at most one of them.
  void Run();
  // Returns when Run searches next if nothing changes; nothing if no gang waits for long.
  static std::optional<Instant> NextRun(const SchedulerState& state);

 private:
  bool TryMoves(JobEntry& job, const Reservation& reservation);
  bool IsPossible(const JobEntry& job) const;
  bool IsWorthIt(const JobEntry& job, const Reservation& reservation, const Room& room) const;
  bool DelaysNobody(const JobEntry& job, const Room& room);

  RoundContext& context_;
};

}  // namespace longhaul::scheduler::internal
