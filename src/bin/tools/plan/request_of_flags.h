// The options of `longhaul plan`, and the job that the search gets for them.
//
// Reads the files that the options name (models, clusters, calibrated machines, the present
// configuration), checks for contradictions, and fills open settings with what a user would choose.
// Leaves out the search (plan_command.cc) and the answers (show_plan.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bin/tools/plan/plan_run.h"
#include "planner/run.h"
#include "planner/search/plan_request.h"

namespace longhaul::bin {

struct PlanFlags {
  std::string model;
  std::string cluster;
  uint32_t batch = 0;
  uint32_t sequence = 0;
  std::string tokens;
  std::string gpus;  // "256..4096"
  std::string objective = "time";
  std::string recompute;     // "stage", "uniform"; empty: uniform where one framework is named
  double deadline_days = 0;  // 0: none
  std::string budget;        // dollars
  std::string precision;     // empty: bf16, on a calibrated machine fp32
  std::string framework = "any";
  std::vector<std::string> fixed;
  uint32_t top = 5;
  double headroom = 0.04;  // the memory that the allocator may need beyond the prediction
  bool prove = false;
  uint32_t search_effort = 140'000;  // thousand layouts; 0: no limit
  double search_seconds = 0;         // 0: no limit
  std::vector<std::string> what_if;
  std::vector<std::string> why_not;
  bool json = false;
  std::string html;
  std::string trace;
  std::string emit;
  std::pair<std::string, std::string> from;  // framework, file
  std::string cases;
  std::string stack;  // a known stack's name, or a file of `calibrate --fit`
  uint32_t threads = 0;
};

// The present configuration, and the job of finding a better layout for it.
struct NowAndJob {
  RunFile file;
  planner::Question question;
  planner::search::PlanRequest job;
};

// The job for a model and a cluster, and for a present configuration. Errors name the option.
Result<planner::search::PlanRequest> JobOf(const PlanFlags& flags);
Result<NowAndJob> JobOfRun(PlanFlags flags);

// "15T", "300B", "2.5e12".
Result<double> ParseTokens(std::string_view text);

// Sets the objective of the search, and the numbers of GPUs.
Status SetGoal(const PlanFlags& flags, const planner::RunFacts& run,
               planner::search::PlanRequest& job);

// The value of --stack: a known stack by its name (planner/known_stacks.h), or the factor in a file
// of `longhaul calibrate --fit`.
struct StackChoice {
  std::optional<spec::Software> known;
  double compute_factor = 1;
};
// An empty text gives neither.
Result<StackChoice> ReadStack(const std::string& text);
// Sets the software of a training. A configuration that was read (`keeps_settings`) keeps its own
// settings and takes only the stack's constants.
void ApplyStack(const StackChoice& stack, bool keeps_settings, spec::Software& software);
// The output of `--stack list`.
std::string StackList();

// Returns whether the machine has GPUs instead of cores.
bool IsOfGpus(const planner::search::PlanRequest& job);

}  // namespace longhaul::bin
