#include "planner/internal/rough_memory.h"

#include <algorithm>
#include <cmath>

namespace longhaul::planner::internal {
namespace {

Bytes Whole(double bytes) { return Bytes(static_cast<int64_t>(std::min(bytes, 1e18))); }

// Bytes that one layer keeps of one micro-batch.
double SavedBytes(const spec::Model& model, const spec::Training& training) {
  const spec::Layout& layout = training.layout;
  const double tensor = layout.tensor;
  const double tokens = double(model.sequence_length) * training.batch.micro / layout.context;
  const double shard = layout.sequence_parallel ? tokens / tensor : tokens;
  const double hidden = model.hidden;
  if (training.recompute.kind == spec::RecomputeKind::kFull) return 2 * shard * hidden;
  const double ffn = model.experts ? double(model.experts->ffn_hidden) * model.experts->top_k
                                   : double(model.ffn_hidden);
  const double halves = model.gated_ffn ? 3 : 2;
  return 8 * shard * hidden + 2 * tokens * hidden * 4 / tensor + 2 * halves * tokens * ffn / tensor;
}

}  // namespace

void RoughMemory(const spec::Model& model, const spec::DeviceCluster& cluster,
                 const spec::Training& training, std::span<const double> parameters,
                 Evaluation& out) {
  const spec::Layout& layout = training.layout;
  const double replicas = double(layout.data) * layout.context;
  const double saved = SavedBytes(model, training);
  out.peak_allocated = Bytes(0);
  for (size_t i = 0; i < out.stages.size(); ++i) {
    StageEvaluation& stage = out.stages[i];
    const double count = parameters[i];
    const auto share = [&](uint32_t stage_from) {
      return layout.zero_stage >= stage_from ? 1 / replicas : 1;
    };
    stage.memory = MemoryBreakdown{};
    stage.memory.weights = Whole(2 * count * share(3));
    stage.memory.gradients = Whole(training.software.gradient_bytes * count * share(2));
    stage.memory.optimizer = Whole((4.0 + 2 * training.software.moment_bytes) * count * share(1));
    stage.micro_batches_held =
        std::min<uint32_t>(out.micro_batches, static_cast<uint32_t>(out.stages.size() - i));
    stage.memory.activations = Whole(saved * stage.layers * stage.micro_batches_held);
    out.peak_allocated = std::max(out.peak_allocated, stage.memory.total());
  }
  out.peak_reserved = Whole(static_cast<double>(out.peak_allocated.count()) * 1.04);
  out.device_memory = out.peak_reserved + Bytes(int64_t{1} << 30);
  out.fits = out.device_memory <= cluster.device.memory;
}

}  // namespace longhaul::planner::internal
