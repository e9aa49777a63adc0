#include "io/process/process.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "base/check.h"
#include "base/text.h"
#include "io/files/private_files.h"

namespace longhaul::io {
namespace {

// Everything the child needs, made before the fork: between fork and exec only async-signal-safe
// calls are allowed, because other threads may hold any lock.
struct Prepared {
  std::string program;
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<char*> argv;               // into the options
  std::vector<char*> envp;               // into `environment`
  std::vector<std::pair<int, int>> fds;  // (ours, the child's), the standard three first
  std::vector<int> moved;                // space for the child's first pass over `fds`
  int first_free = 0;                    // above all numbers that are used there
  mode_t umask = 0;
};

// The child's message to its parent when it fails before exec has succeeded.
struct Failure {
  enum Stage : int { kSetUp, kGroup, kUser, kDirectory, kExec } stage;
  int error;
};

bool IsExecutableFile(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// argv[0] by PATH, the child's if it has one. A name with '/' is taken as it is.
Result<std::string> FindProgram(const ProcessOptions& options) {
  if (!options.program.empty()) return options.program;
  const std::string& name = options.argv.front();
  if (name.find('/') != std::string::npos) return name;
  const auto own = options.environment.find("PATH");
  const char* inherited = getenv("PATH");
  const std::string path = own != options.environment.end() ? own->second
                           : inherited != nullptr           ? inherited
                                                            : "/usr/local/bin:/usr/bin:/bin";
  for (const std::string_view folder : Split(path, ':')) {
    std::string candidate = std::string(folder.empty() ? "." : folder) + "/" + name;
    if (IsExecutableFile(candidate)) return candidate;
  }
  return NotFound("no program named " + Printable(name) + " in PATH");
}

Result<Prepared> Prepare(const ProcessOptions& options, int null_fd) {
  if (options.argv.empty() || options.argv.front().empty()) {
    return InvalidArgument("a process needs a program to run");
  }
  Prepared prepared;
  prepared.umask = UserUmask();
  ASSIGN_OR_RETURN(prepared.program, FindProgram(options));
  for (const std::string& argument : options.argv) {
    prepared.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  prepared.argv.push_back(nullptr);
  for (const auto& [name, value] : options.environment) {
    prepared.environment.push_back(name + "=" + value);
  }
  for (std::string& entry : prepared.environment) prepared.envp.push_back(entry.data());
  prepared.envp.push_back(nullptr);

  prepared.fds = {{options.stdin_fd >= 0 ? options.stdin_fd : null_fd, STDIN_FILENO},
                  {options.stdout_fd >= 0 ? options.stdout_fd : STDOUT_FILENO, STDOUT_FILENO},
                  {options.stderr_fd >= 0 ? options.stderr_fd : STDERR_FILENO, STDERR_FILENO}};
  for (const auto& [ours, there] : options.inherited) {
    if (ours < 0 || there < 3) return InvalidArgument("an inherited descriptor is out of range");
    prepared.fds.emplace_back(ours, there);
  }
  for (const auto& [ours, there] : prepared.fds) {
    prepared.first_free = std::max(prepared.first_free, there + 1);
  }
  prepared.moved.resize(prepared.fds.size());
  return prepared;
}

// Moves each descriptor to its number in the child; all others close at exec. In two passes, so
// that no copy lands on one that is still needed. Only async-signal-safe calls.
bool PlaceDescriptors(Prepared& prepared, int& report) {
  report = fcntl(report, F_DUPFD_CLOEXEC, prepared.first_free);
  if (report < 0) return false;
  for (size_t i = 0; i < prepared.fds.size(); ++i) {
    prepared.moved[i] = fcntl(prepared.fds[i].first, F_DUPFD_CLOEXEC, prepared.first_free);
    if (prepared.moved[i] < 0) return false;
  }
  if (close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC) != 0) return false;
  for (size_t i = 0; i < prepared.fds.size(); ++i) {
    if (dup2(prepared.moved[i], prepared.fds[i].second) < 0) return false;
  }
  return true;
}

void DefaultSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  // The two numbers that the C library keeps for itself refuse this, which is fine.
  for (int signal = 1; signal < _NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void FailChild(int report, Failure::Stage stage) {
  const Failure failure{stage, errno};
  [[maybe_unused]] const ssize_t written = write(report, &failure, sizeof(failure));
  _exit(127);
}

// As its own process: whatever it starts is in the groups too.
bool EnterGroups(const std::vector<int>& groups) {
  for (const int group : groups) {
    if (write(group, "0", 1) != 1) return false;
  }
  return true;
}

// By number, because the functions of the C library would change the other threads too, which do
// not exist in the child.
bool BecomeUser(const UserAccount& user) {
  return syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
         syscall(SYS_setresgid, user.group, user.group, user.group) == 0 &&
         syscall(SYS_setresuid, user.user, user.user, user.user) == 0;
}

[[noreturn]] void RunChild(const ProcessOptions& options, Prepared& prepared, int report,
                           pid_t parent) {
  if (options.new_session && setsid() < 0) FailChild(report, Failure::kSetUp);
  if (!EnterGroups(options.groups)) FailChild(report, Failure::kGroup);
  // Before the signal of the parent's death, which a change of the user clears.
  if (options.user.has_value() && !BecomeUser(*options.user)) FailChild(report, Failure::kUser);
  if (options.signal_on_parent_death != 0) {
    if (prctl(PR_SET_PDEATHSIG, options.signal_on_parent_death) != 0) {
      FailChild(report, Failure::kSetUp);
    }
    if (getppid() != parent) _exit(127);  // it died before this check
  }
  if (!PlaceDescriptors(prepared, report)) FailChild(report, Failure::kSetUp);
  if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0) {
    FailChild(report, Failure::kDirectory);
  }
  DefaultSignals();
  umask(prepared.umask);
  execve(prepared.program.c_str(), prepared.argv.data(), prepared.envp.data());
  FailChild(report, Failure::kExec);
}

// The child's failure, or ok once its exec has closed the pipe.
Status AwaitExec(const ProcessOptions& options, const Prepared& prepared, const Fd& report) {
  Failure failure{};
  ssize_t got = 0;
  do {
    got = read(report.get(), &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(failure))) return Status();
  switch (failure.stage) {
    case Failure::kDirectory:
      return FromErrno(failure.error, "cannot enter " + options.working_directory);
    case Failure::kExec:
      return FromErrno(failure.error, "cannot run " + prepared.program);
    case Failure::kGroup:
      return FromErrno(failure.error, "cannot enter the control group of " + prepared.program);
    case Failure::kUser:
      return FromErrno(failure.error,
                       "cannot run " + prepared.program + " as user " + options.user->name);
    case Failure::kSetUp:
      break;
  }
  return FromErrno(failure.error, "cannot set up a process for " + prepared.program);
}

}  // namespace

Result<Process> Start(const ProcessOptions& options) {
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return FromErrno(errno, "cannot open /dev/null");
  ASSIGN_OR_RETURN(Prepared prepared, Prepare(options, null.get()));
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
  const Fd report(ends[0]);
  Fd report_writer(ends[1]);

  // No signal handler of this process may run in the child.
  const pid_t parent = getpid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunChild(options, prepared, report_writer.get(), parent);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return FromErrno(fork_error, "cannot fork");

  report_writer.Reset();
  const Status started = AwaitExec(options, prepared, report);
  Result<Fd> pidfd = OpenPidfd(pid);
  if (!started.ok() || !pidfd.ok()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return started.ok() ? pidfd.status() : started;
  }
  return Process{pid, *std::move(pidfd)};
}

Result<Fd> OpenPidfd(pid_t pid) {
  // By number: the header of glibc 2.36 lacks C linkage for C++.
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  if (!pidfd.valid()) return FromErrno(errno, "cannot watch process " + std::to_string(pid));
  return pidfd;
}

Result<ExitStatus> Reap(const Fd& pidfd) {
  siginfo_t info = {};
  int result = 0;
  do {
    result = waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return FromErrno(errno, "cannot wait for a process");
  if (info.si_code == CLD_EXITED) return ExitStatus{info.si_status, 0};
  return ExitStatus{-1, info.si_status};
}

Status Signal(const Fd& pidfd, int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0) return Status();
  if (errno == ESRCH) return NotFound("the process has ended");
  return FromErrno(errno, "cannot signal a process");
}

Status SignalGroup(pid_t process_group, int signal) {
  CHECK(process_group > 1) << "would signal more than one group";
  if (kill(-process_group, signal) == 0) return Status();
  if (errno == ESRCH) return NotFound("no process group " + std::to_string(process_group));
  return FromErrno(errno, "cannot signal process group " + std::to_string(process_group));
}

Result<Fd> OpenParent(pid_t parent) {
  Result<Fd> fd = OpenPidfd(parent);
  // Looked at after the descriptor is open: so it is the parent's, not of a reused number.
  if (getppid() != parent) {
    return Unavailable("process " + std::to_string(parent) + ", which started this one, has ended");
  }
  return fd;
}

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) return Status();
  return FromErrno(errno, "cannot become a subreaper");
}

Result<ProcessFacts> ReadProcessFacts(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return NotFound("no process " + std::to_string(pid));
  std::array<char, 1024> buffer;
  const ssize_t got = read(file.get(), buffer.data(), buffer.size());
  if (got <= 0) return NotFound("no process " + std::to_string(pid));

  // The name, in brackets, may hold anything; the fields after its last bracket are plain
  // (proc(5)): state, parent, ..., and as 14th and 15th of all the ticks in user and kernel mode.
  const std::string_view text(buffer.data(), static_cast<size_t>(got));
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) {
    return InternalError("cannot read " + path);
  }
  const std::vector<std::string_view> fields = Split(text.substr(name_end + 2), ' ');
  if (fields.size() < 13 || fields[0].size() != 1) return InternalError("cannot read " + path);
  ASSIGN_OR_RETURN(const int64_t parent, ParseInt64(fields[1]));
  ASSIGN_OR_RETURN(const int64_t user_ticks, ParseInt64(fields[11]));
  ASSIGN_OR_RETURN(const int64_t kernel_ticks, ParseInt64(fields[12]));
  const int64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  return ProcessFacts{fields[0][0], (user_ticks + kernel_ticks) * tick_ns,
                      static_cast<pid_t>(parent)};
}

std::map<std::string, std::string> CurrentEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<std::string> ProgramDirectory() {
  std::array<char, 4096> buffer;
  const ssize_t got = readlink("/proc/self/exe", buffer.data(), buffer.size());
  if (got < 0) return FromErrno(errno, "cannot read /proc/self/exe");
  const std::string path(buffer.data(), static_cast<size_t>(got));
  return path.substr(0, path.rfind('/'));
}

}  // namespace longhaul::io
