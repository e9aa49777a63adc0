#include "scheduler/gang/equal_tasks.h"

#include <algorithm>
#include <limits>

#include "scheduler/gang/internal/domain_table.h"
#include "scheduler/gang/internal/host_choice.h"
#include "scheduler/gang/internal/leaf_problem.h"
#include "scheduler/gang/internal/leaf_search.h"

namespace longhaul::scheduler {

namespace {

int64_t HoleValue(std::span<const int64_t> values, int32_t slots) {
  if (values.empty()) return 0;
  return values[std::min(static_cast<size_t>(slots), values.size() - 1)];
}

}  // namespace

class EqualTasksSolver::Impl {
 public:
  void Solve(const SlotTable& slots, const EqualTasksRequest& request, EqualTasksAnswer& answer);

 private:
  bool InOneLeaf(const EqualTasksRequest& request, EqualTasksAnswer& answer);
  void InLeaves(const EqualTasksRequest& request, EqualTasksAnswer& answer);
  // Chosen and free leaves, those whose slots should stay free last.
  void OrderLeaves(const EqualTasksRequest& request);
  void AppendInLeaves(const EqualTasksRequest& request, EqualTasksAnswer& answer);
  void AppendInDomains(EqualTasksAnswer& answer);
  int64_t HoleLoss(const EqualTasksRequest& request, int32_t leaf, int32_t units) const;
  int32_t TopOf(int32_t leaf) const {
    return problem_.tree->DomainOf(problem_.tiers - 1, problem_.tree->FirstHost(kLeafTier, leaf));
  }

  internal::LeafProblem problem_;
  internal::DomainTable table_;
  internal::LeafSearch search_;
  internal::HostChooser hosts_;
  internal::LeafChoice choice_;
  std::vector<int32_t> order_;  // leaves
  std::vector<int32_t> units_;  // of order_'s leaves
};

// Where one leaf suffices, the table is not needed: one domain of each tier is the least there can
// be. Leaves that are free of charge break this rule, since several of them cost less than one
// other leaf, so the short cut is taken only without them.
void EqualTasksSolver::Impl::Solve(const SlotTable& slots, const EqualTasksRequest& request,
                                   EqualTasksAnswer& answer) {
  answer.placed = false;
  answer.domains = {};
  answer.hosts = answer.leaf_leftover = answer.host_leftover = answer.hosts_bound = 0;
  answer.hosts_proven = answer.leftover_proven = true;
  answer.tasks.clear();
  problem_.Load(slots, request);
  if (!problem_.any_free && InOneLeaf(request, answer)) {
    answer.placed = true;
  } else if (request.required_tier > kLeafTier &&
             table_.FewestDomains(problem_, request.required_tier, answer.domains,
                                  choice_.leaves)) {
    InLeaves(request, answer);
    answer.placed = true;
  }
  if (!answer.placed) {
    answer.domains = {};
    return;
  }
  std::sort(answer.tasks.begin(), answer.tasks.end(),
            [](const HostTasks& a, const HostTasks& b) { return a.host < b.host; });
  answer.hosts = static_cast<int32_t>(answer.tasks.size());
  answer.hosts_bound = answer.hosts_proven ? answer.hosts : answer.hosts_bound;
}

// What the free slots of the leaf and of its top domain lose in value when `units` of them are
// taken.
int64_t EqualTasksSolver::Impl::HoleLoss(const EqualTasksRequest& request, int32_t leaf,
                                         int32_t units) const {
  const int32_t in_leaf = problem_.CapacityOf(kLeafTier, leaf);
  const int32_t on_top = problem_.CapacityOf(problem_.tiers - 1, TopOf(leaf));
  return HoleValue(request.holes.leaf, in_leaf) - HoleValue(request.holes.leaf, in_leaf - units) +
         HoleValue(request.holes.top, on_top) -
         HoleValue(request.holes.top, std::max(0, on_top - units));
}

// Compares the leaves by hosts, then by capacity (best fit), then by the value of the hole. Strict
// comparisons keep the lowest leaf of equals. Linear in the leaves.
bool EqualTasksSolver::Impl::InOneLeaf(const EqualTasksRequest& request, EqualTasksAnswer& answer) {
  int32_t best = -1;
  int32_t best_hosts = std::numeric_limits<int32_t>::max();
  int32_t best_units = 0;
  int64_t best_loss = 0;
  for (int32_t leaf = problem_.FirstOf(kLeafTier); leaf < problem_.LastOf(kLeafTier); ++leaf) {
    const int32_t units = problem_.CapacityOf(kLeafTier, leaf);
    if (units < problem_.units) continue;
    const int32_t hosts = problem_.FewestHosts(leaf, problem_.units);
    if (hosts > best_hosts || (request.required_tier == kHostTier && hosts > 1)) continue;
    const int64_t loss = HoleLoss(request, leaf, problem_.units);
    const bool better = hosts != best_hosts   ? true
                        : units != best_units ? units < best_units
                                              : loss < best_loss;
    if (!better) continue;
    best = leaf;
    best_hosts = hosts;
    best_units = units;
    best_loss = loss;
  }
  if (best < 0) return false;
  for (Tier tier = 0; tier < problem_.tiers; ++tier) answer.domains[static_cast<size_t>(tier)] = 1;
  answer.leaf_leftover = (best_units - problem_.units) * problem_.host_slice;
  answer.host_leftover = hosts_.Append(problem_, std::span(&best, 1), problem_.units, answer.tasks);
  return true;
}

void EqualTasksSolver::Impl::InLeaves(const EqualTasksRequest& request, EqualTasksAnswer& answer) {
  // Where slices span leaves, the capacity of a domain is not the sum of its leaves, which the
  // search for fewer hosts requires. The leaves of the table are kept then, and the fewest hosts
  // are bounded by the largest host alone.
  const bool sliced_above = problem_.slice > 1 && problem_.slice_tier > kLeafTier;
  if (!sliced_above) {
    search_.Improve(problem_, answer.domains, request.max_steps, choice_);
    answer.hosts_proven = choice_.hosts_proven;
    answer.leftover_proven = choice_.leftover_proven;
    answer.hosts_bound = choice_.hosts_bound;
  }
  OrderLeaves(request);
  int32_t units = -problem_.units;
  for (const int32_t leaf : order_) units += problem_.CapacityOf(kLeafTier, leaf);
  answer.leaf_leftover = units * problem_.host_slice;
  if (sliced_above) {
    AppendInDomains(answer);
    const int32_t largest = problem_.slots->max_slots();
    answer.hosts_bound = (problem_.units + largest - 1) / largest;
    const auto hosts = static_cast<int32_t>(answer.tasks.size());
    answer.hosts_proven = hosts == answer.hosts_bound;
    answer.leftover_proven = answer.hosts_proven && answer.leaf_leftover == 0;
  } else if (problem_.slice > 1) {
    AppendInLeaves(request, answer);
  } else {
    answer.host_leftover = hosts_.Append(problem_, order_, problem_.units, answer.tasks);
  }
  // Slices dealt out in a hurry may take more hosts than the choice was counted with.
  if (!sliced_above && static_cast<int32_t>(answer.tasks.size()) > choice_.hosts) {
    answer.hosts_proven = false;
    answer.leftover_proven = false;
  }
}

// All leftover slots fit into one leaf, as no chosen leaf can be spared. It stays in the top domain
// where a hole gains most from it.
void EqualTasksSolver::Impl::OrderLeaves(const EqualTasksRequest& request) {
  order_.clear();
  for (int32_t leaf = problem_.FirstOf(kLeafTier); leaf < problem_.LastOf(kLeafTier); ++leaf) {
    const bool free = problem_.FreeOfCharge(kLeafTier, leaf);
    if (free && problem_.CapacityOf(kLeafTier, leaf) > 0) order_.push_back(leaf);
  }
  // What a repair needs beyond the survivors' leaves is taken last, so its leaves keep the holes.
  const bool has_free = !order_.empty();
  order_.insert(order_.end(), choice_.leaves.begin(), choice_.leaves.end());
  if (has_free || request.holes.top.empty() || order_.empty()) return;
  int32_t leftover = -problem_.units;
  for (const int32_t leaf : order_) leftover += problem_.CapacityOf(kLeafTier, leaf);
  size_t best = order_.size() - 1;
  int64_t best_gain = -1;
  for (size_t i = order_.size(); i-- > 0;) {
    const int32_t top = TopOf(order_[i]);
    if (i + 1 < order_.size() && TopOf(order_[i + 1]) == top) continue;
    int32_t stays = problem_.CapacityOf(problem_.tiers - 1, top);
    for (const int32_t leaf : order_) {
      if (TopOf(leaf) == top) stays -= problem_.CapacityOf(kLeafTier, leaf);
    }
    stays = std::max(stays, 0);
    const int64_t gain =
        HoleValue(request.holes.top, stays + leftover) - HoleValue(request.holes.top, stays);
    // The rotation moves the last leaf of the best top domain to the end of the order: what Append
    // leaves free, it leaves in the last leaves.
    if (gain > best_gain) {
      best = i;
      best_gain = gain;
    }
  }
  std::rotate(order_.begin() + static_cast<ptrdiff_t>(best),
              order_.begin() + static_cast<ptrdiff_t>(best) + 1, order_.end());
}

// Slices of the leaf tier: each leaf takes whole slices. The distribution over the leaves that
// needs the fewest hosts is a knapsack of `expected` steps; beyond the limit the leaves are filled
// in their order, and the caller marks the hosts as unproven if there are more of them.
void EqualTasksSolver::Impl::AppendInLeaves(const EqualTasksRequest& request,
                                            EqualTasksAnswer& answer) {
  int64_t steps = 0;
  const int64_t slices = problem_.units / problem_.slice;
  int64_t expected = 0;  // of the exact distribution
  for (const int32_t leaf : order_) {
    expected += slices * (problem_.CapacityOf(kLeafTier, leaf) / problem_.slice);
  }
  if (expected <= request.max_steps) {
    hosts_.FewestHostsOfSlices(problem_, order_, problem_.units, units_, steps);
  } else {
    int32_t left = problem_.units;
    units_.assign(order_.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      units_[i] = std::min(left, problem_.CapacityOf(kLeafTier, order_[i]));
      left -= units_[i];
    }
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    answer.host_leftover +=
        hosts_.Append(problem_, std::span(&order_[i], 1), units_[i], answer.tasks);
  }
}

// Slices of a tier above the leaves: each of its domains takes whole slices, the last ones fewer.
void EqualTasksSolver::Impl::AppendInDomains(EqualTasksAnswer& answer) {
  const Tier tier = problem_.slice_tier;
  const auto domain_of = [&](int32_t leaf) {
    return problem_.tree->DomainOf(tier, problem_.tree->FirstHost(kLeafTier, leaf));
  };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](int32_t a, int32_t b) { return domain_of(a) < domain_of(b); });
  int32_t left = problem_.units;
  for (size_t begin = 0; begin < order_.size();) {
    size_t end = begin;
    int32_t sum = 0;
    while (end < order_.size() && domain_of(order_[end]) == domain_of(order_[begin])) {
      sum += problem_.CapacityOf(kLeafTier, order_[end]);
      ++end;
    }
    const int32_t units = std::min(left, sum - sum % problem_.slice);
    answer.host_leftover +=
        hosts_.Append(problem_, std::span(order_).subspan(begin, end - begin), units, answer.tasks);
    left -= units;
    begin = end;
  }
  CHECK(left == 0) << left << " units are left";
}

EqualTasksSolver::EqualTasksSolver() : impl_(std::make_unique<Impl>()) {}
EqualTasksSolver::EqualTasksSolver(EqualTasksSolver&&) noexcept = default;
EqualTasksSolver& EqualTasksSolver::operator=(EqualTasksSolver&&) noexcept = default;
EqualTasksSolver::~EqualTasksSolver() = default;

void EqualTasksSolver::Solve(const SlotTable& slots, const EqualTasksRequest& request,
                             EqualTasksAnswer& answer) {
  impl_->Solve(slots, request, answer);
}

int32_t LargestGang(const SlotTable& slots, Tier required_tier, int32_t slice, Tier slice_tier) {
  const DomainTree& tree = slots.tree();
  if (required_tier == kHostTier) {
    int32_t most = 0;
    for (int32_t host = 0; host < tree.hosts(); ++host) {
      most = std::max(most, slots.OnHost(host));
    }
    return most - most % slice;
  }
  // A request for one slice only: the capacities that Load computes do not depend on the number of
  // tasks.
  internal::LeafProblem problem;
  EqualTasksRequest request;
  request.tasks = slice;
  request.slice = slice;
  request.slice_tier = slice_tier;
  request.required_tier = required_tier;
  problem.Load(slots, request);
  const Tier tier = std::min(required_tier, tree.tiers() - 1);
  int32_t most = 0;
  int32_t all = 0;
  for (int32_t domain = 0; domain < tree.domains(tier); ++domain) {
    const int32_t units = problem.CapacityOf(tier, domain);
    most = std::max(most, units);
    all += units;
  }
  const int32_t tasks = (required_tier >= tree.tiers() ? all : most) * problem.host_slice;
  return tasks - tasks % slice;
}

}  // namespace longhaul::scheduler
