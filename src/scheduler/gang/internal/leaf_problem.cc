#include "scheduler/gang/internal/leaf_problem.h"

#include <algorithm>

namespace longhaul::scheduler::internal {

namespace {

void CheckRequest(const DomainTree& tree, const EqualTasksRequest& request) {
  CHECK(request.tasks >= 1 && request.tasks <= kMaxGangTasks) << request.tasks << " tasks";
  CHECK(request.slice >= 1 && request.tasks % request.slice == 0)
      << request.tasks << " tasks in slices of " << request.slice;
  CHECK(request.slice_tier >= kHostTier && request.slice_tier < tree.tiers());
  CHECK(request.required_tier >= kHostTier);
  CHECK(request.within_tier >= kLeafTier);
  if (!request.free_of_charge.empty()) {
    CHECK(request.free_of_charge.size() == static_cast<size_t>(tree.leaves()));
    CHECK(request.required_tier >= tree.tiers()) << "repairs are bounded by within_tier";
  }
}

}  // namespace

void LeafProblem::Load(const SlotTable& table, const EqualTasksRequest& request) {
  slots = &table;
  tree = &table.tree();
  tiers = tree->tiers();
  CheckRequest(*tree, request);
  const bool sliced = request.slice > 1 && request.slice_tier < request.required_tier;
  host_slice = sliced && request.slice_tier == kHostTier ? request.slice : 1;
  slice = sliced && request.slice_tier != kHostTier ? request.slice : 1;
  slice_tier = request.slice_tier;
  units = request.tasks / host_slice;
  any_free = !request.free_of_charge.empty();

  const int32_t first_leaf = tree->FirstLeaf(request.within_tier, request.within_domain);
  const int32_t last_leaf = tree->LastLeaf(request.within_tier, request.within_domain);
  for (Tier tier = 0; tier < tiers; ++tier) {
    const auto t = static_cast<size_t>(tier);
    first[t] = tree->DomainOf(tier, tree->FirstHost(kLeafTier, first_leaf));
    last[t] = tree->DomainOf(tier, tree->FirstHost(kLeafTier, last_leaf - 1)) + 1;
    capacity[t].assign(static_cast<size_t>(tree->domains(tier)), 0);
    free[t].assign(any_free ? static_cast<size_t>(tree->domains(tier)) : 0, 0);
    for (int32_t domain = first[t]; domain < last[t]; ++domain) {
      int32_t sum = 0;
      uint8_t is_free = 0;
      if (tier == kLeafTier) {
        if (host_slice == 1) {
          sum = table.InLeaf(domain);
        } else {
          const std::span<const int32_t> hosts = table.Histogram(domain);
          for (size_t k = 1; k < hosts.size(); ++k) sum += hosts[k] * Units(static_cast<int>(k));
        }
        if (any_free) is_free = request.free_of_charge[static_cast<size_t>(domain)];
      } else {
        const int32_t begin = std::max(tree->First(tier, domain), first[t - 1]);
        const int32_t end = std::min(tree->Last(tier, domain), last[t - 1]);
        for (int32_t child = begin; child < end; ++child) {
          sum += CapacityOf(tier - 1, child);
          if (FreeOfCharge(tier - 1, child)) is_free = 1;
        }
      }
      if (tier == slice_tier) sum -= sum % slice;
      capacity[t][static_cast<size_t>(domain)] = sum;
      if (any_free) free[t][static_cast<size_t>(domain)] = is_free;
    }
  }
}

int32_t LeafProblem::FewestHosts(int32_t leaf, int32_t wanted_units) const {
  const std::span<const int32_t> hosts = slots->Histogram(leaf);
  int32_t count = 0;
  for (size_t k = hosts.size() - 1; wanted_units > 0; --k) {
    const int32_t each = Units(static_cast<int32_t>(k));
    CHECK(each > 0) << "leaf " << leaf << " lacks " << wanted_units << " units";
    const int32_t used = std::min(hosts[k], (wanted_units + each - 1) / each);
    count += used;
    wanted_units -= used * each;
  }
  return count;
}

}  // namespace longhaul::scheduler::internal
