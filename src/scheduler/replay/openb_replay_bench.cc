// The openb lists of a folder, replayed with ten seeds, beside the published curves.
//
//   openb_replay_bench FOLDER [--seeds N] [--list NAME] [--rivals] [--class] [--resample R] [--cpu
//   P]
//
// FOLDER holds csv/ and, for the comparison, expected_fgd/. --rivals runs the exact rise of the
// fragmentation, best fit, FGD's own rule and random choice beside ours (slow). --resample R
// replaces each list by R lists drawn from it with replacement, with seeds of their own. --cpu P
// multiplies the cpu that each task requests by P percent, up to the largest node's. Says "skipped"
// and succeeds where FOLDER is absent; fails when a list with a curve falls short of the published
// FGD by more than 0.05.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "scheduler/replay/openb_replay.h"

namespace longhaul::scheduler {
namespace {

constexpr uint64_t kFirstSeed = 42;  // as published
constexpr double kForgiven = 0.05;   // one standard error of a mean of ten
constexpr size_t kPercents[] = {80, 100, 130};
constexpr uint64_t kMaxFile = uint64_t{64} << 20;

struct Flags {
  std::string folder;
  std::string list;
  uint64_t seeds = 10;
  uint64_t resample = 0;
  uint64_t cpu_percent = 100;
  bool rivals = false;
  bool by_class = false;  // ours by the class Scheduler instead of the rule alone
};

using Curves = std::map<std::pair<std::string, std::string>, PublishedCurve>;

struct Measured {
  std::vector<AllocationCurve> runs;
  uint64_t decisions = 0;
  double cpu_s = 0;

  double Mean(size_t percent) const {
    double sum = 0;
    for (const AllocationCurve& run : runs) sum += run[percent];
    return sum / static_cast<double>(runs.size());
  }
  double Deviation(size_t percent) const {
    double sum = 0;
    for (const AllocationCurve& run : runs) sum += std::pow(run[percent] - Mean(percent), 2);
    return std::sqrt(sum / static_cast<double>(runs.size()));
  }
};

// The rise of the expected fragmentation, a pull towards full nodes and a price of scarce models,
// without what SmallJobPolicy adds to them: the rule that the policy was developed from.
constexpr SmallJobPolicy kExactRise = {
    .pull_cpu = 50, .pull_gpus = 50, .packing = 0, .price_percent = 100};

Result<Measured> Measure(const Flags& flags, const spec::Topology& topology,
                         const std::vector<TraceJob>& tasks, ReplayRule rule,
                         const SmallJobPolicy& policy = {}) {
  Measured measured;
  for (uint64_t sample = 0; sample < std::max<uint64_t>(flags.resample, 1); ++sample) {
    Random sampler(1'000 + sample);
    const std::vector<TraceJob> list = flags.resample > 0 ? Resampled(tasks, sampler) : tasks;
    for (uint64_t seed = kFirstSeed; seed < kFirstSeed + flags.seeds; ++seed) {
      Random random(seed + sample * 1'000);
      const auto order = InflatedArrivals(list, CapacityMilli(topology), random);
      const Instant begin = io::ThreadCpuTime();
      ASSIGN_OR_RETURN(const ReplayResult result, Replay(topology, list, order, rule, policy));
      measured.cpu_s += ToSeconds(io::ThreadCpuTime() - begin);
      measured.decisions += result.decisions;
      measured.runs.push_back(result.allocated);
    }
  }
  return measured;
}

void PrintRow(const std::string& name, const char* rule, const Measured& measured) {
  std::printf("%-14s %-10s", name.c_str(), rule);
  for (const size_t p : kPercents)
    std::printf("  %6.2f ±%4.2f", measured.Mean(p), measured.Deviation(p));
  std::printf("  %9.0f\n", static_cast<double>(measured.decisions) / measured.cpu_s);
  std::fflush(stdout);
}

// Whether ours is at least the published FGD at each percentage.
bool PrintPublished(const std::string& name, const Curves& curves, const Measured& ours) {
  bool enough = true;
  for (const char* policy : {"05-BestFit", "06-FGD"}) {
    const auto found = curves.find({"openb_pod_list_" + name, policy});
    if (found == curves.end()) continue;
    std::printf("%-14s %-10s", "", std::string(policy).substr(3).c_str());
    for (const size_t p : kPercents) {
      const double mean = found->second.mean[p];
      const bool short_of = std::string(policy) == "06-FGD" && ours.Mean(p) < mean - kForgiven;
      enough &= !short_of;
      std::printf("  %6.2f %-5s", mean, short_of ? "SHORT" : "");
    }
    std::printf("  published\n");
  }
  return enough;
}

Result<bool> RunList(const Flags& flags, const spec::Topology& topology, const std::string& name,
                     const Curves& curves) {
  const std::string path = flags.folder + "/csv/openb_pod_list_" + name + ".csv";
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, kMaxFile));
  ASSIGN_OR_RETURN(std::vector<TraceJob> tasks, ReadOpenbTasks(text, path));
  int64_t most_cpu = 0;
  for (const spec::NodeKind& kind : topology.kinds()) {
    most_cpu = std::max<int64_t>(most_cpu, kind.cpu_milli);
  }
  for (TraceJob& job : tasks) {
    const int64_t cpu = job.task.cpu_milli * static_cast<int64_t>(flags.cpu_percent) / 100;
    job.task.cpu_milli = std::min(cpu, std::max(most_cpu, job.task.cpu_milli));
  }
  ASSIGN_OR_RETURN(const Measured ours,
                   Measure(flags, topology, tasks,
                           flags.by_class ? ReplayRule::kScheduler : ReplayRule::kLonghaul));
  PrintRow(name, "longhaul", ours);
  if (flags.rivals) {
    ASSIGN_OR_RETURN(const Measured exact,
                     Measure(flags, topology, tasks, ReplayRule::kLonghaul, kExactRise));
    PrintRow("", "exact rise", exact);
    const std::pair<ReplayRule, const char*> rivals[] = {{ReplayRule::kPublishedFgd, "fgd rule"},
                                                         {ReplayRule::kBestFit, "best fit"},
                                                         {ReplayRule::kRandom, "random"}};
    for (const auto& [rule, word] : rivals) {
      ASSIGN_OR_RETURN(const Measured rival, Measure(flags, topology, tasks, rule));
      PrintRow("", word, rival);
    }
  }
  return flags.resample > 0 || flags.cpu_percent != 100 || PrintPublished(name, curves, ours);
}

Result<bool> Run(const Flags& flags) {
  const auto files = io::PosixFileSystem().List(flags.folder + "/csv");
  if (!files.ok()) {
    std::printf("skipped: %s\n", files.status().message().c_str());
    return true;
  }
  const std::string nodes = flags.folder + "/csv/openb_node_list_gpu_node.csv";
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(nodes, kMaxFile));
  ASSIGN_OR_RETURN(const spec::ClusterDeclaration cluster, ReadOpenbNodes(text, nodes));
  ASSIGN_OR_RETURN(const spec::Topology topology, spec::Topology::Create(cluster));
  Curves curves;
  const std::string published = flags.folder + "/expected_fgd/analysis_allo_discrete.csv";
  const auto expected = io::ReadText(published, kMaxFile);
  if (expected.ok()) {
    ASSIGN_OR_RETURN(curves, ReadPublishedCurves(*expected, published));
  } else {
    std::printf("published curves skipped: %s\n", expected.status().message().c_str());
  }
  std::printf("%u nodes, %lld GPUs; allocated %% at %% arrived, mean ± deviation of a seed\n",
              topology.size(), static_cast<long long>(CapacityMilli(topology) / kWholeGpu));
  std::printf("%-14s %-10s  %12s  %12s  %12s  %s\n", "list", "rule", "80", "100", "130",
              "decisions/cpu-s");
  bool enough = true;
  constexpr std::string_view kPrefix = "openb_pod_list_";
  for (const std::string& file : *files) {
    if (!file.starts_with(kPrefix) || !file.ends_with(".csv")) continue;
    const std::string name = file.substr(kPrefix.size(), file.size() - kPrefix.size() - 4);
    if (!flags.list.empty() && name != flags.list) continue;
    ASSIGN_OR_RETURN(const bool good, RunList(flags, topology, name, curves));
    enough &= good;
  }
  return enough;
}

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--rivals") {
      flags.rivals = true;
    } else if (word == "--class") {
      flags.by_class = true;
    } else if (word == "--list") {
      flags.list = value;
      ++i;
    } else if (word == "--seeds" || word == "--resample" || word == "--cpu") {
      const auto number = ParseUint64(value);
      if (!number.ok() || *number < 1 || *number > 1'000) {
        std::fprintf(stderr, "%s wants a number from 1 to 1,000\n", word.c_str());
        return 2;
      }
      (word == "--seeds"      ? flags.seeds
       : word == "--resample" ? flags.resample
                              : flags.cpu_percent) = *number;
      ++i;
    } else if (flags.folder.empty() && !word.starts_with("-")) {
      flags.folder = word;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", word.c_str());
      return 2;
    }
  }
  if (flags.folder.empty()) {
    std::fprintf(stderr,
                 "usage: openb_replay_bench FOLDER [--seeds N] [--list NAME] [--rivals] [--class] "
                 "[--resample R] [--cpu PERCENT]\n");
    return 2;
  }
  const Result<bool> enough = Run(flags);
  if (!enough.ok()) {
    std::fprintf(stderr, "%s\n", enough.status().message().c_str());
    return 1;
  }
  return *enough ? 0 : 1;
}

}  // namespace
}  // namespace longhaul::scheduler

int main(int argc, char** argv) { return longhaul::scheduler::Main(argc, argv); }
