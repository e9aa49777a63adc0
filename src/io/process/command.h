// Runs a command to its end, within a time limit, and keeps a bounded part of what it writes.
//
// The command has a session of its own and no descriptor but its standard streams. At the end, in
// time or not, its process group is killed, and where this process is a subreaper also the children
// that left the group, as long as they keep the command's environment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/process/process.h"

namespace longhaul::io {

// The processes of commands. Thread-safe.
class CommandProcesses {
 public:
  // Starts a process with `start` and remembers it until End. No other call sees the time between.
  Result<pid_t> Start(const std::function<Result<pid_t>()>& start);
  // Reaps with `reap` and forgets the process.
  void End(pid_t pid, const std::function<void()>& reap);
  bool Contains(pid_t pid) const;

 private:
  mutable std::mutex mutex_;
  std::set<pid_t> pids_;
};

// What ends a command before its limit: a monotonic instant, which another thread may move.
class CommandDeadline {
 public:
  void MoveTo(Instant at) { at_ns_ = ToNanoseconds(at); }
  Instant at() const { return InstantFromNanoseconds(at_ns_); }

 private:
  std::atomic<int64_t> at_ns_ = INT64_MAX;
};

struct CommandOptions {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // the whole environment
  std::string input;                               // its standard input
  Duration limit = std::chrono::seconds(10);
  size_t most_output = 0;  // bytes of standard output that are kept; 0: it is not read
  // "NAME=VALUE", added to the environment: children of this process with it are killed at the end
  // too. Empty: only the process group is killed.
  std::string mark;
};

struct CommandOutcome {
  bool ended = false;      // by itself; otherwise it was killed at its limit or at the deadline
  ExitStatus status;       // if it ended
  std::string output;      // the beginning of its standard output
  bool cut = false;        // it wrote more than `most_output` bytes
  std::string last_error;  // the last line of its standard error, printable, at most 200 bytes

  bool succeeded() const { return ended && status.exit_code == 0 && status.signal == 0; }
};

// Blocks until the command has ended. An error means that it could not be started.
Result<CommandOutcome> RunCommand(const CommandOptions& options, const CommandDeadline& deadline,
                                  CommandProcesses& processes);

// How a command that has ended failed, in a few words: "it exited with code 3: no such device".
std::string FailureText(const CommandOutcome& outcome);

}  // namespace longhaul::io
