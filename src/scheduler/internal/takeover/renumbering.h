// The numbers that nodes and domains of one topology have in another one, by their names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

class Renumbering {
 public:
  // The topologies and trees outlive this.
  Renumbering(const spec::Topology& before, const DomainTree& before_tree,
              const spec::Topology& now, const DomainTree& tree);

  // Whether all nodes have the same numbers and lie in the same domains.
  bool same() const { return same_; }
  // The new number of an old node; the number of new nodes when it is gone.
  NodeIndex Of(NodeIndex old) const { return old < of_.size() ? of_[old] : now_->size(); }
  // By old number, as Of.
  std::span<const NodeIndex> numbers() const { return of_; }
  // The domain of the same level and name; nothing when there is none.
  std::optional<int32_t> OfDomain(Tier tier, int32_t domain) const;
  // The reservation with the new numbers. Hosts that are new have nothing at its start, because the
  // promise did not count on them. Nothing when its domain or one of its hosts is gone.
  std::optional<Reservation> Of(const Reservation& old) const;

 private:
  bool IsSame() const;
  void NumberNodes();

  const spec::Topology* before_;
  const DomainTree* before_tree_;
  const spec::Topology* now_;
  const DomainTree* tree_;
  std::vector<NodeIndex> of_;
  std::vector<NodeIndex> breaks_;  // old numbers whose new one does not follow that before them
  bool same_ = false;
};

}  // namespace longhaul::scheduler::internal
