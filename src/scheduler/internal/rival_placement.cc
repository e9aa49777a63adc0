#include "scheduler/internal/rival_placement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

struct Interval {
  int32_t first = 0;  // hosts
  int32_t last = 0;
};

int32_t SlotsIn(const SlotTable& table, const Interval& in) {
  int32_t sum = 0;
  for (int32_t host = in.first; host < in.last; ++host) sum += table.OnHost(host);
  return sum;
}

// Takes from the hosts in this order until all tasks have one.
void Fill(const SlotTable& table, const std::vector<int32_t>& order, int32_t tasks,
          std::vector<HostTasks>& hosts) {
  hosts.clear();
  for (const int32_t host : order) {
    const int32_t here = std::min(tasks, table.OnHost(host));
    if (here > 0) hosts.push_back({host, here});
    tasks -= here;
    if (tasks == 0) break;
  }
  std::sort(hosts.begin(), hosts.end(),
            [](const HostTasks& a, const HostTasks& b) { return a.host < b.host; });
}

std::vector<int32_t> HostsOf(const Interval& in) {
  std::vector<int32_t> order;
  for (int32_t host = in.first; host < in.last; ++host) order.push_back(host);
  return order;
}

std::vector<int32_t> FullestFirst(const SlotTable& table, const Interval& in) {
  std::vector<int32_t> order = HostsOf(in);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return table.OnHost(a) < table.OnHost(b); });
  return order;
}

std::vector<Interval> DomainsOf(const DomainTree& tree, Tier tier, const Interval& within) {
  std::vector<Interval> domains;
  if (tier == kClusterTier) return {within};
  const int32_t count = tier == kHostTier ? tree.hosts() : tree.domains(tier);
  for (int32_t d = 0; d < count; ++d) {
    const Interval domain = {tree.FirstHost(tier, d), tree.LastHost(tier, d)};
    if (domain.first >= within.first && domain.last <= within.last) domains.push_back(domain);
  }
  return domains;
}

// The smallest tier that holds the gang, in it the domain with the fewest free slots, and there the
// leaves with the most free slots first.
bool GreedyTree(const SlotTable& table, Tier required, const Interval& within, int32_t tasks,
                std::vector<HostTasks>& hosts) {
  std::vector<Tier> tiers;
  for (Tier tier = kHostTier; tier < table.tree().tiers(); ++tier) tiers.push_back(tier);
  tiers.push_back(kClusterTier);
  for (const Tier tier : tiers) {
    if (tier > required) return false;
    const Interval* best = nullptr;
    int32_t best_slots = 0;
    const std::vector<Interval> domains = DomainsOf(table.tree(), tier, within);
    for (const Interval& domain : domains) {
      const int32_t slots = SlotsIn(table, domain);
      if (slots < tasks || (best != nullptr && slots >= best_slots)) continue;
      best = &domain;
      best_slots = slots;
    }
    if (best == nullptr) continue;
    std::vector<Interval> leaves = tier <= kLeafTier ? std::vector<Interval>{*best}
                                                     : DomainsOf(table.tree(), kLeafTier, *best);
    std::stable_sort(leaves.begin(), leaves.end(), [&](const Interval& a, const Interval& b) {
      return SlotsIn(table, a) > SlotsIn(table, b);
    });
    std::vector<int32_t> order;
    for (const Interval& leaf : leaves) {
      for (int32_t host = leaf.first; host < leaf.last; ++host) order.push_back(host);
    }
    Fill(table, order, tasks, hosts);
    return true;
  }
  return false;
}

void Shuffle(std::vector<int32_t>& order, Random& random) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
}

bool Sampled(const SlotTable& table, Tier required, const Interval& within, int32_t tasks,
             Random& random, std::vector<HostTasks>& hosts) {
  const std::vector<Interval> leaves = DomainsOf(table.tree(), kLeafTier, within);
  if (leaves.empty()) return false;
  // A tenth of the leaves, rounded up, from a random one on.
  const size_t looked_at = std::max<size_t>(1, (leaves.size() + 9) / 10);
  const size_t begin = random.Below(leaves.size());
  std::vector<int32_t> order;
  int32_t best_slots = 0;
  size_t ties = 0;
  Interval best{};
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Interval& leaf = leaves[(begin + i) % leaves.size()];
    std::vector<int32_t> in_leaf = HostsOf(leaf);
    Shuffle(in_leaf, random);
    order.insert(order.end(), in_leaf.begin(), in_leaf.end());
    const int32_t slots = SlotsIn(table, leaf);
    // Past the sample it only continues while nothing has been found.
    if (slots < tasks || (i >= looked_at && ties > 0)) continue;
    if (ties == 0 || slots < best_slots) {
      ties = 1;
      best = leaf;
      best_slots = slots;
    } else if (slots == best_slots && random.Below(++ties) == 0) {
      best = leaf;
    }
  }
  if (ties > 0) {
    std::vector<int32_t> in_leaf = HostsOf(best);
    Shuffle(in_leaf, random);
    Fill(table, in_leaf, tasks, hosts);
    return true;
  }
  if (required < kClusterTier) return GreedyTree(table, required, within, tasks, hosts);
  if (SlotsIn(table, within) < tasks) return false;
  Fill(table, order, tasks, hosts);
  return true;
}

}  // namespace

bool ChooseAsRival(PlacementRule rule, const SlotTable& table, const EqualTasksRequest& request,
                   Random& random, std::vector<HostTasks>& hosts) {
  const DomainTree& tree = table.tree();
  const Interval within = {tree.FirstHost(request.within_tier, request.within_domain),
                           tree.LastHost(request.within_tier, request.within_domain)};
  switch (rule) {
    case PlacementRule::kGreedyTree:
      return GreedyTree(table, request.required_tier, within, request.tasks, hosts);
    case PlacementRule::kSampled:
      return Sampled(table, request.required_tier, within, request.tasks, random, hosts);
    case PlacementRule::kBestFit:
      for (const Interval& domain : DomainsOf(tree, request.required_tier, within)) {
        if (SlotsIn(table, domain) < request.tasks) continue;
        Fill(table, FullestFirst(table, domain), request.tasks, hosts);
        return true;
      }
      return false;
    case PlacementRule::kExact:
      break;
  }
  CHECK(false) << "the exact rule is no rival";
  return false;
}

}  // namespace longhaul::scheduler::internal
