// How a model and its batch are divided over ranks, and a rank's place in it.
//
//   rank = ((stage * data + replica) * context + ring) * tensor + part
//
// Tensor ranks are adjacent, since they exchange most. The experts are divided over `expert`
// neighbouring replicas: replica = expert_replica * expert + expert_part.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "training/config.h"

namespace longhaul::training {

enum class ScheduleKind { kOneForwardOneBackward, kInterleaved, kZeroBubble };

// What each replica keeps only a slice of (Rajbhandari et al., ZeRO, SC 2020); each includes those
// before it.
enum class Slicing { kNone, kOptimizer, kGradients, kWeights };

struct Layout {
  uint32_t data = 1;
  uint32_t tensor = 1;
  uint32_t context = 1;   // a sequence's tokens are divided over a ring
  uint32_t expert = 1;    // divides `data`
  uint32_t pipeline = 1;  // stages are pipeline * chunks
  uint32_t chunks = 1;
  bool sequence = false;  // between tensor parallel regions the tokens are divided, too
  Slicing slicing = Slicing::kNone;
  ScheduleKind schedule = ScheduleKind::kOneForwardOneBackward;
  uint32_t micro_batches = 1;  // of a replica's samples in a step
  bool recompute = false;      // a layer's forward pass is repeated before its backward pass

  uint32_t world() const { return data * tensor * context * pipeline; }
  uint32_t stages() const { return pipeline * chunks; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

// "dp2 tp2 sp cp2 zero3 pp2x2 zero-bubble mb4 recompute": what differs from the single process.
std::string ToString(const Layout& layout);

// Reads what ToString writes. kInvalidArgument names the word.
Result<Layout> ParseLayout(const std::string& text);

// kInvalidArgument, with both figures, when the model or a step of `global_batch` sequences cannot
// be divided so.
Status CheckLayout(const ModelConfig& config, const Layout& layout, uint32_t global_batch);

struct Place {
  uint32_t part = 0;     // of the tensor group
  uint32_t ring = 0;     // of the context group
  uint32_t replica = 0;  // of the data group
  uint32_t stage = 0;    // of the pipeline: which rank of it
  uint32_t expert_part = 0;
  uint32_t expert_replica = 0;
};
Place PlaceOf(const Layout& layout, uint32_t rank);
uint32_t RankOf(const Layout& layout, const Place& place);  // by part, ring, replica and stage

// The ranks that differ from `rank` only in the named coordinates, ascending.
struct Span {
  bool part = false;
  bool ring = false;
  bool replica = false;
  bool stage = false;
};
std::vector<uint32_t> RanksOf(const Layout& layout, uint32_t rank, const Span& span);

// The groups of a rank that are no such product.
std::vector<uint32_t> ExpertRanks(const Layout& layout, uint32_t rank);  // hold different experts
// Hold the same experts, and see other tokens.
std::vector<uint32_t> ExpertReplicas(const Layout& layout, uint32_t rank);

// The range of `whole` items that part `part` of `parts` has; parts may differ by one.
struct Cut {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};
Cut CutOf(int64_t whole, uint32_t parts, uint32_t part);

// The positions of a sequence that a rank of the ring has: the sequence is cut into 2 * context
// pieces, and rank r has pieces r and 2 * context - 1 - r, so that causal attention is the same
// work on each.
std::vector<int64_t> PositionsOf(int64_t sequence, uint32_t context, uint32_t ring);

}  // namespace longhaul::training
