#include "planner/search/why_not.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/text.h"
#include "planner/search/internal/never.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"

namespace longhaul::planner::search {
namespace {

using internal::kNever;

struct Part {
  const char* name;
  Seconds StepBreakdown::*member;
};
constexpr auto kParts = std::to_array<Part>({
    {"forward", &StepBreakdown::forward},
    {"backward", &StepBreakdown::backward},
    {"recompute", &StepBreakdown::recompute},
    {"tensor collectives", &StepBreakdown::tensor_exposed},
    {"context exchange", &StepBreakdown::context_exposed},
    {"expert dispatch", &StepBreakdown::expert_exposed},
    {"sends between stages", &StepBreakdown::pipeline_exposed},
    {"pipeline bubble", &StepBreakdown::bubble},
    {"gradients and parameters", &StepBreakdown::data_exposed},
    {"optimizer", &StepBreakdown::optimizer},
    {"offload", &StepBreakdown::offload_exposed},
    {"host", &StepBreakdown::host},
    {"waiting for the slowest node", &StepBreakdown::straggle},
});

std::string Fixed2(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", number);
  return text;
}

std::string GiB(Bytes bytes) {
  return Fixed2(static_cast<double>(bytes.count()) / double(int64_t{1} << 30)) + " GiB";
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * share);
  return text;
}

// What is special about a layout on this machine.
std::string Remarks(const Proposal& other) {
  const spec::Layout& layout = other.training.layout;
  const uint32_t island = other.cluster.island;
  std::string text;
  const uint64_t span = layout.tensor * layout.stride(spec::Dimension::kTensor);
  if (layout.tensor > 1 && span > island) {
    text += " Tensor " + std::to_string(layout.tensor) + " spans " + WithThousands(int64_t(span)) +
            " GPUs and leaves the NVLink island of " + std::to_string(island) + ".";
  }
  if (layout.pipeline > 1 && other.evaluation.micro_batches < 4 * layout.pipeline) {
    text += " " + std::to_string(other.evaluation.micro_batches) + " micro-batches fill " +
            std::to_string(layout.pipeline) + " stages badly.";
  }
  return text;
}

const StageEvaluation& Fullest(const Evaluation& evaluation) {
  return *std::max_element(evaluation.stages.begin(), evaluation.stages.end(),
                           [](const StageEvaluation& a, const StageEvaluation& b) {
                             return a.memory.total() < b.memory.total();
                           });
}

// The job of the layout: with what is named decided, on any number of GPUs that may be taken, or
// on the named one, however long it takes.
PlanRequest JobOf(const Plan& plan, const Fixed& named) {
  PlanRequest job = plan.job;
  job.fixed = named;
  for (GpuCount& gpus : job.gpus) gpus.longest_step_s = kNever;
  if (!named.devices) return job;
  GpuCount only{*named.devices};
  for (const GpuCount& gpus : job.gpus) {
    if (gpus.devices == only.devices) only = gpus;
  }
  job.cluster.devices = only.devices;
  job.gpus = {only};
  return job;
}

std::string DoesNotFit(PlanRequest job, const PlanOptions& options) {
  // The same without a limit, to compute the need.
  job.reach = Reach::kEverything;
  const Outcome limited = Search(job, EvaluatorOracle(job), options.search);
  if (limited.smallest.memory_bytes == std::numeric_limits<int64_t>::max()) {
    return "No legal layout has these sizes on " + std::to_string(job.cluster.devices) +
           " devices with a global batch of " + std::to_string(job.base.batch.global) + ".";
  }
  const Proposal least =
      Propose(job, ClusterOf(job, limited.smallest.training), limited.smallest.training, options);
  const StageEvaluation& stage = Fullest(least.evaluation);
  const MemoryBreakdown& memory = stage.memory;
  return "It does not fit: the completion that needs least of those looked at (" +
         LayoutText(least.training) + ") takes " + GiB(least.evaluation.device_memory) + " of " +
         GiB(job.cluster.device.memory) + " on the fullest GPU: weights " + GiB(memory.weights) +
         ", gradients " + GiB(memory.gradients) + ", optimizer " + GiB(memory.optimizer) +
         ", activations " + GiB(memory.activations) + ".";
}

// The rule that a fully or partly named layout breaks, if any.
// Open sizes are 1 here, so a rule that is broken is broken by what is named.
std::string BrokenRule(const Plan& plan, const Fixed& named) {
  spec::Training training = plan.job.base;
  training.layout = {};
  training.layout.tensor = named.tensor.value_or(1);
  training.layout.pipeline = named.pipeline.value_or(1);
  training.layout.virtual_pipeline = named.virtual_pipeline.value_or(1);
  training.layout.context = named.context.value_or(1);
  training.layout.expert = named.expert.value_or(1);
  training.layout.expert_tensor = named.expert_tensor.value_or(1);
  training.batch.micro = named.micro_batch.value_or(1);
  training.recompute = named.recompute.value_or(spec::Recompute{});
  if (named.pipeline) training.stage_recompute = named.stage_recompute;
  const uint64_t model =
      uint64_t{training.layout.tensor} * training.layout.pipeline * training.layout.context;
  spec::DeviceCluster cluster = plan.job.cluster;
  if (!plan.best.empty()) cluster = plan.best.front().cluster;
  cluster.devices = named.devices.value_or(cluster.devices);
  const Status gpus = spec::CheckDeviceCluster(cluster);
  if (!gpus.ok()) return gpus.message();
  const uint64_t devices = cluster.devices;
  training.layout.data =
      named.data.value_or(static_cast<uint32_t>(std::max<uint64_t>(1, devices / model)));
  if (named.virtual_pipeline && !named.pipeline) training.layout.virtual_pipeline = 1;
  const Status status = spec::CheckTraining(plan.job.model, cluster, training);
  return status.ok() ? "" : status.message();
}

}  // namespace

std::string Differences(const Proposal& best, const Proposal& other) {
  struct Difference {
    const char* name;
    double seconds;
  };
  // Of steps of unlike batches the seconds a token count.
  const double scale = best.evaluation.model_flops.count() > 0
                           ? best.evaluation.model_flops.count() /
                                 std::max(1.0, other.evaluation.model_flops.count())
                           : 1;
  std::vector<Difference> differences;
  for (const Part& part : kParts) {
    const double seconds = (other.evaluation.breakdown.*part.member).count() * scale -
                           (best.evaluation.breakdown.*part.member).count();
    if (std::abs(seconds) > 0.002 * best.evaluation.step.count()) {
      differences.push_back({part.name, seconds});
    }
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const Difference& a, const Difference& b) {
                     return std::abs(a.seconds) > std::abs(b.seconds);
                   });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(4, differences.size()); ++i) {
    char number[48];
    std::snprintf(number, sizeof number, " %+.3g s (%+.1f %%)", differences[i].seconds,
                  100 * differences[i].seconds / best.evaluation.step.count());
    text += (i > 0 ? ", " : "") + std::string(differences[i].name) + number;
  }
  return text.empty() ? "no part differs by more than 0.2 % of the step" : text;
}

std::string WhyNot(const Plan& plan, const Fixed& named, const PlanOptions& options) {
  const std::string rule = BrokenRule(plan, named);
  if (!rule.empty()) return "It cannot run: " + rule + ".";
  PlanRequest job = JobOf(plan, named);
  Options search = options.search;
  search.keep = 1;
  Outcome outcome = Search(job, EvaluatorOracle(job), search);
  std::string text;
  if (outcome.best.empty() && job.reach != Reach::kEverything) {
    job.reach = Reach::kEverything;
    outcome = Search(job, EvaluatorOracle(job), search);
    if (!outcome.best.empty()) {
      text = "No framework that may be used has options for it. ";
    }
  }
  if (outcome.best.empty()) return DoesNotFit(job, options);
  const spec::Training& training = outcome.best.front().training;
  const Proposal other = Propose(job, ClusterOf(job, training), training, options);
  text += "At its best (" + LayoutText(other.training) + ") a step takes " +
          ToString(other.evaluation.step) + " and " + GiB(other.evaluation.device_memory) +
          " a GPU.";
  text += LimitText(plan, other);
  if (plan.best.empty()) return text;
  const Proposal& best = plan.best.front();
  const double slower = other.evaluation.step.count() / best.evaluation.step.count() - 1;
  // GPU time a step: the ratio of the steps times the ratio of the GPUs.
  const double dearer = (1 + slower) * other.cluster.devices / best.cluster.devices - 1;
  if (other.cluster.devices != best.cluster.devices) {
    text += " It takes " + WithThousands(other.cluster.devices) + " GPUs instead of " +
            WithThousands(best.cluster.devices) + ": " + Percent(dearer) + " GPU hours a step.";
  }
  const bool money = plan.job.objective == Objective::kCost;
  if (std::abs(slower) < 1e-6 && std::abs(dearer) < 1e-6)
    return text + " It is as good as the best.";
  if (money && slower < 0) text += " The plan was asked for the least money, not the least time.";
  text += " That is " + Percent(slower) + " against the best: " + Differences(best, other) + ".";
  if (other.evaluation.step <= best.band.high) {
    text += " The difference lies inside the error bar of the best (" + ToString(best.band.low) +
            " to " + ToString(best.band.high) + "): measure both.";
  }
  return text + Remarks(other);
}

}  // namespace longhaul::planner::search
