#include "scheduler/small_jobs/small_placer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

constexpr NodeIndex kNoNode = std::numeric_limits<NodeIndex>::max();
// Prices see the free GPUs of a model in steps of this part of its capacity, so that they are a
// function of the state that changes seldom.
constexpr int64_t kPriceSteps = 256;

bool WhollyFree(const NodeState& node) {
  return node.ready() && node.devices > 0 && CountGpus(node.free_gpus) == node.devices;
}

int32_t FreeMilli(const NodeState& node) { return node.ready() ? node.free_milli() : 0; }

}  // namespace

SmallPlacer::SmallPlacer(const State& state, TaskMix mix, SmallJobPolicy policy,
                         std::vector<GangWeight> gangs)
    : policy_(policy),
      gangs_(std::move(gangs)),
      scorer_(state, {}, policy),
      scarcity_(state.shapes(), {}, state.topology().models().size(), policy),
      journal_(kJournal),
      refreshed_(state.size()) {
  Arrange(state);
  SetMix(state, std::move(mix));
}

// Lays the nodes out by group, each group padded to whole blocks, so that a search reads the least
// score of each block in sequence and one block of scores.
void SmallPlacer::Arrange(const State& state) {
  std::vector<std::vector<NodeIndex>> members(state.groups().size());
  for (NodeIndex n = 0; n < state.size(); ++n) members[state.node(n).group].push_back(n);
  position_of_node_.resize(state.size());
  for (const GroupIndex group : state.groups()) {
    const auto first = static_cast<uint32_t>(node_at_.size() / kBlock);
    for (const NodeIndex n : members[group]) {
      position_of_node_[n] = static_cast<uint32_t>(node_at_.size());
      node_at_.push_back(n);
    }
    node_at_.resize((node_at_.size() + kBlock - 1) / kBlock * kBlock, kNoNode);
    groups_.push_back({group, first, static_cast<uint32_t>(node_at_.size() / kBlock)});
  }
  const size_t models = state.topology().models().size();
  std::vector<int64_t> capacity(models);
  for (NodeIndex n = 0; n < state.size(); ++n) {
    const uint16_t model = state.group_model(state.node(n).group);
    if (model < models) capacity[model] += int64_t{state.node(n).devices} * kWholeGpu;
  }
  model_free_.assign(models, 0);
  model_quanta_.assign(models, -1);
  for (const int64_t amount : capacity) {
    model_quantum_.push_back(std::max<int64_t>(1, amount / kPriceSteps));
  }
  fragmentation_.assign(state.size(), 0);
  free_milli_.assign(state.size(), 0);
  whole_.assign(state.size(), 0);
}

void SmallPlacer::SetMix(const State& state, TaskMix mix) {
  mix_ = std::move(mix);
  scorer_ = NodeScorer(state, mix_, policy_, gangs_);
  scarcity_ = ScarcityPrices(state.shapes(), mix_, state.topology().models().size(), policy_);
  indexes_ = Indexes();
  followed_ = state.changes();
  for (NodeIndex n = 0; n < state.size(); ++n) FollowNode(state, n);
  model_quanta_.assign(model_quanta_.size(), -1);
  FormPrices();
}

// Brings the sums up to the node's present state by differences. Scores are not computed here: the
// node is marked stale, and each index scores it when it is asked for the next time.
void SmallPlacer::FollowNode(const State& all, NodeIndex node) {
  const NodeState& state = all.node(node);
  const int64_t fragmentation = state.ready() ? scorer_.Fragmentation(state) : 0;
  fragmentation_sum_ += fragmentation - fragmentation_[node];
  fragmentation_[node] = fragmentation;
  const int32_t free = FreeMilli(state);
  const uint16_t model = all.group_model(state.group);
  if (model < model_free_.size()) model_free_[model] += free - free_milli_[node];
  free_milli_[node] = free;
  MarkStale(node);
  const uint8_t whole = WhollyFree(state) ? 1 : 0;
  if (whole == whole_[node]) return;
  whole_[node] = whole;
  if (scorer_.counts_holes()) MarkHoles(all, node);
}

// The wholly free hosts of a domain share what breaking one of them costs.
void SmallPlacer::MarkHoles(const State& state, NodeIndex node) {
  for (size_t level = 0; level + 1 < state.topology().levels().size(); ++level) {
    const spec::Level& of = state.topology().levels()[level];
    const spec::Domain& domain = of.domains[of.domain_of_node[node]];
    for (NodeIndex n = domain.first; n < domain.last; ++n) {
      if (WhollyFree(state.node(n))) MarkStale(n);
    }
  }
}

void SmallPlacer::Follow(const State& state) {
  if (state.changes() - followed_ > State::kKeptChanges) {
    followed_ = state.changes();
    for (NodeIndex n = 0; n < state.size(); ++n) FollowNode(state, n);
  }
  for (; followed_ < state.changes(); ++followed_) FollowNode(state, state.change(followed_));
}

int64_t SmallPlacer::Fragmentation(const State& state) {
  Follow(state);
  return fragmentation_sum_;
}

void SmallPlacer::FormPrices() {
  if (!scarcity_.any_pinned()) {
    prices_.assign(model_free_.size(), 0);
    return;
  }
  bool same = true;
  for (size_t m = 0; m < model_free_.size(); ++m) {
    const int64_t quanta = model_free_[m] / model_quantum_[m];
    same &= quanta == model_quanta_[m];
    model_quanta_[m] = quanta;
  }
  if (!same) prices_ = PricesFor(model_free_);
}

std::vector<int64_t> SmallPlacer::PricesFor(std::span<const int64_t> free_milli) const {
  std::vector<int64_t> rounded(free_milli.begin(), free_milli.end());
  for (size_t m = 0; m < rounded.size(); ++m) {
    rounded[m] = rounded[m] / model_quantum_[m] * model_quantum_[m];
  }
  return scarcity_.Form(rounded);
}

int64_t SmallPlacer::PriceOf(const State& state, const Shape& shape, GroupIndex group,
                             const std::vector<int64_t>& prices) const {
  const uint16_t model = state.group_model(group);
  if (!shape.needs_devices() || model >= prices.size()) return 0;
  return scorer_.PriceTerm(shape, prices[model]);
}

void SmallPlacer::DropOldest() {
  std::unique_ptr<Index>* oldest = nullptr;
  for (auto& index : indexes_.of_shape) {
    if (index && (oldest == nullptr || index->last_used < (*oldest)->last_used)) oldest = &index;
  }
  oldest->reset();
  --indexes_.live;
}

SmallPlacer::Index& SmallPlacer::IndexOf(const State& state, ShapeId shape) {
  const auto at = static_cast<size_t>(shape);
  auto& indexes = indexes_.of_shape;
  if (at >= indexes.size()) indexes.resize(at + 1);
  if (!indexes[at]) {
    if (indexes_.live == kMaxIndexes) DropOldest();
    indexes[at] = std::make_unique<Index>();
    ++indexes_.live;
    Build(state, *indexes[at], shape);
  }
  return *indexes[at];
}

void SmallPlacer::Build(const State& state, Index& index, ShapeId shape) {
  index.scores.assign(node_at_.size(), kNoFit);
  index.least.assign(node_at_.size() / kBlock, kNoFit);
  for (NodeIndex n = 0; n < state.size(); ++n) {
    if (!state.Allows(shape, state.node(n).group)) continue;
    const uint32_t at = position_of_node_[n];
    index.scores[at] = scorer_.Score(state, n, state.shape(shape), fragmentation_[n]).score;
    index.least[at / kBlock] = std::min(index.least[at / kBlock], index.scores[at]);
    ++scored_;
  }
  index.seen = stale_;
}

// The least of a block is searched again only if the node that had it became worse.
void SmallPlacer::Rescore(const State& state, Index& index, ShapeId shape, NodeIndex node) {
  if (!state.Allows(shape, state.node(node).group)) return;
  const uint32_t at = position_of_node_[node];
  int64_t& least = index.least[at / kBlock];
  const int64_t before = index.scores[at];
  const int64_t after = scorer_.Score(state, node, state.shape(shape), fragmentation_[node]).score;
  ++scored_;
  index.scores[at] = after;
  if (after <= least) {
    least = after;
  } else if (before == least) {
    const auto first = index.scores.begin() + at / kBlock * kBlock;
    least = *std::min_element(first, first + kBlock);
  }
}

void SmallPlacer::Refresh(const State& state, Index& index, ShapeId shape) {
  // Scoring all is cheaper than reading a long journal, which may have been overwritten too.
  if (stale_ - index.seen > std::min<uint64_t>(kJournal, state.size()))
    return Build(state, index, shape);
  // Scores of an index that wasn't asked for a while are far away: fetched some nodes ahead.
  constexpr uint64_t kAhead = 6;
  for (uint64_t i = index.seen; i < stale_; ++i) {
    const NodeIndex ahead = journal_[std::min(i + kAhead, stale_ - 1) % kJournal];
    __builtin_prefetch(&index.scores[position_of_node_[ahead]]);
    __builtin_prefetch(&state.node(ahead));
    const NodeIndex node = journal_[i % kJournal];
    if (refreshed_[node] != 0) continue;
    refreshed_[node] = 1;
    Rescore(state, index, shape, node);
  }
  for (; index.seen < stale_; ++index.seen) refreshed_[journal_[index.seen % kJournal]] = 0;
}

SmallChoice SmallPlacer::ChoiceOn(const State& state, NodeIndex node, ShapeId id) const {
  const Shape& shape = state.shape(id);
  if (shape.share == 0) return {node, state.ChooseGpus(node, id)};
  return {node, scorer_.Score(state, node, shape, scorer_.Fragmentation(state.node(node))).gpu};
}

// The best of each group by score, plus the price of its device model, which is the same for all
// nodes of a group. Ties go to the lowest node, as in Scan, which computes the same without an
// index.
std::optional<SmallChoice> SmallPlacer::Pick(const State& state, ShapeId id) {
  Follow(state);
  FormPrices();
  Index& index = IndexOf(state, id);
  index.last_used = ++picks_;
  Refresh(state, index, id);
  const Shape& shape = state.shape(id);
  int64_t best = kNoFit;
  NodeIndex chosen = kNoNode;
  for (const GroupBlocks& group : groups_) {
    if (!state.Allows(id, group.group)) continue;
    const int64_t price = PriceOf(state, shape, group.group, prices_);
    const auto first = index.least.begin() + group.first;
    const auto last = index.least.begin() + group.last;
    const auto least = std::min_element(first, last);
    if (*least == kNoFit || *least + price > best) continue;
    const auto block = (least - index.least.begin()) * kBlock;
    const auto at = std::find(index.scores.begin() + block, index.scores.end(), *least);
    const NodeIndex node = node_at_[static_cast<size_t>(at - index.scores.begin())];
    if (*least + price == best && node > chosen) continue;
    best = *least + price;
    chosen = node;
  }
  if (chosen == kNoNode) return std::nullopt;
  return ChoiceOn(state, chosen, id);
}

std::optional<SmallChoice> SmallPlacer::Scan(const State& state, ShapeId id) const {
  const Shape& shape = state.shape(id);
  std::vector<int64_t> free(model_free_.size());
  for (NodeIndex n = 0; n < state.size(); ++n) {
    const uint16_t model = state.group_model(state.node(n).group);
    if (model < free.size()) free[model] += FreeMilli(state.node(n));
  }
  const std::vector<int64_t> prices = PricesFor(free);
  int64_t best = kNoFit;
  NodeIndex chosen = kNoNode;
  for (NodeIndex n = 0; n < state.size(); ++n) {
    const GroupIndex group = state.node(n).group;
    if (!state.Allows(id, group)) continue;
    const int64_t score =
        scorer_.Score(state, n, shape, scorer_.Fragmentation(state.node(n))).score;
    if (score == kNoFit || score + PriceOf(state, shape, group, prices) >= best) continue;
    best = score + PriceOf(state, shape, group, prices);
    chosen = n;
  }
  if (chosen == kNoNode) return std::nullopt;
  return ChoiceOn(state, chosen, id);
}

}  // namespace longhaul::scheduler
