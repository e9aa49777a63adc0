// Whom to stop so that a gang can start: the cheapest set of victims, per domain, proven to land.
//
// A job holds slots through pieces. Stopping the job (by move, suspension or eviction, whichever is
// cheapest and allowed) frees all its pieces for `cost`; an elastic job can instead give up single
// pieces for their own costs, as many as its minimum allows. A slot is free when all who hold it
// are gone, and a domain serves when `need` more of its slots are free and the caller's proof, a
// placement in a scratch transaction, succeeds.
//
// Where a slot needs several GPUs of one host (`units` of weight), a host's freed slots are a
// floor of what its gone holders give back with what is idle there; bounds then use the parts of
// each.
//
// Jobs that share no host with others form components of their own. A component's cost for each
// number of freed slots is found by enumeration where it is small, and the components are joined by
// a covering knapsack: exact, candidates x need steps. Large components are searched by branch and
// bound, cheapest slot first, dearest holder first; a slot's bound is the sum over its holders of
// cost over what they hold in the domain, which no set of victims can undercut. Domains are
// searched in order of their bounds. The count may be too hopeful: a gang's rules ask for more than
// slots. A set that the proof refuses teaches a clause: it is grown while it stays refused, and of
// those left out at least one must go. The cheapest set that frees enough and meets every clause is
// the next one to prove (implicit hitting sets: Moreno-Centeno and Karp, Operations Research 2013),
// so the first that lands is the cheapest. Sets that rights forbid are never entered.
//
// What is guaranteed: while the steps last, the cost is the least there is, whatever the proof asks
// for beyond the count. `proven` says so of each answer (victim_search_exact_test.cc, and
// ../scheduler_exact_test.cc through class Scheduler). Past the limits the best set known is
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
  int32_t max_shrunk = 0;  // pieces it can give up and continue
  bool may_stop = true;    // else it can only give up pieces
};

// A part of a job that holds slots: the whole of it, or one replica of an elastic job.
struct VictimPiece {
  int32_t job = 0;
  int64_t shrink_cost = -1;  // negative: can't be given up alone
};

// Where units become slots: `each` of VictimDomain, from one host.
struct VictimHost {
  int32_t last_unit = 0;  // its units are those from the last host's to this
  int64_t loose = 0;      // idle there already, less than a slot or of no use alone
  int32_t most = 1;       // slots that can become free at most
};

struct VictimDomain {
  int32_t id = 0;    // the caller's; ties go to the lower one
  int32_t need = 0;  // slots that must become free at least
  // What victims could free; the pieces that hold unit u are
  // holders[first_holder[u] .. first_holder[u + 1]), each once, at least one. What someone
  // untouchable holds is not listed.
  std::vector<int32_t> first_holder;
  std::vector<int32_t> holders;
  // Empty: each unit is a slot. Else of each unit what it weighs, and the hosts.
  std::vector<int64_t> weights{};
  std::vector<VictimHost> hosts{};
  int64_t each = 1;
  // Pieces that hold no unit here and may matter to the proof all the same, ascending.
  std::vector<int32_t> others{};

  size_t units() const { return first_holder.size() - 1; }
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
  // More victims may make `lands` false (those who move need places): nothing is learnt from a
  // refusal, and sets are tried one after another.
  bool may_fail_with_more = false;
};

// Whether the gang can be placed in the domain (an index) once these victims are gone. Must not
// depend on anything but its arguments; more victims must never make it false, unless the limits
// say that they may. It may be asked about more victims than may be taken.
using Lands = std::function<bool(int32_t domain, std::span<const Victim> victims)>;

// Whether these may be taken together, each of them alone being fair game: fewer of them always
// may, where they may. Empty: all may.
using MayTake = std::function<bool(std::span<const Victim> victims)>;

// Requires costs in [0, kMaxVictimCost] and indices in range. After the search each victim, the
// dearest first, is spared if the rest still frees enough and lands.
VictimAnswer FindVictims(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
                         std::span<const VictimDomain> domains, const Lands& lands,
                         const VictimLimits& limits = {}, const MayTake& may_take = {});

// Drops victims that aren't needed, dearest first, whole jobs before pieces; what stays lands.
// Where answer.bound says that nothing is cheaper, only victims that cost nothing can be.
void Reprieve(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
              const VictimDomain& domain, int32_t domain_index, const Lands& lands,
              VictimAnswer& answer);

}  // namespace longhaul::scheduler
