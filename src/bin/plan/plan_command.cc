#include "bin/plan/plan_command.h"

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

#include "base/text.h"
#include "bin/plan/job_of_flags.h"
#include "bin/plan/show_plan.h"
#include "frontend/plan/plan_json.h"
#include "frontend/plan/plan_text.h"
#include "io/clock.h"
#include "planner/case.h"
#include "planner/error_band.h"
#include "planner/evaluate.h"

namespace longhaul::bin {
namespace {

using planner::search::Job;
using planner::search::Plan;
using planner::search::PlanOptions;

constexpr int kExitStopped = 130;  // as shells report an interrupt

std::atomic<bool> interrupted = false;  // written by a signal handler, read by the search

extern "C" void OnInterrupt(int) { interrupted = true; }

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

// Tells on standard error how far a search is, from its third second on.
class Progress {
 public:
  bool operator()(double share) {
    const Instant now = io::MonotonicNow();
    if (now - begin_ > kQuiet && now - last_ > kBetween) {
      last_ = now;
      shown_ = true;
      std::fprintf(stderr, "%ssearching: %.0f %%%s", terminal_ ? "\r" : "", 100 * share,
                   terminal_ ? "  " : "\n");
      std::fflush(stderr);
    }
    return !interrupted;
  }
  void End() const {
    if (shown_ && terminal_) std::fprintf(stderr, "\r%40s\r", "");
  }

 private:
  static constexpr Duration kQuiet = std::chrono::seconds(3);
  static constexpr Duration kBetween = std::chrono::milliseconds(500);

  const Instant begin_ = io::MonotonicNow();
  Instant last_ = begin_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
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
    if (!std::cout) return kExitFailure;  // nobody reads any more
  }
  return kExitOk;
}

int RunPlan(const PlanFlags& flags) {
  const Result<double> compute_factor = ReadStack(flags.stack);
  if (!compute_factor.ok()) {
    Fail(compute_factor.status());
    return kExitUsage;
  }
  if (!flags.cases.empty()) return AnswerCases(flags.cases, *compute_factor);
  if (flags.from.first.empty() && (flags.model.empty() || flags.cluster.empty())) {
    Fail(
        InvalidArgument("plan needs a MODEL and a CLUSTER, as in: longhaul plan llama-3.1-70b "
                        "h100-sxm:64 (or --case -)"));
    return kExitUsage;
  }
  std::optional<NowAndJob> run;
  if (!flags.from.first.empty()) {
    Result<NowAndJob> read = JobOfRun(flags);
    if (!read.ok()) {
      Fail(read.status());
      return kExitUsage;
    }
    run = *std::move(read);
  }
  Result<Job> job = run ? Result<Job>(run->job) : JobOf(flags);
  if (!job.ok()) {
    Fail(job.status());
    return kExitUsage;
  }
  job->base.software.compute_factor = *compute_factor;
  if (IsOfCards(*job)) {
    const spec::Software& software = job->base.software;
    job->machine->stack = planner::StackFor(software.framework, software.release);
  }
  PlanOptions options;
  if (!flags.tokens.empty()) {
    const Result<double> tokens = ParseTokens(flags.tokens);
    if (!tokens.ok()) {
      Fail(tokens.status());
      return kExitUsage;
    }
    options.tokens = *tokens;
    options.run.tokens = *tokens;
  }
  const Status goal = SetGoal(flags, options.run, *job);
  if (!goal.ok()) {
    Fail(goal);
    return kExitUsage;
  }
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  options.search.workers = flags.threads > 0 ? flags.threads : std::min<size_t>(cores, 64);
  options.search.execute = Pool(options.search.workers);
  options.search.keep = flags.top;
  Progress progress;
  options.search.progress = [&progress](double share) { return progress(share); };
  options.search.stop = [] { return interrupted.load(); };
  options.prove = flags.prove;
  options.surroundings = !flags.html.empty() || flags.json || !flags.what_if.empty();
  const InterruptScope scope;
  const Plan plan = MakePlan(*job, options);
  progress.End();
  if (plan.outcome.cancelled) {
    std::fprintf(stderr,
                 "longhaul: stopped when %.0f %% of the sizes were searched; the best so far is "
                 "not proven\n",
                 100 * plan.outcome.searched_share);
    if (!flags.json && flags.emit.empty()) {
      std::fputs(frontend::PlanText(plan).c_str(), stdout);
    } else if (flags.json) {
      std::printf("%s\n", frontend::ToJson(plan).dump(2).c_str());
    }
    return kExitStopped;
  }
  std::optional<frontend::RunNow> now;
  if (run) {
    now = frontend::RunNow{run->file.path,
                           Propose(*job, job->cluster, run->question.training, options),
                           run->file.config.assumed, run->file.config.unknown};
  }
  return ShowPlan(plan, now, flags, options);
}

void AddSearchOptions(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("--batch", flags.batch,
                  "Sequences a step, over all devices (default: 4 Mi tokens, more on many)")
      ->check(CLI::Range(1u, 1'000'000'000u));
  command.add_option("--sequence", flags.sequence, "Tokens a sequence (default: the model's)")
      ->check(CLI::Range(1u, 1u << 27));
  command.add_option("--tokens", flags.tokens, "Tokens to train on, as in 300B: days and cost");
  command.add_option("--cards", flags.cards,
                     "Numbers of cards to choose from, as in 256..4096 (default: the cluster's)");
  command
      .add_option("--objective", flags.objective,
                  "time: the least; cost: the least money, within --deadline if given")
      ->check(CLI::IsMember({"time", "cost"}))
      ->capture_default_str();
  command
      .add_option("--deadline", flags.deadline_days, "Days that the run may take (with --tokens)")
      ->check(CLI::Range(1e-6, 1e6));
  command.add_option("--budget", flags.budget,
                     "Dollars that the run may cost, as in 250k or 3M (with --tokens)");
  command
      .add_option("--recompute", flags.recompute,
                  "stage: each pipeline stage what it needs; uniform: one choice for all, as "
                  "frameworks have it (default: stage, uniform with --framework or --emit of one)")
      ->check(CLI::IsMember({"stage", "uniform"}));
  command.add_option("--precision", flags.precision,
                     "fp32, fp16, bf16 (the default), fp8, mxfp8 or nvfp4");
  command
      .add_option("--framework", flags.framework,
                  "Only layouts that megatron, torchtitan or deepspeed can run; any: one of "
                  "them; all: whatever can be thought of")
      ->capture_default_str();
  command.add_option("--fix", flags.fixed, "Sizes that are decided: tensor=8,pipeline=4,...");
  command.add_option("--headroom", flags.headroom, "Share of a card's memory to leave free")
      ->check(CLI::Range(0.0, 0.95))
      ->capture_default_str();
  command.add_option("--top", flags.top, "How many layouts to show")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  command.add_flag("--prove", flags.prove, "Show that nothing better was left out");
  command.add_option("--threads", flags.threads, "Threads of the search (default: all cores)")
      ->check(CLI::Range(1u, 64u));
}

}  // namespace

void AddPlanCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand(
      "plan", "Memory, time, cost and the best layout of a training, before owning a card");
  command->group(kGroupRun);
  command->add_option("model,--model", flags->model,
                      "A shipped name (llama-3.1-70b), a model's YAML, or a config.json");
  command->add_option(
      "cluster,--cluster", flags->cluster,
      "DEVICE:COUNT (h100-sxm:1024), a cluster's YAML, or a machine's file (longhaul "
      "calibrate)");
  AddSearchOptions(*command, *flags);
  command->add_option("--what-if", flags->what_if,
                      "Change one thing of the best: network.gb_per_s=100, micro=2, batch=4096");
  command->add_option("--why-not", flags->why_not,
                      "Say why a layout was not chosen: tensor=16,pipeline=8");
  command->add_flag("--json", flags->json, "One JSON object");
  command->add_option("--html", flags->html, "Also write one self-contained page to this file");
  command->add_option(
      "--trace", flags->trace,
      "Also write the predicted step, stage by stage, as a Chrome trace: of what is "
      "run now with --from, else of the best");
  command->add_option("--emit", flags->emit,
                      "Write the best one's settings: megatron, deepspeed, torchtitan, longhaul");
  command
      ->add_option("--from", flags->from,
                   "What is run now: megatron ARGS (a script, options or YAML), deepspeed JSON or "
                   "torchtitan TOML; then MODEL may be left out where the file has it")
      ->type_name("FRAMEWORK FILE");
  command->add_option("--case", flags->cases,
                      "-: answer one JSON case a line from standard input (docs/planner-cases.md)");
  command->add_option("--stack", flags->stack,
                      "A factor of one's own software stack (longhaul calibrate --fit)");
  command->footer(
      "Examples:\n"
      "  longhaul plan llama-3.1-70b h100-sxm:512 --tokens 15T --html plan.html\n"
      "  longhaul plan config.json a100-80gb-sxm:64 --batch 1024 --fix tensor=8 --prove\n"
      "  longhaul plan llama-3.1-8b h100-sxm:1024 --cards 64..1024 --tokens 1T --objective cost "
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
