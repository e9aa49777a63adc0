// Where moved tasks go, and in which order: the plan of a defragmentation.
//
// FindPlaces packs the moved tasks onto hosts with room: first fit, largest first, hosts in the
// caller's order of preference, then branch and bound; deterministic. OrderMoves then puts moves in
// an order in which every target is free before its move starts. Moves wait for each other like
// cars at a crossing: when all wait, one is parked on a spare host if there is room, else it is
// suspended to memory or disk and resumed at its target. The task to break a circle is the
// cheapest.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace longhaul::scheduler {

struct MovedTask {
  int32_t job = 0;
  int32_t from = 0;   // host
  int32_t slots = 1;  // what it takes on a host, at least 1
  int64_t cost = 0;   // of moving it once; only to choose what to park or suspend
};

// One target a task, or nothing when there is none, or none was found within the steps (then
// *proven is false). `room` is each host's free slots with the moved tasks gone; `preference`
// lists the hosts that may receive, best first. A task may stay where it is only if its host is
// listed.
std::optional<std::vector<int32_t>> FindPlaces(std::span<const MovedTask> tasks,
                                               std::span<const int32_t> room,
                                               std::span<const int32_t> preference,
                                               int64_t max_steps, bool* proven);

enum class MoveStep {
  kMove,     // start at `host`, then stop where it was
  kPark,     // the same, on a host that is not its target
  kSuspend,  // stop; the state goes to memory or disk
  kResume,   // start at `host`, from the state
};

struct MoveAction {
  MoveStep step = MoveStep::kMove;
  int32_t task = 0;  // index into the tasks
  int32_t host = 0;  // where it starts; for kSuspend where it stopped
  friend bool operator==(const MoveAction&, const MoveAction&) = default;
};

// `free` is each host's free slots now, `targets` one host a task, `spares` hosts where tasks may
// wait in passing. Requires that all targets together have room once all tasks have left. Tasks
// whose target is their host don't appear.
std::vector<MoveAction> OrderMoves(std::span<const MovedTask> tasks,
                                   std::span<const int32_t> targets, std::span<const int32_t> free,
                                   std::span<const int32_t> spares);

}  // namespace longhaul::scheduler
