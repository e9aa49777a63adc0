#include "checkpoint/reshard/layout_shards.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::checkpoint {
namespace {

struct Coordinates {
  uint32_t tensor = 0;
  uint32_t pipeline = 0;
  uint32_t replica = 0;  // over data x context
  uint32_t expert = 0;
  uint32_t expert_tensor = 0;
  uint32_t expert_replica = 0;
};

// The order of the ranks is that of the header. The expert coordinates divide the same ranks of a
// stage in another way: expert_tensor is the fastest, then expert, then its replicas.
Coordinates CoordinatesOf(const spec::Layout& layout, uint32_t rank) {
  const uint32_t stage_ranks = layout.tensor * layout.context * layout.data;
  const uint32_t inside = rank % stage_ranks;
  Coordinates at;
  at.pipeline = rank / stage_ranks;
  at.tensor = inside % layout.tensor;
  at.replica = inside / layout.tensor;
  at.expert_tensor = inside % layout.expert_tensor;
  at.expert = inside / layout.expert_tensor % layout.expert;
  at.expert_replica = inside / (layout.expert_tensor * layout.expert);
  return at;
}

bool HeldByStage(const TensorRule& rule, const ShardingProblem& problem, const spec::Layout& layout,
                 uint32_t stage) {
  switch (rule.place) {
    case TensorPlace::kEveryStage:
      return true;
    case TensorPlace::kFirstStage:
      return stage == 0;
    case TensorPlace::kLastStage:
      return stage == layout.pipeline - 1;
    case TensorPlace::kLayer:
      return stage == StageOfLayer(layout, problem.layers, rule.layer);
  }
  return false;
}

// A rank's local tensor: pieces of the global one, one after the other along the cut dimension.
// Fused tensors are cut in each of their parts, so a rank has the same heads of queries, keys and
// values. The products are computed before the division, so that uneven parts add up to the whole.
std::vector<Box> LocalPieces(const TensorRule& rule, uint32_t ranks, uint32_t index) {
  const Box whole = Box::Whole(rule.shape);
  if (rule.tensor_dim < 0 || ranks == 1) return {whole};
  const auto dim = static_cast<size_t>(rule.tensor_dim);
  const int64_t part = rule.shape[dim] / rule.fused;
  std::vector<Box> pieces;
  for (uint32_t i = 0; i < rule.fused; ++i) {
    pieces.push_back(whole.Cut(dim, i * part + part * index / ranks,
                               i * part + part * (int64_t{index} + 1) / ranks));
  }
  return pieces;
}

// The boxes of a flat range of the local tensor that `pieces` make up.
// The local tensor is not contiguous in the global one when it is fused: a range of it can reach
// over several pieces, and each part of the range maps to another place.
void AddLocalRange(uint32_t tensor, const TensorRule& rule, const std::vector<Box>& pieces,
                   int64_t begin, int64_t end, std::vector<WantedShard>& shards) {
  if (pieces.front().dims() == 0) {
    if (begin < end) shards.push_back({tensor, pieces.front()});
    return;
  }
  const size_t dim = rule.tensor_dim < 0 ? 0 : static_cast<size_t>(rule.tensor_dim);
  std::vector<int64_t> shape = pieces.front().shape();
  shape[dim] *= static_cast<int64_t>(pieces.size());
  const int64_t piece_extent = pieces.front().extent(dim);
  for (const Box& local : BoxesOfRange(shape, begin, end)) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto first = static_cast<int64_t>(i) * piece_extent;
      const int64_t from = std::max(local.offset(dim), first);
      const int64_t to = std::min(local.end(dim), first + piece_extent);
      if (from >= to) continue;
      std::vector<int64_t> offset = local.offsets();
      std::vector<int64_t> extent = local.shape();
      for (size_t d = 0; d < offset.size(); ++d) offset[d] += pieces[i].offset(d);
      offset[dim] = pieces[i].offset(dim) + (from - first);
      extent[dim] = to - from;
      shards.push_back({tensor, Box::At(offset, extent)});
    }
  }
}

// The rows of the local tensor that one of `ranges` ranks holds; a scalar is whole on each.
void AddRows(uint32_t tensor, const TensorRule& rule, const std::vector<Box>& pieces,
             uint32_t ranges, uint32_t index, std::vector<WantedShard>& shards) {
  if (pieces.front().dims() == 0) return shards.push_back({tensor, pieces.front()});
  int64_t elements = 0;
  for (const Box& piece : pieces) elements += piece.elements();
  const bool joined = rule.tensor_dim == 0;  // pieces follow each other along the rows
  const int64_t rows = pieces.front().extent(0) * (joined ? std::ssize(pieces) : 1);
  if (rows == 0) return;
  const int64_t each = (rows + ranges - 1) / ranges;
  const int64_t begin = std::min(rows, index * each);
  const int64_t end = std::min(rows, begin + each);
  const int64_t row = elements / rows;
  AddLocalRange(tensor, rule, pieces, begin * row, end * row, shards);
}

// One flat buffer of a rank: tensors that the same replicas share.
class FlatBuffer {
 public:
  void Add(uint32_t tensor, const TensorRule& rule, std::vector<Box> pieces) {
    int64_t elements = 0;
    for (const Box& piece : pieces) elements += piece.elements();
    entries_.push_back({tensor, &rule, std::move(pieces), elements_, elements});
    elements_ += elements;
  }

  // ceil(elements / ranges) for each range: the last ranges are shorter or empty. A range may begin
  // or end in the middle of a tensor.
  void CutInto(uint32_t ranges, uint32_t index, std::vector<WantedShard>& shards) const {
    const int64_t length = (elements_ + ranges - 1) / ranges;
    const int64_t begin = std::min(elements_, index * length);
    const int64_t end = std::min(elements_, begin + length);
    for (const Entry& entry : entries_) {
      const int64_t from = std::max(begin, entry.begin) - entry.begin;
      const int64_t to = std::min(end, entry.begin + entry.elements) - entry.begin;
      if (from < to) AddLocalRange(entry.tensor, *entry.rule, entry.pieces, from, to, shards);
    }
  }

 private:
  struct Entry {
    uint32_t tensor;
    const TensorRule* rule;
    std::vector<Box> pieces;
    int64_t begin;
    int64_t elements;
  };
  std::vector<Entry> entries_;
  int64_t elements_ = 0;
};

}  // namespace

uint32_t StageOfLayer(const spec::Layout& layout, uint32_t layers, uint32_t layer) {
  CHECK(layer < layers);
  const uint32_t chunks = layout.pipeline * layout.virtual_pipeline;
  if (layout.layers_per_stage.empty()) {
    // As even as can be, the longer chunks first.
    const uint32_t least = layers / chunks;
    const uint32_t longer = layers % chunks;
    const uint32_t border = longer * (least + 1);
    const uint32_t chunk =
        layer < border ? layer / (least + 1) : longer + (layer - border) / std::max(1u, least);
    return chunk % layout.pipeline;
  }
  uint32_t end = 0;
  for (uint32_t chunk = 0; chunk < layout.layers_per_stage.size(); ++chunk) {
    end += layout.layers_per_stage[chunk];
    if (layer < end) return chunk % layout.pipeline;
  }
  CHECK(false) << "layer " << layer << " is in no stage";
  return 0;
}

Status CheckSharding(const ShardingProblem& problem, const spec::Layout& layout) {
  const uint64_t stage_ranks = uint64_t{layout.tensor} * layout.context * layout.data;
  if (layout.expert == 0 || layout.expert_tensor == 0 || layout.pipeline == 0 || stage_ranks == 0 ||
      layout.virtual_pipeline == 0) {
    return InvalidArgument("a layout's dimensions start at 1");
  }
  if (stage_ranks % (uint64_t{layout.expert} * layout.expert_tensor) != 0) {
    return InvalidArgument("expert groups of " + std::to_string(layout.expert) + " x " +
                           std::to_string(layout.expert_tensor) + " don't divide the " +
                           std::to_string(stage_ranks) + " ranks of a stage");
  }
  if (problem.experts % layout.expert != 0) {
    return InvalidArgument(std::to_string(problem.experts) + " experts don't divide over " +
                           std::to_string(layout.expert) + " expert ranks");
  }
  const uint64_t replicas = uint64_t{layout.data} * layout.context;
  const uint64_t expert_replicas = stage_ranks / (uint64_t{layout.expert} * layout.expert_tensor);
  if (problem.zero_group > 0 &&
      (replicas % problem.zero_group != 0 ||
       (problem.experts > 0 && expert_replicas % problem.zero_group != 0))) {
    return InvalidArgument("groups of " + std::to_string(problem.zero_group) +
                           " don't divide the " + std::to_string(replicas) + " replicas" +
                           (problem.experts == 0
                                ? ""
                                : ", or the " + std::to_string(expert_replicas) + " of an expert"));
  }
  for (size_t i = 0; i < problem.rules.size(); ++i) {
    const TensorRule& rule = problem.rules[i];
    const std::string name = "tensor " + std::to_string(i);
    if (rule.place == TensorPlace::kLayer && rule.layer >= problem.layers) {
      return InvalidArgument(name + " is of layer " + std::to_string(rule.layer) + " of " +
                             std::to_string(problem.layers));
    }
    if (rule.expert >= int64_t{problem.experts}) {
      return InvalidArgument(name + " is of expert " + std::to_string(rule.expert) + " of " +
                             std::to_string(problem.experts));
    }
    if (rule.tensor_dim < 0) continue;
    const uint32_t ranks = rule.expert >= 0 ? layout.expert_tensor : layout.tensor;
    const int64_t parts = int64_t{rule.uneven ? 1 : ranks} * rule.fused;
    if (static_cast<size_t>(rule.tensor_dim) >= rule.shape.size() || rule.fused == 0 ||
        rule.shape[static_cast<size_t>(rule.tensor_dim)] % parts != 0) {
      return InvalidArgument(name + " " + ToString(Box::Whole(rule.shape)) +
                             " can't be cut in dimension " + std::to_string(rule.tensor_dim) +
                             " into " + std::to_string(rule.fused) + " x " + std::to_string(ranks) +
                             " equal parts");
    }
  }
  return {};
}

std::vector<WantedShard> ShardsOfRank(const ShardingProblem& problem, const spec::Layout& layout,
                                      uint32_t rank) {
  CHECK(rank < layout.devices());
  const Coordinates at = CoordinatesOf(layout, rank);
  const uint32_t group = problem.zero_group;
  const uint32_t replicas = group > 0 ? group : layout.data * layout.context;
  const uint32_t expert_replicas = group > 0 ? group
                                             : layout.data * layout.context * layout.tensor /
                                                   (layout.expert * layout.expert_tensor);
  FlatBuffer dense;
  FlatBuffer experts;
  std::vector<WantedShard> shards;
  for (uint32_t i = 0; i < problem.rules.size(); ++i) {
    const TensorRule& rule = problem.rules[i];
    if (!HeldByStage(rule, problem, layout, at.pipeline)) continue;
    const bool expert = rule.expert >= 0;
    if (expert) {
      const int64_t each = problem.experts / layout.expert;
      if (rule.expert / each != at.expert) continue;
    }
    std::vector<Box> pieces = expert ? LocalPieces(rule, layout.expert_tensor, at.expert_tensor)
                                     : LocalPieces(rule, layout.tensor, at.tensor);
    if (layout.zero_stage < rule.zero_stage) {
      for (const Box& piece : pieces) shards.push_back({i, piece});
    } else if (problem.zero_form == ZeroForm::kRows) {
      AddRows(i, rule, pieces, expert ? expert_replicas : replicas,
              expert ? at.expert_replica % expert_replicas : at.replica % replicas, shards);
    } else {
      (expert ? experts : dense).Add(i, rule, std::move(pieces));
    }
  }
  dense.CutInto(replicas, at.replica % replicas, shards);
  experts.CutInto(expert_replicas, at.expert_replica % expert_replicas, shards);
  return shards;
}

}  // namespace longhaul::checkpoint
