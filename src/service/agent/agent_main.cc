// `longhaul agent`: the process around the service.
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/text.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/files/private_files.h"
#include "io/log/log.h"
#include "io/process/process.h"
#include "io/process/user_account.h"
#include "service/agent/agent_service.h"
#include "service/exit_code.h"

namespace longhaul::service {
namespace {

constexpr Duration kOneSecond = std::chrono::seconds(1);
// How long snapshots in memory wait for the next agent when this one is killed.
constexpr Duration kHold = std::chrono::minutes(10);
constexpr Duration kHoldBelowParent = std::chrono::minutes(1);
constexpr Duration kGrace = std::chrono::seconds(3);  // between SIGTERM and SIGKILL to workers
// When the front end has died, for the controller to end the jobs.
constexpr Duration kOrphanLimit = std::chrono::minutes(5);
constexpr unsigned kEndSeconds = 600;  // for the whole of an orderly end

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

}  // namespace

// Workers run as the agent's user without --run-as, so whoever may submit a job would be root.
std::string WhyNotAsUser(const AgentOptions& options, uid_t user) {
  if (options.run_as.empty()) {
    if (user != 0 || options.parent != 0 || options.allow_root) return "";
    return "the agent was started as root, and its jobs would run as root: start it as another "
           "user, or add --run-as USER or --allow-root";
  }
  if (options.allow_root) return "--run-as and --allow-root exclude each other: leave one out";
  if (user != 0) {
    return "--run-as " + Printable(options.run_as, 40) +
           " needs an agent that is started as root, and this one runs as user " +
           std::to_string(user) + ": leave --run-as out";
  }
  const Result<io::UserAccount> account = io::FindUser(options.run_as);
  if (!account.ok()) return "--run-as: " + account.status().message();
  if (account->user == 0) {
    return "--run-as " + account->name + " is root: name another user, or use --allow-root";
  }
  return "";
}

int AgentMain(const AgentOptions& options) {
  if (const std::string why = WhyNotAsUser(options, geteuid()); !why.empty()) {
    (void)Complain(FailedPrecondition(why));
    return kUsageError;
  }
  io::MakeFilesPrivate();
  (void)prctl(PR_SET_NAME, "longhaul-agent");
  signal(SIGPIPE, SIG_IGN);
  const Result<io::Fd> signals = WatchSignals();
  if (!signals.ok()) return Complain(signals.status());
  io::Fd parent;
  if (options.parent != 0) {
    Result<io::Fd> opened = io::OpenParent(options.parent);
    if (!opened.ok()) return Complain(opened.status());
    parent = *std::move(opened);
  }
  const Result<std::unique_ptr<io::EventLoop>> loop = io::EventLoop::Create();
  if (!loop.ok()) return Complain(loop.status());
  const std::string warning = io::WarningOfOpenDirectory(options.state_directory);
  // With --run-as the workers' user has to pass through the state directory.
  if (!warning.empty() && options.run_as.empty()) io::LogWarning("agent", warning);
  AgentOptions all = options;
  // A front end that starts agents starts them again at once, or ends.
  const Duration hold = parent.valid() ? kHoldBelowParent : kHold;
  if (!all.snapshot_keeper.empty()) {
    all.snapshot_keeper.insert(all.snapshot_keeper.end(),
                               {"--hold-s", std::to_string(hold / kOneSecond)});
  }
  if (all.check_command.command.empty()) all.check_command.command = CheckCommandOfEnvironment();
  const Result<std::unique_ptr<AgentService>> agent = AgentService::Create(**loop, all);
  if (!agent.ok()) return Complain(agent.status());

  const auto stop = [&loop] { (*loop)->Stop(); };
  bool ending = false;
  (*loop)->Watch(signals->get(), false, [&](bool, bool) {
    signalfd_siginfo info;
    while (read(signals->get(), &info, sizeof(info)) == sizeof(info)) {
      if (ending) return stop();  // the second one: the service kills what is left
      ending = true;
      alarm(kEndSeconds);  // the end of this process and its workers, whatever blocks
      (*agent)->ShutDown(kGrace, stop);
    }
  });
  if (parent.valid()) {
    (*loop)->Watch(parent.get(), false, [&](bool, bool) {
      (*loop)->Unwatch(parent.get());
      if (ending) return;
      ending = true;
      alarm(kEndSeconds);
      // The controller stops the jobs with a last checkpoint.
      (*agent)->ShutDownOnceReleased(kOrphanLimit, kGrace, stop);
    });
  }
  (*loop)->Run();
  return 0;
}

}  // namespace longhaul::service
