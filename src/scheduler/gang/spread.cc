#include "scheduler/gang/spread.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace longhaul::scheduler {

SpreadAnswer SpreadTasks(std::span<const int32_t> free, std::span<const int32_t> load,
                         int32_t tasks, int32_t max_per_domain) {
  CHECK(free.size() == load.size() && tasks >= 0 && max_per_domain >= 1);
  SpreadAnswer answer;
  answer.per_domain.assign(free.size(), 0);
  const auto room = [&](size_t domain) {
    return std::max(
        0, std::min(free[domain], max_per_domain - load[domain]) - answer.per_domain[domain]);
  };
  // The least loaded first, then most room, then the lower number.
  using Entry = std::tuple<int32_t, int32_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto enter = [&](size_t domain) {
    if (room(domain) == 0) return;
    queue.emplace(load[domain] + answer.per_domain[domain], -room(domain), domain);
  };
  for (size_t domain = 0; domain < free.size(); ++domain) {
    CHECK(free[domain] >= 0 && load[domain] >= 0) << "domain " << domain;
    enter(domain);
  }
  // A domain has at most one entry in the queue, and the entry is pushed again with the new load,
  // so no entry is ever stale.
  while (answer.fits < tasks && !queue.empty()) {
    const size_t domain = std::get<2>(queue.top());
    queue.pop();
    ++answer.per_domain[domain];
    ++answer.fits;
    enter(domain);
  }
  answer.placed = answer.fits == tasks;
  if (!answer.placed) answer.per_domain.assign(free.size(), 0);
  return answer;
}

int32_t LargestSpread(const SlotTable& slots, Tier required_tier, Tier spread_tier,
                      int32_t max_per_domain) {
  CHECK(spread_tier >= kLeafTier && spread_tier < required_tier && max_per_domain >= 1);
  const DomainTree& tree = slots.tree();
  // Domains are numbered in the order of their hosts, so those within one domain of the required
  // tier follow one another.
  const bool anywhere = required_tier == kClusterTier;
  int32_t most = 0;
  int32_t here = 0;  // in the present domain of the required tier
  int32_t of = 0;
  for (int32_t d = 0; d < tree.domains(spread_tier); ++d) {
    const int32_t next =
        anywhere ? 0 : tree.DomainOf(required_tier, tree.FirstHost(spread_tier, d));
    if (next != of) here = 0;
    of = next;
    here += std::min(slots.In(spread_tier, d), max_per_domain);
    most = std::max(most, here);
  }
  return most;
}

}  // namespace longhaul::scheduler
