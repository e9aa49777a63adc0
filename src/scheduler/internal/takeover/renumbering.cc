#include "scheduler/internal/takeover/renumbering.h"

#include <algorithm>
#include <string>

namespace longhaul::scheduler::internal {

Renumbering::Renumbering(const spec::Topology& before, const DomainTree& before_tree,
                         const spec::Topology& now, const DomainTree& tree)
    : before_(&before), before_tree_(&before_tree), now_(&now), tree_(&tree) {
  same_ = IsSame();
  NumberNodes();
}

bool Renumbering::IsSame() const {
  if (before_->size() != now_->size() || before_->levels().size() != now_->levels().size() ||
      before_tree_->tiers() != tree_->tiers()) {
    return false;
  }
  for (NodeIndex node = 0; node < now_->size(); ++node) {
    if (before_->node(node).name != now_->node(node).name) return false;
    const auto host = static_cast<int32_t>(node);
    for (Tier tier = kLeafTier; tier < tree_->tiers(); ++tier) {
      if (before_tree_->DomainOf(tier, host) != tree_->DomainOf(tier, host)) return false;
    }
  }
  return true;
}

// Neighbours mostly stay neighbours, so few names have to be searched for.
void Renumbering::NumberNodes() {
  const NodeIndex none = now_->size();
  of_.reserve(before_->size());
  NodeIndex guess = 0;
  for (NodeIndex old = 0; old < before_->size(); ++old) {
    const std::string& name = before_->node(old).name;
    const bool found = guess < none && now_->node(guess).name == name;
    const NodeIndex number = found ? guess : now_->Find(name).value_or(none);
    if (old > 0 && number != of_.back() + 1) breaks_.push_back(old);
    of_.push_back(number);
    if (number < none) guess = number + 1;
  }
}

std::optional<int32_t> Renumbering::OfDomain(Tier tier, int32_t domain) const {
  if (same_ || tier == kClusterTier) return domain;
  if (tier == kHostTier) {
    const NodeIndex host = Of(static_cast<NodeIndex>(domain));
    if (host >= now_->size()) return std::nullopt;
    return static_cast<int32_t>(host);
  }
  const auto& old = before_->levels();
  const auto& now = now_->levels();
  const auto level = static_cast<size_t>(tier);
  if (tier >= tree_->tiers() || tier >= before_tree_->tiers() || level >= old.size() ||
      level >= now.size() || old[level].name != now[level].name) {
    return std::nullopt;
  }
  const std::string& name = old[level].domains[static_cast<size_t>(domain)].name;
  for (size_t d = 0; d < now[level].domains.size(); ++d) {
    if (now[level].domains[d].name == name) return static_cast<int32_t>(d);
  }
  return std::nullopt;
}

std::optional<Reservation> Renumbering::Of(const Reservation& old) const {
  Reservation now = old;
  if (same_) return now;
  const auto domain = OfDomain(old.tier, old.domain);
  if (!domain) return std::nullopt;
  now.domain = *domain;
  now.first_host = tree_->FirstHost(old.tier, now.domain);
  const int32_t last = tree_->LastHost(old.tier, now.domain);
  now.gpus_at_start.assign(static_cast<size_t>(last - now.first_host), 0);
  // Hosts whose numbers follow each other are copied together.
  const auto first = static_cast<NodeIndex>(old.first_host);
  const auto end = first + static_cast<NodeIndex>(old.gpus_at_start.size());
  auto next_break = std::upper_bound(breaks_.begin(), breaks_.end(), first);
  for (NodeIndex from = first; from < end;) {
    const NodeIndex to = next_break == breaks_.end() ? end : std::min(end, *next_break++);
    const auto host = static_cast<int32_t>(Of(from));
    const auto hosts = static_cast<int32_t>(to - from);
    if (Of(from) >= now_->size() || host < now.first_host || host + hosts > last) {
      return std::nullopt;
    }
    std::copy_n(old.gpus_at_start.begin() + (from - first), hosts,
                now.gpus_at_start.begin() + (host - now.first_host));
    from = to;
  }
  return now;
}

}  // namespace longhaul::scheduler::internal
