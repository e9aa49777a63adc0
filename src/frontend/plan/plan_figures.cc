#include "frontend/plan/plan_figures.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "planner/memory/saved_tensors.h"
#include "planner/search/settings.h"
#include "spec/model/parameters.h"

namespace longhaul::frontend {

using planner::MemoryBreakdown;
using planner::StepBreakdown;
using planner::search::Plan;
using planner::search::Proposal;

const std::array<StepPart, kStepParts>& StepParts() {
  static constexpr std::array<StepPart, kStepParts> kParts = {{
      {"forward", "#2563eb", &StepBreakdown::forward},
      {"backward", "#1e40af", &StepBreakdown::backward},
      {"recompute", "#93c5fd", &StepBreakdown::recompute},
      {"tensor collectives", "#d97706", &StepBreakdown::tensor_exposed},
      {"context exchange", "#fbbf24", &StepBreakdown::context_exposed},
      {"expert dispatch", "#b45309", &StepBreakdown::expert_exposed},
      {"sends between stages", "#a855f7", &StepBreakdown::pipeline_exposed},
      {"pipeline bubble", "#d1d5db", &StepBreakdown::bubble},
      {"gradients, parameters", "#059669", &StepBreakdown::data_exposed},
      {"optimizer", "#0d9488", &StepBreakdown::optimizer},
      {"offload", "#be185d", &StepBreakdown::offload_exposed},
      {"host", "#6b7280", &StepBreakdown::host},
      {"slowest node", "#ef4444", &StepBreakdown::straggle},
  }};
  return kParts;
}

const std::array<MemoryPart, kMemoryParts>& MemoryParts() {
  static constexpr std::array<MemoryPart, kMemoryParts> kParts = {{
      {"weights", &MemoryBreakdown::weights},
      {"gradients", &MemoryBreakdown::gradients},
      {"optimizer", &MemoryBreakdown::optimizer},
      {"gathered", &MemoryBreakdown::gathered},
      {"dummy gradients", &MemoryBreakdown::dummy_gradients},
      {"activations", &MemoryBreakdown::activations},
      {"loss", &MemoryBreakdown::loss},
      {"transient", &MemoryBreakdown::transient},
      {"workspace", &MemoryBreakdown::workspace},
  }};
  return kParts;
}

std::string LayoutLine(const spec::Training& training) {
  const spec::Layout& layout = training.layout;
  std::string text;
  const auto add = [&text](bool wanted, const std::string& part) {
    if (wanted) text += (text.empty() ? "" : ", ") + part;
  };
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const std::string layers = layout.layers_per_stage.empty() ? "" : " uneven";
  add(layout.tensor > 1,
      "tensor " + number(layout.tensor) + (layout.sequence_parallel ? " seq-split" : ""));
  add(layout.context > 1, "context " + number(layout.context) + " " +
                              std::string(planner::search::ToText(layout.context_kind)));
  add(layout.pipeline > 1,
      "pipeline " + number(layout.pipeline) +
          (layout.virtual_pipeline > 1 ? " x " + number(layout.virtual_pipeline) : "") +
          (layout.schedule == spec::PipelineSchedule::kOneForwardOneBackward
               ? ""
               : " " + std::string(planner::search::ToText(layout.schedule))) +
          layers);
  add(layout.expert > 1,
      "expert " + number(layout.expert) +
          (layout.expert_tensor > 1 ? " x tensor " + number(layout.expert_tensor) : ""));
  add(true, "data " + number(layout.data));
  add(true, "micro " + number(training.batch.micro));
  add(layout.zero_stage > 0,
      "zero " + number(layout.zero_stage) +
          (layout.shard_group > 0 ? " in groups of " + number(layout.shard_group) : ""));
  add(training.recompute.kind != spec::RecomputeKind::kNone,
      training.recompute.kind == spec::RecomputeKind::kByStage
          ? std::string("recompute by stage")
          : "recompute " + planner::search::ToText(training.recompute));
  add(training.offload != spec::Offload::kNone,
      "offload " + std::string(planner::search::ToText(training.offload)));
  add(layout.order != spec::kUsualOrder, "order " + planner::search::ToText(layout.order));
  return text;
}

std::string GiBText(double bytes, int digits) {
  return Decimal(bytes / double(int64_t{1} << 30), digits);
}

std::string DollarsText(double dollars) {
  if (dollars >= 1e6) return "$" + Decimal(dollars / 1e6, dollars >= 1e8 ? 0 : 2) + "M";
  if (dollars >= 1e4) return "$" + Decimal(dollars / 1e3, 1) + "k";
  return "$" + Decimal(dollars, dollars >= 100 ? 0 : 2);
}

std::string GapText(double gap) {
  if (gap <= 0) return "no layout is better";
  return "no layout is better by more than " + Decimal(100 * gap, gap < 0.1 ? 2 : 1) + " %";
}

std::string DaysText(double days) {
  if (days < 1.0 / 24) return Decimal(days * 1440, 1) + " min";
  if (days < 2) return Decimal(days * 24, 1) + " h";
  return Decimal(days, days < 100 ? 1 : 0) + " days";
}

namespace {

// "405.9B": as parameters are spoken of.
std::string Billions(int64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e12) return Decimal(number / 1e12, 2) + "T";
  if (number >= 1e9) return Decimal(number / 1e9, number >= 1e10 ? 1 : 2) + "B";
  return Decimal(number / 1e6, 1) + "M";
}

}  // namespace

std::string ModelLine(const Plan& plan) {
  const spec::Model& model = plan.job.model;
  const int64_t parameters = spec::Parameters(model);
  std::string text = model.name.empty() ? "The model" : Harmless(model.name);
  text += ", " + Billions(parameters) + " parameters";
  const int64_t active = spec::ActiveParameters(model);
  if (active != parameters) text += " (" + Billions(active) + " active)";
  return text;
}

std::string ClusterLine(const Plan& plan) {
  const spec::DeviceCluster& cluster = plan.job.cluster;
  const spec::Training& base = plan.job.base;
  return WithThousands(cluster.devices) + " x " + Harmless(cluster.device.name) + " (" +
         GiBText(static_cast<double>(cluster.device.memory.count()), 0) + " GiB, nodes of " +
         std::to_string(cluster.devices_per_node) + ", islands of " +
         std::to_string(cluster.island) + ", network " +
         Decimal(cluster.network.per_device.count() / 1e9, 1) + " GB/s a GPU), batch of " +
         WithThousands(base.batch.global) + " x " + WithThousands(plan.job.model.sequence_length) +
         " tokens, " + std::string(planner::search::ToText(base.precision));
}

std::string FrameworksText(const Proposal& proposal) {
  std::string text;
  for (const auto framework : proposal.frameworks) {
    text += (text.empty() ? "" : ", ") + std::string(ToString(framework));
  }
  return text.empty() ? "none" : text;
}

std::string BandText(const Proposal& proposal) {
  return SecondsText(proposal.evaluation.step.count()) + ", " +
         SecondsText(proposal.band.low.count()) + " to " + SecondsText(proposal.band.high.count());
}

std::vector<NamedBytes> LayerTensors(const spec::Model& model, const spec::Training& training,
                                     bool experts) {
  using namespace planner;
  const MemoryKey key = MemoryKeyOf(model, training, FamilyOf(training.software));
  std::vector<NamedBytes> tensors;
  for (const SavedTensor& tensor : SavedTensors(model, experts, key)) {
    if (tensor.bytes > 0) tensors.push_back({std::string(tensor.name), tensor.bytes});
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const NamedBytes& a, const NamedBytes& b) { return a.bytes > b.bytes; });
  return tensors;
}

}  // namespace longhaul::frontend
