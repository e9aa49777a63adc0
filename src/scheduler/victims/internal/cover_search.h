// Branch and bound over the jobs and pieces of one domain (see victim_search.h).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/victims/internal/cover.h"
#include "scheduler/victims/internal/small_components.h"

namespace longhaul::scheduler::internal {

class CoverSearch {
 public:
  // What the search spends, over all domains.
  struct Budget {
    int64_t steps = 0;
    int64_t max_steps = 0;
    int64_t proofs = 0;
    int64_t max_proofs = 0;
  };
  using Proof = std::function<bool(const Selection&)>;

  // Searches the slots of the components in `branched`; `rest` frees the others. Without `rest`,
  // all components must be in `branched`.
  CoverSearch(const Cover& cover, const std::vector<Component>& components,
              const std::vector<size_t>& branched, const SmallComponents* rest, Budget& budget);

  // The cheapest selection below `below` that frees enough, and that `proof` accepts where it is
  // given. cost == kNoCost: none.
  Selection Run(int64_t below, const Proof* proof);

  // After Run: no such selection costs less (kNoCost: there is none). Exact unless steps ran out.
  int64_t bound() const { return bound_; }

  // A bound before any search.
  int64_t RootBound();

 private:
  enum State : uint8_t { kOpen, kGone, kKept };
  struct Look {
    int32_t freed = 0;
    int64_t bound = kNoCost;
    int32_t branch_piece = -1;  // a holder of the cheapest slot
  };

  void Descend();
  Look LookAround();
  // Fills held_ and the counts of what could still be freed; returns the slots freed already.
  int32_t CountAlive();
  // Fills price_ of every job at every slot: at first its cost in equal parts.
  void SharePrices(int32_t missing);
  // Moves parts from slots that are dearer than any needed to the job's other slots.
  void ShiftPrices(int64_t threshold);
  // The least cost when `missing` more slots must go, by the prices.
  int64_t PriceBound(int32_t missing);
  // What freeing a piece from a slot costs at least, in 2^-kShift units.
  int64_t Share(int32_t piece, int32_t wanted) const;
  bool OutOfBudget() const {
    return budget_.steps >= budget_.max_steps || budget_.proofs >= budget_.max_proofs;
  }
  void Consider(int32_t freed);
  State PieceState(int32_t piece) const;
  void Try(int32_t piece, bool shrink);
  void TryWhole(int32_t job);

  const Cover& cover_;
  const SmallComponents* rest_;
  Budget& budget_;
  const Proof* proof_ = nullptr;
  std::vector<int32_t> slots_;
  std::vector<int32_t> jobs_;
  int64_t cost_ = 0;
  int64_t below_ = kNoCost;
  int64_t bound_ = kNoCost;  // least bound of a node that was not searched
  Selection best_;
  std::vector<State> job_;             // kKept: not stopped as a whole
  std::vector<State> piece_;           // given up, or not given up alone
  std::vector<int32_t> shrunk_;        // [job]
  std::vector<int32_t> alive_of_job_;  // slots that could still be freed
  std::vector<int32_t> alive_of_piece_;
  std::vector<int32_t> last_slot_;  // [job], to count a slot once

  // A job at a slot that could still be freed, where the job isn't gone; slots one after another.
  struct Held {
    int32_t job = 0;
    int32_t piece = 0;
    int64_t price = 0;
    bool divisible = false;  // the parts of its job's cost may be moved between its slots
  };
  std::vector<Held> held_;
  std::vector<int32_t> first_held_;  // [slot that could be freed], with the end
  std::vector<int64_t> sum_;         // [slot that could be freed]: of its prices
  std::vector<int64_t> sorted_;
  std::vector<int64_t> spare_;  // [job]
  std::vector<int32_t> cheap_;  // [job]: slots that can take what is spare
};

}  // namespace longhaul::scheduler::internal
