#include "frontend/plan/plan_text.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/text.h"
#include "frontend/plan/plan_figures.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"

namespace longhaul::frontend {
namespace {

using planner::Evaluation;
using planner::StageEvaluation;
using planner::search::Plan;
using planner::search::Proposal;
using planner::search::Rule;

// Columns as wide as their widest cell; those that begin with a digit are put to the right.
class Columns {
 public:
  explicit Columns(std::vector<std::string> head) : rows_{std::move(head)} {}

  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string Text() const {
    std::vector<size_t> widths(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string gap(widths[i] - Width(row[i]), ' ');
        // The last row shows the kind of a column: the head has words everywhere.
        const std::string& sample = rows_.back()[i];
        const bool number =
            !sample.empty() && (std::isdigit(static_cast<unsigned char>(sample[0])) != 0 ||
                                sample[0] == '-' || sample[0] == '$');
        line += " " + (number ? gap + row[i] : row[i] + gap) + " ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string BestRows(const Plan& plan) {
  std::vector<std::string> head = {"",    "layout",     "step (error bar)", "tokens/s/gpu", "MFU",
                                   "HFU", "GiB of GPU", "bubble",           "exposed"};
  const bool counts = plan.job.gpus.size() > 1;
  if (counts) head.insert(head.begin() + 1, "GPUs");
  if (plan.tokens > 0) head.insert(head.end(), {"run", "cost"});
  head.push_back("runs in");
  Columns columns(std::move(head));
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const Proposal& proposal = plan.best[i];
    const Evaluation& evaluation = proposal.evaluation;
    const double step = evaluation.step.count();
    const Seconds exposed =
        evaluation.breakdown.tensor_exposed + evaluation.breakdown.context_exposed +
        evaluation.breakdown.expert_exposed + evaluation.breakdown.pipeline_exposed +
        evaluation.breakdown.data_exposed;
    std::vector<std::string> row = {std::to_string(i + 1),
                                    LayoutLine(proposal.training),
                                    BandText(proposal),
                                    Decimal(evaluation.tokens_per_second_per_device, 0),
                                    Percent(evaluation.model_flops_utilization),
                                    Percent(evaluation.hardware_flops_utilization),
                                    GiBText(static_cast<double>(evaluation.device_memory.count())) +
                                        " (" + Percent(proposal.memory_share, 0) + ")",
                                    Percent(evaluation.breakdown.bubble.count() / step),
                                    Percent(exposed.count() / step)};
    if (counts) row.insert(row.begin() + 1, WithThousands(proposal.cluster.devices));
    if (plan.tokens > 0) {
      row.push_back(proposal.run ? DaysText(proposal.run->days.expected) : "-");
      row.push_back(proposal.run ? DollarsText(proposal.run->dollars.expected) : "-");
    }
    row.push_back(FrameworksText(proposal));
    columns.Add(std::move(row));
  }
  return columns.Text();
}

std::string StepTable(const Proposal& best) {
  std::string text;
  const double step = best.evaluation.step.count();
  for (const StepPart& part : StepParts()) {
    const double seconds = (best.evaluation.breakdown.*part.member).count();
    if (seconds < 0.0005 * step) continue;
    const auto width = static_cast<size_t>(std::llround(50 * seconds / step));
    text += "  " + std::string(part.name) + std::string(24 - part.name.size(), ' ');
    const std::string figure = SecondsText(seconds);
    text += std::string(figure.size() < 10 ? 10 - figure.size() : 0, ' ') + figure;
    const std::string share = Percent(seconds / step);
    text += std::string(share.size() < 9 ? 9 - share.size() : 0, ' ') + share + "  " +
            std::string(width, '#') + "\n";
  }
  return text;
}

std::string MemoryTable(const Plan& plan, const Proposal& best) {
  // The first, second, middle and last stages: those between are alike.
  const auto& stages = best.evaluation.stages;
  std::vector<size_t> shown;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages.size() <= 8 || i < 2 || i + 2 >= stages.size() || i == stages.size() / 2) {
      shown.push_back(i);
    }
  }
  std::vector<std::string> head = {"stage", "layers", "held"};
  std::vector<const MemoryPart*> parts;
  for (const MemoryPart& part : MemoryParts()) {
    const bool any = std::any_of(stages.begin(), stages.end(), [&part](const StageEvaluation& s) {
      return (s.memory.*part.member).count() > (int64_t{1} << 20);
    });
    if (!any) continue;
    parts.push_back(&part);
    head.emplace_back(part.name);
  }
  head.emplace_back("total GiB");
  Columns columns(std::move(head));
  for (const size_t i : shown) {
    const StageEvaluation& stage = stages[i];
    std::vector<std::string> row = {std::to_string(i), std::to_string(stage.layers),
                                    std::to_string(stage.micro_batches_held)};
    for (const MemoryPart* part : parts) {
      row.push_back(GiBText(static_cast<double>((stage.memory.*part->member).count()), 2));
    }
    row.push_back(GiBText(static_cast<double>(stage.memory.total().count()), 2));
    columns.Add(std::move(row));
  }
  std::string text = columns.Text();
  const Evaluation& evaluation = best.evaluation;
  text += "  Fullest GPU: " + GiBText(static_cast<double>(evaluation.peak_allocated.count()), 2) +
          " GiB allocated, " + GiBText(static_cast<double>(evaluation.peak_reserved.count()), 2) +
          " reserved, " + GiBText(static_cast<double>(evaluation.device_memory.count()), 2) +
          " as nvidia-smi shows, of " +
          GiBText(static_cast<double>(plan.job.cluster.device.memory.count()), 2) + ".\n";
  return text;
}

std::string LayerTable(const Plan& plan, const Proposal& best) {
  std::string text;
  const spec::Model& model = plan.job.model;
  for (const bool experts : {false, true}) {
    bool any = false;
    for (uint32_t i = 0; i < model.layers; ++i) any = any || model.has_experts(i) == experts;
    if (!any) continue;
    spec::Training kept = best.training;
    kept.recompute = {};
    double total = 0;
    std::string line;
    const std::vector<NamedBytes> tensors = LayerTensors(model, kept, experts);
    for (const NamedBytes& tensor : tensors) total += tensor.bytes;
    for (const NamedBytes& tensor : tensors) {
      line += (line.empty() ? "" : ", ") + tensor.name + " " +
              Decimal(tensor.bytes / double(1 << 20), 1);
    }
    text += std::string("  A layer") +
            (model.experts ? experts ? " with experts" : ", dense" : "") + " saves " +
            Decimal(total / double(1 << 20), 1) +
            " MiB of a micro-batch before recompute: " + line + ".\n";
  }
  return text;
}

std::string OtherText(const Proposal& best, const Proposal& other) {
  const double slower = other.evaluation.step.count() / best.evaluation.step.count() - 1;
  if (other.cluster.devices != best.cluster.devices) {
    const double dearer = (1 + slower) * other.cluster.devices / best.cluster.devices - 1;
    return "on " + WithThousands(other.cluster.devices) + " GPUs: " + Percent(slower) + " time, " +
           Percent(dearer) + " GPU hours";
  }
  return (slower < 5e-4 ? "as fast: " : Percent(slower) + " slower: ") +
         planner::search::Differences(best, other) +
         (other.evaluation.step <= best.band.high ? "; inside the error bar" : "");
}

std::string OthersText(const Plan& plan) {
  std::string text;
  for (size_t i = 1; i < plan.best.size(); ++i) {
    const Proposal& other = plan.best[i];
    text += "  " + std::to_string(i + 1) + " is " + OtherText(plan.best.front(), other) + ".\n";
  }
  text +=
      "\nOf " + WithThousands(static_cast<int64_t>(plan.outcome.total_points())) + " layouts:\n";
  for (size_t rule = 0; rule < planner::search::kRules; ++rule) {
    const uint64_t points = plan.outcome.points[rule];
    if (points == 0) continue;
    const std::string number = WithThousands(static_cast<int64_t>(points));
    text += "  " + std::string(number.size() < 16 ? 16 - number.size() : 0, ' ') + number + "  " +
            std::string(ToString(static_cast<Rule>(rule))) + "\n";
  }
  return text;
}

// The Pareto front where it spans several numbers of GPUs.
std::string FrontierText(const Plan& plan) {
  if (plan.frontier.size() < 2) return "";
  Columns columns({"GPUs", "layout", "step", "GPU hours a step", "of memory"});
  for (const auto& point : plan.frontier) {
    const Proposal& proposal = point.proposal;
    const double step = proposal.evaluation.step.count();
    columns.Add({WithThousands(proposal.cluster.devices), LayoutLine(proposal.training),
                 SecondsText(step), Decimal(step * proposal.cluster.devices / 3600, 2),
                 Percent(proposal.memory_share, 0)});
  }
  return "\nNothing beats these in time, money and memory left free at once:\n" + columns.Text();
}

std::string ProofText(const Plan& plan) {
  if (!plan.proof) return "";
  const planner::search::Proof& proof = *plan.proof;
  std::string text =
      proof.holds()
          ? "\nProved: every bound of " + WithThousands(static_cast<int64_t>(proof.regions)) +
                " pruned regions, computed again, is no better than the list; " +
                WithThousands(static_cast<int64_t>(proof.audited_points)) +
                " of their layouts were computed in full and none is below its bound; regions and "
                "layouts add up to all " +
                WithThousands(static_cast<int64_t>(proof.space_points)) + " of the space.\n"
          : "\nNOT PROVED: " + WithThousands(static_cast<int64_t>(proof.covered_points)) + " of " +
                WithThousands(static_cast<int64_t>(proof.space_points)) + " layouts covered.\n";
  for (const std::string& gap : proof.gaps) text += "  " + gap + "\n";
  if (plan.frontier_proof) {
    const planner::search::Proof& front = *plan.frontier_proof;
    text += std::string(front.holds() ? "The front is proved likewise: "
                                      : "The front is NOT PROVED: ") +
            WithThousands(static_cast<int64_t>(front.covered_points)) + " of " +
            WithThousands(static_cast<int64_t>(front.space_points)) + " layouts in " +
            WithThousands(static_cast<int64_t>(front.regions)) + " regions.\n";
    for (const std::string& gap : front.gaps) text += "  " + gap + "\n";
  }
  return text;
}

std::string RecomputeText(const Plan& plan) {
  const Proposal& best = plan.best.front();
  if (best.training.recompute.kind != spec::RecomputeKind::kByStage) return "";
  const std::vector<std::string> stages = planner::search::StageRecomputeTexts(best.training);
  std::string text =
      "\nRecompute, chosen for each stage by itself (first layers of the stage, by module):\n";
  for (size_t i = 0; i < stages.size();) {
    size_t end = i;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    text += "  stage " + std::to_string(i) +
            (end - i > 1 ? " to " + std::to_string(end - 1) : std::string()) + ": " + stages[i] +
            "\n";
    i = end;
  }
  if (!plan.uniform) return text + "  With one choice for all stages it does not fit.\n";
  const Evaluation& uniform = plan.uniform->evaluation;
  return text + "  Frameworks have one choice for all stages: " +
         planner::search::RecomputeText(plan.uniform->training) + ", " +
         SecondsText(uniform.step.count()) + " a step (" +
         Percent(uniform.step.count() / best.evaluation.step.count() - 1, 2) + " more).\n";
}

std::string RunText(const Proposal& best) {
  if (!best.run) return "";
  const planner::RunEstimate& run = *best.run;
  return "  The run: " + DaysText(run.days.expected) + " (" + DaysText(run.days.low) + " to " +
         DaysText(run.days.high) + "), " + Compact(run.device_hours.expected) + " GPU hours, " +
         Decimal(run.energy_megawatt_hours.expected, 0) + " MWh, " +
         DollarsText(run.dollars.expected) + " (" + DollarsText(run.dollars.low) + " to " +
         DollarsText(run.dollars.high) + "); " + Decimal(run.failures, 0) +
         " failures, a checkpoint every " + SecondsText(run.checkpoint_interval.count()) + ", " +
         Percent(run.availability.expected) + " of the time moves training forward.\n";
}

std::string SmallestText(const Plan& plan) {
  std::string text = "No layout is proposed. " + planner::search::ObstacleText(plan) + "\n";
  return plan.outcome.total_points() == 0 ? text : text + OthersText(plan);
}

}  // namespace

std::string PlanText(const Plan& plan) {
  std::string text = ModelLine(plan) + "\non " + ClusterLine(plan) + "\n\n";
  if (plan.outcome.cancelled) {
    text += "STOPPED after " + Percent(plan.outcome.searched_share, 0) +
            " of the sizes: the best so far, NOT PROVEN; " + GapText(plan.outcome.gap()) + ".\n\n";
    if (plan.best.empty()) return text + "Nothing that fits was found yet.\n";
  }
  if (plan.best.empty()) return text + SmallestText(plan);
  if (plan.outcome.limited) {
    text += "The search ended at its limit: " + GapText(plan.outcome.gap()) +
            ". --prove continues to the optimum.\n\n";
  }
  const Proposal& best = plan.best.front();
  text += BestRows(plan) + "\nThe best, step by step (" +
          SecondsText(best.evaluation.step.count()) + ", " +
          WithThousands(best.evaluation.micro_batches) + " micro-batches" + "):\n" +
          StepTable(best) + RunText(best) + "\nIts memory, GiB of a GPU by stage:\n" +
          MemoryTable(plan, best) + LayerTable(plan, best) + RecomputeText(plan) +
          "\nWhy not the others:\n" + OthersText(plan) + FrontierText(plan) + ProofText(plan);
  return text;
}

std::string WhatIfText(const Proposal& base, const Proposal& changed, std::string_view change) {
  const double now = base.evaluation.tokens_per_second_per_device * base.cluster.devices;
  const double then = changed.evaluation.tokens_per_second_per_device * changed.cluster.devices;
  std::string text = "With " + Harmless(change) + ": a step of " + BandText(changed) + " (" +
                     (then >= now ? "+" : "") + Percent(then / now - 1) + " tokens/s), MFU " +
                     Percent(changed.evaluation.model_flops_utilization) + ", " +
                     GiBText(static_cast<double>(changed.evaluation.device_memory.count())) +
                     " GiB a GPU" + (changed.evaluation.fits ? "" : ", which does NOT fit") + "; " +
                     planner::search::Differences(base, changed) + ".\n";
  return text;
}

}  // namespace longhaul::frontend
