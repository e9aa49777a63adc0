#include "service/agent/snapshot_keeper/snapshot_keeper_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/log/log.h"
#include "io/net/socket.h"
#include "io/process/process.h"
#include "service/agent/snapshot_keeper/snapshot_keeper.h"

namespace longhaul::service {
namespace {

constexpr int kPatienceMs = 5000;
constexpr int kKeeperEndPatienceMs =
    2000;  // an ending keeper frees its arenas and removes its socket

// Before a snapshot keeper that has ended is replaced; doubled while new ones don't live long.
constexpr Duration kFirstPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr Duration kLongLife = std::chrono::seconds(60);

// A path to the directory that is short enough for a socket's name, however long its own is.
class ShortPath {
 public:
  explicit ShortPath(const std::string& directory)
      : fd_(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  bool valid() const { return fd_.valid(); }
  std::string socket() const {
    return "/proc/self/fd/" + std::to_string(fd_.get()) + "/" + kSnapshotKeeperSocketName;
  }

 private:
  io::Fd fd_;
};

Result<io::Fd> StartSnapshotKeeper(const std::string& path, const std::string& directory,
                                   const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(const io::Fd listener, io::ListenUnix(path));
  io::ProcessOptions process;
  process.argv = command;
  // What lists of processes show; the program may be named by a link in /proc.
  process.program = std::exchange(process.argv.front(), std::string("longhaul"));
  process.environment = io::CurrentEnvironment();
  process.working_directory = directory;
  process.inherited = {{listener.get(), kSnapshotKeeperListenerFd}};
  RETURN_IF_ERROR(io::Start(process).status());
  return io::ConnectUnix(path);
}

struct Received {
  SnapshotKeeperMessage message;
  io::Fd fd;
};
Result<Received> Receive(const io::Fd& socket) {
  pollfd wanted{socket.get(), POLLIN, 0};
  const int ready = poll(&wanted, 1, kPatienceMs);
  if (ready < 0) return FromErrno(errno, "cannot wait for the snapshot keeper");
  if (ready == 0) return DeadlineExceeded("the snapshot keeper did not answer in time");
  ASSIGN_OR_RETURN(std::optional<io::UnixMessage> got,
                   io::ReceiveMessage(socket, kMaxSnapshotKeeperPacket));
  if (!got.has_value() || got->bytes.empty())
    return Unavailable("the snapshot keeper closed the connection");
  ASSIGN_OR_RETURN(SnapshotKeeperMessage message, ParseSnapshotKeeperMessage(got->bytes));
  io::Fd fd = got->fds.empty() ? io::Fd() : std::move(got->fds[0]);
  if (message.kind == SnapshotKeeperKind::kRefused)
    return Unavailable("the snapshot keeper: " + message.text);
  return Received{std::move(message), std::move(fd)};
}

struct Greeting {
  int64_t process = 0;
  std::vector<KeptArena> kept;
};
Result<Greeting> Greet(const io::Fd& socket, const std::string& node) {
  RETURN_IF_ERROR(io::SendMessage(
      socket, EncodeSnapshotKeeperMessage({SnapshotKeeperKind::kHello, 0, false, 0, node})));
  ASSIGN_OR_RETURN(const Received welcome, Receive(socket));
  if (welcome.message.kind != SnapshotKeeperKind::kWelcome)
    return InternalError("no welcome by the snapshot keeper");
  Greeting greeting{welcome.message.rank, {}};
  for (uint32_t i = 0; i < welcome.message.number; ++i) {
    ASSIGN_OR_RETURN(Received held, Receive(socket));
    if (held.message.kind != SnapshotKeeperKind::kHeld || !held.fd.valid()) {
      return InternalError("the snapshot keeper gives no arena");
    }
    ASSIGN_OR_RETURN(auto arena, io::SharedMemory::Open(std::move(held.fd)));
    greeting.kept.push_back(
        {held.message.text, held.message.rank, held.message.copy, std::move(arena)});
  }
  return greeting;
}

}  // namespace

Result<SnapshotKeeperLink::SnapshotKeeper> SnapshotKeeperLink::Join(
    const std::string& directory, const std::vector<std::string>& command,
    const std::string& node) {
  const ShortPath path(directory);
  if (!path.valid()) return FromErrno(errno, "cannot open " + directory);
  // The agent before us may be dying still.
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(10);
  Status status;
  for (int i = 0; i < kTries; ++i) {
    Result<io::Fd> socket = io::ConnectUnix(path.socket());
    if (!socket.ok()) socket = StartSnapshotKeeper(path.socket(), directory, command);
    if (!socket.ok()) return socket.status().WithContext("no snapshot keeper for snapshots");
    Result<Greeting> greeting = Greet(*socket, node);
    status = greeting.status();
    if (greeting.ok()) {
      Result<io::Fd> pidfd = io::OpenPidfd(static_cast<pid_t>(greeting->process));
      return SnapshotKeeper{*std::move(socket), greeting->process,
                            pidfd.ok() ? *std::move(pidfd) : io::Fd(), std::move(greeting->kept)};
    }
    if (status.code() != Code::kUnavailable) return status;
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

Result<SnapshotKeeperLink::Opened> SnapshotKeeperLink::Open(const std::string& directory,
                                                            const std::vector<std::string>& command,
                                                            const std::string& node) {
  ASSIGN_OR_RETURN(SnapshotKeeper snapshot_keeper, Join(directory, command, node));
  Opened opened;
  opened.kept = snapshot_keeper.kept;
  opened.link.reset(new SnapshotKeeperLink(directory, command, node, std::move(snapshot_keeper)));
  return opened;
}

SnapshotKeeperLink::SnapshotKeeperLink(std::string directory, std::vector<std::string> command,
                                       std::string node, SnapshotKeeper snapshot_keeper)
    : directory_(std::move(directory)),
      command_(std::move(command)),
      node_(std::move(node)),
      snapshot_keeper_(std::move(snapshot_keeper)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  for (KeptArena& kept : snapshot_keeper_.kept) {
    held_.emplace(Key(kept.job, kept.rank, kept.copy), std::move(kept.arena));
  }
  snapshot_keeper_.kept.clear();
  watch_ = std::thread([this] { Watch(); });
}

SnapshotKeeperLink::~SnapshotKeeperLink() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof(one));
  watch_.join();
}

bool SnapshotKeeperLink::Pause(Duration time) const {
  pollfd stopped{stop_.get(), POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return poll(&stopped, 1, static_cast<int>(ms)) == 0;
}

void SnapshotKeeperLink::Watch() {
  Duration pause = kFirstPause;
  for (;;) {
    const Instant joined = io::MonotonicNow();
    // Only this thread replaces the snapshot keeper. It never speaks unasked: what can be read is
    // its end.
    pollfd wanted[] = {{snapshot_keeper_.socket.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(wanted, 2, -1) < 0) {
    }
    if (wanted[1].revents != 0) return;
    {
      const std::lock_guard lock(mutex_);
      snapshot_keeper_.socket.Reset();
      if (ending_) return;
    }
    // One that ends soon after each start isn't started in a loop.
    if (io::MonotonicNow() - joined > kLongLife) pause = kFirstPause;
    for (Status renewed = Unavailable(""); !renewed.ok();) {
      if (!Pause(pause)) return;
      pause = std::min(2 * pause, kLongestPause);
      renewed = Renew();
      if (renewed.ok()) continue;
      io::LogError(
          "agent." + node_,
          "the snapshot keeper has ended and a new one did not start, so that snapshots in memory "
          "are lost when this agent ends; the next try is in " +
              ToString(pause) + ": " + ToString(renewed));
    }
  }
}

Status SnapshotKeeperLink::Renew() {
  constexpr int kEndMs = 100;  // it has closed its socket: it is ending
  pollfd ended{snapshot_keeper_.pidfd.get(), POLLIN, 0};
  if (snapshot_keeper_.pidfd.valid() && poll(&ended, 1, kEndMs) == 1)
    (void)io::Reap(snapshot_keeper_.pidfd);
  ASSIGN_OR_RETURN(SnapshotKeeper snapshot_keeper, Join(directory_, command_, node_));
  const std::lock_guard lock(mutex_);
  io::LogWarning("agent." + node_,
                 "the snapshot keeper, process " + std::to_string(snapshot_keeper_.process) +
                     ", has ended; process " + std::to_string(snapshot_keeper.process) + " keeps " +
                     std::to_string(held_.size()) + " arenas now");
  snapshot_keeper_ = std::move(snapshot_keeper);
  // It may be the old one, with which a word was lost.
  for (const KeptArena& kept : std::exchange(snapshot_keeper_.kept, {})) {
    if (held_.contains({kept.job, kept.rank, kept.copy})) continue;
    Send({SnapshotKeeperKind::kDropOne, kept.rank, kept.copy, 0, kept.job});
  }
  for (const auto& [key, arena] : held_) {
    const auto& [job, rank, copy] = key;
    Send({SnapshotKeeperKind::kPut, rank, copy, 0, job}, &arena->fd());
  }
  return {};
}

void SnapshotKeeperLink::Send(const SnapshotKeeperMessage& message, const io::Fd* arena) {
  if (!snapshot_keeper_.socket.valid()) return;  // a new keeper receives everything
  const int fd = arena == nullptr ? -1 : arena->get();
  const Status sent = io::SendMessage(snapshot_keeper_.socket, EncodeSnapshotKeeperMessage(message),
                                      std::span<const int>(&fd, arena == nullptr ? 0 : 1));
  if (!sent.ok()) (void)shutdown(snapshot_keeper_.socket.get(), SHUT_RDWR);  // the watch sees it
}

int64_t SnapshotKeeperLink::process() const {
  const std::lock_guard lock(mutex_);
  return snapshot_keeper_.process;
}

void SnapshotKeeperLink::Put(const std::string& job, uint32_t rank, bool copy,
                             std::shared_ptr<const io::SharedMemory> arena) {
  const std::lock_guard lock(mutex_);
  Send({SnapshotKeeperKind::kPut, rank, copy, 0, job}, &arena->fd());
  held_.insert_or_assign(Key(job, rank, copy), std::move(arena));
}

void SnapshotKeeperLink::DropJob(const std::string& job) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&job](const auto& entry) { return std::get<0>(entry.first) == job; });
  Send({SnapshotKeeperKind::kDropJob, 0, false, 0, job});
}

void SnapshotKeeperLink::DropOne(const std::string& job, uint32_t rank, bool copy) {
  const std::lock_guard lock(mutex_);
  held_.erase({job, rank, copy});
  Send({SnapshotKeeperKind::kDropOne, rank, copy, 0, job});
}

void SnapshotKeeperLink::End() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  Send({SnapshotKeeperKind::kEnd, 0, false, 0, ""});
  // So that neither its process nor its socket is left when this process has ended. In tests the
  // keeper is a thread of this process.
  if (!snapshot_keeper_.pidfd.valid() || snapshot_keeper_.process == getpid()) return;
  pollfd ended{snapshot_keeper_.pidfd.get(), POLLIN, 0};
  (void)poll(&ended, 1, kKeeperEndPatienceMs);
}

void SnapshotKeeperLink::Kill() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  if (snapshot_keeper_.pidfd.valid()) (void)io::Signal(snapshot_keeper_.pidfd, SIGKILL);
}

}  // namespace longhaul::service
