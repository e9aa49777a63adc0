// One search for room (make_room.h): the pieces of running jobs that may be taken, the slots that
// they free, and the proof that the waiting job lands there.
//
// A search belongs to one waiting job and one state, which both outlive it. Each method leaves the
// state, and the usage of the queues, as they were before.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "scheduler/internal/placer.h"
#include "scheduler/internal/room/room.h"
#include "scheduler/internal/room/victim_candidates.h"
#include "scheduler/internal/room/victim_units.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

class RoomSearch {
 public:
  // With `also_conflicting`, candidates that the rules allow alone but not together are searched
  // too, and each set is checked against the rules.
  RoomSearch(SchedulerState& state, const JobEntry& job, Rights rights, Placer& placer,
             bool also_conflicting);

  bool dropped() const { return candidates_.dropped; }

  // Whether the limits of the job's user forbid it even with all candidates stopped: then no search
  // can succeed.
  bool UserForbids();

  // The cheapest stops (or moves, with Rights::kMove) in the lowest tier where any set suffices.
  // Nothing is found without candidates.
  Room Run();

  // For gangs of several groups, whose slots cannot be counted: starts with all candidates and
  // spares those that are not needed. The cost may not be the least.
  Room SpareFromAll();

  // For where neither stops nor moves alone suffice: the cheapest moves of other jobs once all
  // candidates are stopped; then spares the candidates that are not needed.
  Room StopsAndMoves();

 private:
  // Whether there are free slots enough by count, but the rules, or a reservation, keep the job off
  // them. More victims may then change where the job lands, so each set is tried.
  bool NeedsAnyVictim() const { return rights_ == Rights::kMove || beside_reservations_; }

  // Where the job lands. Beside reservations that is on the nodes of the victims alone, so that it
  // does not use the slots that are kept free for another job.
  Bounds LandingBounds(int32_t domain, std::span<const Victim> victims) const;

  // Adds the number of wholly free GPUs of each node of a victim of the job's own queue, before it
  // is gone.
  void AddFree(const JobEntry& victim, std::map<NodeIndex, int32_t>& free) const;

  // Whether the job, placed in the state, delays no reservation, or replaces jobs of its own queue
  // and uses no GPU that was free before. Within a queue the priority decides, and what the queue
  // holds on these nodes stays the same.
  bool Respects(const std::vector<HeldTask>& placed,
                const std::map<NodeIndex, int32_t>& free_before) const;

  // All candidates that may be stopped, the dearest first.
  std::vector<ChosenVictim> AllStops() const;

  // Drops those of the first `stops` victims without which the job still lands, by halves, and
  // marks the room as found.
  void Spare(Room& room, size_t stops);

  // The cheapest moves of other jobs that make room once these are stopped. Nothing if the free
  // slots of the whole cluster would not suffice, because moves only join them.
  Room MovesBeside(const std::vector<ChosenVictim>& stops);

  // Turns stops into moves, the largest job first, where the job finds another place.
  void Upgrade(Room& room);

  // Whether the job lands, quotas included, with these victims stopped or moved.
  bool LandsWith(const Bounds& bounds, const std::vector<ChosenVictim>& victims);

  // An elastic job gives up whole steps, counted from the end of its minimum's rest; every other
  // job is a single piece. The tasks are in the order of ranks, so a piece holds consecutive tasks.
  // A piece costs the job's cost times its share of the tasks.
  void MakePieces();

  // Counts the slots of each host with all candidates gone at once. No set of victims can free
  // more, so domains whose sum is below the need are left out without a search.
  void CountMost();

  // The required tier; else the lowest that could hold the gang, and each one above.
  // A spread group may need several domains of its tier, so the search begins one tier above it. A
  // single task fits on a host.
  std::vector<Tier> Tiers() const;

  // The domains of the tier that could hold the job once all candidates are gone, each with the
  // pieces on its hosts.
  void MakeDomains(Tier tier);

  // Adds the pieces that hold no counted slot in the domain, but perhaps cpu, or quota anywhere.
  void AddOthers(Tier tier, VictimDomain& domain) const;

  Bounds BoundsOf(int32_t domain) const;

  // What one victim gives back: of a job that shrinks, the tasks that leave.
  share::Holding GivenBackBy(const JobEntry& other, const ChosenVictim& victim) const;

  // What these victims give back.
  std::vector<share::Holding> GivenBack(std::span<const Victim> victims) const;

  // Whether no queue has less than its guarantee once all of them are gone. The order does not
  // matter, and a superset of a set that is not allowed is not allowed either. Each victim is
  // checked with all others gone: it is added back, the check runs against the usage that remains,
  // and it is removed again. Victims of the job's own queue need no check, because a guarantee does
  // not protect a queue from itself.
  bool RightsAllow(std::span<const Victim> victims);

  // Whether quotas allow the job once the victims have given back what they hold.
  bool QuotaAllows(std::span<const Victim> victims);

  // The proof of one set: quotas first, which cost no placement, then the placement itself in the
  // state, which is rolled back. For moves the victims must find places too.
  bool Lands(int32_t domain, std::span<const Victim> victims);

  ChosenVictim Chosen(const Victim& victim) const;

  SchedulerState& state_;
  const JobEntry& job_;
  Rights rights_;
  bool also_conflicting_;
  Placer& placer_;
  Admit admit_;
  bool beside_reservations_;  // the job waits for room that is reserved for another one
  VictimCandidates candidates_;
  std::vector<int32_t> counts_;
  std::vector<VictimJob> jobs_;
  std::vector<VictimPiece> pieces_;
  std::vector<std::vector<int32_t>> piece_ranks_;
  std::map<NodeIndex, std::vector<PieceTask>> tasks_on_;
  std::vector<int32_t> most_on_;  // by host
  bool quota_blocked_ = false;
  Tier tier_ = kClusterTier;
  std::vector<VictimDomain> domains_;
};

}  // namespace longhaul::scheduler::internal
