#include "runtime/controller/job/hang/slow_workers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>

namespace longhaul::runtime::controller {
namespace {

// System calls in which a thread waits for another process or thread. A wait whose name cannot be
// read counts as one of them.
constexpr std::array<std::string_view, 16> kWaits = {
    "futex",       "poll",  "ppoll",   "select",   "pselect",      "epoll_wait",
    "epoll_pwait", "read",  "recvmsg", "recvfrom", "sigtimedwait", "accept",
    "accept4",     "wait4", "waitid",  "sleeping"};
constexpr uint32_t kLeastSamples = 50;
constexpr double kLeastWork = 0.75, kLeastRatio = 1.5, kLeastDifference = 0.3;
constexpr double kNormalMad = 1.4826;  // MAD of a normal distribution to its standard deviation
constexpr double kLeastDeviation = 0.02, kLeastScore = 3;
constexpr size_t kShown = 4;

bool Waits(std::string_view doing) {
  return std::find(kWaits.begin(), kWaits.end(), doing) != kWaits.end();
}

// The lower one of the two in the middle. Requires values.
double MedianShare(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string Percent(double share) {
  return std::to_string(static_cast<int>(std::lround(share * 100))) + " %";
}

std::string DoesText(const WorkerActivity& worker) {
  constexpr double kMuch = 0.3;
  if (worker.queued >= kMuch && worker.queued > worker.ran) {
    return "could run, but others had the processors for " + Percent(worker.queued);
  }
  if (worker.mostly == "running") return "on a processor for " + Percent(worker.ran);
  if (worker.mostly == "disk") return "mostly waiting for a disk";
  if (worker.mostly == "stopped") return "mostly stopped";
  return "mostly in " + worker.mostly;
}

}  // namespace

WorkerActivity ActivityOf(const proto::WorkersSampled::Worker& worker, const std::string& node) {
  WorkerActivity activity;
  activity.rank = worker.rank();
  activity.node = node;
  uint64_t all = 0, works = 0, most = 0;
  for (const proto::WorkersSampled::Seen& seen : worker.seen()) {
    all += seen.times();
    if (Waits(seen.doing())) continue;
    works += seen.times();
    if (seen.times() <= most) continue;
    most = seen.times();
    activity.mostly = seen.doing();
  }
  if (all < kLeastSamples || worker.period_ns() <= 0) return activity;
  activity.known = true;
  activity.works = static_cast<double>(works) / static_cast<double>(all);
  const auto period = static_cast<double>(worker.period_ns());
  activity.ran = std::clamp(static_cast<double>(worker.ran_ns()) / period, 0.0, 1.0);
  activity.queued = std::clamp(static_cast<double>(worker.queued_ns()) / period, 0.0, 1.0);
  return activity;
}

SlowWorkers FindSlowWorkers(std::vector<WorkerActivity> workers) {
  SlowWorkers found;
  std::vector<double> shares;
  for (const WorkerActivity& worker : workers) {
    if (!worker.known) return found;
    shares.push_back(worker.works);
  }
  if (shares.size() < 2) return found;
  const double median = MedianShare(shares);
  const auto stands_out = [median](double works) {
    return works >= kLeastWork && works >= kLeastRatio * median &&
           works - median >= kLeastDifference;
  };
  std::vector<double> others, differences;
  for (const double works : shares) {
    if (!stands_out(works)) others.push_back(works);
  }
  if (2 * others.size() <= shares.size() && shares.size() > 2) return found;
  if (others.empty()) return found;
  found.others = MedianShare(others);
  for (const double works : others) differences.push_back(std::abs(works - found.others));
  const double deviation = kNormalMad * MedianShare(differences) + kLeastDeviation;
  std::sort(workers.begin(), workers.end(),
            [](const auto& one, const auto& other) { return one.rank < other.rank; });
  for (const WorkerActivity& worker : workers) {
    if (!stands_out(worker.works)) continue;
    if ((worker.works - found.others) / deviation >= kLeastScore) found.slow.push_back(worker);
  }
  return found;
}

std::string Describe(const SlowWorkers& found) {
  const bool one = found.slow.size() == 1;
  std::string ranks, nodes;
  std::set<std::string> named;
  for (size_t i = 0; i < found.slow.size() && i < kShown; ++i) {
    const WorkerActivity& worker = found.slow[i];
    ranks += (i == 0 ? "" : ", ") + std::to_string(worker.rank);
    if (named.insert(worker.node).second) nodes += (nodes.empty() ? "" : ", ") + worker.node;
  }
  if (found.slow.size() > kShown) {
    ranks += " and " + std::to_string(found.slow.size() - kShown) + " more";
    nodes += ", ...";
  }
  const WorkerActivity& first = found.slow.front();
  return std::string(one ? "worker " : "workers ") + ranks + " on " + nodes +
         (one ? " slows the job down: it works " : " slow the job down: they work ") +
         Percent(first.works) + " of the time (" + DoesText(first) + "), the others " +
         Percent(found.others) + " (median), and then they wait";
}

}  // namespace longhaul::runtime::controller
