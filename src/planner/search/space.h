// The points of a search: every legal layout, as a tree of choices.
//
//   shape      GPUs, tensor, sequence split, context and its kind, pipeline, data, expert,
//              expert_tensor
//   micro      sequences at once
//   stages     schedule, chunks per rank, layers of each chunk, overlap of the experts' exchange
//   states     ZeRO stage, shard group, offload
//   recompute  nothing, a choice for each stage, modules, layers
//   order      in which the dimensions fill GPUs, hosts and leaves
//
// The space has every legal value of each choice, within these limits: a rank keeps at least 256
// tokens of a sequence; a step has at least as many micro-batches as stages; data x micro divides
// the batch; expert_tensor is 1 or tensor; shard groups are powers of two from 8; ZeRO 2 has no
// pipeline (gradients would be reduced for every micro-batch); uneven stages have one or two fewer
// layers at either end. The exchange of experts' tokens is overlapped with the compute of another
// micro-batch only where the schedule has one: with several chunks a rank, with a single stage of
// two or more micro-batches, and always under DualPipe. A value that the user fixed replaces the
// values of its axis.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/search/plan_request.h"

namespace longhaul::planner::search {

struct Shape {
  GpuCount gpus;
  uint32_t tensor = 1;
  uint32_t context = 1;
  uint32_t pipeline = 1;
  uint32_t data = 1;
  uint32_t expert = 1;
  uint32_t expert_tensor = 1;
  bool sequence_parallel = false;
  spec::ContextKind context_kind = spec::ContextKind::kRing;

  // Shapes that differ in the sizes of their dimensions; the list of the best holds one of each.
  bool SameFamily(const Shape& other) const {
    return tensor == other.tensor && context == other.context && pipeline == other.pipeline &&
           data == other.data && expert == other.expert && expert_tensor == other.expert_tensor;
  }
};

struct Stages {
  spec::PipelineSchedule schedule = spec::PipelineSchedule::kOneForwardOneBackward;
  uint32_t virtual_pipeline = 1;
  std::vector<uint32_t> layers;  // empty: the planner's rule
  bool overlap_expert = false;

  friend bool operator==(const Stages&, const Stages&) = default;
};

struct States {
  uint32_t zero_stage = 0;
  uint32_t shard_group = 0;
  spec::Offload offload = spec::Offload::kNone;
};

std::vector<uint32_t> Divisors(uint32_t number);  // ascending

// Ordered by family: shapes of one family are adjacent.
std::vector<Shape> Shapes(const PlanRequest& job);
std::vector<uint32_t> MicroBatches(const PlanRequest& job, const Shape& shape);
std::vector<Stages> StageChoices(const PlanRequest& job, const Shape& shape, uint32_t micro_batch);
// The same with a cache: the choices depend on the stages, on whether these divide the
// micro-batches, and on whether the experts' exchange can be overlapped.
class StageLists {
 public:
  const std::vector<Stages>& Of(const PlanRequest& job, const Shape& shape, uint32_t micro_batch);

 private:
  std::map<std::tuple<uint32_t, bool, bool>, std::vector<Stages>> lists_;
};

// Offloads of one ZeRO stage and shard group are adjacent, none first.
std::vector<States> StateChoices(const PlanRequest& job, const Shape& shape);
std::vector<spec::Recompute> RecomputeChoices(const PlanRequest& job, const Shape& shape);
// Whether the first recomputes a part of the second's recompute, or the same.
bool IsLighter(const spec::Recompute& first, const spec::Recompute& second);
// One of each set of orders that put all groups at the same places.
std::vector<spec::PlacementOrder> Orders(const PlanRequest& job, const Shape& shape);

// Applies the choices of a point, or of a part of one, to a training; others keep their defaults.
void Apply(const Shape& shape, spec::Training& training);
void Apply(const Stages& stages, spec::Training& training);
void Apply(const States& states, spec::Training& training);

// The number of points, by the sizes of the lists alone.
uint64_t CountPoints(const PlanRequest& job);

}  // namespace longhaul::planner::search
