// Runs `longhaul stack-reader`, which reads the native stacks of workers, as a child of the agent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "io/process/user_account.h"
#include "service/agent/native_stacks/native_stack_text.h"

namespace longhaul::service {

struct NativeStackOptions {
  std::vector<std::string> command;     // the program with its arguments; empty: none is run
  std::optional<io::UserAccount> user;  // that the workers run as, where the agent is root
  Duration limit = std::chrono::milliseconds(2500);  // then the child is killed
};

struct NativeStacks {
  std::map<pid_t, NativeStack> stacks;
  std::string problem;  // why they are incomplete; empty: they are not
};

// On the loop's thread. Several readings may run at once.
class NativeStackProcess {
 public:
  using Done = std::function<void(NativeStacks)>;

  // Requires that `loop` outlives this.
  NativeStackProcess(io::EventLoop& loop, NativeStackOptions options);
  ~NativeStackProcess();  // kills children and calls no `done`
  NativeStackProcess(const NativeStackProcess&) = delete;
  NativeStackProcess& operator=(const NativeStackProcess&) = delete;

  // Calls `done` on the loop once the child has ended; at the limit it is killed, and what it has
  // written counts. Calls it at once if the child cannot be started.
  void Read(const std::vector<pid_t>& processes, Done done);

 private:
  struct Reading {
    io::Process process;
    io::Fd output;
    std::string text;
    io::EventLoop::TimerId timer = 0;
    Done done;
  };
  bool TakeOutput(Reading& reading);
  void OnOutput(int pidfd);
  void OnEnd(int pidfd);
  void GiveUp(int pidfd, const std::string& problem);
  void Forget(const Reading& reading);  // stops watching it

  io::EventLoop& loop_;
  const NativeStackOptions options_;
  std::map<int, Reading> readings_;    // by pidfd
  std::map<int, io::Process> killed_;  // that have not ended: one that uses a dead disk may not
};

}  // namespace longhaul::service
