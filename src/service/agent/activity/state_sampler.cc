#include "service/agent/activity/state_sampler.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "service/agent/activity/stack_text.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLongestFile = 4'096;

std::string ReadOf(pid_t process, const std::string& name) {
  Result<std::string> text = io::ReadText("/proc/" + std::to_string(process) + name, kLongestFile);
  return text.ok() ? *std::move(text) : std::string();
}

}  // namespace

std::string DoingOf(std::string_view stat, std::string_view syscall) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return "";
  switch (stat[name_end + 2]) {
    case 'R':
      return "running";
    case 'D':
      return "disk";
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "";
    default:
      break;
  }
  const std::string call = SystemCallName(syscall);
  return call.empty() ? "sleeping" : call;
}

// A fraction of the golden ratio's multiples is spread evenly, and never repeats.
double PlaceOfLook(uint32_t look) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  const double jitter = std::fmod(kGoldenRatio * look, 1.0);
  return (look + jitter) / StateSampler::kLooks;
}

StateSampler::~StateSampler() {
  for (const auto& [id, sampling] : samplings_) loop_.Cancel(sampling.timer);
}

// proc(5) and the kernel's sched-stats: nanoseconds on a processor, and ready for one.
StateSampler::Times StateSampler::ReadTimes(pid_t process) {
  const std::string thread = "/task/" + std::to_string(process);
  const std::string text = ReadOf(process, thread + "/schedstat");
  const std::vector<std::string_view> fields = Split(Trim(text), ' ');
  Times times;
  if (fields.size() < 2) return times;
  const Result<int64_t> ran = ParseInt64(fields[0]);
  const Result<int64_t> queued = ParseInt64(fields[1]);
  if (ran.ok() && queued.ok()) times = {*ran, *queued};
  return times;
}

void StateSampler::Sample(std::vector<SampleTarget> targets, Duration period, Done done) {
  Sampling sampling;
  if (samplings_.size() < kMostSamplings) sampling.targets = std::move(targets);
  sampling.period = period;
  sampling.done = std::move(done);
  sampling.begun = io::MonotonicNow();
  sampling.seen.resize(sampling.targets.size());
  for (const SampleTarget& target : sampling.targets) {
    sampling.before.push_back(ReadTimes(target.process));
  }
  if (Result<TcpConnections> connections = ReadTcpConnections(); connections.ok()) {
    sampling.connections = *std::move(connections);
  }
  const uint64_t id = next_id_++;
  SetTimer(id, samplings_.emplace(id, std::move(sampling)).first->second);
}

void StateSampler::SetTimer(uint64_t id, Sampling& sampling) {
  const auto at = Duration(static_cast<int64_t>(static_cast<double>(sampling.period.count()) *
                                                PlaceOfLook(sampling.looks)));
  const Duration left = sampling.begun + at - io::MonotonicNow();
  sampling.timer = loop_.After(std::max(left, Duration(0)), [this, id] { Look(id); });
}

void StateSampler::Look(uint64_t id) {
  const auto found = samplings_.find(id);
  Sampling& sampling = found->second;
  for (size_t i = 0; i < sampling.targets.size(); ++i) {
    const pid_t process = sampling.targets[i].process;
    const std::string doing = DoingOf(ReadOf(process, "/stat"), ReadOf(process, "/syscall"));
    if (!doing.empty()) ++sampling.seen[i][doing];
  }
  if (++sampling.looks < kLooks) return SetTimer(id, sampling);
  const Sampling ended = std::move(sampling);
  samplings_.erase(found);
  ended.done(Conclude(ended));
}

proto::WorkersSampled StateSampler::Conclude(const Sampling& sampling) {
  proto::WorkersSampled found;
  std::set<uint64_t> sockets;
  const Duration took = io::MonotonicNow() - sampling.begun;
  for (size_t i = 0; i < sampling.targets.size(); ++i) {
    sockets.merge(SocketsOf(sampling.targets[i].process));
    proto::WorkersSampled::Worker& worker = *found.add_workers();
    worker.set_rank(sampling.targets[i].rank);
    worker.set_period_ns(took.count());
    const Times now = ReadTimes(sampling.targets[i].process);
    worker.set_ran_ns(std::max<int64_t>(0, now.ran_ns - sampling.before[i].ran_ns));
    worker.set_queued_ns(std::max<int64_t>(0, now.queued_ns - sampling.before[i].queued_ns));
    for (const auto& [doing, times] : sampling.seen[i]) {
      proto::WorkersSampled::Seen& seen = *worker.add_seen();
      seen.set_doing(doing);
      seen.set_times(times);
    }
  }
  found.set_period_ns(took.count());
  const Result<TcpConnections> now = ReadTcpConnections();
  if (!now.ok()) return found;
  for (auto& connection : SentBetween(sockets, sampling.connections, *now)) {
    *found.add_connections() = std::move(connection);
  }
  return found;
}

}  // namespace longhaul::service
