#include "bin/tools/check_fixes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "bin/command.h"

namespace longhaul::bin {
namespace {

using namespace scheduler::workload;  // NOLINT: this file is its command

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The first instant of a day of UTC.
Result<Instant> BeginOf(const std::string& day) {
  const auto refuse = [&] {
    return InvalidArgument("--check-fixes: '" + Printable(day, 40) +
                           "' is not a day such as 2017-10-12");
  };
  if (day.size() != 10 || day[4] != '-' || day[7] != '-') return refuse();
  const auto year = ParseUint64(day.substr(0, 4));
  const auto month = ParseUint64(day.substr(5, 2));
  const auto number = ParseUint64(day.substr(8, 2));
  if (!year.ok() || !month.ok() || !number.ok()) return refuse();
  const auto date = std::chrono::year(static_cast<int>(*year)) /
                    std::chrono::month(static_cast<unsigned>(*month)) /
                    std::chrono::day(static_cast<unsigned>(*number));
  if (!date.ok()) return refuse();
  const auto since = std::chrono::sys_days(date).time_since_epoch();
  return InstantFromNanoseconds(std::chrono::nanoseconds(since).count());
}

struct Checked {
  uint64_t moments = 0;
  uint64_t explained = 0;
  uint64_t started = 0;
  uint64_t without = 0;
  uint64_t leaving = 0;  // their own last tasks have not stopped: nothing but time helps
  std::set<std::string> jobs;
  std::map<std::string, uint64_t> reasons;
  std::vector<double> seconds;
  std::string first_false;
};

bool HasNodes(const scheduler::Scheduler& scheduler, const JobId& id) {
  const scheduler::JobStage stage = scheduler.StageOf(id);
  return stage != scheduler::JobStage::kWaiting && stage != scheduler::JobStage::kLeaving &&
         stage != scheduler::JobStage::kUnknown;
}

// Ends all jobs that must stop, and runs two more rounds.
void Obey(scheduler::Scheduler& copy, Instant now) {
  for (const JobId& id : copy.Waiting()) {
    if (copy.StageOf(id) == scheduler::JobStage::kLeaving) {
      copy.Apply(scheduler::JobStopped{id}, now);
    }
  }
  copy.Decide(now);
  copy.Decide(now);
}

void CheckAll(const scheduler::Scheduler& scheduler, Instant now, Checked& checked) {
  ++checked.moments;
  for (const JobId& id : scheduler.Waiting()) {
    const double before = CpuSeconds();
    const auto why = scheduler.Explain(id, now);
    checked.seconds.push_back(CpuSeconds() - before);
    if (!why.ok()) continue;
    if (why->reason == scheduler::WaitReason::kLeaving) {
      ++checked.leaving;
      continue;
    }
    ++checked.explained;
    ++checked.reasons[scheduler::ToString(why->reason)];
    checked.jobs.insert(id.value());
    if (why->fix.empty() && why->reason != scheduler::WaitReason::kNotTried) ++checked.without;
    scheduler::Scheduler copy = scheduler.Copy();
    for (const scheduler::Event& event : why->fix) copy.Apply(event, now);
    copy.Decide(now);
    const bool starts = HasNodes(copy, id);
    // When all have carried out their decisions, it still has them.
    if (!why->fix.empty()) Obey(copy, now);
    if (starts && HasNodes(copy, id)) {
      ++checked.started;
    } else if (checked.first_false.empty()) {
      checked.first_false = id.value() + ": " + scheduler::ToJson(*why);
    }
  }
}

void Print(const Checked& checked, const std::string& day, bool json) {
  std::vector<double> sorted = checked.seconds;
  std::sort(sorted.begin(), sorted.end());
  const auto ms = [&](double q) {
    if (sorted.empty()) return 0.0;
    const auto nearest = std::llround(q * static_cast<double>(sorted.size() - 1));
    return sorted[static_cast<size_t>(nearest)] * 1e3;
  };
  if (json) {
    nlohmann::ordered_json out;
    out["simulated"] = true;
    out["day"] = day;
    out["moments"] = checked.moments;
    out["explained"] = checked.explained;
    out["jobs"] = checked.jobs.size();
    out["started_by_the_fix"] = checked.started;
    out["without_a_fix"] = checked.without;
    out["explain_ms_p50"] = ms(0.5);
    out["explain_ms_p99"] = ms(0.99);
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf(
      "Simulated, %s, %llu moments: %llu explanations of %zu waiting jobs; the stated fix, "
      "applied, "
      "starts %llu of them, and %llu have none\n",
      day.c_str(), static_cast<unsigned long long>(checked.moments),
      static_cast<unsigned long long>(checked.explained), checked.jobs.size(),
      static_cast<unsigned long long>(checked.started),
      static_cast<unsigned long long>(checked.without));
  for (const auto& [reason, count] : checked.reasons) {
    std::printf("  %-12s %llu\n", reason.c_str(), static_cast<unsigned long long>(count));
  }
  std::printf("  an explanation takes %.1f ms (median), %.1f ms (99th), %.1f ms (most) of CPU\n",
              ms(0.5), ms(0.99), ms(1));
  if (!checked.first_false.empty()) {
    std::printf("  the first false one: %s\n", checked.first_false.c_str());
  }
}

}  // namespace

int CheckFixes(const spec::ClusterDeclaration& cluster,
               const std::vector<scheduler::TraceJob>& jobs, const Contender& contender,
               SimulationOptions options, const std::string& day, bool json) {
  const Result<Instant> begin = BeginOf(day);
  if (!begin.ok()) {
    Fail(begin.status());
    return kExitUsage;
  }
  Checked checked;
  int64_t last_hour = -1;
  options.on_round = [&](const scheduler::Scheduler& scheduler, Instant now) {
    if (now < *begin || now >= *begin + std::chrono::hours(24)) return;
    const int64_t hour = (now - *begin) / std::chrono::hours(1);
    if (hour == last_hour) return;
    last_hour = hour;
    std::fprintf(stderr, "%s, hour %d: %zu jobs wait\n", day.c_str(), static_cast<int>(hour),
                 scheduler.Waiting().size());
    CheckAll(scheduler, now, checked);
  };
  const Result<SimulationResult> result = Simulate(cluster, jobs, contender, options);
  if (!result.ok()) return Fail(result.status());
  Print(checked, day, json);
  if (checked.explained == 0) {
    return Fail(NotFound("no job waits on " + day + " in this replay"));
  }
  const bool all = checked.started == checked.explained && checked.without == 0;
  return all ? kExitOk : kExitFailure;
}

}  // namespace longhaul::bin
