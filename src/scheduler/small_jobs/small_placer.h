// The node for one task: all nodes are considered, the best by score (small_jobs/node_scorer.h)
// plus the price of its device model wins, ties to the lowest node index.
//
// For each shape asked for there is an index: the score of every node, and the least in each block
// of 32 nodes of one group. A change of a node makes its score stale in every index; an index
// scores its stale nodes when it is asked. So a decision costs one score for each shape in use, and
// a look at each block. The answer is a function of the state, the mix and the policy alone, never
// of what was asked before (Scan is the same without indexes, for tests).
//
// Leaves out gangs, queues and victims: those come with rules of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scheduler/small_jobs/node_scorer.h"
#include "scheduler/small_jobs/policy.h"
#include "scheduler/small_jobs/scarcity.h"
#include "scheduler/state/state.h"

namespace longhaul::scheduler {

struct SmallChoice {
  NodeIndex node = 0;
  GpuMask gpus = 0;

  friend bool operator==(const SmallChoice&, const SmallChoice&) = default;
};

class SmallPlacer {
 public:
  // Follows this state: its changes, roll-backs and commits. Every call gets the state as it is
  // then. A copy follows a copy of the state made together with it, and begins without indexes.
  SmallPlacer(const State& state, TaskMix mix, SmallJobPolicy policy = {},
              std::vector<GangWeight> gangs = {});

  // Where a task of the shape would go now; nothing when it fits no node that is ready.
  std::optional<SmallChoice> Pick(const State& state, ShapeId shape);
  // The same answer from scratch: every node scored. The cheaper one for a single what-if question.
  std::optional<SmallChoice> Scan(const State& state, ShapeId shape) const;

  // All scores change, so it costs a full scoring of each shape asked for next.
  void SetMix(const State& state, TaskMix mix);
  const TaskMix& mix() const { return mix_; }

  // The sum of all nodes' expected fragmentation, in thousandths of a GPU times the mix's weight.
  int64_t Fragmentation(const State& state);

  // Scores computed so far: what the indexes cost.
  uint64_t scored() const { return scored_; }

 private:
  static constexpr uint32_t kBlock = 32;
  static constexpr size_t kMaxIndexes = 512;    // of 8 bytes a node each; the oldest goes
  static constexpr uint64_t kJournal = 16'384;  // stale nodes remembered

  struct Index {
    uint64_t seen = 0;            // how much of the journal
    uint64_t last_used = 0;       // by count of picks
    std::vector<int64_t> scores;  // by position
    std::vector<int64_t> least;   // by block
  };
  // By shape, null where none is. A cache: its copy is empty.
  struct Indexes {
    std::vector<std::unique_ptr<Index>> of_shape;
    size_t live = 0;

    Indexes() = default;
    Indexes(const Indexes&) {}
    Indexes& operator=(const Indexes&) {
      of_shape.clear();
      live = 0;
      return *this;
    }
    Indexes(Indexes&&) = default;
    Indexes& operator=(Indexes&&) = default;
    ~Indexes() = default;
  };
  struct GroupBlocks {
    GroupIndex group;
    uint32_t first;  // blocks
    uint32_t last;
  };

  void Arrange(const State& state);
  void Follow(const State& state);
  void FollowNode(const State& state, NodeIndex node);
  void MarkHoles(const State& state, NodeIndex node);
  void MarkStale(NodeIndex node) { journal_[stale_++ % kJournal] = node; }
  void FormPrices();
  std::vector<int64_t> PricesFor(std::span<const int64_t> free_milli) const;
  int64_t PriceOf(const State& state, const Shape& shape, GroupIndex group,
                  const std::vector<int64_t>& prices) const;

  Index& IndexOf(const State& state, ShapeId shape);
  void Build(const State& state, Index& index, ShapeId shape);
  void Refresh(const State& state, Index& index, ShapeId shape);
  void Rescore(const State& state, Index& index, ShapeId shape, NodeIndex node);
  void DropOldest();
  SmallChoice ChoiceOn(const State& state, NodeIndex node, ShapeId shape) const;

  SmallJobPolicy policy_;
  std::vector<GangWeight> gangs_;
  TaskMix mix_;
  // Made anew with the mix.
  NodeScorer scorer_;
  ScarcityPrices scarcity_;

  // Nodes by group, each group padded to whole blocks.
  std::vector<GroupBlocks> groups_;
  std::vector<uint32_t> position_of_node_;
  std::vector<NodeIndex> node_at_;  // by position; kNoNode in the padding

  // What was last seen of each node.
  uint64_t followed_ = 0;  // of the state's changes
  std::vector<int64_t> fragmentation_;
  std::vector<int32_t> free_milli_;
  std::vector<uint8_t> whole_;          // wholly free, ready host
  std::vector<int64_t> model_free_;     // by model, on ready nodes
  std::vector<int64_t> model_quantum_;  // prices are formed from whole quanta, by model
  std::vector<int64_t> model_quanta_;   // as the prices know them
  std::vector<int64_t> prices_;         // by model
  int64_t fragmentation_sum_ = 0;

  std::vector<NodeIndex> journal_;  // a ring
  uint64_t stale_ = 0;
  Indexes indexes_;
  uint64_t picks_ = 0;
  uint64_t scored_ = 0;
  std::vector<uint8_t> refreshed_;  // by node; all zero between calls
};

}  // namespace longhaul::scheduler
