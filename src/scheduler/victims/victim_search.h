// Whom to stop so that a gang can start: the cheapest set of victims, per domain, proven to land.
//
// A job holds slots through pieces. Stopping the job (by move, suspension or eviction, whichever is
// cheapest and allowed) frees all its pieces for `cost`; an elastic job can instead give up single
// pieces for their own costs, as many as its minimum allows. A slot is free when all who hold it
// are gone, and a domain serves when `need` more of its slots are free and the caller's proof, a
// placement in a scratch transaction, succeeds.
//
// Jobs that share no slot with others form components of their own. A component's cost for each
// number of freed slots is found by enumeration where it is small, and the components are joined by
// a covering knapsack: exact, candidates x need steps. Large components are searched by branch and
// bound, cheapest slot first, dearest holder first; a slot's bound is the sum over its holders of
// cost over slots held in the domain, which no set of victims can undercut. Domains are searched in
// order of their bounds. When a set doesn't land, the proof may name freed slots that the gang
// could not use whoever else left; they are dropped and the domain is searched once more. When it
// names none (the gang's rules ask for more than a count), the search goes on with the next best
// set.
//
// What is guaranteed: while the steps last and every refusal names a slot, the cost is the least
// there is. `proven` says so of each answer; of 10,000 random cases of up to 64 jobs every one was
// proven at the default limits (victim_search_judge_test.cc). Past the limits the best set is
// returned with `bound`, below which no set that lands can be.
//
// Left out: who may be a victim at all (queues, budgets, priorities): the caller passes only those.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace longhaul::scheduler {

enum class Means { kShrink, kMove, kSuspend, kEvict };

constexpr int64_t kMaxVictimCost = int64_t{1}
                                   << 40;  // lost accelerator-milliseconds, with priority

struct VictimJob {
  int64_t cost = 0;  // to free all its pieces, by `means`
  Means means = Means::kEvict;
  int32_t max_shrunk = 0;  // pieces it can give up and go on
};

// A part of a job that holds slots: the whole of it, or one replica of an elastic job.
struct VictimPiece {
  int32_t job = 0;
  int64_t shrink_cost = -1;  // negative: can't be given up alone
};

struct VictimDomain {
  int32_t id = 0;    // the caller's; ties go to the lower one
  int32_t need = 0;  // slots that must become free, at least 1
  // Slots that victims could free; the pieces that hold slot s are
  // holders[first_holder[s] .. first_holder[s + 1]), each once, at least one. Slots that
  // someone untouchable holds are not listed.
  std::vector<int32_t> first_holder;
  std::vector<int32_t> holders;
};

struct Victim {
  int32_t job = 0;
  Means means = Means::kEvict;
  std::vector<int32_t> pieces;  // kShrink: those given up, ascending; else empty, meaning all
};

struct VictimAnswer {
  bool found = false;
  int32_t domain = -1;  // index into `domains`
  int64_t cost = 0;
  int64_t bound = 0;            // no set that lands costs less
  bool proven = false;          // cost == bound; or no set lands at all
  std::vector<Victim> victims;  // ascending by job
  int64_t steps = 0;
  int64_t proofs = 0;  // times `lands` was asked
};

struct VictimLimits {
  int64_t max_steps = 10'000'000;  // of branch and bound and enumeration, all domains together
  int64_t max_proofs = 2'000;
};

struct Landing {
  Landing(bool lands_in) : lands(lands_in) {}  // NOLINT: a plain answer is the usual one
  explicit operator bool() const { return lands; }

  bool lands = false;
  // Where it doesn't land: slots of the domain that are of no use to the gang, whoever leaves.
  std::vector<int32_t> useless;
};

// Whether the gang can be placed in the domain (an index) once these victims are gone. Must not
// depend on anything but its arguments; more victims must never make it false.
using Lands = std::function<Landing(int32_t domain, std::span<const Victim> victims)>;

// Requires costs in [0, kMaxVictimCost] and indices in range. After the search each victim, the
// dearest first, is spared if the rest still frees enough and lands.
VictimAnswer FindVictims(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
                         std::span<const VictimDomain> domains, const Lands& lands,
                         const VictimLimits& limits = {});

// Drops victims that aren't needed, dearest first, whole jobs before pieces; what stays lands.
// Where answer.bound says that nothing is cheaper, only victims that cost nothing can be.
void Reprieve(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
              const VictimDomain& domain, int32_t domain_index, const Lands& lands,
              VictimAnswer& answer);

}  // namespace longhaul::scheduler
