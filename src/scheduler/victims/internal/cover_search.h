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
  // Of these pieces (of the cover) at least one must go.
  using Clause = std::vector<int32_t>;

  // Searches the hosts of the components in `branched`; `rest` frees the others. Without `rest`,
  // all components must be in `branched`.
  CoverSearch(const Cover& cover, const std::vector<Component>& components,
              const std::vector<size_t>& branched, const SmallComponents* rest, Budget& budget);

  // Before Run: what must go, and which selections may not be entered, nor any with more in them.
  // Both outlive the search; not together with `rest`.
  void Require(std::vector<Clause>* clauses) { clauses_ = clauses; }
  void Forbid(const Proof* may_take) { may_take_ = may_take; }
  // What the proof refuses yields another clause, which is added to those required. An empty one
  // ends the search unproven.
  using Learn = std::function<Clause(const Selection&)>;
  void LearnBy(const Learn* learn) { learn_ = learn; }

  // The cheapest selection below `below` that frees enough and meets the clauses, and that `proof`
  // accepts where it is given. cost == kNoCost: none.
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
    int32_t branch_piece = -1;  // a holder of the cheapest slot, or of a clause
    bool clauses_met = true;
  };

  void Descend();
  Look LookAround();
  // A host where more slots could be freed.
  struct AliveHost {
    int32_t first = 0;  // of alive units
    int32_t last = 0;
    int64_t rem = 0;   // free and of no use yet
    int32_t room = 0;  // slots that more could make
  };
  // Fills held_ and the counts of what could still be freed; returns the slots freed already.
  int32_t CountAlive();
  // Appends the host's alive units, and returns the slots that it has freed already.
  int32_t CountHost(const Cover::Host& host);
  void AddAlive(int32_t unit);
  // Fills the price of every job at every unit: at first its cost in equal parts.
  void SharePrices(int32_t missing);
  // Moves parts from units that are dearer than any needed to the job's other units.
  void ShiftPrices(int64_t threshold);
  // Fills marginals_ from the prices: each host's slots, the cheapest first. Returns the host with
  // the cheapest one, -1 where there is none.
  int32_t MarginalSlots();
  // What the clauses cost at least beyond cost_ (kNoCost: one cannot be met), and what to decide.
  int64_t ClauseBound(Look& look);
  // The cheapest way to let a piece go from here; kNoCost: none.
  int64_t CostToFree(int32_t piece) const;
  bool MayEnter() const;
  Selection Chosen() const;
  int32_t DearestHolder(const AliveHost& host) const;
  // The least cost when `missing` more slots must go, by the prices.
  int64_t PriceBound(int32_t missing);
  // What freeing a piece from a unit costs at least a weight, in 2^-kShift of a cost.
  int64_t Share(int32_t piece, int64_t wanted) const;
  bool OutOfBudget() const {
    return budget_.steps >= budget_.max_steps || budget_.proofs >= budget_.max_proofs;
  }
  // True when a clause was learnt from it.
  bool Consider(int32_t freed);
  State PieceState(int32_t piece) const;
  void Try(int32_t piece, bool shrink);
  void TryWhole(int32_t job);

  const Cover& cover_;
  const SmallComponents* rest_;
  Budget& budget_;
  const Proof* proof_ = nullptr;
  std::vector<int32_t> hosts_;
  std::vector<int32_t> jobs_;
  int64_t cost_ = 0;
  int64_t below_ = kNoCost;
  int64_t bound_ = kNoCost;  // least bound of a node that was not searched
  Selection best_;
  std::vector<State> job_;             // kKept: not stopped as a whole
  std::vector<State> piece_;           // given up, or not given up alone
  std::vector<int32_t> shrunk_;        // [job]
  std::vector<int64_t> alive_of_job_;  // weight that could still be freed
  std::vector<int64_t> alive_of_piece_;
  std::vector<int32_t> last_unit_;  // [job], to count a unit once
  std::vector<Clause>* clauses_ = nullptr;
  const Learn* learn_ = nullptr;
  const Proof* may_take_ = nullptr;

  // A job at a unit that could still be freed, where the job isn't gone; units one after another.
  struct Held {
    int32_t job = 0;
    int32_t piece = 0;
    int64_t price = 0;       // a weight
    bool divisible = false;  // the parts of its job's cost may be moved between its units
  };
  std::vector<Held> held_;
  std::vector<int32_t> first_held_;  // [unit that could be freed], with the end
  std::vector<int64_t> weight_;      // [unit that could be freed]
  std::vector<int64_t> sum_;         // [unit that could be freed]: of its prices
  std::vector<AliveHost> alive_hosts_;
  std::vector<int64_t> marginals_;
  std::vector<std::pair<int64_t, int64_t>> by_price_;  // of one host
  std::vector<State> unit_state_;                      // of one host
  std::vector<int64_t> spare_;                         // [job]
  std::vector<int64_t> cheap_;                         // [job]: weight that can take what is spare
};

}  // namespace longhaul::scheduler::internal
