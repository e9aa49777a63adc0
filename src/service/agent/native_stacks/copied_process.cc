#include "service/agent/native_stacks/copied_process.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "io/clock.h"
#include "io/files/file.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kMostStackOfMain = 64 * kPage;
constexpr size_t kMostStackOfOthers = 16 * kPage;
constexpr uint64_t kRedZone = 128;  // below the stack pointer, of x86-64
constexpr uint64_t kLongestMaps = 4 << 20;
constexpr Duration kStopLimit = std::chrono::milliseconds(50);
constexpr std::chrono::microseconds kStopPoll(20);

std::string FolderOfTask(pid_t process, pid_t thread) {
  return "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
}

// Returns the value of a line "Name:\tvalue" of /proc/PID/status; empty if there is none.
std::string StatusField(const std::string& folder, std::string_view name) {
  const Result<std::string> status = io::ReadText(folder + "/status", 16 * 1024);
  if (!status.ok()) return "";
  for (const std::string_view line : Split(*status, '\n')) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with(":")) {
      return std::string(Trim(line.substr(name.size() + 1)));
    }
  }
  return "";
}

// Why the kernel has refused to read or to trace the thread.
std::string WhyRefused(pid_t process, pid_t thread, int error) {
  const std::string folder = FolderOfTask(process, thread);
  const std::string state = StatusField(folder, "State");
  if (error == ESRCH || error == ENOENT || state.empty() || state[0] == 'Z' || state[0] == 'X') {
    return "it has ended";
  }
  if (error != EPERM && error != EACCES) return std::strerror(error);
  const std::string tracer = StatusField(folder, "TracerPid");
  if (!tracer.empty() && tracer != "0") {
    return "process " + tracer + " traces it already, such as a debugger";
  }
  const Result<std::string> scope = io::ReadText("/proc/sys/kernel/yama/ptrace_scope", 16);
  if (scope.ok() && Trim(*scope) != "0") {
    return "kernel.yama.ptrace_scope is " + std::string(Trim(*scope)) +
           ", and the agent has no CAP_SYS_PTRACE; set kernel.yama.ptrace_scope=0 or give the "
           "agent CAP_SYS_PTRACE";
  }
  return "the kernel does not permit to trace it; give the agent CAP_SYS_PTRACE";
}

// Returns the threads, the main thread first and then by their numbers.
std::vector<pid_t> ThreadsOf(pid_t process) {
  std::vector<pid_t> threads;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  for (std::filesystem::directory_iterator at(folder, error), end; at != end && !error;
       at.increment(error)) {
    const Result<int64_t> number = ParseInt64(at->path().filename().string());
    if (number.ok() && *number != process) threads.push_back(static_cast<pid_t>(*number));
  }
  std::sort(threads.begin(), threads.end());
  threads.insert(threads.begin(), process);
  threads.resize(std::min(threads.size(), kMostCopiedThreads));
  return threads;
}

// Blocks until the thread has stopped. Returns its wait status; nullopt after kStopLimit.
std::optional<int> AwaitStop(pid_t thread) {
  const Instant limit = io::Now() + kStopLimit;
  while (true) {
    int status = 0;
    const pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
    if (found == thread) return status;
    if ((found < 0 && errno != EINTR) || io::Now() >= limit) return std::nullopt;
    std::this_thread::sleep_for(kStopPoll);
  }
}

// Page by page, so that a stack that ends earlier is copied to its end.
void CopyStack(pid_t process, size_t most, CopiedThread& copy) {
  copy.stack_start = (copy.registers.rsp - kRedZone) & ~(kPage - 1);
  copy.stack.resize(most);
  iovec here{copy.stack.data(), most};
  std::vector<iovec> there;
  for (uint64_t offset = 0; offset < most; offset += kPage) {
    there.push_back({reinterpret_cast<void*>(copy.stack_start + offset), kPage});
  }
  const ssize_t got = process_vm_readv(process, &here, 1, there.data(), there.size(), 0);
  copy.stack.resize(got > 0 ? static_cast<size_t>(got) : 0);
}

CopiedThread CopyThread(pid_t process, pid_t thread) {
  CopiedThread copy;
  copy.thread = thread;
  const Instant start = io::Now();
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    copy.problem = WhyRefused(process, thread, errno);
    return copy;
  }
  const bool asked = ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0;
  const std::optional<int> status = asked ? AwaitStop(thread) : std::nullopt;
  if (!status.has_value() || !WIFSTOPPED(*status)) {
    copy.problem = status.has_value() || !asked
                       ? "it has ended"
                       : "it did not stop within 50 ms: state " +
                             StatusField(FolderOfTask(process, thread), "State");
    return copy;
  }
  constexpr uintptr_t kGeneral = NT_PRSTATUS;
  iovec registers{&copy.registers, sizeof(copy.registers)};
  if (ptrace(PTRACE_GETREGSET, thread, reinterpret_cast<void*>(kGeneral), &registers) == 0) {
    CopyStack(process, thread == process ? kMostStackOfMain : kMostStackOfOthers, copy);
  } else {
    copy.problem = std::strerror(errno);
  }
  // A signal that arrived just now has stopped the thread instead of the request: it is delivered.
  const bool by_request = (*status >> 16) == PTRACE_EVENT_STOP;
  const auto signal = static_cast<uintptr_t>(by_request ? 0 : WSTOPSIG(*status));
  ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(signal));
  copy.stopped = io::Now() - start;
  return copy;
}

}  // namespace

CopiedProcess CopyProcess(pid_t process) {
  CopiedProcess copy;
  copy.process = process;
  const std::string folder = "/proc/" + std::to_string(process);
  copy.root = io::Fd(open((folder + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!copy.root.valid()) {
    copy.problem = WhyRefused(process, process, errno);
    return copy;
  }
  const Result<std::string> maps = io::ReadText(folder + "/maps", kLongestMaps);
  if (!maps.ok()) {
    copy.problem = WhyRefused(process, process, EACCES);
    return copy;
  }
  copy.maps = *maps;
  for (const pid_t thread : ThreadsOf(process)) copy.threads.push_back(CopyThread(process, thread));
  return copy;
}

}  // namespace longhaul::service
