#include "scheduler/gang/internal/domain_table.h"

#include <algorithm>
#include <functional>

namespace longhaul::scheduler::internal {

namespace {

constexpr int32_t kImpossible = -(1 << 29);

}  // namespace

// One table for each tier from the second highest down. Each has the counts of the higher tiers,
// which are known to be the least, as limits, so it stays small, and its first entry that holds the
// units is the least count of the tier.
bool DomainTable::FewestDomains(const LeafProblem& problem, Tier required_tier, Counts& counts,
                                std::vector<int32_t>& leaves) {
  counts = {};
  if (!FewestOnTop(problem, required_tier, counts)) return false;
  for (Tier tier = problem.tiers - 2; tier >= kLeafTier; --tier) {
    const auto t = static_cast<size_t>(tier);
    Counts limits = counts;
    limits[t] = UpperBound(problem, tier);
    if (tier >= required_tier) limits[t] = std::min(limits[t], 1);
    Fill(problem, tier, limits);
    size_t state = 0;
    for (Tier above = tier + 1; above < problem.tiers; ++above) {
      state += stride_[static_cast<size_t>(above)] *
               static_cast<size_t>(counts[static_cast<size_t>(above)]);
    }
    const std::vector<int32_t>& closed = table_[static_cast<size_t>(problem.tiers)];
    while (counts[t] < limits[t] && closed[state] < problem.units) {
      ++counts[t];
      state += stride_[t];
    }
    if (closed[state] < problem.units) return false;
    Choose(problem, state);
  }
  leaves.assign(chosen_.begin(), chosen_.end());
  return true;
}

// On the top tier the domains do not nest in others, so the largest ones first are the best choice,
// without a table.
bool DomainTable::FewestOnTop(const LeafProblem& problem, Tier required_tier, Counts& counts) {
  const Tier top = problem.tiers - 1;
  const auto t = static_cast<size_t>(top);
  int32_t capacity = 0;
  order_.clear();
  for (int32_t domain = problem.FirstOf(top); domain < problem.LastOf(top); ++domain) {
    if (problem.FreeOfCharge(top, domain)) {
      capacity += problem.CapacityOf(top, domain);
    } else {
      order_.push_back(domain);
    }
  }
  const std::vector<int32_t>& of = problem.capacity[t];
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const int32_t left = of[static_cast<size_t>(a)];
    const int32_t right = of[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  });
  const int32_t limit = required_tier <= top ? 1 : static_cast<int32_t>(order_.size());
  chosen_.clear();
  for (const int32_t domain : order_) {
    if (capacity >= problem.units || counts[t] == limit) break;
    capacity += of[static_cast<size_t>(domain)];
    ++counts[t];
    chosen_.push_back(domain);
  }
  // A domain below that is required may be too small even so; the next tables see it.
  return capacity >= problem.units;
}

// The domains of the tier inside the chosen parents that suffice if the largest are taken first. A
// choice with that many exists, so the least count is not larger, and the table needs no more
// columns.
int32_t DomainTable::UpperBound(const LeafProblem& problem, Tier tier) const {
  const Tier above = tier + 1;
  std::vector<int32_t>& sizes = const_cast<DomainTable*>(this)->order_;
  sizes.clear();
  int32_t capacity = 0;
  const auto add = [&](int32_t parent) {
    const auto below = static_cast<size_t>(tier);
    const int32_t begin = std::max(problem.tree->First(above, parent), problem.first[below]);
    const int32_t end = std::min(problem.tree->Last(above, parent), problem.last[below]);
    for (int32_t child = begin; child < end; ++child) {
      const int32_t size = problem.CapacityOf(tier, child);
      if (problem.FreeOfCharge(tier, child)) {
        capacity += size;
      } else if (size > 0) {
        sizes.push_back(size);
      }
    }
  };
  for (const int32_t parent : chosen_) add(parent);
  for (int32_t parent = problem.FirstOf(above); parent < problem.LastOf(above); ++parent) {
    if (problem.FreeOfCharge(above, parent)) add(parent);
  }
  const auto all = static_cast<int32_t>(sizes.size());
  if (problem.slice > 1 && problem.slice_tier > tier) return all;  // a sum may lose a part slice
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  int32_t count = 0;
  while (count < all && capacity < problem.units) {
    capacity += sizes[static_cast<size_t>(count)];
    ++count;
  }
  return count;
}

void DomainTable::Fill(const LeafProblem& problem, Tier lowest, const Counts& limits) {
  lowest_ = lowest;
  limits_ = limits;
  states_ = 1;
  for (Tier tier = lowest; tier < problem.tiers; ++tier) {
    const auto t = static_cast<size_t>(tier);
    stride_[t] = states_;
    states_ *= static_cast<size_t>(limits[t]) + 1;
  }
  for (Tier tier = lowest + 1; tier <= problem.tiers; ++tier) {
    table_[static_cast<size_t>(tier)].assign(states_, kImpossible);
  }
  table_[static_cast<size_t>(problem.tiers)][0] = 0;
  events_.clear();
  decisions_.clear();
  const Tier top = problem.tiers - 1;
  for (int32_t domain = problem.FirstOf(top); domain < problem.LastOf(top); ++domain) {
    FillDomain(problem, top, domain);
  }
}

// A domain without capacity has no event: it can neither be chosen nor hold a chosen item.
void DomainTable::FillDomain(const LeafProblem& problem, Tier tier, int32_t domain) {
  const auto t = static_cast<size_t>(tier);
  if (problem.CapacityOf(tier, domain) == 0) return;
  const std::vector<int32_t>& parent = table_[t + 1];
  std::vector<int32_t>& open = table_[t];
  if (problem.FreeOfCharge(tier, domain)) {
    std::copy(parent.begin(), parent.end(), open.begin());
  } else {
    // Opening the domain raises its tier's count: entries move up by one stride.
    const size_t stride = stride_[t];
    const size_t row = stride * (static_cast<size_t>(limits_[t]) + 1);
    for (size_t start = 0; start < states_; start += row) {
      std::fill_n(open.begin() + static_cast<ptrdiff_t>(start), stride, kImpossible);
      std::copy_n(parent.begin() + static_cast<ptrdiff_t>(start), row - stride,
                  open.begin() + static_cast<ptrdiff_t>(start + stride));
    }
  }
  events_.push_back({Kind::kEnter, tier, domain, 0});
  const int32_t begin = std::max(problem.tree->First(tier, domain), problem.first[t - 1]);
  const int32_t end = std::min(problem.tree->Last(tier, domain), problem.last[t - 1]);
  for (int32_t child = begin; child < end; ++child) {
    if (tier - 1 == lowest_) {
      FillItem(problem, child);
    } else {
      FillDomain(problem, tier - 1, child);
    }
  }
  if (problem.slice > 1 && tier == problem.slice_tier) {
    for (int32_t& value : open) {
      if (value > 0) value -= value % problem.slice;
    }
  }
  events_.push_back({Kind::kExit, tier, domain, decisions_.size()});
  Merge(table_[t + 1], open);
}

void DomainTable::FillItem(const LeafProblem& problem, int32_t item) {
  const int32_t size = problem.CapacityOf(lowest_, item);
  if (size == 0) return;
  std::vector<int32_t>& open = table_[static_cast<size_t>(lowest_) + 1];
  if (problem.FreeOfCharge(lowest_, item)) {
    for (int32_t& value : open) value += size;
    return;
  }
  events_.push_back({Kind::kItem, lowest_, item, decisions_.size()});
  const size_t base = decisions_.size();
  decisions_.resize(base + states_);
  const size_t row = static_cast<size_t>(limits_[static_cast<size_t>(lowest_)]) + 1;
  for (size_t start = 0; start < states_; start += row) {
    for (size_t i = start + row - 1; i > start; --i) {
      const int32_t taken = open[i - 1] + size;
      const bool better = taken > open[i];
      decisions_[base + i] = better ? 1 : 0;
      open[i] = better ? taken : open[i];
    }
  }
}

// Keeps the larger value at each entry, and whether it came from `from`. Only strictly larger
// values replace, so ties go to the domains that come first.
void DomainTable::Merge(std::vector<int32_t>& into, const std::vector<int32_t>& from) {
  const size_t base = decisions_.size();
  decisions_.resize(base + states_);
  for (size_t i = 0; i < states_; ++i) {
    const bool better = from[i] > into[i];
    decisions_[base + i] = better ? 1 : 0;
    into[i] = better ? from[i] : into[i];
  }
}

// Replays the events backwards. `level` is the table that the current entry belongs to: an exit
// event leads into its domain if the entry came from there, and the enter event leads out again and
// gives back the domain's price.
void DomainTable::Choose(const LeafProblem& problem, size_t state) {
  chosen_.clear();
  Tier level = problem.tiers;  // the tier whose table the entry is in
  for (size_t i = events_.size(); i-- > 0;) {
    const Event& event = events_[i];
    if (event.kind == Kind::kExit) {
      if (level == event.tier + 1 && decisions_[event.decisions + state] != 0) level = event.tier;
    } else if (event.kind == Kind::kEnter) {
      if (level != event.tier) continue;
      level = event.tier + 1;
      if (!problem.FreeOfCharge(event.tier, event.domain)) {
        state -= stride_[static_cast<size_t>(event.tier)];
      }
    } else if (level == lowest_ + 1 && decisions_[event.decisions + state] != 0) {
      chosen_.push_back(event.domain);
      state -= stride_[static_cast<size_t>(lowest_)];
    }
  }
  std::reverse(chosen_.begin(), chosen_.end());
}

}  // namespace longhaul::scheduler::internal
