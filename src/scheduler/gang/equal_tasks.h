// Which hosts a gang of equal tasks gets: the fewest switches, exactly.
//
// Minimised in this order: domains of the top tier, of each tier below, leaves, hosts, slots left
// free in the chosen leaves, lost holes (where one leaf suffices; else the leftover stays where it
// is worth most), slots left free on the chosen hosts. Ties go to lower leaves and hosts.
//
// A table holds, for every number of domains of each tier, the largest capacity that so many can
// have; it is filled leaf by leaf, a domain being open from its first leaf to its last, so that any
// number of tiers nest in one pass (leaves x entries steps). The fewest domains are read from it
// without any search: always exact. The least leftover comes from the same pass with a set of
// reachable sums an entry. The fewest hosts follow from the leaves when one leaf suffices or a
// host holds one task; else from a branch and bound whose bounds are tables too: for a host's share
// t, H hosts of the chosen leaves hold at most H t + sum over their hosts of max(0, slots - t).
// Beyond the step limit, hosts and leftover are feasible but unproven, and the answer says so.
//
// Slices: every `slice` tasks lie inside one domain of `slice_tier`; capacities count whole slices.
//
// Left out: tasks that differ (unlike_tasks.h), which GPUs of a host (rails.h), who gets which
// rank (rank_order.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduler/gang/domain_tree.h"
#include "scheduler/gang/slot_table.h"

namespace longhaul::scheduler {

constexpr int32_t kMaxGangTasks = 16'384;

// What a hole is worth: leaf[c] for a leaf with c free slots, top[c] for a domain of the top tier.
// Both must not fall with c; beyond their end the last value holds; empty means worth nothing.
struct HoleValues {
  std::span<const int64_t> leaf;
  std::span<const int64_t> top;
};

struct EqualTasksRequest {
  int32_t tasks = 1;                  // 1 to kMaxGangTasks, a multiple of `slice`
  Tier required_tier = kClusterTier;  // the whole gang lies in one domain of this tier
  int32_t slice = 1;
  Tier slice_tier = kLeafTier;  // kHostTier, or a tier of the tree

  // Leaves that cost nothing, with the domains above them, as a gang's survivors are there already;
  // one entry a leaf, or empty. A required domain is then given by within_domain.
  std::span<const uint8_t> free_of_charge;

  // A domain that the tasks must stay in; kClusterTier is no restriction.
  Tier within_tier = kClusterTier;
  int32_t within_domain = 0;

  HoleValues holes;
  int64_t max_steps = 200'000;  // of searches beyond the table; some nanoseconds each
};

struct HostTasks {
  int32_t host = 0;
  int32_t tasks = 0;
  friend bool operator==(const HostTasks&, const HostTasks&) = default;
};

struct EqualTasksAnswer {
  bool placed = false;
  // Domains crossed, a tier; leaves are domains[kLeafTier]. Those free of charge aren't counted.
  std::array<int32_t, kMaxTiers> domains{};
  int32_t hosts = 0;
  int32_t leaf_leftover = 0;     // slots of the chosen leaves that stay free, whole slices only
  int32_t host_leftover = 0;     // slots of the chosen hosts that stay free
  bool hosts_proven = true;      // no choice with as few domains uses fewer hosts
  bool leftover_proven = true;   // and none with as few hosts leaves fewer slots in its leaves
  int32_t hosts_bound = 0;       // no choice with as few domains uses fewer hosts than this
  std::vector<HostTasks> tasks;  // ascending by host, each with one task at least
};

// Holds the tables between calls, so that a placement allocates nothing once they have grown.
class EqualTasksSolver {
 public:
  EqualTasksSolver();
  EqualTasksSolver(EqualTasksSolver&&) noexcept;
  EqualTasksSolver& operator=(EqualTasksSolver&&) noexcept;
  ~EqualTasksSolver();

  // Fills `answer`; placed is false when the slots don't suffice under the request's rules.
  // Deterministic. Requires a request within the limits named at its fields.
  void Solve(const SlotTable& slots, const EqualTasksRequest& request, EqualTasksAnswer& answer);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The most tasks (whole slices) that one domain of `required_tier` can take now.
int32_t LargestGang(const SlotTable& slots, Tier required_tier, int32_t slice, Tier slice_tier);

}  // namespace longhaul::scheduler
