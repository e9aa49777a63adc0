#include "bin/plan_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "bin/plan_run.h"
#include "frontend/format.h"
#include "frontend/plan/plan_json.h"
#include "frontend/plan/plan_now.h"
#include "frontend/plan/plan_page.h"
#include "frontend/plan/plan_text.h"
#include "io/clock.h"
#include "io/file.h"
#include "planner/error_band.h"
#include "planner/local/card/card_file.h"
#include "planner/local/device_constants.h"
#include "planner/local/device_file.h"
#include "planner/local/software_fit.h"
#include "planner/search/settings.h"
#include "planner/search/why_not.h"
#include "planner/time/trace.h"
#include "spec/device_cluster/device_cluster.h"

namespace longhaul::bin {
namespace {

using planner::search::Job;
using planner::search::Plan;
using planner::search::PlanOptions;
using planner::search::Proposal;
using planner::search::Reach;

constexpr uint64_t kMostBytes = 1 << 20;  // of a model's or cluster's file
constexpr int kExitStopped = 130;         // as shells report an interrupt

struct PlanFlags {
  std::string model;
  std::string cluster;
  uint32_t batch = 0;
  uint32_t sequence = 0;
  std::string tokens;
  std::string cards;  // "256..4096"
  std::string objective = "time";
  std::string recompute;     // "stage", "uniform"; empty: uniform where one framework is named
  double deadline_days = 0;  // 0: none
  std::string budget;        // dollars
  std::string precision;     // empty: bf16, on a calibrated machine fp32
  std::string framework = "any";
  std::vector<std::string> fixed;
  uint32_t top = 5;
  double headroom = 0.04;  // what the allocator may need beyond the prediction
  bool prove = false;
  std::vector<std::string> what_if;
  std::vector<std::string> why_not;
  bool json = false;
  std::string html;
  std::string trace;
  std::string emit;
  std::pair<std::string, std::string> from;  // framework, file
  std::string cases;
  std::string stack;  // a file of `calibrate --fit`
  uint32_t threads = 0;
};

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

// "15T", "300B", "2.5e12".
Result<double> ParseTokens(std::string_view text) {
  double scale = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    const char last = text.back();
    scale = last == 'T' ? 1e12 : last == 'B' ? 1e9 : last == 'M' ? 1e6 : 1;
    if (scale > 1) digits.remove_suffix(1);
  }
  const Result<double> number = ParseDouble(digits);
  if (!number.ok() || !(*number > 0) || *number * scale > 1e18) {
    return InvalidArgument("--tokens '" + Printable(text, 40) +
                           "' is not a number of tokens, as in 300B or 15T");
  }
  return *number * scale;
}

// "3M", "250k", "1200000".
Result<double> ParseDollars(std::string_view text) {
  double scale = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    const char last = text.back();
    scale = last == 'B' ? 1e9 : last == 'M' ? 1e6 : last == 'k' ? 1e3 : 1;
    if (scale > 1) digits.remove_suffix(1);
  }
  const Result<double> number = ParseDouble(digits);
  if (!number.ok() || !(*number > 0) || *number * scale > 1e15) {
    return InvalidArgument("--budget '" + Printable(text, 40) +
                           "' is not a sum of dollars, as in 250k or 3M");
  }
  return *number * scale;
}

// The counts of "LOW..HIGH" or of one number.
Result<std::vector<uint32_t>> ParseCards(std::string_view text,
                                         const spec::DeviceCluster& cluster) {
  const size_t dots = text.find("..");
  const Result<uint64_t> low = ParseUint64(text.substr(0, dots));
  const Result<uint64_t> high =
      dots == std::string_view::npos ? low : ParseUint64(text.substr(dots + 2));
  if (!low.ok() || !high.ok() || *low < 1 || *high < *low || *high > 10'000'000) {
    return InvalidArgument("--cards '" + Printable(text, 40) +
                           "' is not a range of cards, as in 256..4096");
  }
  std::vector<uint32_t> counts = planner::search::CardCounts(cluster, static_cast<uint32_t>(*low),
                                                             static_cast<uint32_t>(*high));
  if (counts.empty()) {
    return InvalidArgument("--cards " + Printable(text, 40) +
                           " holds no count of whole islands of " + std::to_string(cluster.island) +
                           " cards");
  }
  return counts;
}

// Cards that `calibrate --device cuda` measured, as many machines of them as fill the count.
Status ReadCards(const std::string& text, const std::string& path, uint32_t devices, Job& job) {
  const Result<planner::CardFile> file = planner::ParseCardFile(text);
  if (!file.ok()) return file.status().WithContext(path);
  const auto constants = planner::ConstantsOf(*file, devices);
  if (!constants.ok()) return constants.status().WithContext(path);
  job.cluster = constants->cluster;
  job.machine = {constants->matrix, constants->links, {}};  // the stack is the framework's
  return {};
}

// A shipped device and a count, a cluster's YAML, or a machine that was calibrated (of cards with a
// count too: card.json:64).
Status ReadCluster(const PlanFlags& flags, Job& job) {
  std::string path = flags.cluster;
  uint32_t devices = 0;
  if (access(path.c_str(), R_OK) != 0) {
    const size_t colon = path.rfind(':');
    const auto count = colon == std::string::npos
                           ? Result<uint64_t>(uint64_t{0})
                           : ParseUint64(std::string_view(path).substr(colon + 1));
    const bool counted = colon != std::string::npos && count.ok() && *count >= 1 &&
                         *count <= 10'000'000 && access(path.substr(0, colon).c_str(), R_OK) == 0;
    if (!counted) {
      ASSIGN_OR_RETURN(job.cluster, spec::ParseClusterName(flags.cluster));
      return {};
    }
    devices = static_cast<uint32_t>(*count);
    path.resize(colon);
  }
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, planner::kLargestDeviceFile));
  if (text.find("\"longhaul-card\"") != std::string::npos) {
    return ReadCards(text, path, devices, job);
  }
  if (devices > 0) {
    return InvalidArgument(path +
                           " says its own count of cards: leave out :" + std::to_string(devices));
  }
  if (text.find("\"longhaul-device\"") == std::string::npos) {
    ASSIGN_OR_RETURN(job.cluster, spec::ParseDeviceCluster(text, path));
    return {};
  }
  const Result<planner::DeviceFile> file = planner::ParseDeviceFile(text);
  if (!file.ok()) return file.status().WithContext(path);
  planner::DeviceConstants constants = planner::ConstantsOf(*file);
  job.cluster = constants.cluster;
  job.machine = {constants.matrix, constants.links, constants.stack};
  return {};
}

// A machine that has cards and not cores.
bool IsOfCards(const Job& job) { return job.machine && job.cluster.device.name != "cpu"; }

// The factor in a file of `longhaul calibrate --fit`; 1 without one.
Result<double> ReadStack(const std::string& path) {
  if (path.empty()) return 1.0;
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kMostBytes));
  const auto factor = planner::ParseStackFile(text);
  if (!factor.ok()) return factor.status().WithContext(path);
  return factor->compute_factor;
}

// Sequences of a step where none is given: 4 Mi tokens, or 1,024 a device where that is more,
// rounded to a power of two.
uint32_t UsualBatch(const Job& job) {
  const double tokens = std::max(4.0 * (1 << 20), 1024.0 * job.cluster.devices);
  const double sequences = std::max(1.0, tokens / job.model.sequence_length);
  return static_cast<uint32_t>(std::exp2(std::round(std::log2(sequences))));
}

Status SetFramework(const std::string& name, Job& job) {
  job.base.software.framework = "megatron-core";
  if (name == "any") {
    job.reach = Reach::kSomeFramework;
    return {};
  }
  if (name == "all") {
    job.reach = Reach::kEverything;
    return {};
  }
  const auto framework = planner::flags::ParseFramework(name);
  if (!framework.ok()) {
    return NotFound(framework.status().message() + ", any (some of them), all (everything)");
  }
  job.framework = *framework;
  job.reach = Reach::kOneFramework;
  using planner::flags::Framework;
  if (*framework == Framework::kTorchtitan) job.base.software.framework = "torchtitan";
  if (*framework == Framework::kDeepSpeed) job.base.software.framework = "deepspeed";
  return {};
}

// Cards without a unit for the precision would be planned as if they had one.
Status CheckPrecision(const Job& job) {
  const spec::Device& device = job.cluster.device;
  const spec::Precision precision = job.base.precision;
  const bool eight = precision == spec::Precision::kFp8 || precision == spec::Precision::kMxfp8;
  const bool four = precision == spec::Precision::kNvfp4;
  if ((!eight || device.fp8.count() > 0) && (!four || device.fp4.count() > 0)) return {};
  return InvalidArgument("--precision " + std::string(planner::search::ToText(precision)) + ": " +
                         device.name + " has no unit for it: use bf16, or " +
                         (eight ? "h100-sxm" : "b200-sxm"));
}

// What is run now, and the job of finding a better layout for it.
struct NowAndJob {
  RunFile file;
  planner::Question question;
  Job job;
};

Result<NowAndJob> JobOfRun(PlanFlags flags) {
  NowAndJob run;
  ASSIGN_OR_RETURN(run.file, ReadRunFile(flags.from.first, flags.from.second));
  if (flags.batch > 0 || flags.sequence > 0 || !flags.precision.empty()) {
    return InvalidArgument(
        "--batch, --sequence and --precision are read from the file of --from: change it there, or "
        "ask --what-if batch=...");
  }
  // One name is the cluster's where the file has the model.
  if (flags.cluster.empty() && run.file.config.model) std::swap(flags.cluster, flags.model);
  if (flags.cluster.empty()) {
    return InvalidArgument(
        run.file.config.model
            ? "--from needs a CLUSTER too, as in: longhaul plan --from " + flags.from.first +
                  " FILE h100-sxm"
            : "the file does not say the model's sizes: give MODEL and CLUSTER, as "
              "in: longhaul plan --from " +
                  flags.from.first + " FILE llama-3.1-8b h100-sxm:64");
  }
  flags.cluster = ClusterOfRun(flags.cluster, run.file.config);
  RETURN_IF_ERROR(ReadCluster(flags, run.job));
  std::optional<spec::Model> model;
  if (!flags.model.empty()) {
    ASSIGN_OR_RETURN(model, ReadModel(flags.model));
  }
  const auto question = planner::configs::QuestionOf(run.file.config, model, run.job.cluster);
  if (!question.ok()) return question.status().WithContext(run.file.path);
  run.question = *question;
  planner::configs::RunConfig& config = run.file.config;
  if (config.devices > 0 && config.devices != run.job.cluster.devices) {
    config.assumed.push_back(std::to_string(run.job.cluster.devices) + " cards (the file starts " +
                             std::to_string(config.devices) + " ranks)");
  }
  run.job.model = question->model;
  if (run.job.model.name.empty()) {
    run.job.model.name = "the model of " + std::filesystem::path(run.file.path).filename().string();
  }
  run.job.headroom = flags.headroom;
  RETURN_IF_ERROR(
      SetFramework(flags.framework == "any" ? flags.from.first : flags.framework, run.job));
  run.job.base = question->training;
  RETURN_IF_ERROR(CheckPrecision(run.job));
  for (const std::string& text : flags.fixed) {
    const Status status = planner::search::ParseFixed(text, run.job.fixed);
    if (!status.ok()) return status.WithContext("--fix");
  }
  return run;
}

Result<Job> JobOf(const PlanFlags& flags) {
  Job job;
  ASSIGN_OR_RETURN(job.model, ReadModel(flags.model));
  RETURN_IF_ERROR(ReadCluster(flags, job));
  if (flags.sequence > 0) job.model.sequence_length = flags.sequence;
  RETURN_IF_ERROR(spec::CheckModel(job.model));
  job.base.batch.global = flags.batch > 0 ? flags.batch : UsualBatch(job);
  // Machines are measured in fp32, the built-in trainer's own.
  const std::string usual = job.machine && !IsOfCards(job) ? "fp32" : "bf16";
  ASSIGN_OR_RETURN(job.base.precision, planner::search::ParsePrecision(
                                           flags.precision.empty() ? usual : flags.precision));
  RETURN_IF_ERROR(CheckPrecision(job));
  job.headroom = flags.headroom;
  RETURN_IF_ERROR(SetFramework(
      flags.emit.empty() || flags.framework != "any" ? flags.framework : flags.emit, job));
  job.recompute_by_stage =
      flags.recompute.empty() ? job.reach != Reach::kOneFramework : flags.recompute == "stage";
  for (const std::string& text : flags.fixed) {
    const Status status = planner::search::ParseFixed(text, job.fixed);
    if (!status.ok()) return status.WithContext("--fix");
  }
  return job;
}

// What the search strives for, and over how many cards.
Status SetGoal(const PlanFlags& flags, const planner::RunFacts& run, Job& job) {
  planner::search::Goal goal;
  goal.run = run;
  if (flags.objective == "cost") goal.objective = planner::search::Objective::kCost;
  if (flags.deadline_days > 0) goal.deadline_days = flags.deadline_days;
  if (!flags.budget.empty()) {
    ASSIGN_OR_RETURN(goal.budget_dollars, ParseDollars(flags.budget));
  }
  std::vector<uint32_t> counts = {job.cluster.devices};
  if (!flags.cards.empty()) {
    ASSIGN_OR_RETURN(counts, ParseCards(flags.cards, job.cluster));
    job.cluster.devices = counts.back();
  }
  return planner::search::SetCards(counts, goal, job);
}

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

// The best one's settings for a framework, on standard output.
int Emit(const Plan& plan, const std::string& name, const PlanOptions& options) {
  const auto framework = planner::flags::ParseFramework(name);
  if (!framework.ok()) return Fail(framework.status());
  if (plan.best.empty()) {
    const std::string why = WhyNothingIsLegal(plan.job);
    return Fail(FailedPrecondition("no layout fits: nothing to write" +
                                   (why.empty() ? std::string() : ": " + why)));
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
    if (plan.best.empty()) return FailedPrecondition("--what-if: no layout fits to be changed");
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
    answers.push_back({"why_not " + text, "Why not " + frontend::Harmless(text) + ": " + why + "\n",
                       nlohmann::ordered_json(why)});
  }
  return answers;
}

// The best one's step, stage by stage.
Status WriteTrace(const Plan& plan, const std::string& path) {
  if (plan.best.empty()) return FailedPrecondition("no layout fits: nothing to draw");
  const Proposal& best = plan.best.front();
  return io::WriteTextAtomically(io::PosixFileSystem(), path,
                                 planner::ChromeTrace(best.training, best.evaluation));
}

int Show(const Plan& plan, const std::optional<frontend::RunNow>& now, const PlanFlags& flags,
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
    const Status written = WriteTrace(plan, flags.trace);
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
    if (!why.empty()) std::printf("Why: %s\n", frontend::Harmless(why).c_str());
    if (now) std::fputs(frontend::NowText(plan, *now).c_str(), stdout);
    for (const Asked& asked : *answers) std::printf("\n%s", asked.answer.c_str());
    if (!flags.html.empty()) std::printf("\nPage: %s\n", flags.html.c_str());
    if (!flags.trace.empty()) {
      std::printf("\nTrace: %s (chrome://tracing, ui.perfetto.dev, longhaul profile)\n",
                  flags.trace.c_str());
    }
  }
  if (plan.best.empty()) return kExitFailure;
  return !plan.proof || plan.proof->holds() ? kExitOk : kExitFailure;
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
  return Show(plan, now, flags, options);
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
  command->add_option("--trace", flags->trace,
                      "Also write the predicted step, stage by stage, as a Chrome trace");
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
