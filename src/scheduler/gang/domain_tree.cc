#include "scheduler/gang/domain_tree.h"

#include <string>
#include <utility>

namespace longhaul::scheduler {

namespace {

Status CheckTier(const std::vector<int32_t>& bounds, size_t tier) {
  const std::string name = "tier " + std::to_string(tier);
  if (bounds.size() < 2) return InvalidArgument(name + " has no domain");
  if (bounds.front() != 0) {
    return InvalidArgument(name + " must start at 0, not at " + std::to_string(bounds.front()));
  }
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] <= bounds[i - 1]) {
      return InvalidArgument(name + ": domain " + std::to_string(i - 1) + " is empty: [" +
                             std::to_string(bounds[i - 1]) + ", " + std::to_string(bounds[i]) +
                             ")");
    }
  }
  return {};
}

}  // namespace

Result<DomainTree> DomainTree::Create(std::vector<std::vector<int32_t>> bounds) {
  if (bounds.empty()) return InvalidArgument("a tree of domains needs a tier of leaves");
  if (bounds.size() > static_cast<size_t>(kMaxTiers)) {
    return InvalidArgument("a tree of domains has at most " + std::to_string(kMaxTiers) +
                           " tiers, not " + std::to_string(bounds.size()));
  }
  for (size_t tier = 0; tier < bounds.size(); ++tier) {
    RETURN_IF_ERROR(CheckTier(bounds[tier], tier));
    if (tier == 0) continue;
    const size_t below = bounds[tier - 1].size() - 1;
    if (bounds[tier].back() != static_cast<int32_t>(below)) {
      return InvalidArgument("tier " + std::to_string(tier) + " covers " +
                             std::to_string(bounds[tier].back()) + " of the " +
                             std::to_string(below) + " domains below");
    }
  }
  if (bounds.front().back() > kMaxHosts) {
    return InvalidArgument("at most " + std::to_string(kMaxHosts) + " hosts, not " +
                           std::to_string(bounds.front().back()));
  }
  return DomainTree(std::move(bounds));
}

DomainTree::DomainTree(std::vector<std::vector<int32_t>> bounds) : bounds_(std::move(bounds)) {
  first_host_.push_back(bounds_.front());
  first_leaf_.emplace_back(bounds_.front().size());
  for (size_t leaf = 0; leaf < first_leaf_.front().size(); ++leaf) {
    first_leaf_.front()[leaf] = static_cast<int32_t>(leaf);
  }
  for (size_t tier = 1; tier < bounds_.size(); ++tier) {
    std::vector<int32_t> hosts;
    std::vector<int32_t> leaves;
    for (const int32_t child : bounds_[tier]) {
      hosts.push_back(first_host_[tier - 1][static_cast<size_t>(child)]);
      leaves.push_back(first_leaf_[tier - 1][static_cast<size_t>(child)]);
    }
    first_host_.push_back(std::move(hosts));
    first_leaf_.push_back(std::move(leaves));
  }
  for (const std::vector<int32_t>& first : first_host_) {
    std::vector<int32_t> of_host(static_cast<size_t>(hosts()));
    for (size_t domain = 0; domain + 1 < first.size(); ++domain) {
      for (int32_t host = first[domain]; host < first[domain + 1]; ++host) {
        of_host[static_cast<size_t>(host)] = static_cast<int32_t>(domain);
      }
    }
    domain_of_host_.push_back(std::move(of_host));
  }
}

int32_t DomainTree::FirstHost(Tier tier, int32_t domain) const {
  if (tier == kHostTier) return domain;
  if (tier >= tiers()) return 0;
  return first_host_[static_cast<size_t>(tier)][static_cast<size_t>(domain)];
}

int32_t DomainTree::LastHost(Tier tier, int32_t domain) const {
  if (tier == kHostTier) return domain + 1;
  if (tier >= tiers()) return hosts();
  return first_host_[static_cast<size_t>(tier)][static_cast<size_t>(domain) + 1];
}

int32_t DomainTree::FirstLeaf(Tier tier, int32_t domain) const {
  if (tier == kHostTier) return LeafOf(domain);
  if (tier >= tiers()) return 0;
  return first_leaf_[static_cast<size_t>(tier)][static_cast<size_t>(domain)];
}

int32_t DomainTree::LastLeaf(Tier tier, int32_t domain) const {
  if (tier == kHostTier) return LeafOf(domain) + 1;
  if (tier >= tiers()) return leaves();
  return first_leaf_[static_cast<size_t>(tier)][static_cast<size_t>(domain) + 1];
}

}  // namespace longhaul::scheduler
