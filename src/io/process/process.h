// Starts and ends processes: pidfds, separate process groups, no race on a reused pid.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/fd.h"
#include "io/process/user_account.h"

namespace longhaul::io {

struct ProcessOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH when it has no '/'
  std::string program;            // the file to run instead; argv[0] is then only a name
  std::map<std::string, std::string> environment;  // the whole environment
  std::string working_directory;                   // empty: ours
  int stdin_fd = -1;                               // -1: /dev/null
  int stdout_fd = -1;                              // -1: ours
  int stderr_fd = -1;
  std::vector<std::pair<int, int>> inherited;  // (our fd, its number in the child)
  bool new_session = true;                     // setsid: its own session and process group
  int signal_on_parent_death = 0;              // PR_SET_PDEATHSIG; of the *thread* that starts it
  std::vector<int> groups;                     // control groups to enter: Cgroup::entrances
  std::optional<UserAccount> user;             // to run as; only root can
};

struct Process {
  pid_t pid = 0;
  Fd pidfd;  // readable once the process has ended
};

// Starts a process with the umask that the user has set (files/private_files.h). A failed exec (no
// such program, no permission) is an error here, not an exit code.
Result<Process> Start(const ProcessOptions& options);

// A pidfd for a child that another process forked for this one (fork server).
Result<Fd> OpenPidfd(pid_t pid);

struct ExitStatus {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
};
// Reaps an ended child. Requires that its pidfd is readable (else it blocks).
Result<ExitStatus> Reap(const Fd& pidfd);

Status Signal(const Fd& pidfd, int signal);  // kNotFound when it has ended
Status SignalGroup(pid_t process_group, int signal);

// Makes children of dead descendants ours, so that this process can reap and kill them.
Status BecomeSubreaper();

// A pidfd of our parent, readable once it has ended. kUnavailable when `parent` is not our parent:
// it has ended already. Prefer this to signal_on_parent_death where the cause matters: that signal
// also arrives when a thread of the parent ends, and looks like one that another process sent.
Result<Fd> OpenParent(pid_t parent);

// The state letter of /proc/PID/stat and the CPU time used; kNotFound when there is no such
// process.
struct ProcessFacts {
  char state = '?';
  int64_t cpu_ns = 0;
  pid_t parent = 0;
};
Result<ProcessFacts> ReadProcessFacts(pid_t pid);

// The environment of this process as a map.
std::map<std::string, std::string> CurrentEnvironment();

// The folder of the running program, for finding its neighbours.
Result<std::string> ProgramDirectory();

}  // namespace longhaul::io
