#include "service/agent/output/silence_watch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"

namespace longhaul::service {
namespace {

constexpr int64_t kNoiseShare = 100;  // of one core: a hundredth

uint64_t BytesOf(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

}  // namespace

std::optional<Duration> Silence::Look(uint64_t output_bytes, int64_t cpu_ns, Instant now) {
  const int64_t used_ns = cpu_ns - cpu_ns_;
  // Less than before: a process of it has ended.
  const bool computes =
      cpu_ns_ >= 0 && (used_ns < 0 || used_ns > (now - cpu_at_).count() / kNoiseShare);
  if (output_bytes != output_bytes_ || computes) {
    since_ = now;
    output_bytes_ = output_bytes;
    cpu_ns_ = -1;
    return std::exchange(reported_, false) ? std::optional(Duration(0)) : std::nullopt;
  }
  if (cpu_ns_ < 0) {
    cpu_ns_ = cpu_ns;
    cpu_at_ = now;
  }
  if (now - since_ < kLimit) return std::nullopt;
  reported_ = true;
  return now - since_;
}

SilenceWatch::SilenceWatch(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report)
    : loop_(loop), report_(std::move(report)) {}

SilenceWatch::~SilenceWatch() { loop_.Cancel(timer_); }

void SilenceWatch::Watch(const runtime::WorkerId& worker, pid_t session,
                         const std::string& output) {
  watched_.insert_or_assign(worker, Watched{session, output, Silence(io::Now())});
  if (watched_.size() == 1) timer_ = loop_.After(kPeriod, [this] { Look(); });
}

void SilenceWatch::Forget(const runtime::WorkerId& worker) {
  if (watched_.erase(worker) > 0 && watched_.empty()) loop_.Cancel(timer_);
}

void SilenceWatch::Look() {
  timer_ = loop_.After(kPeriod, [this] { Look(); });
  std::vector<runtime::WorkerQuiet> quiet;
  for (auto& [worker, watched] : watched_) {
    const uint64_t bytes = BytesOf(watched.output);
    const int64_t cpu_ns = watched.silence.WantsTime(bytes) ? SessionCpu(watched.session) : 0;
    const std::optional<Duration> silent = watched.silence.Look(bytes, cpu_ns, io::Now());
    if (silent.has_value()) quiet.push_back({worker, *silent});
  }
  for (const runtime::WorkerQuiet& each : quiet) report_(each);
}

int64_t SessionCpu(pid_t session) {
  constexpr uint64_t kLongestStat = 4096;
  // proc(5), after the name in brackets: state, parent, group, session, ..., and from the 12th on
  // the ticks in user and kernel mode, of the process and of its reaped children.
  constexpr size_t kSession = 3, kFirstTicks = 11, kTicks = 4;
  int64_t ticks = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; at != end && !error;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!ParseUint64(name).ok()) continue;
    const Result<std::string> stat = io::ReadText("/proc/" + name + "/stat", kLongestStat);
    if (!stat.ok()) continue;  // it has ended meanwhile
    const size_t name_end = stat->rfind(')');
    if (name_end == std::string::npos || name_end + 2 > stat->size()) continue;
    const auto fields = Split(std::string_view(*stat).substr(name_end + 2), ' ');
    if (fields.size() < kFirstTicks + kTicks) continue;
    if (fields[kSession] != std::to_string(session)) continue;
    for (size_t i = kFirstTicks; i < kFirstTicks + kTicks; ++i) {
      const Result<int64_t> count = ParseInt64(fields[i]);
      if (count.ok()) ticks += *count;
    }
  }
  return ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK));
}

}  // namespace longhaul::service
