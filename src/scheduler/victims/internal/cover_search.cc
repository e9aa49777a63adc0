#include "scheduler/victims/internal/cover_search.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr int kShift = 12;  // shares are whole numbers of 2^-12 of a cost
constexpr int kRounds = 4;  // of moving prices; more raise the bound little

using Wide = __int128;

}  // namespace

CoverSearch::CoverSearch(const Cover& cover, const std::vector<Component>& components,
                         const std::vector<size_t>& branched, const SmallComponents* rest,
                         Budget& budget)
    : cover_(cover), rest_(rest), budget_(budget) {
  for (const size_t i : branched) {
    hosts_.insert(hosts_.end(), components[i].hosts.begin(), components[i].hosts.end());
    jobs_.insert(jobs_.end(), components[i].jobs.begin(), components[i].jobs.end());
  }
  std::sort(hosts_.begin(), hosts_.end());
  for (const Cover::CoverJob& job : cover.jobs) job_.push_back(job.may_stop ? kOpen : kKept);
  piece_.assign(cover.pieces.size(), kOpen);
  shrunk_.assign(cover.jobs.size(), 0);
}

// Gone: it frees its slots. Kept: it never will. Open: not decided.
CoverSearch::State CoverSearch::PieceState(int32_t piece) const {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  if (job_[j] == kGone || piece_[p] == kGone) return kGone;
  if (job_[j] == kOpen) return kOpen;
  const bool can_shrink = cover_.pieces[p].shrink_cost >= 0 && piece_[p] == kOpen &&
                          shrunk_[j] < cover_.jobs[j].max_shrunk;
  return can_shrink ? kOpen : kKept;
}

// Of `wanted` freed weight a job can hold no more than it holds and no more than all: its cost,
// shared among that much of it, never exceeds what it costs.
int64_t CoverSearch::Share(int32_t piece, int64_t wanted) const {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  int64_t share = kNoCost;
  if (job_[j] == kOpen) {
    share = (cover_.jobs[j].cost << kShift) / std::min(wanted, alive_of_job_[j]);
  }
  const int64_t alone = cover_.pieces[p].shrink_cost;
  if (alone >= 0 && piece_[p] == kOpen && shrunk_[j] < cover_.jobs[j].max_shrunk) {
    share = std::min(share, (alone << kShift) / std::min(wanted, alive_of_piece_[p]));
  }
  return share;
}

// Appends a unit that could still be freed. The arrays stay parallel: weight_[unit] and the range
// first_held_[unit] .. first_held_[unit + 1] of held_ describe the same unit, and all units of one
// host are contiguous.
void CoverSearch::AddAlive(int32_t unit) {
  const int64_t weight = cover_.weights[static_cast<size_t>(unit)];
  for (const int32_t piece : cover_.Holders(static_cast<size_t>(unit))) {
    if (PieceState(piece) != kOpen) continue;
    alive_of_piece_[static_cast<size_t>(piece)] += weight;
    const int32_t job = cover_.pieces[static_cast<size_t>(piece)].job;
    // Two pieces of a job on one unit share its price: the job is counted once.
    if (last_unit_[static_cast<size_t>(job)] == unit) continue;
    last_unit_[static_cast<size_t>(job)] = unit;
    alive_of_job_[static_cast<size_t>(job)] += weight;
    held_.push_back({job, piece, 0, false});
  }
  first_held_.push_back(static_cast<int32_t>(held_.size()));
  weight_.push_back(weight);
}

// A unit is gone when all of its holders are gone, and lost as soon as one holder is kept. Only
// units in between are alive. The rest of the freed weight that makes no whole slot is kept in
// `rem`, because it lowers the price of the host's next slot.
int32_t CoverSearch::CountHost(const Cover::Host& host) {
  int64_t gone = 0;
  unit_state_.clear();
  for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit) {
    const std::span<const int32_t> holders = cover_.Holders(static_cast<size_t>(unit));
    budget_.steps += static_cast<int64_t>(holders.size());
    State all = kGone;
    for (const int32_t piece : holders) {
      const State state = PieceState(piece);
      if (state == kKept || (state == kOpen && all == kGone)) all = state;
    }
    unit_state_.push_back(all);
    if (all == kGone) gone += cover_.weights[static_cast<size_t>(unit)];
  }
  const int32_t freed = cover_.SlotsOf(host, gone);
  if (freed == host.most) return freed;
  AliveHost alive;
  alive.first = static_cast<int32_t>(weight_.size());
  alive.rem = host.loose + gone - freed * cover_.each;
  alive.room = host.most - freed;
  for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit) {
    if (unit_state_[static_cast<size_t>(unit - host.first_unit)] == kOpen) AddAlive(unit);
  }
  alive.last = static_cast<int32_t>(weight_.size());
  if (alive.last > alive.first) alive_hosts_.push_back(alive);
  return freed;
}

int32_t CoverSearch::CountAlive() {
  alive_of_job_.assign(cover_.jobs.size(), 0);
  alive_of_piece_.assign(cover_.pieces.size(), 0);
  last_unit_.assign(cover_.jobs.size(), -1);
  held_.clear();
  weight_.clear();
  alive_hosts_.clear();
  first_held_.assign(1, 0);
  int32_t freed = 0;
  for (const int32_t host : hosts_) freed += CountHost(cover_.hosts[static_cast<size_t>(host)]);
  return freed;
}

// The sum of a unit's prices is a lower bound of what it costs to free the unit. A price may be
// moved between the units of one job only if the job leaves as a whole, has several units, and
// holds no more than what is wanted: only then do its parts add up to exactly its cost.
void CoverSearch::SharePrices(int32_t missing) {
  const int64_t wanted = int64_t{missing} * cover_.each;
  sum_.assign(weight_.size(), 0);
  for (size_t unit = 0; unit < sum_.size(); ++unit) {
    for (auto h = static_cast<size_t>(first_held_[unit]);
         h < static_cast<size_t>(first_held_[unit + 1]); ++h) {
      Held& held = held_[h];
      const auto j = static_cast<size_t>(held.job);
      held.price = Share(held.piece, wanted);
      held.divisible = job_[j] == kOpen && cover_.jobs[j].max_shrunk == 0 &&
                       alive_of_job_[j] <= wanted && alive_of_job_[j] > weight_[unit];
      sum_[unit] += held.price;
    }
  }
}

// The bound counts only the cheapest units, so the part of a price above the price of the dearest
// unit that is needed has no effect where it is. It is moved to the same job's units below the
// threshold. The sum over a job of price times weight never grows, so the prices still charge the
// job at most its cost. The first loop collects what can be moved, the second one distributes it; a
// unit that gives never receives in the same call.
void CoverSearch::ShiftPrices(int64_t threshold) {
  spare_.assign(cover_.jobs.size(), 0);
  cheap_.assign(cover_.jobs.size(), 0);
  for (size_t unit = 0; unit < sum_.size(); ++unit) {
    int64_t excess = sum_[unit] - threshold;
    for (auto h = static_cast<size_t>(first_held_[unit]);
         h < static_cast<size_t>(first_held_[unit + 1]); ++h) {
      Held& held = held_[h];
      if (!held.divisible) continue;
      if (excess > 0) {
        const int64_t moved = std::min(excess, held.price);
        held.price -= moved;
        sum_[unit] -= moved;
        excess -= moved;
        spare_[static_cast<size_t>(held.job)] += moved * weight_[unit];
      } else if (excess < 0) {
        cheap_[static_cast<size_t>(held.job)] += weight_[unit];
      }
    }
  }
  for (size_t unit = 0; unit < sum_.size(); ++unit) {
    if (sum_[unit] >= threshold) continue;
    for (auto h = static_cast<size_t>(first_held_[unit]);
         h < static_cast<size_t>(first_held_[unit + 1]); ++h) {
      const auto j = static_cast<size_t>(held_[h].job);
      if (!held_[h].divisible || spare_[j] == 0) continue;
      const int64_t part = spare_[j] / cheap_[j];
      held_[h].price += part;
      sum_[unit] += part;
      spare_[j] -= part * weight_[unit];
      cheap_[j] -= weight_[unit];
    }
  }
}

// A host's first slot needs least, as something may be free there already, and of the cheapest
// units; so each further one costs as much or more, and the cheapest of all hosts are a bound.
int32_t CoverSearch::MarginalSlots() {
  marginals_.clear();
  int64_t cheapest = std::numeric_limits<int64_t>::max();
  int32_t best = -1;
  for (size_t h = 0; h < alive_hosts_.size(); ++h) {
    const AliveHost& host = alive_hosts_[h];
    by_price_.clear();
    for (int32_t unit = host.first; unit < host.last; ++unit) {
      by_price_.emplace_back(sum_[static_cast<size_t>(unit)], weight_[static_cast<size_t>(unit)]);
    }
    if (by_price_.size() > 1) std::sort(by_price_.begin(), by_price_.end());
    size_t at = 0;
    int64_t needed = std::max<int64_t>(0, cover_.each - host.rem);
    for (int32_t slot = 0; slot < host.room; ++slot, needed = cover_.each) {
      int64_t price = 0;
      while (needed > 0 && at < by_price_.size()) {
        const int64_t part = std::min(needed, by_price_[at].second);
        price += part * by_price_[at].first;
        needed -= part;
        by_price_[at].second -= part;
        if (by_price_[at].second == 0) ++at;
      }
      if (needed > 0) break;
      // Only the first slot of a host is compared, because no later slot of it is cheaper.
      marginals_.push_back(price);
      if (slot > 0) continue;
      if (best < 0 || price < cheapest) {
        cheapest = price;
        best = static_cast<int32_t>(h);
      }
    }
  }
  return best;
}

// The branch is on the holder with the highest price at the cheapest unit. To keep this holder
// takes the cheapest unit out of all later bounds, so the bound of that branch rises.
int32_t CoverSearch::DearestHolder(const AliveHost& host) const {
  int64_t cheapest = std::numeric_limits<int64_t>::max();
  int32_t worst = -1;
  int64_t worst_price = -1;
  for (int32_t unit = host.first; unit < host.last; ++unit) {
    const auto u = static_cast<size_t>(unit);
    if (sum_[u] >= cheapest) continue;
    cheapest = sum_[u];
    worst_price = -1;
    for (auto h = static_cast<size_t>(first_held_[u]); h < static_cast<size_t>(first_held_[u + 1]);
         ++h) {
      if (held_[h].price <= worst_price) continue;
      worst = held_[h].piece;
      worst_price = held_[h].price;
    }
  }
  return worst;
}

// Splits `missing` between the searched hosts (the x cheapest marginal slots) and the components
// that `rest_` has solved, and takes the cheapest split. The sums are 128-bit, because a cost of up
// to 2^40 is scaled by 2^kShift and summed over many slots. The result is rounded up: costs are
// whole numbers, so the bound stays valid.
int64_t CoverSearch::PriceBound(int32_t missing) {
  std::sort(marginals_.begin(), marginals_.end());
  Wide prefix = Wide{cost_} << kShift;
  Wide bound = Wide{kNoCost} << kShift;
  for (size_t x = 0; x <= marginals_.size() && x <= static_cast<size_t>(missing); ++x) {
    if (x > 0) prefix += marginals_[x - 1];
    const int32_t others = missing - static_cast<int32_t>(x);
    const int64_t tail = others == 0 ? 0 : rest_ != nullptr ? rest_->Cost(others) : kNoCost;
    if (tail < kNoCost) bound = std::min(bound, prefix + (Wide{tail} << kShift));
  }
  const Wide whole = (bound + (Wide{1} << kShift) - 1) >> kShift;
  return whole >= kNoCost ? kNoCost : static_cast<int64_t>(whole);
}

int64_t CoverSearch::CostToFree(int32_t piece) const {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  int64_t cost = job_[j] == kOpen ? cover_.jobs[j].cost : kNoCost;
  const int64_t alone = cover_.pieces[p].shrink_cost;
  if (alone >= 0 && piece_[p] == kOpen && shrunk_[j] < cover_.jobs[j].max_shrunk) {
    cost = std::min(cost, alone);
  }
  return cost;
}

// Clauses that share no job cost what each costs at least. To be decided next is what a clause with
// the fewest ways to meet it would choose.
int64_t CoverSearch::ClauseBound(Look& look) {
  if (clauses_ == nullptr) return 0;
  std::vector<uint8_t> counted(cover_.jobs.size(), 0);
  int64_t bound = 0;
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const Clause& clause : *clauses_) {
    budget_.steps += static_cast<int64_t>(clause.size());
    bool met = false;
    bool apart = true;
    size_t ways = 0;
    int64_t least = kNoCost;
    int32_t cheapest = -1;
    for (const int32_t piece : clause) {
      const State state = PieceState(piece);
      met = met || state == kGone;
      if (state != kOpen) continue;
      apart &= counted[static_cast<size_t>(cover_.pieces[static_cast<size_t>(piece)].job)] == 0;
      ++ways;
      const int64_t cost = CostToFree(piece);
      if (cost >= least) continue;
      least = cost;
      cheapest = piece;
    }
    if (met) continue;
    look.clauses_met = false;
    if (ways == 0) return kNoCost;
    if (ways < fewest) {
      fewest = ways;
      look.branch_piece = cheapest;
    }
    if (!apart) continue;
    bound += least;
    for (const int32_t piece : clause) {
      counted[static_cast<size_t>(cover_.pieces[static_cast<size_t>(piece)].job)] = 1;
    }
  }
  return bound;
}

CoverSearch::Look CoverSearch::LookAround() {
  Look look;
  look.freed = CountAlive();
  // Where a proof refused enough slots, at least one more must go.
  const int32_t missing =
      std::max(cover_.need - look.freed, proof_ != nullptr && learn_ == nullptr ? 1 : 0);
  look.bound = cost_;
  if (missing > 0) {
    SharePrices(missing);
    const int32_t host = MarginalSlots();
    if (host >= 0) {
      look.branch_piece = DearestHolder(alive_hosts_[static_cast<size_t>(host)]);
    }
    look.bound = PriceBound(missing);
    for (int round = 0; round < kRounds && look.bound < below_ && !marginals_.empty(); ++round) {
      const size_t last = std::min(marginals_.size(), static_cast<size_t>(missing)) - 1;
      ShiftPrices(marginals_[last] / cover_.each);
      MarginalSlots();
      look.bound = std::max(look.bound, PriceBound(missing));
      budget_.steps += static_cast<int64_t>(held_.size());
    }
  }
  // The bound by slots and the bound by clauses may charge the same job, so the larger one holds,
  // and not their sum.
  const int64_t clauses = ClauseBound(look);
  look.bound = clauses >= kNoCost ? kNoCost : std::max(look.bound, cost_ + clauses);
  return look;
}

Selection CoverSearch::Chosen() const {
  Selection chosen = Selection::Nobody(cover_);
  for (size_t j = 0; j < job_.size(); ++j) chosen.whole[j] = job_[j] == kGone ? 1 : 0;
  for (size_t p = 0; p < piece_.size(); ++p) chosen.shrunk[p] = piece_[p] == kGone ? 1 : 0;
  chosen.cost = cost_;
  return chosen;
}

// Completes the current selection with the solved components and offers it to the proof. A refused
// selection that teaches no clause ends the proofs: the budget is marked as spent, so that every
// open node reports its bound and the result is not called proven.
bool CoverSearch::Consider(int32_t freed) {
  const int32_t missing = std::max(0, cover_.need - freed);
  const int64_t tail = missing == 0 ? 0 : rest_ != nullptr ? rest_->Cost(missing) : kNoCost;
  if (tail >= kNoCost || cost_ + tail >= below_) return false;
  Selection trial = Chosen();
  trial.cost = cost_ + tail;
  if (missing > 0) rest_->Choose(missing, trial);
  if (proof_ != nullptr) {
    ++budget_.proofs;
    if (!(*proof_)(trial)) {
      if (learn_ == nullptr || OutOfBudget()) return false;
      Clause clause = (*learn_)(trial);
      if (clause.empty()) budget_.proofs = std::max(budget_.proofs, budget_.max_proofs);
      if (!clause.empty()) clauses_->push_back(std::move(clause));
      return true;
    }
  }
  below_ = trial.cost;
  best_ = std::move(trial);
  return false;
}

// The rights are monotone: a superset of a forbidden selection is forbidden too. So the whole
// subtree below a forbidden selection can be left out, and only steps that add a victim need the
// check.
bool CoverSearch::MayEnter() const {
  if (may_take_ == nullptr) return true;
  budget_.steps += static_cast<int64_t>(cover_.jobs.size());
  return (*may_take_)(Chosen());
}

void CoverSearch::TryWhole(int32_t job) {
  const auto j = static_cast<size_t>(job);
  job_[j] = kGone;
  cost_ += cover_.jobs[j].cost;
  if (MayEnter()) Descend();
  cost_ -= cover_.jobs[j].cost;
  job_[j] = kOpen;
}

// Either gives up the piece alone or keeps it. In both cases the job is not stopped as a whole in
// this subtree; the third branch, TryWhole, covers that case. So the three branches are disjoint
// and together complete.
void CoverSearch::Try(int32_t piece, bool shrink) {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  const State before = job_[j];
  job_[j] = kKept;
  piece_[p] = shrink ? kGone : kKept;
  if (shrink) {
    ++shrunk_[j];
    cost_ += cover_.pieces[p].shrink_cost;
  }
  if (!shrink || MayEnter()) Descend();
  if (shrink) {
    --shrunk_[j];
    cost_ -= cover_.pieces[p].shrink_cost;
  }
  piece_[p] = kOpen;
  job_[j] = before;
}

// Invariant: bound_ is at most the bound of every node that was left unsearched for any reason
// other than its bound. A node that is cut because its bound reaches below_ needs no entry, since
// nothing below it can improve the result.
void CoverSearch::Descend() {
  Look look = LookAround();
  const int64_t before = below_;
  while (look.clauses_met && Consider(look.freed) && !OutOfBudget()) look = LookAround();
  // A learnt clause changes what this node lacks, so the node is examined again until the selection
  // is accepted, is too expensive, or lacks something.
  const bool enough = look.freed >= cover_.need && look.clauses_met;
  if (enough && (proof_ == nullptr || below_ < before)) return;
  if (enough && learn_ != nullptr) {
    // Too dear to be asked for, or the limits are reached.
    if (look.bound < below_) bound_ = std::min(bound_, look.bound);
    return;
  }
  if (look.bound >= below_ || look.branch_piece < 0) return;
  if (OutOfBudget()) {
    bound_ = std::min(bound_, look.bound);
    return;
  }
  const int32_t piece = look.branch_piece;
  const auto p = static_cast<size_t>(piece);
  const int32_t job = cover_.pieces[p].job;
  const auto j = static_cast<size_t>(job);
  const bool can_shrink = cover_.pieces[p].shrink_cost >= 0 && piece_[p] == kOpen &&
                          shrunk_[j] < cover_.jobs[j].max_shrunk;
  // The cheapest way first: a good selection found early lowers below_ for the other branches.
  if (can_shrink) Try(piece, true);
  if (job_[j] == kOpen) TryWhole(job);
  Try(piece, false);
}

// Where everything was searched, bound_ is still kNoCost, and the result itself (or `below`, if
// none was found) is the bound.
Selection CoverSearch::Run(int64_t below, const Proof* proof) {
  proof_ = proof;
  below_ = below;
  bound_ = kNoCost;
  best_ = Selection{};
  Descend();
  bound_ = std::min(bound_, below_);
  return best_;
}

int64_t CoverSearch::RootBound() {
  proof_ = nullptr;
  return LookAround().bound;
}

}  // namespace longhaul::scheduler::internal
