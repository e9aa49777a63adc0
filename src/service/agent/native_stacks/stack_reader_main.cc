#include "service/agent/native_stacks/stack_reader_main.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "service/agent/native_stacks/copied_process.h"
#include "service/agent/native_stacks/unwinder.h"

namespace longhaul::service {
namespace {

// Ends a reader whose agent does not end it.
constexpr unsigned kLimitSeconds = 10;
// The files of a program with PyTorch for CUDA, mapped for each of 8 workers.
constexpr rlim_t kMostMemory = rlim_t{64} << 30;

struct Capabilities {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
};

// Keeps of the capabilities of the calling thread only these, of the first 32.
bool KeepCapabilities(uint32_t kept) {
  Capabilities has;
  if (syscall(SYS_capget, &has.header, has.data) != 0) return false;
  Capabilities keeps;
  keeps.data[0].permitted = has.data[0].permitted & kept;
  keeps.data[0].effective = keeps.data[0].permitted;
  return syscall(SYS_capset, &keeps.header, keeps.data) == 0;
}

// Ends with the process that started this one, by a signal that a change of the user clears.
bool BecomeReader(const StackReaderOptions& options) {
  if (options.user.has_value()) {
    if (prctl(PR_SET_KEEPCAPS, 1) != 0 || syscall(SYS_setgroups, 0, nullptr) != 0 ||
        syscall(SYS_setresgid, options.group, options.group, options.group) != 0 ||
        syscall(SYS_setresuid, *options.user, *options.user, *options.user) != 0) {
      return false;
    }
  }
  const rlimit memory{kMostMemory, kMostMemory};
  const rlimit none{0, 0};
  alarm(kLimitSeconds);
  return KeepCapabilities(1u << CAP_SYS_PTRACE) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
         setrlimit(RLIMIT_AS, &memory) == 0 && setrlimit(RLIMIT_CORE, &none) == 0;
}

// In a thread of its own, whose end detaches what it could not.
std::vector<CopiedProcess> CopyAll(const std::vector<pid_t>& processes) {
  std::vector<CopiedProcess> copies;
  std::thread([&] {
    for (const pid_t process : processes) copies.push_back(CopyProcess(process));
  }).join();
  return copies;
}

void WriteText(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(1);  // nobody reads it
    done += static_cast<size_t>(wrote);
  }
}

std::string ThreadText(Unwinder& unwinder, const CopiedThread& thread) {
  const std::string name = "thread " + std::to_string(thread.thread);
  if (!thread.problem.empty()) return "! " + name + ": " + thread.problem + "\n";
  std::string problem;
  const std::vector<std::string> calls = unwinder.Calls(thread, problem);
  const auto stopped = std::chrono::duration_cast<std::chrono::microseconds>(thread.stopped);
  std::string text = name + " (stopped for " + std::to_string(stopped.count()) + " us)\n";
  for (const std::string& call : calls) text += "  " + call + "\n";
  if (!problem.empty()) text += "! " + name + ": " + problem + "\n";
  return text;
}

}  // namespace

int StackReaderMain(const StackReaderOptions& options) {
  if (!BecomeReader(options)) {
    std::fprintf(stderr, "stack-reader: cannot drop privileges: %s\n", std::strerror(errno));
    return 1;
  }
  const std::vector<CopiedProcess> copies = CopyAll(options.processes);
  if (!KeepCapabilities(0)) return 1;
  KnownCalls known;
  std::vector<std::unique_ptr<Unwinder>> unwinders;
  for (const CopiedProcess& copy : copies) {
    unwinders.push_back(std::make_unique<Unwinder>(copy, known));
    std::string text = "process " + std::to_string(copy.process) + "\n";
    if (!copy.problem.empty()) text += "! " + copy.problem + "\n";
    if (!copy.threads.empty()) text += ThreadText(*unwinders.back(), copy.threads.front());
    WriteText(text);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    if (copies[i].threads.size() < 2) continue;
    WriteText("process " + std::to_string(copies[i].process) + "\n");
    for (size_t j = 1; j < copies[i].threads.size(); ++j) {
      WriteText(ThreadText(*unwinders[i], copies[i].threads[j]));
    }
  }
  // Without freeing libdw's data, which takes time and might crash.
  _exit(0);
}

}  // namespace longhaul::service
