// `longhaul agent`: the process around the service.
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "io/event_loop.h"
#include "io/fd.h"
#include "service/agent/agent_service.h"

namespace longhaul::service {
namespace {

constexpr Duration kOneSecond = std::chrono::seconds(1);
// How long snapshots in memory wait for the next agent when this one is killed.
constexpr Duration kHold = std::chrono::minutes(10);
constexpr Duration kHoldBelowParent = std::chrono::minutes(1);
constexpr Duration kGrace = std::chrono::seconds(3);  // between SIGTERM and SIGKILL to workers

int Complain(const Status& status) {
  std::fprintf(stderr, "longhaul agent: %s\n", ToString(status).c_str());
  return 1;
}

// Blocks the signals that end us, for this thread and all that it starts, and gives them as a
// descriptor.
Result<io::Fd> WatchSignals() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ending, signal);
  if (pthread_sigmask(SIG_BLOCK, &ending, nullptr) != 0) {
    return FromErrno(errno, "cannot block signals");
  }
  io::Fd fd(signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return FromErrno(errno, "cannot watch signals");
  return fd;
}

Status FollowParent(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return FromErrno(errno, "cannot follow our parent");
  if (getppid() != parent) return Unavailable("the process that started this agent has ended");
  return Status();
}

}  // namespace

int AgentMain(const AgentOptions& options) {
  const pid_t parent = getppid();
  signal(SIGPIPE, SIG_IGN);
  const Result<io::Fd> signals = WatchSignals();
  if (!signals.ok()) return Complain(signals.status());
  if (options.exit_with_parent) {
    if (const Status status = FollowParent(parent); !status.ok()) return Complain(status);
  }
  const Result<std::unique_ptr<io::EventLoop>> loop = io::EventLoop::Create();
  if (!loop.ok()) return Complain(loop.status());
  AgentOptions all = options;
  // A front end that starts agents starts them again at once, or ends.
  const Duration hold = options.exit_with_parent ? kHoldBelowParent : kHold;
  if (!all.vault.empty()) {
    all.vault.insert(all.vault.end(), {"--hold-s", std::to_string(hold / kOneSecond)});
  }
  const Result<std::unique_ptr<AgentService>> agent = AgentService::Create(**loop, all);
  if (!agent.ok()) return Complain(agent.status());

  bool ending = false;
  (*loop)->Watch(signals->get(), false, [&](bool, bool) {
    signalfd_siginfo info;
    while (read(signals->get(), &info, sizeof(info)) == sizeof(info)) {
      if (ending) return (*loop)->Stop();  // the second one: the service kills what is left
      ending = true;
      (*agent)->ShutDown(kGrace, [&loop] { (*loop)->Stop(); });
    }
  });
  (*loop)->Run();
  return 0;
}

}  // namespace longhaul::service
