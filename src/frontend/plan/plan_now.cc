#include "frontend/plan/plan_now.h"

#include "base/format.h"
#include "base/text.h"
#include "frontend/plan/plan_figures.h"
#include "frontend/plan/plan_json.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"

namespace longhaul::frontend {
namespace {

using planner::Evaluation;
using planner::search::Plan;
using planner::search::Proposal;

// More tokens a second with the best layout, as a share.
double Gain(const Plan& plan, const RunNow& now) {
  const Seconds best = plan.best.front().evaluation.step;
  return now.proposal.evaluation.step.count() / best.count() - 1;
}

}  // namespace

std::string GainText(const Plan& plan, const RunNow& now) {
  if (plan.best.empty()) return "No layout can be proposed in its place.";
  const Proposal& best = plan.best.front();
  const Evaluation& today = now.proposal.evaluation;
  if (!today.fits) {
    return "It does not fit: " + GiBText(static_cast<double>(today.device_memory.count()), 2) +
           " GiB of " + GiBText(static_cast<double>(plan.job.cluster.device.memory.count()), 2) +
           ". The best layout that fits takes " + SecondsText(best.evaluation.step.count()) +
           " a step.";
  }
  const double gain = Gain(plan, now);
  if (gain < 5e-4) {
    return "No layout of this framework was found that is faster.";
  }
  std::string text = "The best layout takes " + SecondsText(best.evaluation.step.count()) +
                     " a step in place of " + SecondsText(today.step.count()) + ": " +
                     Percent(gain) + " more tokens a second. Now, against it: " +
                     planner::search::Differences(best, now.proposal) + ".";
  if (today.step <= best.band.high) {
    text += " That is inside the error bar of both: measure before you rely on it.";
  }
  return text;
}

std::string NowText(const Plan& plan, const RunNow& now) {
  const Evaluation& today = now.proposal.evaluation;
  std::string text = "\nWhat " + Harmless(now.source) + " runs now\n  " +
                     planner::search::LayoutText(now.proposal.training) + "\n  " +
                     BandText(now.proposal) + " a step, " +
                     Decimal(today.tokens_per_second_per_device, 0) + " tokens/s a GPU, MFU " +
                     Percent(today.model_flops_utilization) + ", " +
                     GiBText(static_cast<double>(today.device_memory.count())) + " of " +
                     GiBText(static_cast<double>(plan.job.cluster.device.memory.count())) +
                     " GiB on the fullest GPU\n  " + GainText(plan, now) + "\n";
  for (const std::string& line : now.assumed) text += "  assumed: " + Harmless(line) + "\n";
  for (const std::string& line : now.unknown) text += "  not understood: " + Harmless(line) + "\n";
  return text;
}

nlohmann::ordered_json NowJson(const Plan& plan, const RunNow& now) {
  nlohmann::ordered_json json = ToJson(now.proposal);
  json["source"] = now.source;
  if (!plan.best.empty()) json["gain"] = Gain(plan, now);
  json["assumed"] = now.assumed;
  json["unknown_settings"] = now.unknown;
  return json;
}

}  // namespace longhaul::frontend
