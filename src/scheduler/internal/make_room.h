// Room for a gang that has a right to it: whom to shrink, suspend or stop, proven to land.
//
// Candidates are running jobs of the same queue with a lower priority, and jobs of other queues
// that hold what those borrowed while the gang stays within its own queue's guarantee. The cost of
// a candidate is what stopping it loses: its cards times the time since its last snapshot and its
// restart, and more for a higher priority. The search (victims/victim_search.h) finds the cheapest
// set; each set is proven by placing the gang in a transaction that is undone.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/internal/placer.h"
#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

struct ChosenVictim {
  JobNumber job = kNoJob;
  Means means = Means::kEvict;
  std::vector<int32_t> ranks;  // kShrink: which leave
};

struct Room {
  bool found = false;
  int64_t cost_card_ms = 0;
  std::vector<ChosenVictim> victims;
  Bounds bounds;  // where the gang lands
  int64_t steps = 0;
};

// Whose tasks may be taken.
enum class Rights : uint8_t {
  kOwn,       // the claimant's by queue and priority, within budgets
  kOperator,  // anybody's: for explanations, which name what an operator could do
};

// Victims for the job's minimum. The state is as before afterwards.
Room FindRoom(Books& books, const Job& job, Rights rights, Placer& placer);

// What stopping a running job loses, in card-milliseconds.
int64_t LossOfStopping(const Books& books, const Job& job);

}  // namespace longhaul::scheduler::internal
