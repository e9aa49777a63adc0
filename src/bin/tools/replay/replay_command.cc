#include "bin/tools/replay/replay_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "base/text.h"
#include "bin/command.h"
#include "bin/tools/replay/replay_report.h"
#include "io/clock.h"
#include "runtime/simulation/replay/sensitivity.h"

namespace longhaul::bin {
namespace {

using namespace runtime::simulation;  // NOLINT: this file is its command

constexpr std::string_view kPublished = "llama3";
// The variants of a sensitivity run on fewer nodes: the time that a failure costs a synchronous job
// hardly depends on their number, and the simulation takes an eighth of the time.
constexpr uint32_t kSensitivityNodes = 256;
constexpr double kMostFailures = 100'000;

struct ReplayPlan {
  ReplaySettings settings;
  TraceOptions options;
  std::optional<std::vector<TracedFault>> trace;  // of a file

  std::vector<TracedFault> TraceOf(uint64_t seed) const {
    return trace.has_value() ? *trace : GenerateFaultTrace(options, seed);
  }
};

Result<std::string> ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("cannot read " + path);
  constexpr size_t kMost = size_t{64} << 20;
  std::string text;
  std::vector<char> block(1 << 16);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMost) return InvalidArgument(path + " is larger than 64 MiB");
  }
  if (in.bad()) return NotFound("cannot read " + path);
  return text;
}

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return out.good() ? Status() : PermissionDenied("cannot write " + path);
}

Result<ReplayPlan> PlanOf(const ReplayFlags& flags) {
  ReplayPlan plan;
  // As in other simulations, one node in forty of a given number.
  const uint32_t usual = flags.nodes.has_value() ? std::max(1u, *flags.nodes / 40) : kReplaySpares;
  plan.settings.spares = flags.spares.value_or(usual);
  const uint32_t nodes = flags.nodes.value_or(kPublishedNodes + plan.settings.spares);
  if (plan.settings.spares == 0 || plan.settings.spares >= nodes) {
    return InvalidArgument("--spares is " + std::to_string(plan.settings.spares) +
                           ": use 1 or more, and fewer than --nodes (" + std::to_string(nodes) +
                           ")");
  }
  plan.settings.nodes = nodes - plan.settings.spares;
  plan.settings.length = DurationFromSeconds(flags.days * 86'400);
  plan.options.nodes = plan.settings.nodes;
  plan.options.length = plan.settings.length;
  plan.options.factor = flags.factor;
  plan.options.weibull = flags.weibull ? kWeibullShape : 1;
  plan.options.lemons = flags.lemons;
  plan.options.racks = flags.racks;
  plan.options.offenders = flags.offenders ? kOffenders : 0;
  constexpr int kPublishedFailures = kPublishedUnexpected + kPublishedPlanned;
  const double failures = kPublishedFailures * flags.factor * (flags.days / 54);
  if (flags.source == kPublished && failures > kMostFailures) {
    return InvalidArgument("--fault-factor " + NumberText(flags.factor) + " and --days " +
                           NumberText(flags.days) +
                           " give more than 100,000 failures: use smaller ones");
  }
  if (flags.source == kPublished) return plan;
  if (flags.weibull || flags.lemons || flags.racks || flags.offenders || flags.factor != 1) {
    return InvalidArgument(
        "--weibull, --lemons, --racks, --repeat-offenders and --fault-factor "
        "change the published failures, not a file's: use --replay llama3");
  }
  if (!flags.sensitivity.empty()) {
    return InvalidArgument("--sensitivity varies the published failures: use --replay llama3");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadAll(flags.source));
  ASSIGN_OR_RETURN(
      plan.trace, ParseFaultTrace(text, flags.source, {plan.settings.nodes, plan.settings.length}));
  return plan;
}

// Calls `work` for 0 to `count` - 1 on several threads, and `done` with the lock held after each.
void InParallel(size_t count, uint32_t threads, const std::function<void(size_t)>& work,
                const std::function<void(size_t)>& done) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      work(i);
      const std::lock_guard lock(mutex);
      done(i);
    }
  };
  const uint32_t wanted = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min<size_t>(wanted, count); ++i) helpers.emplace_back(run);
  run();
  for (std::thread& helper : helpers) helper.join();
}

ReplayOutcome ReplaySeed(const ReplayPlan& plan, uint64_t seed) {
  ReplayOutcome outcome;
  outcome.seed = seed;
  const std::vector<TracedFault> trace = plan.TraceOf(seed);
  outcome.failures = trace.size();
  const Instant begin = io::ThreadCpuTime();
  outcome.result = Simulate(ReplaySimulation(plan.settings, trace, seed));
  outcome.cpu_s = ToSeconds(io::ThreadCpuTime() - begin);
  outcome.parts = PartsOf(outcome.result, plan.settings.length);
  for (const BaselineSystem& system : kBaselines) {
    outcome.baselines.push_back(RunBaseline(system, trace, plan.settings.length));
  }
  return outcome;
}

void ShowProgress(size_t done, size_t count, const char* what) {
  if (isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\r%zu of %zu %s simulated   ", done, count, what);
  if (done == count) std::fprintf(stderr, "\r%60s\r", "");
}

// Rows are printed in the order of the seeds.
std::vector<ReplayOutcome> ReplaySeeds(const ReplayPlan& plan, const ReplayFlags& flags) {
  std::vector<ReplayOutcome> outcomes(flags.seeds);
  std::vector<bool> ready(flags.seeds);
  size_t finished = 0;
  size_t printed = 0;
  InParallel(
      flags.seeds, flags.threads, [&](size_t i) { outcomes[i] = ReplaySeed(plan, flags.seed + i); },
      [&](size_t i) {
        ready[i] = true;
        ++finished;
        for (; printed < ready.size() && ready[printed]; ++printed) {
          const ReplayOutcome& outcome = outcomes[printed];
          std::printf("%s", (flags.json ? ReplayJson(outcome) : ReplayRow(outcome)).c_str());
        }
        std::fflush(stdout);
        ShowProgress(finished, flags.seeds, "seeds");
      });
  return outcomes;
}

int RunSensitivity(const ReplayPlan& plan, const ReplayFlags& flags) {
  ReplaySettings settings = plan.settings;
  settings.nodes = kSensitivityNodes;
  TraceOptions options = plan.options;
  options.nodes = kSensitivityNodes;
  const std::vector<Variant> variants = SensitivityVariants(settings, options);
  std::vector<VariantOutcome> outcomes;
  for (const Variant& variant : variants) {
    outcomes.push_back({variant.constant, variant.value, std::vector<double>(flags.seeds)});
  }
  size_t finished = 0;
  InParallel(
      variants.size() * flags.seeds, flags.threads,
      [&](size_t i) {
        const size_t seed = i % flags.seeds;
        outcomes[i / flags.seeds].effective[seed] =
            EffectiveTimeOf(variants[i / flags.seeds], flags.seed + seed);
      },
      [&](size_t) { ShowProgress(++finished, variants.size() * flags.seeds, "variants"); });
  const std::string title =
      "Simulated effective training time with one constant changed, median of " +
      std::to_string(flags.seeds) + " seeds";
  const Status written = WriteFile(flags.sensitivity, SensitivitySvg(outcomes, title));
  if (!written.ok()) return Fail(written);
  if (flags.json) {
    for (const VariantOutcome& outcome : outcomes) std::printf("%s", VariantJson(outcome).c_str());
  } else {
    std::printf("\n%s, on %u nodes, %%\n%s", title.c_str(), kSensitivityNodes,
                SensitivityTable(outcomes).c_str());
  }
  return kExitOk;
}

void PrintHead(const ReplayPlan& plan, const ReplayFlags& flags) {
  std::printf("Simulated replay of %s: %u nodes (%s accelerators) and %u spares, %g days\n",
              flags.source == kPublished ? "the failures of Llama 3's training"
                                         : Printable(flags.source).c_str(),
              plan.settings.nodes,
              WithThousands(int64_t{plan.settings.nodes} * kAcceleratorsOfANode).c_str(),
              plan.settings.spares, flags.days);
  std::printf("%s", ReplayRowHead().c_str());
  std::fflush(stdout);
}

}  // namespace

void AddReplayOptions(CLI::App& command, ReplayFlags& flags) {
  CLI::Option* replay = command.add_option(
      "--replay", flags.source,
      "Replay the published failures of Llama 3's training (llama3), or those of this\n"
      "file of comma-separated values (docs/simulation.md)");
  for (const char* other :
       {"--trace", "--minimum-nodes", "--procs", "--steps", "--inject", "--log", "--twice"}) {
    replay->excludes(command.get_option(other));
  }
  const std::vector<CLI::Option*> others = {
      command.add_option("--write-trace", flags.write,
                         "Write the failures of --seed to this file, as --replay reads them"),
      command.add_flag("--weibull", flags.weibull,
                       "Draw the times between failures from a Weibull distribution of shape 0.7"),
      command.add_flag("--lemons", flags.lemons, "Let 2 % of the places fail 20 times as often"),
      command.add_flag("--racks", flags.racks,
                       "Let failures of switches and power take whole racks"),
      command.add_flag("--repeat-offenders", flags.offenders,
                       "Let 10 % of the failures strike a place that has failed before"),
      command
          .add_option("--threads", flags.threads,
                      "Run this many seeds at the same time (default: one per processor)")
          ->check(CLI::Range(1u, 1024u)),
      command.add_option("--sensitivity", flags.sensitivity,
                         "Also change one constant at a time, on 256 nodes, and draw the effects\n"
                         "into this file (SVG)")};
  constexpr const char* kGroup = "Replay failures at known times instead";
  replay->group(kGroup);
  for (CLI::Option* option : others) option->needs(replay)->group(kGroup);
}

int RunReplay(const ReplayFlags& flags) {
  const Result<ReplayPlan> plan = PlanOf(flags);
  if (!plan.ok()) {
    Fail(plan.status().WithContext("--replay"));
    return kExitUsage;
  }
  if (!flags.write.empty()) {
    const Status written = WriteFile(flags.write, FormatFaultTrace(plan->TraceOf(flags.seed)));
    if (!written.ok()) return Fail(written);
  }
  // Before the simulation, which takes long.
  if (!flags.sensitivity.empty() && !std::ofstream(flags.sensitivity, std::ios::app)) {
    return Fail(PermissionDenied("cannot write " + flags.sensitivity));
  }
  if (!flags.json) PrintHead(*plan, flags);
  const std::vector<ReplayOutcome> outcomes = ReplaySeeds(*plan, flags);
  if (!flags.json) std::printf("%s", ReplayTables(outcomes).c_str());
  bool good = true;
  for (const ReplayOutcome& outcome : outcomes) {
    for (const std::string& violation : outcome.result.violations) {
      std::fprintf(stderr, "longhaul: invariant violated with seed %llu: %s\n",
                   static_cast<unsigned long long>(outcome.seed), violation.c_str());
      good = false;
    }
  }
  if (!good) return kExitFailure;
  return flags.sensitivity.empty() ? kExitOk : RunSensitivity(*plan, flags);
}

}  // namespace longhaul::bin
