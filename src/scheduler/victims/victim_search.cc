#include "scheduler/victims/victim_search.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "scheduler/victims/internal/cover.h"
#include "scheduler/victims/internal/cover_search.h"
#include "scheduler/victims/internal/small_components.h"

namespace longhaul::scheduler {

namespace {

using internal::Component;
using internal::Cover;
using internal::CoverSearch;
using internal::kNoCost;
using internal::Selection;
using internal::SmallComponents;

class DomainSearch {
 public:
  DomainSearch(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
               const VictimDomain& domain, int32_t index, CoverSearch::Budget& budget)
      : jobs_(jobs),
        pieces_(pieces),
        domain_(domain),
        slot_ids_(domain.first_holder.size() - 1),
        cover_(jobs, pieces, domain),
        components_(internal::Components(cover_)),
        index_(index),
        id_(domain.id),
        budget_(budget) {
    std::iota(slot_ids_.begin(), slot_ids_.end(), 0);
    all_.resize(components_.size());
    std::iota(all_.begin(), all_.end(), size_t{0});
    bound_ = CoverSearch(cover_, components_, all_, nullptr, budget_).RootBound();
  }

  int64_t bound() const { return bound_; }
  int32_t id() const { return id_; }

  // The cheapest set below `below` that lands; bound() then holds for this domain.
  Selection Search(int64_t below, const Lands& lands) {
    for (;;) {
      const SmallComponents rest(cover_, components_, budget_.max_steps, budget_.steps);
      CoverSearch counting(cover_, components_, rest.large(), &rest, budget_);
      const Selection cheapest = counting.Run(below, nullptr);
      bound_ = std::max(bound_, counting.bound());
      if (cheapest.cost >= kNoCost) return cheapest;
      ++budget_.proofs;
      const Landing landing = lands(index_, cheapest.Victims(cover_, jobs_));
      if (landing) return cheapest;
      if (!DropSlots(landing.useless)) break;
    }
    const CoverSearch::Proof proof = [&](const Selection& selection) {
      return lands(index_, selection.Victims(cover_, jobs_)).lands;
    };
    Selection best = SparedFromEverybody(proof);
    if (best.cost >= kNoCost) {
      bound_ = kNoCost;
      return best;
    }
    Selection guess = CheapestOfUse(best, proof);
    if (guess.cost < best.cost) best = std::move(guess);
    if (best.cost >= below) best = Selection{};
    CoverSearch landing(cover_, components_, all_, nullptr, budget_);
    Selection landed = landing.Run(std::min(below, best.cost), &proof);
    bound_ = std::max(bound_, landing.bound());
    return landed.cost < best.cost ? landed : best;
  }

  std::vector<Victim> Victims(const Selection& selection) const {
    return selection.Victims(cover_, jobs_);
  }

 private:
  // Goes on without these slots. False when that changes nothing.
  bool DropSlots(const std::vector<int32_t>& useless) {
    VictimDomain rest;
    rest.id = domain_.id;
    rest.need = domain_.need;
    rest.first_holder.push_back(0);
    std::vector<int32_t> ids;
    for (size_t slot = 0; slot < slot_ids_.size(); ++slot) {
      if (std::find(useless.begin(), useless.end(), slot_ids_[slot]) != useless.end()) continue;
      rest.holders.insert(rest.holders.end(), domain_.holders.begin() + domain_.first_holder[slot],
                          domain_.holders.begin() + domain_.first_holder[slot + 1]);
      rest.first_holder.push_back(static_cast<int32_t>(rest.holders.size()));
      ids.push_back(slot_ids_[slot]);
    }
    if (ids.size() == slot_ids_.size()) return false;
    slot_ids_ = std::move(ids);
    domain_ = std::move(rest);
    cover_ = Cover(jobs_, pieces_, domain_);
    components_ = internal::Components(cover_);
    all_.resize(components_.size());
    return true;
  }

  bool Asked(const CoverSearch::Proof& proof, const Selection& selection) {
    ++budget_.proofs;
    return proof(selection);
  }

  // All jobs gone, then spared one by one, the dearest first. Nobody lands where this doesn't.
  Selection SparedFromEverybody(const CoverSearch::Proof& proof) {
    Selection rest = Selection::Nobody(cover_);
    rest.whole.assign(cover_.jobs.size(), 1);
    if (!Asked(proof, rest)) return Selection{};
    std::vector<size_t> order(cover_.jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return cover_.jobs[a].cost > cover_.jobs[b].cost; });
    rest.cost = 0;
    for (const size_t job : order) {
      rest.whole[job] = 0;
      if (rest.Freed(cover_) >= cover_.need && Asked(proof, rest)) continue;
      rest.whole[job] = 1;
      rest.cost += cover_.jobs[job].cost;
    }
    return rest;
  }

  // A guess: slots that can stand in for one that `landed` frees are of use; the cheapest set that
  // frees enough of them. It may not land, and dearer ones may be missed: only an incumbent.
  Selection CheapestOfUse(const Selection& landed, const CoverSearch::Proof& proof) {
    Selection base = landed;
    int32_t most = -1;
    for (size_t job = 0; job < cover_.jobs.size(); ++job) {
      if (landed.whole[job] == 0) continue;
      Selection without = landed;
      without.whole[job] = 0;
      const int32_t freed = without.Freed(cover_);
      if (freed <= most) continue;
      most = freed;
      base = std::move(without);
    }
    VictimDomain useful;
    useful.need = cover_.need;
    useful.first_holder.push_back(0);
    for (size_t slot = 0; slot < cover_.slots(); ++slot) {
      bool of_use = true;
      Selection probe = base;
      for (const int32_t piece : cover_.Holders(slot)) {
        of_use = of_use && landed.Gone(cover_, piece);
        probe.whole[static_cast<size_t>(cover_.pieces[static_cast<size_t>(piece)].job)] = 1;
      }
      if (!of_use && !Asked(proof, probe)) continue;
      for (const int32_t piece : cover_.Holders(slot)) {
        useful.holders.push_back(cover_.pieces[static_cast<size_t>(piece)].global);
      }
      useful.first_holder.push_back(static_cast<int32_t>(useful.holders.size()));
    }
    // Slots that go along with others may be of no use: then more must be freed than are needed.
    const auto slots = static_cast<int32_t>(useful.first_holder.size()) - 1;
    for (; useful.need <= slots && budget_.steps < budget_.max_steps; ++useful.need) {
      const Selection found = CheapestIn(useful, landed.cost);
      if (found.cost >= kNoCost || Asked(proof, found)) return found;
    }
    return Selection{};
  }

  // The cheapest set for another domain of the same jobs, as a selection of this one.
  Selection CheapestIn(const VictimDomain& domain, int64_t below) {
    const Cover cover(jobs_, pieces_, domain);
    const std::vector<Component> components = internal::Components(cover);
    const SmallComponents rest(cover, components, budget_.max_steps, budget_.steps);
    CoverSearch search(cover, components, rest.large(), &rest, budget_);
    const Selection found = search.Run(below, nullptr);
    if (found.cost >= kNoCost) return found;
    Selection here = Selection::Nobody(cover_);
    here.cost = found.cost;
    for (size_t job = 0, from = 0; job < cover_.jobs.size() && from < cover.jobs.size(); ++job) {
      if (cover_.jobs[job].global == cover.jobs[from].global) here.whole[job] = found.whole[from++];
    }
    for (size_t p = 0, from = 0; p < cover_.pieces.size() && from < cover.pieces.size(); ++p) {
      if (cover_.pieces[p].global == cover.pieces[from].global) {
        here.shrunk[p] = found.shrunk[from++];
      }
    }
    return here;
  }

  std::span<const VictimJob> jobs_;
  std::span<const VictimPiece> pieces_;
  VictimDomain domain_;
  std::vector<int32_t> slot_ids_;  // as the caller numbers them
  Cover cover_;
  std::vector<Component> components_;
  std::vector<size_t> all_;
  int32_t index_;
  int32_t id_;
  CoverSearch::Budget& budget_;
  int64_t bound_ = 0;
};

// The cheapest jobs where each slot has one holder and each job one slot: no search is needed.
// Nothing where the domain isn't so simple, or has too few slots.
class SimpleDomains {
 public:
  SimpleDomains(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces)
      : jobs_(jobs), pieces_(pieces), seen_(jobs.size(), 0) {}

  std::optional<std::vector<int32_t>> Cheapest(const VictimDomain& domain) {
    const size_t slots = domain.first_holder.size() - 1;
    if (domain.holders.size() != slots || slots < static_cast<size_t>(domain.need)) {
      return std::nullopt;
    }
    ++domains_;
    std::vector<int32_t> chosen;
    chosen.reserve(slots);
    for (const int32_t piece : domain.holders) {
      const int32_t job = pieces_[static_cast<size_t>(piece)].job;
      const auto j = static_cast<size_t>(job);
      const bool shrinks =
          jobs_[j].max_shrunk > 0 && pieces_[static_cast<size_t>(piece)].shrink_cost >= 0;
      if (shrinks || seen_[j] == domains_) return std::nullopt;
      CHECK(jobs_[j].cost >= 0 && jobs_[j].cost <= kMaxVictimCost)
          << "job " << job << " costs " << jobs_[j].cost;
      seen_[j] = domains_;
      chosen.push_back(job);
    }
    const auto cheaper = [&](int32_t a, int32_t b) {
      const int64_t left = jobs_[static_cast<size_t>(a)].cost;
      const int64_t right = jobs_[static_cast<size_t>(b)].cost;
      return left != right ? left < right : a < b;
    };
    std::nth_element(chosen.begin(), chosen.begin() + domain.need - 1, chosen.end(), cheaper);
    chosen.resize(static_cast<size_t>(domain.need));
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }

  int64_t Cost(std::span<const int32_t> chosen) const {
    int64_t cost = 0;
    for (const int32_t job : chosen) cost += jobs_[static_cast<size_t>(job)].cost;
    return cost;
  }

 private:
  std::span<const VictimJob> jobs_;
  std::span<const VictimPiece> pieces_;
  std::vector<int32_t> seen_;  // [job]: the last domain that has it
  int32_t domains_ = 0;
};

bool Frees(std::span<const VictimPiece> pieces, const VictimDomain& domain,
           std::span<const Victim> victims) {
  const auto gone = [&](int32_t piece) {
    const int32_t job = pieces[static_cast<size_t>(piece)].job;
    const auto victim = std::lower_bound(victims.begin(), victims.end(), job,
                                         [](const Victim& v, int32_t j) { return v.job < j; });
    if (victim == victims.end() || victim->job != job) return false;
    return victim->pieces.empty() ||
           std::binary_search(victim->pieces.begin(), victim->pieces.end(), piece);
  };
  int32_t freed = 0;
  for (size_t slot = 0; slot + 1 < domain.first_holder.size(); ++slot) {
    const auto begin = domain.holders.begin() + domain.first_holder[slot];
    const auto end = domain.holders.begin() + domain.first_holder[slot + 1];
    freed += std::all_of(begin, end, gone) ? 1 : 0;
  }
  return freed >= domain.need;
}

}  // namespace

VictimAnswer FindVictims(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
                         std::span<const VictimDomain> domains, const Lands& lands,
                         const VictimLimits& limits) {
  CoverSearch::Budget budget{0, limits.max_steps, 0, limits.max_proofs};
  std::vector<int32_t> order(domains.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> bounds;
  SimpleDomains simple(jobs, pieces);
  for (size_t d = 0; d < domains.size(); ++d) {
    if (const auto chosen = simple.Cheapest(domains[d])) {
      bounds.push_back(simple.Cost(*chosen));
      continue;
    }
    DomainSearch search(jobs, pieces, domains[d], static_cast<int32_t>(d), budget);
    bounds.push_back(search.bound());
  }
  budget.steps = 0;  // bounds cost what the input costs to read
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto left = static_cast<size_t>(a);
    const auto right = static_cast<size_t>(b);
    return bounds[left] != bounds[right] ? bounds[left] < bounds[right]
                                         : domains[left].id < domains[right].id;
  });
  VictimAnswer answer;
  int64_t best = kNoCost;
  for (const int32_t index : order) {
    const auto d = static_cast<size_t>(index);
    if (bounds[d] >= best) break;
    if (const auto chosen = simple.Cheapest(domains[d])) {
      std::vector<Victim> victims;
      for (const int32_t job : *chosen) {
        victims.push_back({job, jobs[static_cast<size_t>(job)].means, {}});
      }
      ++budget.proofs;
      if (lands(index, victims)) {
        best = bounds[d];
        answer.found = true;
        answer.domain = index;
        answer.cost = best;
        answer.victims = std::move(victims);
        continue;
      }
    }
    DomainSearch search(jobs, pieces, domains[d], index, budget);
    const Selection selection = search.Search(best, lands);
    bounds[d] = search.bound();
    if (selection.cost >= best) continue;
    best = selection.cost;
    answer.found = true;
    answer.domain = index;
    answer.cost = best;
    answer.victims = search.Victims(selection);
  }
  const int64_t least = bounds.empty() ? kNoCost : *std::min_element(bounds.begin(), bounds.end());
  answer.bound = std::min(least, best);
  if (answer.found) {
    Reprieve(jobs, pieces, domains[static_cast<size_t>(answer.domain)], answer.domain, lands,
             answer);
  }
  answer.proven = answer.found ? answer.bound >= answer.cost : least >= kNoCost;
  answer.steps = budget.steps;
  answer.proofs += budget.proofs;
  return answer;
}

void Reprieve(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
              const VictimDomain& domain, int32_t domain_index, const Lands& lands,
              VictimAnswer& answer) {
  // What costs something is needed for certain where nothing cheaper lands.
  const bool optimal = answer.bound >= answer.cost;
  std::vector<std::pair<int32_t, int32_t>> candidates;  // job, piece or -1
  for (const Victim& victim : answer.victims) {
    if (victim.pieces.empty()) candidates.emplace_back(victim.job, -1);
    for (const int32_t piece : victim.pieces) candidates.emplace_back(victim.job, piece);
  }
  const auto cost = [&](const std::pair<int32_t, int32_t>& candidate) {
    return candidate.second < 0 ? jobs[static_cast<size_t>(candidate.first)].cost
                                : pieces[static_cast<size_t>(candidate.second)].shrink_cost;
  };
  if (optimal) std::erase_if(candidates, [&](const auto& c) { return cost(c) > 0; });
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    if ((a.second < 0) != (b.second < 0)) return a.second < 0;
    return cost(a) > cost(b);
  });
  for (const auto& candidate : candidates) {
    std::vector<Victim> rest = answer.victims;
    const auto victim = std::find_if(rest.begin(), rest.end(),
                                     [&](const Victim& v) { return v.job == candidate.first; });
    if (candidate.second >= 0) std::erase(victim->pieces, candidate.second);
    if (candidate.second < 0 || victim->pieces.empty()) rest.erase(victim);
    if (!Frees(pieces, domain, rest)) continue;
    ++answer.proofs;
    if (!lands(domain_index, rest)) continue;
    answer.victims = std::move(rest);
    answer.cost -= cost(candidate);
  }
}

}  // namespace longhaul::scheduler
