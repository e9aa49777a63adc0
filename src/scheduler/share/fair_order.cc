#include "scheduler/share/fair_order.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler::share {

namespace {

__extension__ using Int128 = __int128;

size_t Index(QueueIndex queue) { return static_cast<size_t>(queue); }

// The resource where usage is the greatest part of the guarantee, as a fraction. {1, 0} when there
// is no guarantee at all.
std::pair<int64_t, int64_t> GuaranteeFraction(const QueueTree& tree, QueueIndex queue) {
  std::pair<int64_t, int64_t> most = {-1, 1};
  for (size_t r = 0; r < tree.dimensions(); ++r) {
    const int64_t guarantee = tree.guarantee(queue)[r];
    const int64_t usage = tree.usage(queue)[r];
    if (guarantee == 0) continue;
    if (static_cast<Int128>(usage) * most.second > static_cast<Int128>(most.first) * guarantee) {
      most = {usage, guarantee};
    }
  }
  return most.first < 0 ? std::pair<int64_t, int64_t>{1, 0} : most;
}

}  // namespace

FairOrder::FairOrder(const QueueTree& tree, std::span<const char> open, Decayed decayed,
                     FairShare share)
    : tree_(&tree), decayed_(std::move(decayed)), fair_share_(share), nodes_(tree.size()) {
  CHECK(open.size() == tree.size());
  for (size_t q = 0; q < open.size(); ++q) {
    if (open[q] == 0) continue;
    nodes_[q].open = true;
    // Who was active before is counted above.
    bool counted = nodes_[q].open_below > 0;
    for (QueueIndex up = tree.parent(static_cast<QueueIndex>(q)); up != kNoQueue && !counted;
         up = tree.parent(up)) {
      counted = Active(up);
      ++nodes_[Index(up)].open_below;
    }
  }
}

bool FairOrder::Active(QueueIndex queue) const {
  const Node& node = nodes_[Index(queue)];
  return node.open || node.open_below > 0;
}

// Whole 2^-32ths of the cluster in 128-bit arithmetic: exact comparisons, so that the order is the
// same on every machine.
int64_t FairOrder::Dominant(const SharedAmounts& amounts, uint32_t weight) const {
  int64_t most = 0;
  for (size_t r = 0; r < tree_->dimensions(); ++r) {
    const int64_t capacity = tree_->capacity()[r];
    if (amounts[r] <= 0) continue;
    // Of a resource that the cluster has lost, any use is all of it.
    const Int128 share =
        capacity <= 0 ? Int128{1} << 32 : (static_cast<Int128>(amounts[r]) << 32) / capacity;
    most = std::max(most, static_cast<int64_t>(
                              std::min<Int128>(share, std::numeric_limits<int64_t>::max() / 2)));
  }
  return most / weight;
}

// The H-DRF rescaling of the header: children above the least share of an active child are scaled
// down to it before they are added up. Results are kept until Refresh.
const FairOrder::Node& FairOrder::Computed(QueueIndex queue) {
  Node& node = nodes_[Index(queue)];
  if (node.computed) return node;
  node.computed = true;
  const std::vector<QueueIndex>& children = tree_->children(queue);
  node.held = tree_->usage(queue);
  if (!children.empty()) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const QueueIndex child : children) {
      node.held -= tree_->usage(child);  // leaves what was started in this queue itself
      const int64_t share = Computed(child).share;
      if (Active(child)) least = std::min(least, share);
    }
    for (const QueueIndex child : children) {
      const Node& below = nodes_[Index(child)];
      for (size_t r = 0; r < tree_->dimensions(); ++r) {
        node.held[r] +=
            below.share <= least
                ? below.held[r]
                : static_cast<int64_t>(static_cast<Int128>(below.held[r]) * least / below.share);
      }
    }
  }
  const uint32_t weight = tree_->weight(queue);
  node.share = Dominant(node.held, weight);
  node.beyond = Dominant(node.held - tree_->guarantee(queue), weight);
  return node;
}

bool FairOrder::Before(QueueIndex a, QueueIndex b) {
  const auto [used_a, of_a] = GuaranteeFraction(*tree_, a);
  const auto [used_b, of_b] = GuaranteeFraction(*tree_, b);
  const bool below_a = used_a < of_a;
  const bool below_b = used_b < of_b;
  if (below_a != below_b) return below_a;
  if (below_a) {
    const Int128 left = static_cast<Int128>(used_a) * of_b;
    const Int128 right = static_cast<Int128>(used_b) * of_a;
    if (left != right) return left < right;
  }
  if (fair_share_ == FairShare::kHistory) {
    if (const auto less = UsedLess(a, b)) return *less;
  }
  const Node& x = Computed(a);
  const Node& y = Computed(b);
  if (x.beyond != y.beyond) return x.beyond < y.beyond;
  if (x.share != y.share) return x.share < y.share;
  return UsedLess(a, b).value_or(a < b);
}

std::optional<bool> FairOrder::UsedLess(QueueIndex a, QueueIndex b) const {
  const Int128 used_a = static_cast<Int128>(decayed_(a)) * tree_->weight(b);
  const Int128 used_b = static_cast<Int128>(decayed_(b)) * tree_->weight(a);
  if (used_a == used_b) return std::nullopt;
  return used_a < used_b;
}

// Descends from the root to the best child at each level: children x depth comparisons.
QueueIndex FairOrder::Next() {
  QueueIndex at = kRootQueue;
  if (!Active(at)) return kNoQueue;
  while (nodes_[Index(at)].open_below > 0) {
    QueueIndex best = kNoQueue;
    for (const QueueIndex child : tree_->children(at)) {
      if (Active(child) && (best == kNoQueue || Before(child, best))) best = child;
    }
    at = best;
  }
  return at;
}

void FairOrder::Close(QueueIndex queue) {
  // The counts above fall only as far up as nodes have become inactive.
  Node& node = nodes_[Index(queue)];
  if (!node.open) return;
  node.open = false;
  QueueIndex child = queue;
  for (QueueIndex up = tree_->parent(queue); up != kNoQueue && !Active(child);
       up = tree_->parent(up)) {
    --nodes_[Index(up)].open_below;
    child = up;
  }
  Refresh(queue);
}

void FairOrder::Refresh(QueueIndex queue) {
  for (QueueIndex up = queue; up != kNoQueue; up = tree_->parent(up)) {
    nodes_[Index(up)].computed = false;
  }
}

int64_t FairOrder::Share(QueueIndex queue) { return Computed(queue).share; }

}  // namespace longhaul::scheduler::share
