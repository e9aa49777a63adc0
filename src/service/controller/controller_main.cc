// `longhaul controller`: the process around the service.
#include "service/controller/controller_main.h"

#include <absl/synchronization/mutex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "base/time.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/files/private_files.h"
#include "io/log/log.h"
#include "io/process/process.h"
#include "service/exit_code.h"

namespace longhaul::service {
namespace {

// After the death of the front end: for the jobs to end with a last checkpoint, and at most for
// all.
constexpr Duration kOrphanJobsLimit = std::chrono::minutes(5);
constexpr unsigned kOrphanEndSeconds = 360;

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

enum class End { kNone, kAsked, kParentEnded };

// Blocks until one of the signals, which must be blocked, arrives, or the parent ends, or for
// `limit_ms` unless that is -1. Without a valid `parent` only a signal counts.
End AwaitEnd(const io::Fd& signals, const io::Fd& parent, int limit_ms) {
  pollfd wanted[2] = {{signals.get(), POLLIN, 0}, {parent.get(), POLLIN, 0}};
  int ready = 0;
  do {
    ready = ::poll(wanted, 2, limit_ms);
  } while (ready < 0);
  if (ready == 0) return End::kNone;
  return wanted[0].revents != 0 ? End::kAsked : End::kParentEnded;
}

// What this process does while it stands by, and when it has lost the leadership.
StandbyOptions StandbyOf(const ControllerServiceOptions& options, const io::Fd& signals,
                         const io::Fd& parent) {
  StandbyOptions standby;
  standby.await_end = [&signals, &parent](Duration limit) {
    const auto limit_ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    return AwaitEnd(signals, parent, static_cast<int>(limit_ms)) != End::kNone;
  };
  standby.on_standby = [state = options.state_directory](const std::string& leader) {
    std::printf("controller stands by: %s leads, state in %s\n", leader.c_str(), state.c_str());
    std::fflush(stdout);
  };
  standby.on_lost = [state = options.state_directory](const Status& reason) {
    io::LogError("controller", "this controller ends: " + reason.message());
    (void)::unlink((state + "/endpoint.json").c_str());  // so that clients do not find it there
    ::_exit(1);
  };
  return standby;
}

}  // namespace

int ControllerMain(ControllerServiceOptions options, pid_t parent_process) {
  io::MakeFilesPrivate();
  ::prctl(PR_SET_NAME, "longhaul-ctrl");
  // Debian's Abseil looks for deadlocks at each lock of gRPC's mutexes. With 2,048 agents that
  // takes a sixth of the controller's processor time (bench/service/fleet.py).
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Before any thread exists, so that all inherit the mask and one place waits for the signals.
  const sigset_t ending = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  io::Fd parent;
  if (parent_process != 0) {
    Result<io::Fd> opened = io::OpenParent(parent_process);
    if (!opened.ok()) return Complain(opened.status());
    parent = *std::move(opened);
  }
  options.kill_controller = [] { ::kill(::getpid(), SIGKILL); };
  options.on_violation = [](const Status& violation) {
    io::LogError("controller",
                 "the controller stops because its state is wrong: " + violation.message() +
                     "; workers continue; please report it with violation.txt and "
                     "events.db");
    ::_exit(1);
  };
  const io::Fd signals(::signalfd(-1, &ending, SFD_CLOEXEC));
  options.shared_log.standby = StandbyOf(options, signals, parent);
  auto controller = ControllerService::Start(options);
  if (controller.status().code() == Code::kCancelled) return 0;  // it stood by
  if (!controller.ok()) {
    (void)Complain(controller.status());
    return controller.status().code() == Code::kInvalidArgument ? kUsageError : 1;
  }
  const Endpoint& endpoint = (*controller)->endpoint();
  std::printf("controller ready: REST on %s, agents on %s, state in %s\n", endpoint.rest.c_str(),
              endpoint.agents.c_str(), options.state_directory.c_str());
  std::fflush(stdout);
  if (AwaitEnd(signals, parent, -1) == End::kParentEnded) {
    // Nobody is left to stop the jobs: they end here, with what they have.
    ::alarm(kOrphanEndSeconds);  // the end of this process, whatever blocks
    (*controller)->StopJobs("the process that started this cluster has ended", kOrphanJobsLimit);
  }
  (*controller)->Stop();
  return 0;
}

}  // namespace longhaul::service
