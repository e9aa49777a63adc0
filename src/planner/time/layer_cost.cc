#include "planner/time/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "planner/time/expert_routing.h"

namespace longhaul::planner {
namespace {

using spec::OperatorPart;
using spec::RecomputeKind;

constexpr double kTwoBytes = 2;
// Of dispatches that merge copies, inside an island, under the shared experts.
constexpr double kIslandHidden = 0.11;
// Of an exchange under DualPipe, which pairs the forward of one micro-batch with the backward of
// another from the first to the last: its report (arXiv 2412.19437, section 3.2) calls it fully
// hidden, its profile (github.com/deepseek-ai/profile-data) shows gaps. Not fitted.
constexpr double kDualPipeHidden = 0.9;

spec::OperatorList OperatorsOf(const spec::Model& model, const LayerKey& key) {
  switch (key.role) {
    case LayerRole::kEmbedding:
      return spec::EmbeddingOperators(model, key.slice);
    case LayerRole::kLoss:
      return spec::LossOperators(model, key.slice);
    case LayerRole::kLayer:
      break;
  }
  return spec::LayerOperators(model, key.kind, key.slice);
}

// Whether an operator's forward runs again in backward.
bool IsRecomputed(const LayerKey& key, const spec::Operator& op) {
  if (key.role != LayerRole::kLayer) return false;
  if (key.recompute == RecomputeKind::kFull) return true;
  if (key.recompute == RecomputeKind::kNone) return false;
  const spec::RecomputeModules& modules = key.modules;
  // Without a module's name: every second product is kept, and attention.
  if (!modules.any()) return op.kind != spec::OperatorKind::kAttention;
  const bool experts = key.kind.experts;
  switch (op.part) {
    case OperatorPart::kCoreAttention:
      return modules.core_attention;
    case OperatorPart::kNorm:
      return modules.layer_norm;
    case OperatorPart::kLatentUp:
      return modules.mla_up_projection;
    case OperatorPart::kExpertActivation:
      return modules.moe_activation || modules.moe;
    case OperatorPart::kExperts:
      return modules.moe;
    case OperatorPart::kFfn:
      return experts ? modules.moe : modules.mlp;
    default:
      return false;
  }
}

double Tokens(const spec::Model& model, const spec::LayerSlice& slice) {
  return slice.micro_batch * model.sequence_length / slice.context;
}

// Collectives of the tensor group around attention and the FFN (or shared experts).
void AddTensor(const spec::Model& model, const Links& links, const SoftwareStack& stack,
               const LayerKey& key, LayerCost& cost) {
  const spec::LayerSlice& slice = key.slice;
  if (slice.tensor <= 1) return;
  const Group group{slice.tensor, key.tensor_stride};
  const double bytes = kTwoBytes * Tokens(model, slice) * model.hidden;
  const double gather = CollectiveSeconds(links, Collective::kAllGather, bytes, group);
  const double scatter = CollectiveSeconds(links, Collective::kReduceScatter, bytes, group);
  const double reduce = CollectiveSeconds(links, Collective::kAllReduce, bytes, group);
  const double around = slice.sequence_parallel ? gather + scatter : reduce;
  const double exposed = key.overlap_tensor ? 1 - stack.tensor_hidden : 1;
  const double beside =
      1 - std::max(stack.tensor_backward_hidden, key.overlap_tensor ? stack.tensor_hidden : 0);
  if (key.role == LayerRole::kEmbedding) {
    cost.tensor_forward_s += slice.sequence_parallel ? scatter : reduce;
    cost.tensor_backward_s += slice.sequence_parallel ? gather : 0;
    return;
  }
  if (key.role == LayerRole::kLoss) {
    // The loss over a divided vocabulary needs three small all-reduces of one fp32 value a token.
    const double sums =
        3 * CollectiveSeconds(links, Collective::kAllReduce, 4 * Tokens(model, slice), group);
    cost.tensor_forward_s += sums + (slice.sequence_parallel ? gather : 0);
    cost.tensor_backward_s += slice.sequence_parallel ? scatter + gather * beside : reduce;
    return;
  }
  // Routed experts are reached by all-to-all and have no pair of their own in the tensor group.
  const bool dense_ffn = !key.kind.experts || (model.experts && model.experts->shared > 0);
  const double pairs = dense_ffn ? 2 : 1;
  cost.tensor_forward_s += pairs * around * exposed;
  // Backward of a pair: the gradient is gathered before the second product (exposed), the input
  // again and the input's gradient reduced beside the weight gradients.
  cost.tensor_backward_s += slice.sequence_parallel
                                ? pairs * (gather * exposed + (gather + scatter) * beside)
                                : pairs * reduce * beside;
}

// For latent attention, keys and values are counted for all heads of the rank.
void AddContext(const spec::Model& model, const Links& links, const LayerKey& key,
                double attention_forward_s, double attention_backward_s, LayerCost& cost) {
  const spec::LayerSlice& slice = key.slice;
  if (slice.context <= 1) return;
  const Group group{slice.context, key.context_stride};
  const double tokens = Tokens(model, slice);
  const double kv_heads = std::max(1.0, double(model.kv_heads) / slice.tensor);
  const double heads = double(model.heads) / slice.tensor;
  double kv_bytes = 2 * kTwoBytes * tokens * kv_heads * model.head_dim;
  double q_bytes = kTwoBytes * tokens * heads * model.head_dim;
  if (const auto& mla = model.multi_latent) {
    kv_bytes = kTwoBytes * tokens * heads * (mla->qk_nope_dim + mla->qk_rope_dim + mla->v_dim);
    q_bytes = kTwoBytes * tokens * heads * (mla->qk_nope_dim + mla->qk_rope_dim);
  }
  const double steps = slice.context - 1;
  switch (key.context_kind) {
    case spec::ContextKind::kRing: {
      // A step's send hides under the attention of the step before.
      const double send = CollectiveSeconds(links, Collective::kSend, kv_bytes, group);
      const double hide_forward = 0.9 * attention_forward_s / slice.context;
      const double hide_backward = 0.9 * attention_backward_s / slice.context;
      cost.context_forward_s += steps * std::max(0.0, send - hide_forward);
      cost.context_backward_s += steps * std::max(0.0, 2 * send - hide_backward);
      break;
    }
    case spec::ContextKind::kAllToAll: {
      const double in = CollectiveSeconds(links, Collective::kAllToAll, q_bytes + kv_bytes, group);
      const double out = CollectiveSeconds(links, Collective::kAllToAll, q_bytes, group);
      cost.context_forward_s += in + out;
      cost.context_backward_s += in + out;
      break;
    }
    case spec::ContextKind::kAllGather: {
      const double bytes = kv_bytes * slice.context;
      const double gather = CollectiveSeconds(links, Collective::kAllGather, bytes, group);
      const double scatter = CollectiveSeconds(links, Collective::kReduceScatter, bytes, group);
      cost.context_forward_s += gather;
      cost.context_backward_s += gather + scatter;
      break;
    }
  }
}

// What experts' traffic needs besides the place of their group.
struct Dispatch {
  const spec::Experts* experts = nullptr;
  Routing routing = Routing::kEven;
  double token_bytes = 0;  // of all tokens of a rank, one copy each
  double gather_s = 0;     // in the experts' tensor group
  bool merges = false;
  bool overlap = false;
  bool dual_pipe = false;
  bool interleaved = false;  // a pipeline of several chunks a rank
};

// Seconds of one all-to-all that compute waits for.
double ExposedSeconds(const Links& links, const SoftwareStack& stack, const Dispatch& dispatch,
                      Group group) {
  // A dispatch that merges copies sends a token once to each place that has one of its experts,
  // instead of once for each expert.
  double copies = dispatch.experts->top_k;
  const double islands = std::ceil(double(group.ranks) / IslandMembers(links, group));
  if (dispatch.merges && group.ranks > 1) {
    const double places = islands > 1 ? islands : group.ranks;
    copies = PlacesOfToken(*dispatch.experts, dispatch.routing, places);
  }
  const bool overlap =
      dispatch.overlap || (islands > 1 && dispatch.interleaved && stack.overlaps_experts_across);
  const double hidden = dispatch.dual_pipe ? std::max(kDualPipeHidden, stack.expert_hidden)
                        : overlap          ? stack.expert_hidden
                        : dispatch.merges && islands == 1 ? kIslandHidden
                                                          : 0;
  const double all_to_all =
      CollectiveSeconds(links, Collective::kAllToAll, copies * dispatch.token_bytes, group);
  return (all_to_all + dispatch.gather_s) * (1 - hidden);
}

// Likewise at the best place of the group.
double BestExposedSeconds(Links links, const SoftwareStack& stack, const Dispatch& dispatch,
                          uint32_t ranks) {
  links.any_placement = false;
  double best = ExposedSeconds(links, stack, dispatch, {ranks, links.island + 1});
  for (uint32_t stride = 1; stride <= links.island;) {
    best = std::min(best, ExposedSeconds(links, stack, dispatch, {ranks, stride}));
    // The next stride at which the number of members in an island changes: only these can have
    // another cost.
    stride = links.island / (links.island / stride) + 1;
  }
  return best;
}

bool IsLow(const DeviceMatrix& matrix, spec::Precision precision) {
  return matrix.product(precision).operand_bytes < 2;
}

void AddExperts(const spec::Model& model, const DeviceMatrix& matrix, const Links& links,
                const SoftwareStack& stack, const LayerKey& key, LayerCost& cost) {
  if (!key.kind.experts || !model.experts) return;
  const spec::LayerSlice& slice = key.slice;
  const spec::Experts& experts = *model.experts;
  const double own_tokens = Tokens(model, slice) / slice.tensor;
  const double capacity = experts.capacity_factor ? std::min(1.0, *experts.capacity_factor) : 1;
  const double imbalance = experts.capacity_factor ? 1 : slice.expert_imbalance;
  Dispatch dispatch;
  dispatch.experts = &experts;
  if (stack.consecutive_routing && experts.balanced) dispatch.routing = Routing::kConsecutive;
  dispatch.overlap = key.overlap_expert || stack.overlaps_experts ||
                     (stack.overlaps_low_experts && IsLow(matrix, key.precision));
  dispatch.merges = stack.merges_copies && (slice.tensor == 1 || stack.merges_with_tensor);
  dispatch.dual_pipe = key.dual_pipe;
  dispatch.interleaved = key.interleaved;
  dispatch.token_bytes = kTwoBytes * own_tokens * model.hidden * capacity * imbalance;
  if (slice.expert_tensor > 1) {
    // Every rank of an expert's tensor group needs all its tokens: gathered, then reduced.
    const double received =
        kTwoBytes * own_tokens * experts.top_k * slice.expert_tensor * model.hidden * capacity;
    dispatch.gather_s =
        CollectiveSeconds(links, Collective::kAllGather, received, {slice.expert_tensor, 1});
  }
  // Dispatch and combine: two exchanges in either pass.
  const double each = links.any_placement ? BestExposedSeconds(links, stack, dispatch, slice.expert)
                                          : ExposedSeconds(links, stack, dispatch,
                                                           {slice.expert, key.expert_stride});
  cost.expert_forward_s += 2 * each;
  cost.expert_backward_s += 2 * each;
}

// A bias added to each expert's rows by itself, and the rows put together again: four passes of
// both matmuls' outputs; backward a sum and a copy.
void AddExpertBias(const spec::Model& model, const DeviceMatrix& matrix, const LayerKey& key,
                   LayerCost& cost) {
  const spec::Experts& experts = *model.experts;
  const double received = Tokens(model, key.slice) / key.slice.tensor * experts.top_k;
  const double width = (model.gated_ffn ? 2.0 : 1.0) * experts.ffn_hidden + model.hidden;
  const double pass = kTwoBytes * received * width / matrix.bandwidth_bytes_per_s;
  const double local = std::max(1.0, double(experts.count) / key.slice.expert);
  cost.forward_s += 4 * pass;
  cost.backward_s += 3 * pass;
  cost.forward_kernels += 6 * local;
  cost.backward_kernels += 6 * local;
}

}  // namespace

LayerCost CostOf(const spec::Model& model, const DeviceMatrix& matrix, const Links& links,
                 const SoftwareStack& stack, const LayerKey& key) {
  LayerCost cost;
  double recomputed_flops = 0;
  double recomputed_kernels = 0;
  double attention_forward_s = 0;
  double attention_backward_s = 0;
  double moe_again = 0;
  for (const spec::Operator& op : OperatorsOf(model, key)) {
    OperatorSeconds t = TimeOf(matrix, op, key.precision,
                               model.sliding_window ? stack.windowed_attention : stack.attention);
    if (op.kind == spec::OperatorKind::kAttention) {
      if (key.slice.context > 1) {
        t.forward /= stack.context_share;
        t.backward /= stack.context_share;
      }
      attention_forward_s += t.forward;
      attention_backward_s += t.backward;
    }
    cost.forward_s += t.forward;
    cost.backward_s += t.backward;
    cost.weight_gradient_s += t.weight_gradient;
    cost.forward_kernels += op.forward_kernels;
    cost.backward_kernels += op.backward_kernels;
    cost.model_flops += op.model_flops;
    const bool expert =
        op.part == OperatorPart::kExperts && op.groups >= 1 && op.name != "experts.router";
    (expert ? cost.expert_parameters : cost.dense_parameters) += op.parameters;
    if (IsRecomputed(key, op)) {
      const bool half = key.recompute == RecomputeKind::kSelective && !key.modules.any() &&
                        op.kind == spec::OperatorKind::kMatmul;
      const double share = half ? 0.5 : 1;
      cost.recompute_s += share * t.forward;
      recomputed_flops += share * op.model_flops;
      recomputed_kernels += op.forward_kernels;
      if (op.part == OperatorPart::kExperts && !half) moe_again = 1;
    }
  }
  if (key.role == LayerRole::kLayer && key.kind.experts && model.experts) {
    if (stack.adds_expert_bias && model.bias) AddExpertBias(model, matrix, key, cost);
    const double local = std::max(1.0, double(model.experts->count) / key.slice.expert);
    const bool graphed = stack.graphs_low_steps && IsLow(matrix, key.precision);
    const double host = (stack.expert_host_s + local * stack.expert_call_s) *
                        (model.experts->capacity_factor ? 0.5 : 1) * (graphed ? 0 : 1);
    cost.forward_host_s += host;
    cost.backward_host_s += 2 * host;
  }
  const double factor = stack.compute_factor;
  cost.forward_s *= factor;
  cost.backward_s *= factor;
  cost.weight_gradient_s *= factor;
  cost.recompute_s *= factor;
  cost.backward_kernels += recomputed_kernels;
  cost.executed_flops = 3 * cost.model_flops + recomputed_flops;
  AddTensor(model, links, stack, key, cost);
  if (key.role == LayerRole::kLayer) {
    AddContext(model, links, key, attention_forward_s, attention_backward_s, cost);
    AddExperts(model, matrix, links, stack, key, cost);
    // A recomputed forward repeats its collectives: all of them with full recompute, else those of
    // the experts where these run again.
    const bool full = key.recompute == RecomputeKind::kFull;
    if (full) cost.recompute_s += cost.tensor_forward_s + cost.context_forward_s;
    if (moe_again > 0) cost.recompute_s += cost.expert_forward_s;
  }
  return cost;
}

}  // namespace longhaul::planner
