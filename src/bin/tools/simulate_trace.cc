#include "bin/tools/simulate_trace.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "base/text.h"
#include "base/time.h"
#include "bin/command.h"
#include "bin/tools/check_fixes.h"
#include "bin/tools/trace_input.h"
#include "bin/tools/trace_report.h"
#include "scheduler/workload/simulation.h"
#include "spec/cluster/topology.h"

namespace longhaul::bin {
namespace {

using namespace scheduler::workload;  // NOLINT: this file is its command

constexpr auto kForesights =
    std::to_array<std::string_view>({"true", "double", "half", "history", "limit"});

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// All, or those named.
Result<std::vector<Contender>> ContendersOf(const std::vector<std::string>& names) {
  const std::vector<Contender> all = StandardContenders();
  if (names.empty()) return all;
  std::vector<Contender> chosen;
  std::vector<std::string> known;
  for (const Contender& contender : all) known.push_back("'" + contender.name + "'");
  for (const std::string& name : names) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Contender& contender) { return contender.name == name; });
    if (found == all.end()) {
      return InvalidArgument("--policy: there is no '" + Printable(name, 40) + "'; there are " +
                             Join(known, ", "));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Result<TraceInput> InputOf(const TraceFlags& flags) {
  ASSIGN_OR_RETURN(TraceInput input,
                   ReadTrace(flags.file, flags.format, flags.month, flags.measured));
  if (flags.cluster.empty()) DropUndeclaredNeeds(input);
  return input;
}

Result<spec::ClusterDeclaration> ClusterOf(const TraceFlags& flags) {
  if (!flags.cluster.empty()) return ReadTraceCluster(flags.cluster);
  return spec::ClosCluster(flags.blocks, flags.leaves, flags.hosts);
}

// "47,192 jobs of FILE in 2017-10 on a declared Clos of ...", for the output's head.
std::string HeadOf(const TraceFlags& flags, const TraceInput& input,
                   const spec::ClusterDeclaration& cluster) {
  int64_t gpus = 0;
  for (const spec::DeclaredNode& node : cluster.nodes) {
    gpus += static_cast<int64_t>(cluster.kinds[node.kind].devices.size());
  }
  std::string on = flags.cluster;
  if (on.empty()) {
    on = "a declared Clos of " + std::to_string(flags.blocks) + " blocks x " +
         std::to_string(flags.leaves) + " leaves x " + std::to_string(flags.hosts) +
         " hosts x 8 GPUs";
  }
  return WithThousands(static_cast<int64_t>(input.jobs.size())) + " jobs of " + flags.file +
         (flags.month.empty() ? "" : " in " + flags.month) + " on " + on + " (" +
         WithThousands(static_cast<int64_t>(cluster.nodes.size())) + " nodes, " +
         WithThousands(gpus) + " GPUs); durations known: " + flags.foresight;
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return out.good() ? Status() : PermissionDenied("cannot write " + path);
}

Result<std::vector<SimulationResult>> Compare(const spec::ClusterDeclaration& cluster,
                                              const std::vector<scheduler::TraceJob>& jobs,
                                              const std::vector<Contender>& contenders,
                                              SimulationOptions options) {
  std::vector<SimulationResult> results;
  const bool live = isatty(STDERR_FILENO) == 1;
  for (const Contender& contender : contenders) {
    if (live) {
      const Instant begin = InstantFromNanoseconds(jobs.front().clock_ms * 1'000'000);
      options.on_progress = [&contender, begin](Instant now) {
        std::fprintf(stderr, "\r%-18s %s simulated      ", contender.name.c_str(),
                     ToString(now - begin).c_str());
      };
    }
    const double before = CpuSeconds();
    Result<SimulationResult> result = Simulate(cluster, jobs, contender, options);
    if (live) std::fprintf(stderr, "\r%60s\r", "");
    if (!result.ok()) return result.status();
    result->cpu_s = CpuSeconds() - before;
    results.push_back(std::move(result).value());
  }
  return results;
}

}  // namespace

void AddTraceOptions(CLI::App& command, TraceFlags& flags) {
  constexpr const char* kGroup = "Replay a workload trace instead";
  command
      .add_option(
          "--trace", flags.file,
          "Replay this trace: Philly, openb, DLRM, Pollux, or what sacct --parsable2 prints")
      ->group(kGroup);
  command
      .add_option("--format", flags.format,
                  "Set the trace's format (default: as its first line shows)")
      ->check(CLI::IsMember(TraceFormats()))
      ->group(kGroup);
  command
      .add_option("--cluster", flags.cluster,
                  "Use the nodes of this cluster file, or of openb's list of nodes")
      ->group(kGroup);
  command
      .add_option("--measured", flags.measured,
                  "Compute the durations of Pollux's jobs from the measured times in this folder")
      ->group(kGroup);
  command.add_option("--month", flags.month, "Replay only jobs of this month, such as 2017-10")
      ->group(kGroup);
  command.add_option("--blocks", flags.blocks, "Set the number of blocks of the Clos network")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--leaves", flags.leaves, "Set the number of leaves per block")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--hosts", flags.hosts,
                  "Set the number of hosts per leaf, of 8 accelerators each")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--foresight", flags.foresight,
                  "Set what schedulers know of durations: true, double, half, history, limit (the "
                  "users' limits of a sacct trace)")
      ->check(CLI::IsMember(std::vector<std::string>(kForesights.begin(), kForesights.end())))
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--policy", flags.policies, "Run only these policies (default: all)")
      ->group(kGroup);
  command
      .add_option(
          "--snapshot-hours", flags.snapshot_hours,
          "Set the hours between two snapshots of a job; an evicted job loses what came after")
      ->check(CLI::Range(0.01, 1e4))
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--csv", flags.csv, "Write the table to this file")->group(kGroup);
  command.add_option("--svg", flags.svg, "Draw use and waiting times into this file")
      ->group(kGroup);
  command.add_option("--html", flags.html, "Write drawing and table as one page into this file")
      ->group(kGroup);
  command
      .add_option("--check-fixes", flags.check_fixes,
                  "On this day, such as 2017-10-12, explain every waiting job each hour, apply the "
                  "stated fix to a copy and check whether the job starts (first policy only)")
      ->group(kGroup);
}

int RunTrace(const TraceFlags& flags) {
  const Result<std::vector<Contender>> contenders = ContendersOf(flags.policies);
  if (!contenders.ok()) {
    Fail(contenders.status());
    return kExitUsage;
  }
  const Result<TraceInput> input = InputOf(flags);
  if (!input.ok()) return Fail(input.status());
  const std::vector<scheduler::TraceJob>& jobs = input->jobs;
  const Result<spec::ClusterDeclaration> declared = ClusterOf(flags);
  if (!declared.ok()) return Fail(declared.status());
  const spec::ClusterDeclaration& cluster = *declared;
  SimulationOptions options;
  options.foresight = static_cast<Foresight>(
      std::find(kForesights.begin(), kForesights.end(), flags.foresight) - kForesights.begin());
  options.snapshot_period = DurationFromSeconds(flags.snapshot_hours * 3600);
  const std::string head = HeadOf(flags, *input, cluster);
  if (!flags.json) {
    std::printf("Simulated: %s\n", head.c_str());
    for (const std::string& note : input->notes) std::printf("  %s\n", note.c_str());
    for (const Contender& contender : *contenders) {
      std::printf("  %-18s %s\n", contender.name.c_str(), contender.what.c_str());
    }
    std::fflush(stdout);
  }
  if (!flags.check_fixes.empty()) {
    return CheckFixes(cluster, jobs, contenders->front(), options, flags.check_fixes, flags.json);
  }
  const auto results = Compare(cluster, jobs, *contenders, options);
  if (!results.ok()) return Fail(results.status());
  std::printf("%s", flags.json ? TraceJson(*results).c_str() : TraceTable(*results).c_str());
  if (!flags.csv.empty()) {
    const Status written = WriteText(flags.csv, TraceCsv(*results));
    if (!written.ok()) return Fail(written);
  }
  if (!flags.svg.empty()) {
    const Status written = WriteText(flags.svg, TraceSvg(*results));
    if (!written.ok()) return Fail(written);
  }
  if (!flags.html.empty()) {
    const Status written = WriteText(flags.html, TraceHtml(*results, head));
    if (!written.ok()) return Fail(written);
  }
  return kExitOk;
}

}  // namespace longhaul::bin
