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

// What a caller asks of a set of victims.
struct Rules {
  const Lands& lands;
  const MayTake& may_take;
  bool learn = true;
};

// So often the cheapest set is sought anew with what was learnt; then one search learns as it goes.
constexpr size_t kMostRestarts = 12;

class DomainSearch {
 public:
  // The root bound is computed at once: FindVictims orders the domains by it and needs no search of
  // the domains whose bound is not below the best cost.
  DomainSearch(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
               const VictimDomain& domain, int32_t index, const Rules& rules,
               CoverSearch::Budget& budget)
      : jobs_(jobs),
        cover_(jobs, pieces, domain),
        components_(internal::Components(cover_)),
        index_(index),
        rules_(rules),
        budget_(budget) {
    all_.resize(components_.size());
    std::iota(all_.begin(), all_.end(), size_t{0});
    bound_ = CoverSearch(cover_, components_, all_, nullptr, budget_).RootBound();
    proof_ = [this](const Selection& selection) {
      return rules_.lands(index_, Victims(selection));
    };
    may_take_ = [this](const Selection& selection) { return rules_.may_take(Victims(selection)); };
  }

  int64_t bound() const { return bound_; }

  // The cheapest set below `below` that lands; bound() then holds for this domain.
  Selection Search(int64_t below) {
    for (bool asked = false;;) {
      const Selection cheapest = Cheapest(below);
      if (cheapest.cost >= kNoCost) return Guess(below);
      // Most sets are allowed, and the check of each node is expensive. So the search starts
      // without it and is repeated with it only if the cheapest set turns out to be forbidden.
      if (!restricted_ && rules_.may_take && !may_take_(cheapest)) {
        restricted_ = true;
        continue;
      }
      if (Asked(cheapest)) return cheapest;
      // Nobody lands where this doesn't.
      if (!asked && !Asked(Everybody())) {
        bound_ = kNoCost;
        return Selection{};
      }
      asked = true;
      if (!rules_.learn) return OneAfterAnother(below);
      if (clauses_.size() == kMostRestarts) return Cutting(below);
      if (budget_.proofs >= budget_.max_proofs) return Guess(below);
      clauses_.push_back(Clause(cheapest));
      if (clauses_.back().empty()) {  // it landed less with more: nothing can be learnt
        clauses_.pop_back();
        return Guess(below);
      }
    }
  }

  std::vector<Victim> Victims(const Selection& selection) const {
    return selection.Victims(cover_, jobs_);
  }

 private:
  // The cheapest set that frees enough and meets what has been learnt; it may not land.
  Selection Cheapest(int64_t below) {
    // Clauses and rights join jobs of different components, so the components can be solved apart
    // only while there are neither.
    const bool simple = clauses_.empty() && !restricted_;
    std::optional<SmallComponents> rest;
    if (simple) rest.emplace(cover_, components_, budget_.max_steps, budget_.steps);
    CoverSearch search(cover_, components_, simple ? rest->large() : all_,
                       simple ? &*rest : nullptr, budget_);
    if (!clauses_.empty()) search.Require(&clauses_);
    if (restricted_) search.Forbid(&may_take_);
    Selection cheapest = search.Run(below, nullptr);
    bound_ = std::max(bound_, search.bound());
    return cheapest;
  }

  bool Asked(const Selection& selection) {
    ++budget_.proofs;
    return proof_(selection);
  }

  Selection Everybody() const {
    Selection everybody = Selection::Nobody(cover_);
    everybody.whole.assign(cover_.jobs.size(), 1);
    return everybody;
  }

  // What a refused set lacks: it takes in others, the cheapest first, in growing and shrinking
  // numbers, while it stays refused. At least one of those left out must go.
  CoverSearch::Clause Clause(const Selection& refused) {
    const std::vector<Part> parts = PartsBeside(refused);
    CoverSearch::Clause clause;
    Selection grown = refused;
    for (size_t from = 0, many = std::max<size_t>(1, parts.size() / 2); from < parts.size();) {
      many = std::min(many, parts.size() - from);
      Selection more = grown;
      for (size_t i = from; i < from + many; ++i) {
        const auto j = static_cast<size_t>(parts[i].job);
        if (parts[i].piece < 0) more.whole[j] = 1;
        if (parts[i].piece >= 0) more.shrunk[static_cast<size_t>(parts[i].piece)] = 1;
      }
      if (!Asked(more)) {
        grown = std::move(more);
        from += many;
        many *= 2;
      } else if (many > 1) {
        many /= 2;
      } else {
        const Part& part = parts[from++];
        const auto& all = cover_.jobs[static_cast<size_t>(part.job)].pieces;
        if (part.piece < 0) clause.insert(clause.end(), all.begin(), all.end());
        if (part.piece >= 0) clause.push_back(part.piece);
      }
    }
    return clause;
  }

  // What is not in a selection and can go alone, the cheapest first: a job, or a piece of one that
  // shrinks.
  struct Part {
    int64_t cost = 0;
    int32_t job = 0;
    int32_t piece = -1;  // of the cover
    friend auto operator<=>(const Part&, const Part&) = default;
  };
  std::vector<Part> PartsBeside(const Selection& selection) const {
    std::vector<Part> parts;
    for (size_t j = 0; j < cover_.jobs.size(); ++j) {
      const internal::Cover::CoverJob& job = cover_.jobs[j];
      if (selection.whole[j] != 0) continue;
      if (job.max_shrunk == 0) {
        parts.push_back({job.cost, static_cast<int32_t>(j), -1});
        continue;
      }
      for (const int32_t piece : job.pieces) {
        const auto p = static_cast<size_t>(piece);
        if (selection.shrunk[p] != 0) continue;
        const int64_t alone = cover_.pieces[p].shrink_cost;
        parts.push_back(
            {alone < 0 ? job.cost : std::min(alone, job.cost), static_cast<int32_t>(j), piece});
      }
    }
    std::sort(parts.begin(), parts.end());
    return parts;
  }

  // One search that learns as it goes, below what sparing has found.
  Selection Cutting(int64_t below) {
    Selection best = SparedFromEverybody();
    if (best.cost >= below || (rules_.may_take && !may_take_(best))) best = Selection{};
    const CoverSearch::Learn learn = [this](const Selection& refused) { return Clause(refused); };
    CoverSearch search(cover_, components_, all_, nullptr, budget_);
    search.Require(&clauses_);
    if (rules_.may_take) search.Forbid(&may_take_);
    search.LearnBy(&learn);
    Selection landed = search.Run(std::min(below, best.cost), &proof_);
    bound_ = std::max(bound_, search.bound());
    return landed.cost < best.cost ? landed : best;
  }

  // Where the limits are reached: everybody, spared one by one.
  Selection Guess(int64_t below) {
    if (bound_ >= below) return Selection{};
    Selection spared = SparedFromEverybody();
    const bool may = spared.cost < below && (!rules_.may_take || may_take_(spared));
    return may ? spared : Selection{};
  }

  // Where more may land less: sets in the order of their search, each asked for.
  Selection OneAfterAnother(int64_t below) {
    Selection best = SparedFromEverybody();
    if (best.cost >= below) best = Selection{};
    CoverSearch landing(cover_, components_, all_, nullptr, budget_);
    Selection landed = landing.Run(std::min(below, best.cost), &proof_);
    bound_ = std::max(bound_, landing.bound());
    return landed.cost < best.cost ? landed : best;
  }

  // All jobs gone, then spared one by one, the dearest first.
  Selection SparedFromEverybody() {
    Selection rest = Selection::Nobody(cover_);
    for (size_t job = 0; job < cover_.jobs.size(); ++job) {
      rest.whole[job] = cover_.jobs[job].may_stop ? 1 : 0;
    }
    if (!Asked(rest)) return Selection{};
    std::vector<size_t> order(cover_.jobs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // The most expensive job first, so that the cheap ones remain. The count is checked before the
    // proof, as it is far cheaper.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return cover_.jobs[a].cost > cover_.jobs[b].cost; });
    rest.cost = 0;
    for (const size_t job : order) {
      if (rest.whole[job] == 0) continue;
      rest.whole[job] = 0;
      if (rest.Freed(cover_) >= cover_.need && Asked(rest)) continue;
      rest.whole[job] = 1;
      rest.cost += cover_.jobs[job].cost;
    }
    return rest;
  }

  std::span<const VictimJob> jobs_;
  Cover cover_;
  std::vector<Component> components_;
  std::vector<size_t> all_;
  int32_t index_;
  const Rules& rules_;
  CoverSearch::Budget& budget_;
  CoverSearch::Proof proof_;
  CoverSearch::Proof may_take_;
  std::vector<CoverSearch::Clause> clauses_;
  bool restricted_ = false;
  int64_t bound_ = 0;
};

// The cheapest jobs where each slot has one holder and each job one slot: no search is needed.
// Nothing where the domain isn't so simple, or has too few slots.
class SimpleDomains {
 public:
  SimpleDomains(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces)
      : jobs_(jobs), pieces_(pieces), seen_(jobs.size(), 0) {}

  std::optional<std::vector<int32_t>> Cheapest(const VictimDomain& domain) {
    const size_t slots = domain.units();
    if (!domain.hosts.empty() || !domain.others.empty() || domain.need == 0) return std::nullopt;
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
      if (shrinks || !jobs_[j].may_stop || seen_[j] == domains_) return std::nullopt;
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
    // Only the set of the cheapest jobs matters, so a partial order suffices: linear in the slots.
    // `cheaper` is a total order, so the set is unique.
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

// Whether the victims free as many slots as the domain needs. Requires victims in ascending order
// of jobs and their pieces in ascending order.
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
  const auto free = [&](size_t unit) {
    const auto begin = domain.holders.begin() + domain.first_holder[unit];
    const auto end = domain.holders.begin() + domain.first_holder[unit + 1];
    return std::all_of(begin, end, gone);
  };
  int64_t freed = 0;
  size_t unit = 0;
  for (const VictimHost& host : domain.hosts) {
    int64_t weight = host.loose;
    for (; unit < static_cast<size_t>(host.last_unit); ++unit) {
      weight += free(unit) ? domain.weights[unit] : 0;
    }
    freed += std::min<int64_t>(host.most, weight / domain.each);
  }
  for (; unit < domain.units(); ++unit) freed += free(unit) ? 1 : 0;
  return freed >= domain.need;
}

}  // namespace

VictimAnswer FindVictims(std::span<const VictimJob> jobs, std::span<const VictimPiece> pieces,
                         std::span<const VictimDomain> domains, const Lands& lands,
                         const VictimLimits& limits, const MayTake& may_take) {
  CoverSearch::Budget budget{0, limits.max_steps, 0, limits.max_proofs};
  const Rules rules{lands, may_take, !limits.may_fail_with_more};
  std::vector<int32_t> order(domains.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> bounds;
  SimpleDomains simple(jobs, pieces);
  for (size_t d = 0; d < domains.size(); ++d) {
    if (const auto chosen = simple.Cheapest(domains[d])) {
      bounds.push_back(simple.Cost(*chosen));
      continue;
    }
    DomainSearch search(jobs, pieces, domains[d], static_cast<int32_t>(d), rules, budget);
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
    // The domains are in the order of their bounds, so no later one can be cheaper either.
    if (bounds[d] >= best) break;
    if (const auto chosen = simple.Cheapest(domains[d])) {
      std::vector<Victim> victims;
      for (const int32_t job : *chosen) {
        victims.push_back({job, jobs[static_cast<size_t>(job)].means, {}});
      }
      ++budget.proofs;
      if ((!may_take || may_take(victims)) && lands(index, victims)) {
        best = bounds[d];
        answer.found = true;
        answer.domain = index;
        answer.cost = best;
        answer.victims = std::move(victims);
        continue;
      }
    }
    DomainSearch search(jobs, pieces, domains[d], index, rules, budget);
    const Selection selection = search.Search(best);
    bounds[d] = search.bound();
    if (selection.cost >= best) continue;
    best = selection.cost;
    answer.found = true;
    answer.domain = index;
    answer.cost = best;
    answer.victims = search.Victims(selection);
  }
  // Domains that were not searched keep their root bound. So the least of all is valid even if a
  // domain ran out of steps.
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
  // Whole jobs come before pieces: to spare a job keeps it running without an interruption.
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
