// Gathers the stacks of workers: of each thread what the kernel says and its native calls, and of a
// Python program that was forked from its fork server the calls of all its Python threads.
//
// The fork server has registered a handler for kStackSignal, which writes the calls into a file
// (python/fork_server/worker.py). The signal is only sent to a process that handles it. A stopped
// process cannot handle it. The native calls are read afterwards by a process of its own
// (native_stacks/native_stack_process.h): they do not contain the handler of the signal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "service/agent/native_stacks/native_stack_process.h"

namespace longhaul::service {

// A real-time signal that no library uses by default.
constexpr int kStackSignal = 62;
// The file for the calls, in the environment of a forked worker.
constexpr char kStackFileVariable[] = "LONGHAUL_STACK_FILE";

struct StackTarget {
  uint32_t rank = 0;
  pid_t process = 0;
  std::string file;  // of kStackFileVariable
};

struct StackOfWorker {
  uint32_t rank = 0;
  // Of the main thread, innermost first, a line each: those of Python, or else the native ones, or
  // else the system call.
  std::string calls;
  std::string text;  // everything, for people
};

class StackReader {
 public:
  static constexpr Duration kPoll = std::chrono::milliseconds(50);
  static constexpr int kPolls = 20;  // a second in all

  // `read` returns the text of a worker's file (ReadWorkerFile, as the user of the workers).
  StackReader(io::EventLoop& loop, NativeStackOptions native,
              std::function<Result<std::string>(const std::string&)> read)
      : loop_(loop), read_(std::move(read)), native_(loop, std::move(native)) {}
  ~StackReader();
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  // Calls `done` on the loop, later: all files are complete or a second has passed, and then the
  // native calls are read or their limit has passed. A process that has ended meanwhile has an
  // empty stack.
  void Read(std::vector<StackTarget> targets, std::function<void(std::vector<StackOfWorker>)> done);

 private:
  struct Asked {
    StackTarget target;
    bool waits = false;   // for its file
    size_t before = 0;    // the size of the file, which earlier readings have filled
    std::string written;  // since then
  };
  using Done = std::function<void(std::vector<StackOfWorker>)>;
  // Returns the size of the target's file before; nothing: it was not asked.
  std::optional<size_t> AskForStack(const StackTarget& target) const;
  void Poll(std::vector<Asked> asked, Done done, int polls);
  void Later(std::vector<Asked> asked, Done done, int polls);
  static StackOfWorker StackOf(const Asked& asked, const NativeStacks& native);

  io::EventLoop& loop_;
  const std::function<Result<std::string>(const std::string&)> read_;
  std::set<io::EventLoop::TimerId> timers_;
  NativeStackProcess native_;
};

// What the kernel says about each thread: its state, name, system call and place in the kernel.
std::string ThreadsText(pid_t process);

}  // namespace longhaul::service
