#include "scheduler/gang/internal/suffix_tables.h"

#include <algorithm>
#include <bit>

namespace longhaul::scheduler::internal {

// The index of a state is open x entries_ + entry, where the entry is the counts left in mixed
// radix. `open` is the number of tiers above the leaf that the next chosen leaf must pay for. All
// transitions are precomputed here, so Skip and Take are a few additions each.
void SuffixStates::Load(const LeafProblem& problem, const Counts& counts) {
  CHECK(problem.slice == 1 || problem.slice_tier == kLeafTier);
  leaves_.clear();
  free_.clear();
  for (int32_t leaf = problem.FirstOf(kLeafTier); leaf < problem.LastOf(kLeafTier); ++leaf) {
    if (problem.CapacityOf(kLeafTier, leaf) == 0) continue;
    leaves_.push_back(leaf);
    free_.push_back(problem.FreeOfCharge(kLeafTier, leaf) ? 1 : 0);
  }
  const auto tiers = static_cast<size_t>(problem.tiers);
  levels_ = tiers;
  entries_ = 1;
  std::array<size_t, kMaxTiers> stride{};
  for (size_t t = 0; t < tiers; ++t) {
    stride[t] = entries_;
    entries_ *= static_cast<size_t>(counts[t]) + 1;
  }
  states_ = levels_ * entries_;
  price_.assign(states_, kNone);
  open_.resize(states_);
  for (size_t open = 0; open < levels_; ++open) {
    for (size_t entry = 0; entry < entries_; ++entry) {
      open_[open * entries_ + entry] = open;
      size_t price = 0;
      bool enough = true;
      for (size_t t = 0; t <= open; ++t) {  // the leaf, and tiers 1 .. open that aren't paid
        price += stride[t];
        enough = enough && entry / stride[t] % (static_cast<size_t>(counts[t]) + 1) >= 1;
      }
      if (enough) price_[open * entries_ + entry] = price;
    }
  }
  // The lowest tier, counted from 1, that is free at a leaf; levels_ - 1 where none is.
  // A domain that is free of charge is as good as paid, and so are all domains above it.
  const auto free_level = [&](int32_t leaf) {
    size_t open = levels_ - 1;
    const int32_t host = problem.tree->FirstHost(kLeafTier, leaf);
    for (size_t t = tiers; t-- > 1;) {
      const auto tier = static_cast<Tier>(t);
      if (problem.FreeOfCharge(tier, problem.tree->DomainOf(tier, host))) open = t - 1;
    }
    return open;
  };
  open_after_.assign(leaves_.size() * levels_, 0);
  for (size_t i = 0; i + 1 < leaves_.size(); ++i) {
    const int32_t here = problem.tree->FirstHost(kLeafTier, leaves_[i]);
    const int32_t next = problem.tree->FirstHost(kLeafTier, leaves_[i + 1]);
    size_t ended = 0;  // the highest tier whose domain ends between the two leaves
    for (size_t t = 1; t < tiers; ++t) {
      const auto tier = static_cast<Tier>(t);
      if (problem.tree->DomainOf(tier, here) != problem.tree->DomainOf(tier, next)) ended = t;
    }
    for (size_t open = 0; open < levels_; ++open) {
      open_after_[i * levels_ + open] = std::min(std::max(open, ended), free_level(leaves_[i + 1]));
    }
  }
  const size_t first_open = leaves_.empty() ? 0 : free_level(leaves_.front());
  start_ = first_open * entries_ + entries_ - 1;
}

// From the last position to the first: positions x states steps.
void MaxSuffix::Fill(const SuffixStates& states, std::span<const int32_t> weight) {
  states_ = states.states();
  const size_t positions = states.positions();
  best_.assign((positions + 1) * states_, 0);
  for (size_t i = positions; i-- > 0;) {
    const int32_t* after = best_.data() + (i + 1) * states_;
    int32_t* here = best_.data() + i * states_;
    for (size_t state = 0; state < states_; ++state) {
      const size_t take = states.Take(i, state);
      const int32_t with = take == SuffixStates::kNone ? -1 : after[take] + weight[i];
      here[state] = std::max(with, after[states.Skip(i, state)]);
    }
  }
}

void MaxSuffix::Choose(const SuffixStates& states, std::span<const int32_t> weight,
                       std::vector<int32_t>& leaves) const {
  leaves.clear();
  size_t state = states.Start();
  for (size_t i = 0; i < states.positions(); ++i) {
    const size_t take = states.Take(i, state);
    // To take is preferred on a tie, so the choice has the lowest leaves.
    if (take != SuffixStates::kNone && weight[i] + At(i + 1, take) == At(i, state)) {
      if (!states.IsFree(i)) leaves.push_back(states.LeafAt(i));
      state = take;
    } else {
      state = states.Skip(i, state);
    }
  }
}

// Each row is a set of sums as bits, so one addition of a weight to all sums is a shift of words.
// Sums above the limit fall off the end. The memory is checked before it is allocated.
bool SumSuffix::Fill(const SuffixStates& states, std::span<const int32_t> weight, int32_t limit,
                     int64_t max_words) {
  states_ = states.states();
  words_ = static_cast<size_t>(limit) / 64 + 1;
  const size_t positions = states.positions();
  const size_t needed = (positions + 1) * states_ * words_;
  if (needed > static_cast<size_t>(std::max<int64_t>(max_words, 0))) return false;
  bits_.assign(needed, 0);
  for (size_t state = 0; state < states_; ++state) {
    bits_[(positions * states_ + state) * words_] = 1;
  }
  for (size_t i = positions; i-- > 0;) {
    const auto shift_words = static_cast<size_t>(weight[i]) / 64;
    const auto shift = static_cast<unsigned>(weight[i]) % 64;
    for (size_t state = 0; state < states_; ++state) {
      uint64_t* here = bits_.data() + (i * states_ + state) * words_;
      // A free leaf is always taken, so skipping it is no transition: the sum of all choices
      // contains it.
      if (!states.IsFree(i)) {
        const uint64_t* skipped = Row(i + 1, states.Skip(i, state));
        std::copy_n(skipped, words_, here);
      }
      const size_t take = states.Take(i, state);
      if (take == SuffixStates::kNone) continue;
      const uint64_t* taken = Row(i + 1, take);
      for (size_t w = shift_words; w < words_; ++w) {
        uint64_t bits = taken[w - shift_words] << shift;
        if (shift != 0 && w > shift_words) bits |= taken[w - shift_words - 1] >> (64 - shift);
        here[w] |= bits;
      }
    }
  }
  return true;
}

bool SumSuffix::Has(size_t position, size_t state, int32_t sum) const {
  const auto s = static_cast<size_t>(sum);
  return sum >= 0 && s / 64 < words_ && (Row(position, state)[s / 64] >> (s % 64) & 1) != 0;
}

int32_t SumSuffix::LeastIn(size_t position, size_t state, int32_t from, int32_t to) const {
  from = std::max(from, 0);
  if (from > to) return -1;
  const uint64_t* row = Row(position, state);
  for (size_t w = static_cast<size_t>(from) / 64; w < words_; ++w) {
    uint64_t bits = row[w];
    if (w == static_cast<size_t>(from) / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits == 0) continue;
    const auto sum = static_cast<int32_t>(w * 64) + std::countr_zero(bits);
    return sum <= to ? sum : -1;
  }
  return -1;
}

void SumSuffix::Choose(const SuffixStates& states, std::span<const int32_t> weight, int32_t sum,
                       std::vector<int32_t>& leaves) const {
  leaves.clear();
  size_t state = states.Start();
  for (size_t i = 0; i < states.positions(); ++i) {
    const size_t take = states.Take(i, state);
    if (take != SuffixStates::kNone && Has(i + 1, take, sum - weight[i])) {
      if (!states.IsFree(i)) leaves.push_back(states.LeafAt(i));
      sum -= weight[i];
      state = take;
    } else {
      state = states.Skip(i, state);
    }
  }
  CHECK(sum == 0) << sum << " units are missing";
}

}  // namespace longhaul::scheduler::internal
