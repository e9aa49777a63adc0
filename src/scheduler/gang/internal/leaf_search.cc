#include "scheduler/gang/internal/leaf_search.h"

#include <algorithm>
#include <numeric>

namespace longhaul::scheduler::internal {

namespace {

constexpr size_t kMaxShares = 16;  // more would bound little better and cost as much each

}  // namespace

int32_t LeafSearch::HostsOf(const std::vector<int32_t>& leaves) {
  with_free_ = free_leaves_;
  with_free_.insert(with_free_.end(), leaves.begin(), leaves.end());
  if (problem_->slice == 1) return hosts_.FewestHosts(*problem_, with_free_, problem_->units);
  return hosts_.FewestHostsOfSlices(*problem_, with_free_, problem_->units, units_of_leaf_, steps_);
}

// Replaces the choice if the leaves hold the units with fewer hosts, or with as many hosts and
// fewer slots left over. Every table of bounds yields a choice as well, so the search starts from a
// good one.
bool LeafSearch::Offer(const std::vector<int32_t>& leaves, LeafChoice& choice) {
  int32_t units = all_free_;
  for (const int32_t leaf : leaves) units += problem_->CapacityOf(kLeafTier, leaf);
  if (units < problem_->units) return false;
  const int32_t hosts = HostsOf(leaves);
  const int32_t leftover = units - problem_->units;
  if (hosts < 0 || hosts > choice.hosts) return false;
  if (hosts == choice.hosts && leftover >= choice.leftover) return false;
  choice.leaves = leaves;
  choice.hosts = hosts;
  choice.leftover = leftover;
  return true;
}

// The distinct units of hosts are the shares; between two of them a bound adds nothing that the
// larger of the two doesn't say (W_t is linear in t there).
void LeafSearch::LoadWeights() {
  const auto most = static_cast<size_t>(problem_->Units(problem_->slots->max_slots()));
  std::vector<uint8_t> present(most + 1, 0);
  const size_t positions = states_.positions();
  for (size_t i = 0; i < positions; ++i) {
    const std::span<const int32_t> hosts = problem_->slots->Histogram(states_.LeafAt(i));
    for (size_t k = 0; k < hosts.size(); ++k) {
      if (hosts[k] > 0) present[static_cast<size_t>(problem_->Units(static_cast<int>(k)))] = 1;
    }
  }
  shares_.assign(1, 0);
  for (size_t t = most; t > 0 && shares_.size() < kMaxShares; --t) {
    if (present[t] != 0) shares_.push_back(static_cast<int32_t>(t));
  }
  std::sort(shares_.begin(), shares_.end());
  weights_.resize(shares_.size());
  twin_.assign(positions, -1);
  for (size_t s = 0; s < shares_.size(); ++s) {
    weights_[s].assign(positions, 0);
    for (size_t i = 0; i < positions; ++i) {
      const int32_t leaf = states_.LeafAt(i);
      if (s == 0) {
        weights_[0][i] = problem_->CapacityOf(kLeafTier, leaf);
        continue;
      }
      const std::span<const int32_t> hosts = problem_->slots->Histogram(leaf);
      for (size_t k = 1; k < hosts.size(); ++k) {
        const int32_t above = problem_->Units(static_cast<int>(k)) - shares_[s];
        if (above > 0) weights_[s][i] += hosts[k] * above;
      }
    }
  }
}

void LeafSearch::Begin(const LeafProblem& problem, const Counts& counts, int64_t max_steps,
                       LeafChoice& choice) {
  problem_ = &problem;
  steps_ = 0;
  max_steps_ = max_steps;
  states_.Load(problem, counts);
  free_leaves_.clear();
  all_free_ = 0;
  for (size_t i = 0; i < states_.positions(); ++i) {
    if (!states_.IsFree(i)) continue;
    free_leaves_.push_back(states_.LeafAt(i));
    all_free_ += problem.CapacityOf(kLeafTier, states_.LeafAt(i));
  }
  choice.hosts = HostsOf(choice.leaves);
  choice.leftover = all_free_ - problem.units;
  for (const int32_t leaf : choice.leaves) {
    choice.leftover += problem.CapacityOf(kLeafTier, leaf);
  }
  choice.hosts_bound = 0;
  choice.hosts_proven = false;
  choice.leftover_proven = false;
  LoadWeights();
}

// The least capacity of any choice with as few domains, minus the units. All capacities are divided
// by their common divisor first, which shortens the bit sets. Returns 0, the trivial bound, if the
// table does not fit the limit.
int32_t LeafSearch::BoundLeftover(LeafChoice& choice) {
  const int32_t units = problem_->units;
  scale_ = units;
  for (const int32_t capacity : weights_[0]) scale_ = std::gcd(scale_, capacity);
  scaled_.clear();
  for (const int32_t capacity : weights_[0]) scaled_.push_back(capacity / scale_);
  have_sums_ = sums_.Fill(states_, scaled_, (units + choice.leftover) / scale_, max_steps_);
  if (!have_sums_) return 0;
  const int32_t sum =
      sums_.LeastIn(0, states_.Start(), units / scale_, (units + choice.leftover) / scale_);
  CHECK(sum >= 0) << "the choice known is a reachable sum";
  sums_.Choose(states_, scaled_, sum, trial_);
  Offer(trial_, choice);
  return sum * scale_ - units;
}

// The bound of equal_tasks.h for each share t: H hosts of a choice hold at most H t + W_t, where
// W_t is the most that the choice's hosts have above t. So H is at least (units - W_t) / t, rounded
// up. Returns false if the tables exceed the limit; the bound is then the units over the largest
// share.
bool LeafSearch::BoundHosts(LeafChoice& choice) {
  const auto layers = static_cast<int64_t>(states_.positions() * states_.states());
  if (layers * static_cast<int64_t>(shares_.size()) > max_steps_) {
    const int32_t largest = shares_.back();
    choice.hosts_bound = (problem_->units + largest - 1) / largest;
    return false;
  }
  most_.resize(shares_.size());
  for (size_t s = 0; s < shares_.size(); ++s) {
    most_[s].Fill(states_, weights_[s]);
    most_[s].Choose(states_, weights_[s], trial_);
    Offer(trial_, choice);
  }
  for (size_t s = 1; s < shares_.size(); ++s) {
    const int32_t share = shares_[s];
    const int32_t lack = problem_->units - most_[s].At(0, states_.Start());
    choice.hosts_bound = std::max(choice.hosts_bound, (lack + share - 1) / share);
  }
  return true;
}

// Leaves with the same histogram under the same domain are interchangeable. The search takes a leaf
// only if its twin before it is taken, which removes permutations of equal choices.
void LeafSearch::MarkTwins() {
  const auto block_of = [this](int32_t leaf) {
    const auto& tree = *problem_->tree;
    return tree.DomainOf(kBlockTier, tree.FirstHost(kLeafTier, leaf));
  };
  for (size_t i = 1; i < states_.positions(); ++i) {
    const int32_t leaf = states_.LeafAt(i);
    const int32_t before = states_.LeafAt(i - 1);
    const std::span<const int32_t> here = problem_->slots->Histogram(leaf);
    const bool equal =
        std::equal(here.begin(), here.end(), problem_->slots->Histogram(before).begin());
    const bool together = problem_->tiers == 1 || block_of(leaf) == block_of(before);
    if (equal && together && !states_.IsFree(i) && !states_.IsFree(i - 1)) {
      twin_[i] = static_cast<int32_t>(i - 1);
    }
  }
}

void LeafSearch::Improve(const LeafProblem& problem, const Counts& counts, int64_t max_steps,
                         LeafChoice& choice) {
  Begin(problem, counts, max_steps, choice);
  const int32_t least_leftover = BoundLeftover(choice);
  const bool bounded = BoundHosts(choice);
  choice.hosts_proven = choice.hosts == choice.hosts_bound;
  choice.leftover_proven = choice.hosts_proven && have_sums_ && choice.leftover == least_leftover;
  if (choice.leftover_proven || !bounded) return;

  chosen_.assign(states_.positions(), 0);
  held_.assign(shares_.size(), 0);
  MarkTwins();
  Descend(0, states_.Start(), 0, choice);
  const bool complete = steps_ <= max_steps_;
  if (complete) choice.hosts_bound = choice.hosts;
  choice.hosts_proven = choice.hosts == choice.hosts_bound;
  choice.leftover_proven =
      complete || (choice.hosts_proven && have_sums_ && choice.leftover == least_leftover);
}

// Whether a completion from here could be better than the choice known: the leaves must hold the
// units, the bound on hosts must not exceed those known, and with equally many hosts a smaller
// leftover must be reachable.
bool LeafSearch::MayImprove(size_t position, size_t state, int32_t units,
                            const LeafChoice& choice) const {
  if (units + most_[0].At(position, state) < problem_->units) return false;
  int32_t hosts = 0;
  for (size_t s = 1; s < shares_.size(); ++s) {
    const int32_t lack = problem_->units - held_[s] - most_[s].At(position, state);
    if (lack > 0) hosts = std::max(hosts, (lack + shares_[s] - 1) / shares_[s]);
  }
  if (hosts != choice.hosts) return hosts < choice.hosts;
  // As many hosts at least: only less leftover helps.
  if (!have_sums_) return units < problem_->units + choice.leftover;
  const int32_t from = (problem_->units - units) / scale_;
  const int32_t to = (problem_->units + choice.leftover - units) / scale_ - 1;
  return to >= 0 && sums_.LeastIn(position, state, from, to) >= 0;
}

// Branch and bound over the leaves in order. A free leaf has no second branch, because it is always
// part of the choice. When the steps run out, the search returns with the best choice so far, and
// Improve does not call it proven.
void LeafSearch::Descend(size_t position, size_t state, int32_t units, LeafChoice& choice) {
  steps_ += static_cast<int64_t>(shares_.size());
  if (steps_ > max_steps_) return;
  if (!MayImprove(position, state, units, choice)) return;
  if (position == states_.positions()) {
    trial_.clear();
    for (size_t i = 0; i < position; ++i) {
      if (chosen_[i] != 0 && !states_.IsFree(i)) trial_.push_back(states_.LeafAt(i));
    }
    Offer(trial_, choice);
    return;
  }
  const size_t take = states_.Take(position, state);
  const int32_t twin = twin_[position];
  const bool twin_skipped = twin >= 0 && chosen_[static_cast<size_t>(twin)] == 0;
  if (take != SuffixStates::kNone && !twin_skipped) {
    chosen_[position] = 1;
    for (size_t s = 0; s < shares_.size(); ++s) held_[s] += weights_[s][position];
    Descend(position + 1, take, units + weights_[0][position], choice);
    for (size_t s = 0; s < shares_.size(); ++s) held_[s] -= weights_[s][position];
    chosen_[position] = 0;
  }
  if (!states_.IsFree(position)) {
    Descend(position + 1, states_.Skip(position, state), units, choice);
  }
}

}  // namespace longhaul::scheduler::internal
