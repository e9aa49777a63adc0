// What could be changed so that a waiting job starts: for explanations, which try each of these on
// copies and name the one that holds.
//
// Each relaxation is one kind of change; its alternatives are worked out for the state as it is, so
// that a second change is chosen for what the first has left. The order of the kinds is their
// weight: what disturbs least comes first.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/event.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// One thing that could be changed.
struct Change {
  std::string text;
  std::vector<Event> events;
};

enum class Relaxation : uint8_t {
  kExpedite,
  kOtherModels,
  kTopology,
  kSpread,
  kLinks,
  kLimit,
  kReturnNodes,
  kFewer,
  kEvict,
};
constexpr int kRelaxations = 9;

std::string TierText(Tier tier);       // "one leaf"
std::string TasksText(int64_t count);  // "1 task"
// "at most 2 in one leaf". Requires a group that is spread.
std::string SpreadText(const GroupRequest& group);

// The alternatives of a relaxation for a waiting job. The state is as before afterwards, but for
// what only makes answers faster.
std::vector<Change> AlternativesOf(Relaxation relaxation, SchedulerState& state, Placer& placer,
                                   const JobEntry& job);

// Whether the job, tried before all others, could start now or make itself room by its own rights,
// promises to others aside: what can't is not started by a round either, unless that round frees
// room itself.
bool CouldStart(SchedulerState& state, Placer& placer, const JobEntry& job);

}  // namespace longhaul::scheduler::internal
