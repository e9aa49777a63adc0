#include "bin/tools/plan/show_plan.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "bin/command.h"
#include "frontend/plan/plan_json.h"
#include "frontend/plan/plan_page.h"
#include "frontend/plan/plan_text.h"
#include "io/files/file.h"
#include "planner/search/obstacle.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "planner/time/trace.h"

namespace longhaul::bin {
namespace {

using planner::search::Plan;
using planner::search::PlanOptions;
using planner::search::Proposal;

// The best one's settings for a framework, on standard output.
int Emit(const Plan& plan, const std::string& name, const PlanOptions& options) {
  const auto framework = planner::flags::ParseFramework(name);
  if (!framework.ok()) return Fail(framework.status());
  if (plan.best.empty()) {
    const std::string why = WhyNothingIsLegal(plan.job);
    return Fail(FailedPrecondition("there is no layout to write: " +
                                   (why.empty() ? planner::search::ObstacleText(plan) : why)));
  }
  Proposal best = plan.best.front();
  if (best.training.recompute.kind == spec::RecomputeKind::kByStage) {
    const auto nearest = NearestUniform(plan.job, best, *framework, options);
    if (!nearest) {
      return Fail(FailedPrecondition(name +
                                     " has one recompute for all stages, and with none of "
                                     "its choices does the best layout fit: give --recompute "
                                     "uniform"));
    }
    std::fprintf(stderr,
                 "note: %s has one recompute for all stages; written is the nearest, %s: a step "
                 "of %s instead of %s\n",
                 name.c_str(), planner::search::RecomputeText(nearest->training).c_str(),
                 ToString(nearest->evaluation.step).c_str(),
                 ToString(best.evaluation.step).c_str());
    best = *nearest;
  }
  const planner::Question question{plan.job.model, best.cluster, best.training};
  const auto launch = planner::flags::WriteLaunch(*framework, question);
  if (!launch.ok()) return Fail(launch.status());
  std::fputs(launch->text.c_str(), stdout);
  for (const std::string& note : launch->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  return kExitOk;
}

struct Asked {
  std::string what;
  std::string answer;
  nlohmann::ordered_json json;
};

// Answers to --what-if and --why-not.
Result<std::vector<Asked>> AnswerQuestions(const Plan& plan, const PlanFlags& flags,
                                           const PlanOptions& options) {
  std::vector<Asked> answers;
  for (const std::string& change : flags.what_if) {
    if (plan.best.empty())
      return FailedPrecondition("--what-if: there is no best layout to change");
    const auto changed = WhatIf(plan.job, plan.best.front(), change, options);
    if (!changed.ok()) return changed.status().WithContext("--what-if " + Printable(change, 60));
    answers.push_back({"what_if " + change,
                       frontend::WhatIfText(plan.best.front(), *changed, change),
                       frontend::ToJson(*changed)});
  }
  for (const std::string& text : flags.why_not) {
    planner::search::Fixed named;
    const Status status = planner::search::ParseFixed(text, named);
    if (!status.ok()) return status.WithContext("--why-not " + Printable(text, 60));
    const std::string why = WhyNot(plan, named, options);
    answers.push_back({"why_not " + text, "Why not " + Harmless(text) + ": " + why + "\n",
                       nlohmann::ordered_json(why)});
  }
  return answers;
}

// The step, stage by stage, of what is run now, or else of the best layout.
Status WriteTrace(const Plan& plan, const std::optional<frontend::RunNow>& now,
                  const std::string& path) {
  if (!now && plan.best.empty()) {
    return FailedPrecondition("there is no layout to draw");
  }
  const Proposal& drawn = now ? now->proposal : plan.best.front();
  return io::WriteTextAtomically(io::PosixFileSystem(), path,
                                 planner::ChromeTrace(drawn.training, drawn.evaluation));
}

}  // namespace

int ShowPlan(const Plan& plan, const std::optional<frontend::RunNow>& now, const PlanFlags& flags,
             const PlanOptions& options) {
  const auto answers = AnswerQuestions(plan, flags, options);
  if (!answers.ok()) {
    Fail(answers.status());
    return kExitUsage;
  }
  if (!flags.html.empty()) {
    const Status written = io::WriteTextAtomically(io::PosixFileSystem(), flags.html,
                                                   frontend::PlanPage(plan, now ? &*now : nullptr));
    if (!written.ok()) return Fail(written.WithContext("--html"));
  }
  if (!flags.trace.empty()) {
    const Status written = WriteTrace(plan, now, flags.trace);
    if (!written.ok()) return Fail(written.WithContext("--trace"));
  }
  if (!flags.emit.empty()) return Emit(plan, flags.emit, options);
  const bool none = plan.best.empty() && plan.outcome.total_points() == 0;
  const std::string why = none ? WhyNothingIsLegal(plan.job) : "";
  if (flags.json) {
    nlohmann::ordered_json json = frontend::ToJson(plan);
    if (now) json["now"] = frontend::NowJson(plan, *now);
    if (!why.empty()) json["why_none"] = why;
    for (const Asked& asked : *answers) json["answers"][asked.what] = asked.json;
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fputs(frontend::PlanText(plan).c_str(), stdout);
    if (!why.empty()) std::printf("Why: %s\n", Harmless(why).c_str());
    if (now) std::fputs(frontend::NowText(plan, *now).c_str(), stdout);
    for (const Asked& asked : *answers) std::printf("\n%s", asked.answer.c_str());
    if (!flags.html.empty()) std::printf("\nPage: %s\n", flags.html.c_str());
    if (!flags.trace.empty()) {
      std::printf("\nTrace%s: %s (chrome://tracing, ui.perfetto.dev, longhaul profile)\n",
                  now ? " of what is run now" : "", flags.trace.c_str());
    }
  }
  if (plan.best.empty()) return kExitFailure;
  return !plan.proof || plan.proof->holds() ? kExitOk : kExitFailure;
}

}  // namespace longhaul::bin
