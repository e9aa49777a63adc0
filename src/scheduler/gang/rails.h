// Rail alignment: every task of a gang holds the same local GPUs on its host.
//
// GPU i of every host hangs on rail i. Tasks of fewer GPUs than a host has talk across rails
// unless all hold the same local indices. A host is the mask of its free GPUs; a leaf is a
// histogram of hosts by mask, and the sum over supersets of a mask counts the hosts that can give
// it. The placement table (equal_tasks.h) is run once a legal mask that can be best, one task a
// host, and the best is kept: fewest domains, then least leftover, then fewest GPUs left over on
// the chosen hosts, then the lowest mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/gang/domain_tree.h"
#include "scheduler/gang/equal_tasks.h"

namespace longhaul::scheduler {

constexpr int32_t kMaxRails = 8;

// The masks of `gpus` GPUs that respect the islands (masks of GPUs joined by NVLink): inside one
// island where it is large enough, else whole islands and at most one in part. Ascending. Requires
// disjoint, non-empty islands and 1 <= GPUs <= the GPUs of all islands <= kMaxRails.
std::vector<uint8_t> LegalMasks(std::span<const uint8_t> islands, int32_t gpus);

class RailTable {
 public:
  // All hosts start with no free GPU. Requires 1 <= rails <= kMaxRails; the tree outlives it.
  RailTable(const DomainTree& tree, int32_t rails);

  void Set(int32_t host, uint8_t free_gpus);

  const DomainTree& tree() const { return *tree_; }
  int32_t rails() const { return rails_; }
  uint8_t OnHost(int32_t host) const { return host_[static_cast<size_t>(host)]; }

  // Hosts of the leaf whose free GPUs include the mask, for all masks: rails x 2^(rails-1) adds.
  void SupersetCounts(int32_t leaf, std::span<int32_t> counts) const;

 private:
  const DomainTree* tree_;
  int32_t rails_;
  std::vector<uint8_t> host_;
  std::vector<int32_t> histogram_;  // [leaf][mask]
};

struct RailAnswer {
  uint8_t mask = 0;  // the local GPUs that each task holds
  EqualTasksAnswer placement;
};

// Places `request.tasks` tasks, one a host, all on the same legal mask. request.slice_tier must not
// be kHostTier unless slice is 1. placement.placed is false when no mask serves.
RailAnswer PlaceOnRails(const RailTable& table, std::span<const uint8_t> legal_masks,
                        const EqualTasksRequest& request, EqualTasksSolver& solver);

}  // namespace longhaul::scheduler
