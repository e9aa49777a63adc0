#include "bin/tools/plan/plan_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "bin/other_program.h"
#include "bin/tools/plan/request_of_flags.h"
#include "bin/tools/plan/show_plan.h"
#include "bin/tools/progress.h"
#include "frontend/plan/plan_figures.h"
#include "frontend/plan/plan_json.h"
#include "frontend/plan/plan_text.h"
#include "io/clock.h"
#include "planner/case.h"
#include "planner/error_band.h"
#include "planner/evaluate.h"
#include "planner/search/settings.h"

namespace longhaul::bin {
namespace {

using planner::search::Plan;
using planner::search::PlanOptions;
using planner::search::PlanRequest;

std::atomic<bool> search_interrupted = false;  // written by a signal handler, read by the search

extern "C" void OnInterrupt(int) { search_interrupted = true; }

// Lets Ctrl-C end a search between two rounds; a second one ends the process as usual.
class InterruptScope {
 public:
  InterruptScope() {
    struct sigaction action {};
    action.sa_handler = OnInterrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ {};
};

// Runs tasks on so many threads, each taking the next one.
std::function<void(size_t, const planner::search::Options::Task&)> Pool(size_t workers) {
  return [workers](size_t count, const planner::search::Options::Task& task) {
    std::atomic<size_t> next = 0;
    const auto work = [&](size_t worker) {
      for (size_t i = next++; i < count; i = next++) task(worker, i);
    };
    std::vector<std::jthread> others;
    for (size_t i = 1; i < workers; ++i) others.emplace_back(work, i);
    work(0);
  };
}

// Shows on standard error how far a search is: on a terminal one line that changes, elsewhere a
// line every ten seconds. The first layout that fits is shown as soon as there is one, unless the
// search ends at once.
class SearchProgress {
 public:
  explicit SearchProgress(double seconds) : seconds_(seconds) {}

  bool operator()(const planner::search::Standing& standing) {
    const Instant now = io::MonotonicNow();
    const bool due = now - last_ > (terminal_ ? kBetween : kBetweenLines);
    const bool first = !shown_best_ && standing.best != nullptr;
    if (now - begin_ > kQuiet && (due || first)) {
      last_ = now;
      shown_ = true;
      std::string line = "searching: " + Percent(standing.share, 0);
      if (standing.best != nullptr) {
        shown_best_ = true;
        line += ", best so far " + ToString(Seconds(standing.best->step_s)) + " a step (" +
                planner::search::LayoutText(standing.best->training) + "); " +
                frontend::GapText(standing.gap);
      }
      std::fprintf(stderr, "%s%s%s", terminal_ ? "\r\033[K" : "",
                   line.substr(0, terminal_ ? kColumns : std::string::npos).c_str(),
                   terminal_ ? "" : "\n");
      std::fflush(stderr);
    }
    return !search_interrupted;
  }
  void End() const {
    if (shown_ && terminal_) std::fprintf(stderr, "\r\033[K");
  }
  // Of --search-seconds.
  bool IsExpired() const {
    return seconds_ > 0 && ToSeconds(io::MonotonicNow() - begin_) >= seconds_;
  }

 private:
  static constexpr Duration kQuiet = std::chrono::seconds(1);
  static constexpr Duration kBetween = std::chrono::milliseconds(500);
  static constexpr Duration kBetweenLines = std::chrono::seconds(10);
  static constexpr size_t kColumns = 200;

  const double seconds_;
  const Instant begin_ = io::MonotonicNow();
  Instant last_ = begin_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  bool shown_best_ = false;
};

int AnswerCases(const std::string& name, double compute_factor) {
  if (name != "-") {
    return Fail(InvalidArgument("--case reads standard input: give --case -"));
  }
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (Trim(line).empty()) continue;
    // Of one case: its choices share the layers' costs.
    std::optional<planner::Evaluator> evaluator;
    const auto evaluate = [&](const planner::Question& question) {
      if (!evaluator) {
        spec::Software software = question.training.software;
        software.compute_factor = compute_factor;
        evaluator.emplace(question.model, question.cluster, software);
      }
      return evaluator->Evaluate(question.training);
    };
    const auto band = [](const planner::Case& asked, const planner::Evaluation& evaluation) {
      return planner::ErrorBand(asked.question, asked.assumed.size(), evaluation.step);
    };
    std::cout << planner::AnswerCase(line, evaluate, band) << '\n' << std::flush;
    if (!std::cout) return kExitFailure;  // the reader has closed the output
  }
  return kExitOk;
}

// The input of a plan: a job, and where the settings of a run were read (--from), that run's
// settings.
struct PlanInput {
  PlanRequest job;
  std::optional<NowAndJob> run;
};

Result<PlanInput> ReadInput(const PlanFlags& flags, const StackChoice& stack) {
  std::optional<NowAndJob> run;
  if (!flags.from.first.empty()) {
    ASSIGN_OR_RETURN(run, JobOfRun(flags));
  } else if (flags.model.empty() || flags.cluster.empty()) {
    return InvalidArgument(
        "plan needs a MODEL and a CLUSTER, as in: longhaul plan llama-3.1-70b h100-sxm:64 "
        "(or --case -)");
  }
  ASSIGN_OR_RETURN(PlanRequest job, run ? Result<PlanRequest>(run->job) : JobOf(flags));
  ApplyStack(stack, run.has_value(), job.base.software);
  if (run) ApplyStack(stack, true, run->question.training.software);
  if (IsOfGpus(job)) {
    const spec::Software& software = job.base.software;
    job.machine->stack = planner::StackFor(software.framework, software.release);
  }
  return PlanInput{std::move(job), std::move(run)};
}

// The options of the search, without its progress and its end; sets the goal of `job`.
Result<PlanOptions> ReadOptions(const PlanFlags& flags, PlanRequest& job) {
  PlanOptions options;
  if (!flags.tokens.empty()) {
    ASSIGN_OR_RETURN(options.tokens, ParseTokens(flags.tokens));
    options.run.tokens = options.tokens;
  }
  RETURN_IF_ERROR(SetGoal(flags, options.run, job));
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  options.search.workers = flags.threads > 0 ? flags.threads : std::min<size_t>(cores, 64);
  options.search.execute = Pool(options.search.workers);
  options.search.keep = flags.top;
  options.prove = flags.prove;
  options.surroundings = !flags.html.empty() || flags.json || !flags.what_if.empty();
  return options;
}

// Shows how far the search is and ends it where --search-effort, --search-seconds or the user do.
// Requires that `progress` lives as long as `options` are used.
void Limit(const PlanFlags& flags, SearchProgress& progress, planner::search::Options& search) {
  search.progress = [&progress](const planner::search::Standing& standing) {
    return progress(standing);
  };
  search.stop = [] { return search_interrupted.load(); };
  if (flags.prove) return;  // a proof is of the whole space
  search.effort = uint64_t{1'000} * flags.search_effort;
  search.expired = [&progress] { return progress.IsExpired(); };
}

int ShowInterrupted(const Plan& plan, const PlanFlags& flags) {
  std::fprintf(stderr,
               "longhaul: stopped when %.0f %% of the sizes were searched; the best so far is "
               "not proven: %s\n",
               100 * plan.outcome.searched_share, frontend::GapText(plan.outcome.gap()).c_str());
  if (!flags.json && flags.emit.empty()) {
    std::fputs(frontend::PlanText(plan).c_str(), stdout);
  } else if (flags.json) {
    std::printf("%s\n", frontend::ToJson(plan).dump(2).c_str());
  }
  return kExitStopped;
}

int RefuseUse(const Status& status) {
  Fail(status);
  return kExitUsage;
}

int RunPlan(const PlanFlags& flags) {
  if (flags.stack == "list") {
    std::fputs(StackList().c_str(), stdout);
    return kExitOk;
  }
  const Result<StackChoice> stack = ReadStack(flags.stack);
  if (!stack.ok()) return RefuseUse(stack.status());
  if (!flags.cases.empty()) {
    if (stack->known) {
      return RefuseUse(
          InvalidArgument("--stack NAME: a case names its own stack (software.framework)"));
    }
    return AnswerCases(flags.cases, stack->compute_factor);
  }
  Result<PlanInput> input = ReadInput(flags, *stack);
  if (!input.ok()) return RefuseUse(input.status());
  Result<PlanOptions> options = ReadOptions(flags, input->job);
  if (!options.ok()) return RefuseUse(options.status());

  SearchProgress progress(flags.search_seconds);
  Limit(flags, progress, options->search);
  const InterruptScope scope;
  const Plan plan = MakePlan(input->job, *options);
  progress.End();
  if (plan.outcome.cancelled) return ShowInterrupted(plan, flags);
  std::optional<frontend::RunNow> now;
  if (input->run) {
    const NowAndJob& run = *input->run;
    now = frontend::RunNow{run.file.path,
                           Propose(input->job, input->job.cluster, run.question.training, *options),
                           run.file.config.assumed, run.file.config.unknown};
  }
  return ShowPlan(plan, now, flags, *options);
}

void AddSearchOptions(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("--batch", flags.batch,
                  "Set the sequences per step over all devices (default: 4 Mi tokens, more on many "
                  "devices)")
      ->check(CLI::Range(1u, 1'000'000'000u));
  command
      .add_option("--sequence", flags.sequence,
                  "Set the tokens per sequence (default: the model's)")
      ->check(CLI::Range(1u, 1u << 27));
  command.add_option("--tokens", flags.tokens,
                     "Set the tokens to train on, such as 300B, to predict days and cost");
  command.add_option(
      "--gpus", flags.gpus,
      "Search these numbers of accelerators, such as 256..4096 (default: the cluster's)");
  command.add_option("--objective", flags.objective, "Minimise time, or cost within --deadline")
      ->check(CLI::IsMember({"time", "cost"}))
      ->capture_default_str();
  command
      .add_option("--deadline", flags.deadline_days, "Limit the days of the run (with --tokens)")
      ->check(CLI::Range(1e-6, 1e6));
  command.add_option("--budget", flags.budget,
                     "Limit the dollars of the run, such as 250k or 3M (with --tokens)");
  command
      .add_option("--recompute", flags.recompute,
                  "Choose recomputation for each pipeline stage, or one for all as frameworks do "
                  "(default: stage; uniform with --framework or --emit of one)")
      ->check(CLI::IsMember({"stage", "uniform"}));
  command.add_option("--precision", flags.precision,
                     "Set the precision: fp32, fp16, bf16 (default), fp8, mxfp8 or nvfp4");
  command
      .add_option("--framework", flags.framework,
                  "Search only layouts that megatron, torchtitan or deepspeed can run; any: at "
                  "least one of them; all: every layout that the planner models")
      ->capture_default_str();
  command.add_option("--fix", flags.fixed, "Fix sizes: tensor=8,pipeline=4,...");
  command
      .add_option("--headroom", flags.headroom, "Leave this share of an accelerator's memory free")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  command.add_option("--top", flags.top, "Show this many layouts")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  command.add_flag("--prove", flags.prove,
                   "Search without a limit and prove that no layout is better");
  command
      .add_option("--search-effort", flags.search_effort,
                  "End the search after this many thousand layouts and report how much better an "
                  "unseen one could be; the same on every machine (0: no limit)")
      ->check(CLI::Range(0u, 1'000'000'000u))
      ->capture_default_str();
  command
      .add_option("--search-seconds", flags.search_seconds,
                  "End the search after this many seconds; the result then depends on the machine")
      ->check(CLI::Range(0.001, 1e7));
  command
      .add_option("--threads", flags.threads, "Search with this many threads (default: all cores)")
      ->check(CLI::Range(1u, 64u));
}

}  // namespace

void AddPlanCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = AddOwnCommand(app, kPlan);
  command->add_option("model,--model", flags->model,
                      "Shipped model (llama-3.1-70b), a model file in YAML, or a config.json");
  command->add_option("cluster,--cluster", flags->cluster,
                      "DEVICE:COUNT (h100-sxm:1024), a cluster file in YAML, or a device file of "
                      "longhaul calibrate");
  AddSearchOptions(*command, *flags);
  command->add_option("--what-if", flags->what_if,
                      "Change one value of the best layout and predict again: "
                      "network.gb_per_s=100, micro=2, batch=4096");
  command->add_option("--why-not", flags->why_not,
                      "Explain why a layout was not chosen: tensor=16,pipeline=8");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->add_option("--html", flags->html, "Also write one self-contained page to this file");
  command->add_option(
      "--trace", flags->trace,
      "Also write the predicted step, stage by stage, as a Chrome trace: of what is "
      "run now with --from, else of the best");
  command->add_option(
      "--emit", flags->emit,
      "Print the best layout's settings for megatron, deepspeed, torchtitan or longhaul");
  command
      ->add_option("--from", flags->from,
                   "What is run now: megatron ARGS (a script, options or YAML), deepspeed JSON or "
                   "torchtitan TOML; then MODEL may be left out where the file has it")
      ->type_name("FRAMEWORK FILE");
  command->add_option("--case", flags->cases,
                      "-: answer one JSON case a line from standard input (docs/planner-cases.md)");
  command->add_option("--stack", flags->stack,
                      "The software stack whose speed is assumed: a known one (list shows all), "
                      "as in megatron-bridge:26.06, or a file of longhaul calibrate --fit");
  command->footer(
      "Examples:\n"
      "  longhaul plan llama-3.1-70b h100-sxm:512 --tokens 15T --html plan.html\n"
      "  longhaul plan config.json a100-80gb-sxm:64 --batch 1024 --fix tensor=8 --prove\n"
      "  longhaul plan llama-3.1-8b h100-sxm:1024 --gpus 64..1024 --tokens 1T --objective cost "
      "--deadline 30\n"
      "  longhaul plan llama-3.1-8b h100-sxm:8 --why-not tensor=8 --what-if micro=2\n"
      "  longhaul plan llama-3.1-8b h100-sxm:64 --emit torchtitan > job.toml\n"
      "  longhaul plan gpt2 ~/.config/longhaul/device.json --framework all --batch 64\n"
      "  longhaul plan --from megatron train.sh h100-sxm:64\n"
      "  longhaul plan --case - < cases.jsonl\n"
      "Guide: docs/plan.md.");
  command->callback([flags, &action] { action = [flags] { return RunPlan(*flags); }; });
}

}  // namespace longhaul::bin
