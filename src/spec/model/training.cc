#include "spec/model/training.h"

#include <algorithm>
#include <numeric>

#include "spec/internal/mistakes.h"

namespace longhaul::spec {

namespace {

using internal::Mistakes;

std::string NumberText(uint64_t value) { return Mistakes::Number(value); }

// The largest divisor of `number` that is at most `most`.
// Names a value that would be accepted, for the message.
uint64_t DivisorUpTo(uint64_t number, uint64_t most) {
  for (uint64_t d = std::min(number, most); d > 1; --d) {
    if (number % d == 0) return d;
  }
  return 1;
}

// Adds a line unless `part` divides `whole`.
void Divides(const char* part_name, uint64_t part, const char* whole_name, uint64_t whole,
             Mistakes& mistakes) {
  if (whole % part == 0) return;
  mistakes.Add(std::string(part_name) + " " + NumberText(part) + " does not divide the " +
               NumberText(whole) + " " + whole_name + ": " + NumberText(DivisorUpTo(whole, part)) +
               " would");
}

void CheckSizes(const Layout& layout, Mistakes& mistakes) {
  constexpr uint64_t kMost = 1'000'000;
  mistakes.Range("tensor", layout.tensor, 1, kMost);
  mistakes.Range("pipeline", layout.pipeline, 1, kMost);
  mistakes.Range("virtual_pipeline", layout.virtual_pipeline, 1, 10'000);
  mistakes.Range("context", layout.context, 1, kMost);
  mistakes.Range("expert", layout.expert, 1, kMost);
  mistakes.Range("expert_tensor", layout.expert_tensor, 1, kMost);
  mistakes.Range("data", layout.data, 1, 10'000'000);
  mistakes.Range("zero_stage", layout.zero_stage, 0, 3);
}

// The product, or 2^63 where it would pass that.
uint64_t Matmul(std::initializer_list<uint64_t> factors) {
  uint64_t product = 1;
  for (const uint64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return uint64_t{1} << 63;
  }
  return product;
}

// All products saturate, so a layout that is far too large gets a message and not an overflow.
void CheckDevices(const Layout& layout, uint64_t devices, Mistakes& mistakes) {
  const uint64_t model = Matmul({layout.tensor, layout.pipeline, layout.context});
  if (Matmul({model, layout.data}) == devices) return;
  std::string line = "data " + NumberText(layout.data) + " x tensor " + NumberText(layout.tensor) +
                     " x pipeline " + NumberText(layout.pipeline) + " x context " +
                     NumberText(layout.context) + " is " +
                     NumberText(Matmul({model, layout.data})) + " devices, the cluster has " +
                     NumberText(devices);
  line += devices % model == 0
              ? ": data " + NumberText(devices / model) + " would fill it"
              : ": no data size fills it, as tensor x pipeline x context is " + NumberText(model);
  mistakes.Add(std::move(line));
}

// Key and value heads are either divided over the parts or copied to several of them; both need one
// number to be a multiple of the other.
void CheckTensor(const Model& model, const Layout& layout, Mistakes& mistakes) {
  Divides("tensor", layout.tensor, "heads", model.heads, mistakes);
  if (model.ffn_hidden > 0) {
    Divides("tensor", layout.tensor, "of ffn_hidden", model.ffn_hidden, mistakes);
  }
  if (layout.tensor % model.kv_heads != 0 && model.kv_heads % layout.tensor != 0) {
    mistakes.Add("tensor " + NumberText(layout.tensor) + " neither divides the " +
                 NumberText(model.kv_heads) + " kv_heads nor is a multiple of them: " +
                 NumberText(DivisorUpTo(model.kv_heads, layout.tensor)) + " would do");
  }
  if (layout.sequence_parallel) {
    const uint64_t local = std::max<uint64_t>(model.sequence_length / layout.context, 1);
    Divides("tensor", layout.tensor, "tokens of a rank under sequence_parallel", local, mistakes);
  }
}

void CheckPipeline(const Model& model, const Layout& layout, Mistakes& mistakes) {
  const uint64_t chunks = uint64_t{layout.pipeline} * layout.virtual_pipeline;
  if (layout.virtual_pipeline > 1 && layout.pipeline == 1) {
    mistakes.Add("virtual_pipeline " + NumberText(layout.virtual_pipeline) +
                 " needs a pipeline of 2 stages or more");
  }
  // Embedding and loss may each have a chunk of their own.
  if (chunks > uint64_t{model.layers} + 2) {
    mistakes.Add("pipeline " + NumberText(layout.pipeline) + " x virtual_pipeline " +
                 NumberText(layout.virtual_pipeline) + " is " + NumberText(chunks) +
                 " stages for " + NumberText(model.layers) + " layers: at most " +
                 NumberText(model.layers) + " stages");
  }
  if (layout.layers_per_stage.empty()) return;
  const uint64_t sum =
      std::accumulate(layout.layers_per_stage.begin(), layout.layers_per_stage.end(), uint64_t{0});
  if (layout.layers_per_stage.size() != chunks) {
    mistakes.Add("layers_per_stage has " + NumberText(layout.layers_per_stage.size()) +
                 " entries for pipeline x virtual_pipeline = " + NumberText(chunks));
  }
  if (sum != model.layers) {
    mistakes.Add("layers_per_stage sums to " + NumberText(sum) + ", the model has " +
                 NumberText(model.layers) + " layers");
  }
}

void CheckContext(const Model& model, const Layout& layout, Mistakes& mistakes) {
  if (layout.context == 1) return;
  const bool ring = layout.context_kind == ContextKind::kRing;
  if (ring && model.sequence_length % (2 * uint64_t{layout.context}) != 0) {
    mistakes.Add("context " + NumberText(layout.context) + ": a ring cuts the sequence into " +
                 NumberText(2 * uint64_t{layout.context}) + " pieces, which don't divide its " +
                 NumberText(model.sequence_length) + " tokens: " +
                 NumberText(std::max<uint64_t>(
                     1, DivisorUpTo(model.sequence_length, 2 * uint64_t{layout.context}) / 2)) +
                 " would do");
  } else if (!ring) {
    Divides("context", layout.context, "tokens of a sequence", model.sequence_length, mistakes);
  }
  if (layout.context_kind == ContextKind::kAllToAll) {
    Divides("context", layout.context, "heads of a tensor rank",
            std::max<uint64_t>(1, model.heads / layout.tensor), mistakes);
  }
}

// Experts are divided over the ranks of a pipeline stage, of which there are data x context x
// tensor.
void CheckExperts(const Model& model, const Layout& layout, Mistakes& mistakes) {
  if (!model.experts) {
    if (layout.expert > 1) {
      mistakes.Add("expert " + NumberText(layout.expert) +
                   " for a model without experts: 1 would do");
    }
    return;
  }
  Divides("expert", layout.expert, "experts", model.experts->count, mistakes);
  Divides("expert_tensor", layout.expert_tensor, "of experts.ffn_hidden", model.experts->ffn_hidden,
          mistakes);
  const uint64_t group = Matmul({layout.data, layout.context, layout.tensor});
  const uint64_t experts = uint64_t{layout.expert} * layout.expert_tensor;
  if (group % experts != 0) {
    mistakes.Add("expert x expert_tensor = " + NumberText(experts) +
                 " does not divide data x context x tensor = " + NumberText(group) + ": " +
                 NumberText(DivisorUpTo(group, experts)) + " would");
  }
}

void CheckRecompute(const Training& training, Mistakes& mistakes) {
  if (training.recompute.kind != RecomputeKind::kByStage) return;
  uint32_t stage = 0;
  for (const RecomputeRun& run : training.stage_recompute) {
    if (run.stage >= training.layout.pipeline) {
      mistakes.Add("recompute is given for stage " + NumberText(run.stage) + " of a pipeline of " +
                   NumberText(training.layout.pipeline) + ": stages count from 0");
      return;
    }
    if (run.stage < stage || run.kind == RecomputeKind::kByStage) {
      mistakes.Add("recompute of stage " + NumberText(run.stage) + " is out of order");
      return;
    }
    stage = run.stage;
  }
}

void CheckBatch(const Training& training, Mistakes& mistakes) {
  const Batch& batch = training.batch;
  const uint64_t data = training.layout.data;
  mistakes.Range("global batch", batch.global, 1, 1'000'000'000);
  mistakes.Range("micro batch", batch.micro, 1, 1'000'000);
  if (batch.global < data) {
    mistakes.Add("global batch " + NumberText(batch.global) + " leaves some of the " +
                 NumberText(data) + " replicas without a sequence: give at least " +
                 NumberText(data));
  } else if (batch.micro > (batch.global + data - 1) / data) {
    mistakes.Add("micro batch " + NumberText(batch.micro) + " is more than a replica's share of " +
                 NumberText((batch.global + data - 1) / data) + " sequences");
  }
}

void CheckPrecision(const Device& device, Precision precision, Mistakes& mistakes) {
  const bool wants_fp8 = precision == Precision::kFp8 || precision == Precision::kMxfp8;
  if (wants_fp8 && !(device.fp8 > FlopsPerSecond(0))) {
    mistakes.Add(device.name + " has no fp8 unit: bf16 would do");
  }
  if (precision == Precision::kNvfp4 && !(device.fp4 > FlopsPerSecond(0))) {
    mistakes.Add(device.name + " has no fp4 unit: bf16 would do");
  }
}

}  // namespace

Status CheckTraining(const Model& model, const DeviceCluster& cluster, const Training& training) {
  const Layout& layout = training.layout;
  Mistakes mistakes;
  CheckSizes(layout, mistakes);
  // The later checks divide by these sizes.
  if (!mistakes.none()) return std::move(mistakes).Finish();
  CheckDevices(layout, cluster.devices, mistakes);
  CheckTensor(model, layout, mistakes);
  CheckPipeline(model, layout, mistakes);
  CheckContext(model, layout, mistakes);
  CheckExperts(model, layout, mistakes);
  CheckBatch(training, mistakes);
  CheckRecompute(training, mistakes);
  CheckPrecision(cluster.device, training.precision, mistakes);
  if (layout.shard_group > 0) {
    Divides("shard_group", layout.shard_group, "replicas (data x context)",
            Matmul({layout.data, layout.context}), mistakes);
  }
  mistakes.Range("gradient bytes", training.software.gradient_bytes, 1, 8);
  mistakes.Range("moment bytes", training.software.moment_bytes, 1, 8);
  return std::move(mistakes).Finish();
}

}  // namespace longhaul::spec
