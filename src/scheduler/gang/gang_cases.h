// Seeded random clusters for the tests of gang placement, and the rules of an answer, from their
// definitions.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler {

// Bounds of a tier over `children`, in intervals of random length up to `most`.
inline std::vector<int32_t> RandomBounds(Random& random, int32_t children, int32_t most) {
  std::vector<int32_t> bounds = {0};
  while (bounds.back() < children) {
    const auto step = static_cast<int32_t>(1 + random.Below(static_cast<uint64_t>(most)));
    bounds.push_back(std::min(children, bounds.back() + step));
  }
  return bounds;
}

// At most 6 blocks, 24 leaves and 200 hosts; one to three tiers.
inline DomainTree RandomTree(Random& random) {
  const auto leaves = static_cast<int32_t>(1 + random.Below(24));
  const int32_t largest = std::min(16, 200 / leaves);
  std::vector<int32_t> hosts = {0};
  for (int32_t leaf = 0; leaf < leaves; ++leaf) {
    const auto size = static_cast<int32_t>(1 + random.Below(static_cast<uint64_t>(largest)));
    hosts.push_back(hosts.back() + size);
  }
  std::vector<std::vector<int32_t>> bounds = {hosts};
  if (random.Below(5) != 0) {
    std::vector<int32_t> blocks;
    do {
      blocks = RandomBounds(random, leaves, 6);
    } while (blocks.size() > 7);
    bounds.push_back(blocks);
    if (random.Below(4) == 0) {
      bounds.push_back(RandomBounds(random, static_cast<int32_t>(blocks.size()) - 1, 3));
    }
  }
  return *DomainTree::Create(bounds);
}

// Slots up to max_slots; in some cases hosts are whole or taken, in some leaves alike.
inline void FillSlots(Random& random, SlotTable& slots) {
  const uint64_t kind = random.Below(4);
  const uint64_t full = random.Below(4);
  for (int32_t host = 0; host < slots.tree().hosts(); ++host) {
    auto count = static_cast<int32_t>(random.Below(static_cast<uint64_t>(slots.max_slots()) + 1));
    if (kind == 0) count = random.Below(2) == 0 ? 0 : slots.max_slots();
    if (kind == 1)
      count = count < slots.max_slots() / 2 ? slots.max_slots() / 2 : slots.max_slots();
    if (random.Below(4) < full / 2) count = 0;
    slots.Set(host, count);
  }
}

inline EqualTasksRequest RandomRequest(Random& random, const SlotTable& slots) {
  EqualTasksRequest request;
  const auto room = static_cast<uint64_t>(std::max(1, slots.total()));
  const uint64_t scale = random.Below(3) == 0 ? room + 2 : std::max<uint64_t>(room / 2, 1);
  request.tasks = static_cast<int32_t>(1 + random.Below(scale));
  if (random.Below(3) == 0) {
    request.slice = static_cast<int32_t>(2 + random.Below(7));
    request.slice_tier =
        static_cast<Tier>(random.Below(static_cast<uint64_t>(slots.tree().tiers()) + 1)) - 1;
    request.tasks += (request.slice - request.tasks % request.slice) % request.slice;
  }
  if (random.Below(4) == 0) {
    request.required_tier =
        static_cast<Tier>(random.Below(static_cast<uint64_t>(slots.tree().tiers()) + 1)) - 1;
  }
  return request;
}

inline std::string Describe(const SlotTable& slots, const EqualTasksRequest& request) {
  std::ostringstream text;
  const DomainTree& tree = slots.tree();
  for (Tier tier = tree.tiers() - 1; tier >= 0; --tier) {
    text << "tier " << tier << ":";
    for (int32_t d = 0; d < tree.domains(tier); ++d) text << " " << tree.Last(tier, d);
    text << "\n";
  }
  text << "slots:";
  for (int32_t leaf = 0; leaf < tree.leaves(); ++leaf) {
    text << " |";
    for (int32_t h = tree.First(0, leaf); h < tree.Last(0, leaf); ++h) {
      text << " " << slots.OnHost(h);
    }
  }
  text << "\n"
       << request.tasks << " tasks, slice " << request.slice << " in tier " << request.slice_tier
       << ", required tier " << request.required_tier;
  return text.str();
}

// How the answer breaks the request's rules or tells its own counts wrongly; empty when it doesn't.
inline std::string Violation(const SlotTable& slots, const EqualTasksRequest& request,
                             const EqualTasksAnswer& answer) {
  const DomainTree& tree = slots.tree();
  int32_t sum = 0;
  int32_t host_leftover = 0;
  std::vector<int32_t> on_host(static_cast<size_t>(tree.hosts()));
  int32_t last = -1;
  for (const HostTasks& entry : answer.tasks) {
    if (entry.host <= last) return "hosts don't ascend";
    last = entry.host;
    if (entry.tasks < 1 || entry.tasks > slots.OnHost(entry.host)) {
      return "host " + std::to_string(last) + " has " + std::to_string(entry.tasks) + " tasks";
    }
    on_host[static_cast<size_t>(entry.host)] = entry.tasks;
    sum += entry.tasks;
    host_leftover += slots.OnHost(entry.host) - entry.tasks;
  }
  if (sum != request.tasks) return std::to_string(sum) + " tasks placed";
  if (static_cast<size_t>(answer.hosts) != answer.tasks.size()) return "hosts miscounted";
  if (request.slice == 1 && answer.host_leftover != host_leftover) return "host_leftover is wrong";
  for (Tier tier = kHostTier; tier < tree.tiers(); ++tier) {
    const std::string name = " of tier " + std::to_string(tier);
    int32_t used = 0;
    const int32_t domains = tier == kHostTier ? tree.hosts() : tree.domains(tier);
    for (int32_t domain = 0; domain < domains; ++domain) {
      int32_t tasks = 0;
      for (int32_t h = tree.FirstHost(tier, domain); h < tree.LastHost(tier, domain); ++h) {
        tasks += on_host[static_cast<size_t>(h)];
      }
      used += tasks > 0 ? 1 : 0;
      const bool sliced = tier == request.slice_tier && request.slice_tier < request.required_tier;
      if (sliced && tasks % request.slice != 0) {
        return "domain " + std::to_string(domain) + name + " has " + std::to_string(tasks);
      }
    }
    if (tier == request.required_tier && used != 1) return std::to_string(used) + " domains" + name;
    if (tier >= 0 && request.free_of_charge.empty() &&
        answer.domains[static_cast<size_t>(tier)] != used) {
      return "miscounted domains" + name;
    }
  }
  return "";
}

}  // namespace longhaul::scheduler
