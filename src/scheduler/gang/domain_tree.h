// The levels of the network as intervals: hosts lie in leaves, leaves in blocks, and so on upwards.
//
// Hosts are numbered so that every domain is an interval of the level below. Tier 0 are the leaves
// (intervals of hosts), tier 1 the blocks (intervals of leaves), and at most kMaxTiers in all; the
// cluster above the top tier is no tier of its own. A second forest over the same hosts (racks of
// one NVLink switch, say) is another DomainTree over its own numbering.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace longhaul::scheduler {

// A tier of the tree by its number, and the two levels that are no tiers.
using Tier = int32_t;
constexpr Tier kHostTier = -1;
constexpr Tier kLeafTier = 0;
constexpr Tier kBlockTier = 1;
constexpr Tier kMaxTiers = 4;          // leaf, block, hall, site
constexpr Tier kClusterTier = 100;     // above every tier, however many there are
constexpr int32_t kMaxHosts = 65'536;  // the scheduler's limit on nodes

class DomainTree {
 public:
  // bounds[tier] lists the first child of each domain and, last, the number of children:
  // {0, 16, 32} are two leaves of 16 hosts. Refuses no tier, more than kMaxTiers, bounds that don't
  // rise from 0, tiers that don't cover each other, and more than kMaxHosts hosts.
  static Result<DomainTree> Create(std::vector<std::vector<int32_t>> bounds);

  Tier tiers() const { return static_cast<Tier>(bounds_.size()); }
  int32_t hosts() const { return bounds_.front().back(); }
  int32_t leaves() const { return domains(kLeafTier); }
  int32_t domains(Tier tier) const { return static_cast<int32_t>(At(tier).size()) - 1; }

  // The children of a domain are [First, Last) of the tier below: hosts for a leaf.
  int32_t First(Tier tier, int32_t domain) const { return At(tier)[static_cast<size_t>(domain)]; }
  int32_t Last(Tier tier, int32_t domain) const {
    return At(tier)[static_cast<size_t>(domain) + 1];
  }

  // The hosts of a domain are [FirstHost, LastHost), its leaves [FirstLeaf, LastLeaf). kHostTier
  // and kClusterTier are understood too; the cluster is domain 0.
  int32_t FirstHost(Tier tier, int32_t domain) const;
  int32_t LastHost(Tier tier, int32_t domain) const;
  int32_t FirstLeaf(Tier tier, int32_t domain) const;
  int32_t LastLeaf(Tier tier, int32_t domain) const;

  // The domain of `tier` that holds the host. Requires a tier of the tree.
  int32_t DomainOf(Tier tier, int32_t host) const {
    return domain_of_host_[static_cast<size_t>(tier)][static_cast<size_t>(host)];
  }
  int32_t LeafOf(int32_t host) const { return DomainOf(kLeafTier, host); }

 private:
  explicit DomainTree(std::vector<std::vector<int32_t>> bounds);

  const std::vector<int32_t>& At(Tier tier) const { return bounds_[static_cast<size_t>(tier)]; }

  std::vector<std::vector<int32_t>> bounds_;
  std::vector<std::vector<int32_t>> first_host_;      // [tier][domain], with the end
  std::vector<std::vector<int32_t>> first_leaf_;      // [tier][domain], with the end
  std::vector<std::vector<int32_t>> domain_of_host_;  // [tier][host]
};

}  // namespace longhaul::scheduler
