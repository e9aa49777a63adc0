#include "service/agent/activity/stack_text.h"

#include <sys/syscall.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostCalls = 64;

// The file of the fork server's own calls, which are below those of the program.
constexpr std::string_view kForkServer = "(<longhaul fork server>/";

// Those in which a process waits. The numbers are the ones of this machine's architecture.
constexpr std::pair<long, std::string_view> kWaits[] = {
#ifdef SYS_poll
    {SYS_poll, "poll"},
#endif
#ifdef SYS_select
    {SYS_select, "select"},
#endif
#ifdef SYS_epoll_wait
    {SYS_epoll_wait, "epoll_wait"},
#endif
#ifdef SYS_pause
    {SYS_pause, "pause"},
#endif
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_rt_sigtimedwait, "sigtimedwait"},
    {SYS_rt_sigsuspend, "sigsuspend"},
};

// The file and its folder, of a longer path.
std::string_view LastTwoParts(std::string_view path) {
  const size_t last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return path;
  const size_t before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

// A line of a dump: `  File "/a/b.py", line 12 in function`; empty when it is something else.
std::string CallOfLine(std::string_view line) {
  constexpr std::string_view kFile = "  File \"", kLine = "\", line ", kIn = " in ";
  if (!line.starts_with(kFile)) return "";
  line.remove_prefix(kFile.size());
  const size_t path_end = line.rfind(kLine);
  if (path_end == std::string_view::npos) return "";
  const std::string_view place = line.substr(path_end + kLine.size());
  const size_t number_end = place.find(kIn);
  if (number_end == std::string_view::npos) return "";
  return std::string(place.substr(number_end + kIn.size())) + " (" +
         std::string(LastTwoParts(line.substr(0, path_end))) + ":" +
         std::string(place.substr(0, number_end)) + ")";
}

}  // namespace

std::vector<std::string> PythonCalls(std::string_view dump) {
  std::vector<std::string> calls;
  bool current = false;
  for (const std::string_view line : Split(dump, '\n')) {
    const bool heads = line.find("(most recent call first):") != std::string_view::npos;
    if (heads && current) break;
    if (heads) {
      calls.clear();
      current = line.starts_with("Current thread");
    }
    if (calls.size() >= kMostCalls) continue;
    std::string call = CallOfLine(line);
    if (call.empty() || call.find(kForkServer) != std::string::npos) continue;
    calls.push_back(std::move(call));
  }
  return calls;
}

std::string SystemCallName(std::string_view syscall) {
  const std::string_view number = Trim(syscall.substr(0, syscall.find(' ')));
  const Result<int64_t> parsed = ParseInt64(number);
  if (!parsed.ok()) return std::string(number);  // "running"
  for (const auto& [wanted, name] : kWaits) {
    if (wanted == *parsed) return std::string(name);
  }
  return *parsed < 0 ? "blocked" : "system call " + std::string(number);
}

bool HandlesSignal(std::string_view status, int signal) {
  constexpr std::string_view kCaught = "SigCgt:";
  for (const std::string_view line : Split(status, '\n')) {
    if (!line.starts_with(kCaught)) continue;
    const std::string_view mask = Trim(line.substr(kCaught.size()));
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(mask.data(), mask.data() + mask.size(), bits, 16);
    if (error != std::errc() || end != mask.data() + mask.size()) return false;
    return signal >= 1 && signal <= 64 && ((bits >> (signal - 1)) & 1) != 0;
  }
  return false;
}

}  // namespace longhaul::service
