// Whose turn it is: hierarchical dominant-resource fairness, in whole numbers.
//
// Dominant shares: Ghodsi et al., NSDI 2011. Hierarchies: Bhattacharya et al., SoCC 2013 (H-DRF),
// who show that taking the plain sum of the children as a parent's usage starves some leaves. So a
// parent's usage is the sum of its children's after those are scaled down to the least dominant
// share among the children that could use more; children that can't are left out of that minimum.
//
// At each level the next child is: first those below their guarantee, by the exact fraction usage
// over guarantee; then by the dominant share of what they hold beyond it, over their weight; ties
// by what they used recently, then by index. With FairShare::kHistory what they used recently
// beyond their guarantee, over their weight, comes before what they hold. Shares are whole
// 2^-32ths, and computed when two queues are compared: where one alone has jobs, nothing is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/share/queue_tree.h"

namespace longhaul::scheduler::share {

// What is divided fairly beyond the guarantees.
enum class FairShare : uint8_t {
  kPresent,  // what queues hold now
  kHistory,  // what they have used, the longer ago the less
};

class FairOrder {
 public:
  // `open[q]`: queue q itself has a job that may be tried, for every queue of `tree`, which
  // outlives this. `decayed`: what a queue used recently beyond its guarantee.
  using Decayed = std::function<int64_t(QueueIndex)>;
  FairOrder(const QueueTree& tree, std::span<const char> open, Decayed decayed,
            FairShare share = FairShare::kPresent);

  // The queue whose turn it is; kNoQueue when none is open. A queue comes after its children where
  // jobs are submitted to inner queues.
  QueueIndex Next();

  void Close(QueueIndex queue);    // it has no job left to try
  void Refresh(QueueIndex queue);  // its usage in the tree has changed

  // The weighted dominant share of a queue, rescaled, in 2^-32ths of the cluster.
  int64_t Share(QueueIndex queue);

 private:
  struct Node {
    bool open = false;      // itself
    bool computed = false;  // what follows, for its usage and that of those below
    int open_below = 0;     // children with something open
    SharedAmounts held;     // rescaled usage
    int64_t share = 0;      // of `held`, weighted
    int64_t beyond = 0;     // of what of `held` passes the guarantee, weighted
  };

  bool Active(QueueIndex queue) const;
  bool Before(QueueIndex a, QueueIndex b);
  const Node& Computed(QueueIndex queue);
  int64_t Dominant(const SharedAmounts& amounts, uint32_t weight) const;

  // Whether a used less than b recently, each over its weight; nothing if equally much.
  std::optional<bool> UsedLess(QueueIndex a, QueueIndex b) const;

  const QueueTree* tree_;
  Decayed decayed_;
  FairShare fair_share_;
  std::vector<Node> nodes_;
};

}  // namespace longhaul::scheduler::share
