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

}  // namespace longhaul::scheduler
