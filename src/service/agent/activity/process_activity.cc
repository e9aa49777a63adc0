#include "service/agent/activity/process_activity.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "io/files/file.h"
#include "service/agent/activity/tcp_connections.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLongestProcFile = 64 * 1024;

std::string ReadProc(const std::string& path) {
  Result<std::string> text = io::ReadText(path, kLongestProcFile);
  return text.ok() ? *std::move(text) : std::string();
}

// What is used of /proc/PID/stat.
struct StatFields {
  char state = '?';
  pid_t session = 0;
  int64_t cpu_ticks = 0;
};

std::optional<StatFields> ParseStat(std::string_view stat) {
  // proc(5), after the name in brackets: state, parent, group, session, ..., and from the 12th on
  // the ticks in user and kernel mode, of the process and of its reaped children.
  constexpr size_t kSession = 3, kFirstTicks = 11, kTicks = 4;
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 > stat.size()) return std::nullopt;
  const auto fields = Split(stat.substr(name_end + 2), ' ');
  if (fields.size() < kFirstTicks + kTicks || fields[0].size() != 1) return std::nullopt;
  StatFields result;
  result.state = fields[0][0];
  const Result<int64_t> session = ParseInt64(fields[kSession]);
  if (!session.ok()) return std::nullopt;
  result.session = static_cast<pid_t>(*session);
  for (size_t i = kFirstTicks; i < kFirstTicks + kTicks; ++i) {
    const Result<int64_t> count = ParseInt64(fields[i]);
    if (count.ok()) result.cpu_ticks += *count;
  }
  return result;
}

void AddThreads(const std::string& process, ActivitySample& sample) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(process + "/task", error), end; at != end && !error;
       at.increment(error)) {
    const std::string status = ReadProc(at->path().string() + "/status");
    sample.switches += NumberOfLine(status, "voluntary_ctxt_switches:");
    if (NumberOfLine(status, "TracerPid:") != 0) sample.debugged = true;
    if (status.find("\nState:\tD") != std::string::npos) sample.disk_wait = true;
  }
}

void AddProcess(const std::string& process, pid_t pid, const StatFields& stat,
                ActivitySample& sample) {
  // One that has ended and is not reaped yet does nothing.
  if (stat.state == 'Z' || stat.state == 'X') return;
  ++sample.processes;
  sample.cpu_ns += stat.cpu_ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  // A debugger's stop is the state t.
  if (pid == stat.session) sample.stopped = stat.state == 'T';
  const std::string io = ReadProc(process + "/io");
  sample.io_bytes += NumberOfLine(io, "rchar:") + NumberOfLine(io, "wchar:");
  AddThreads(process, sample);
}

}  // namespace

uint64_t NumberOfLine(std::string_view text, std::string_view name) {
  for (const std::string_view line : Split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const Result<uint64_t> number = ParseUint64(Trim(line.substr(name.size())));
    return number.ok() ? *number : 0;
  }
  return 0;
}

uint64_t NetworkBytes(std::string_view text) {
  // proc(5): NAME: 8 numbers of what was received, 8 of what was sent; the first of each is bytes.
  constexpr size_t kReceived = 0, kSent = 8;
  uint64_t bytes = 0;
  for (const std::string_view line : Split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || Trim(line.substr(0, colon)) == "lo") continue;
    size_t place = 0;
    for (const std::string_view field : Split(line.substr(colon + 1), ' ')) {
      if (field.empty()) continue;
      const Result<uint64_t> number = ParseUint64(field);
      if (number.ok() && (place == kReceived || place == kSent)) bytes += *number;
      ++place;
    }
  }
  return bytes;
}

std::map<pid_t, ActivitySample> SampleSessions(const std::set<pid_t>& sessions) {
  std::map<pid_t, ActivitySample> samples;
  struct Network {
    pid_t process = 0;  // one of the session: its leader may have ended, or be in another namespace
    std::set<uint64_t> sockets;  // a process that was forked has those of its parent
  };
  std::map<pid_t, Network> networks;
  for (const pid_t session : sessions) samples[session];
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; at != end && !error;
       at.increment(error)) {
    const Result<uint64_t> pid = ParseUint64(at->path().filename().string());
    if (!pid.ok()) continue;
    const std::string process = at->path().string();
    const std::optional<StatFields> stat = ParseStat(ReadProc(process + "/stat"));
    if (!stat.has_value() || !sessions.contains(stat->session)) continue;
    AddProcess(process, static_cast<pid_t>(*pid), *stat, samples[stat->session]);
    Network& network = networks[stat->session];
    network.process = static_cast<pid_t>(*pid);
    network.sockets.merge(SocketsOf(network.process));
  }
  const Result<TcpConnections> connections = ReadTcpConnections();
  for (const auto& [session, network] : networks) {
    samples[session].network_bytes =
        connections.ok() && SharesNetwork(network.process)
            ? BytesOf(network.sockets, *connections)
            : NetworkBytes(ReadProc("/proc/" + std::to_string(network.process) + "/net/dev"));
  }
  return samples;
}

}  // namespace longhaul::service
