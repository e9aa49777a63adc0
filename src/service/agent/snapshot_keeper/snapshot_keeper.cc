#include "service/agent/snapshot_keeper/snapshot_keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "io/clock.h"
#include "io/log/log.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"

namespace longhaul::service {
namespace {

bool SameUser(const io::Fd& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

Status Send(const io::Fd& to, const SnapshotKeeperMessage& message, const io::Fd* arena = nullptr) {
  const int fd = arena == nullptr ? -1 : arena->get();
  const std::span<const int> fds(&fd, arena == nullptr ? 0 : 1);
  // A client that receives thousands of arenas reads while we write.
  for (;;) {
    const Status sent = io::SendMessage(to, EncodeSnapshotKeeperMessage(message), fds);
    if (sent.code() != Code::kUnavailable) return sent;
    pollfd wanted{to.get(), POLLOUT, 0};
    constexpr int kPatienceMs = 2000;
    if (poll(&wanted, 1, kPatienceMs) <= 0 || (wanted.revents & (POLLERR | POLLHUP)) != 0) {
      return sent;
    }
  }
}

}  // namespace

Status SnapshotKeeper::Run(Duration hold) {
  Instant alone_since = io::MonotonicNow();
  for (;;) {
    const bool alone = !agent_.valid();
    int timeout = -1;
    if (alone) {
      const Duration left = alone_since + hold - io::MonotonicNow();
      if (left <= Duration(0)) return {};
      timeout = static_cast<int>(
          std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, hold)).count());
    }
    pollfd wanted[2] = {{listener_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
    const int ready = poll(wanted, alone ? 1 : 2, timeout);
    if (ready < 0 && errno != EINTR) return FromErrno(errno, "the snapshot keeper cannot wait");
    if (ready <= 0) continue;
    // An agent that has gone makes room for the one that waits.
    if (!alone && wanted[1].revents != 0 && !Read()) return {};
    if (!alone && !agent_.valid()) alone_since = io::MonotonicNow();
    if (wanted[0].revents != 0) Accept();
  }
}

void SnapshotKeeper::Accept() {
  Result<std::optional<io::Fd>> accepted = io::Accept(listener_);
  if (!accepted.ok() || !accepted->has_value()) return;
  io::Fd fd = **std::move(accepted);
  if (!SameUser(fd)) return;
  if (agent_.valid()) {
    (void)Send(fd, {SnapshotKeeperKind::kRefused, 0, false, 0, "another agent holds these arenas"});
    return;
  }
  agent_ = std::move(fd);
  greeted_ = false;
}

bool SnapshotKeeper::Read() {
  Result<std::optional<io::UnixMessage>> got = io::ReceiveMessage(agent_, kMaxSnapshotKeeperPacket);
  if (got.ok() && !got->has_value()) return true;
  if (got.ok() && !(*got)->bytes.empty()) {
    const Result<SnapshotKeeperMessage> message = ParseSnapshotKeeperMessage((*got)->bytes);
    if (message.ok() && (*got)->fds.size() <= 1) {
      io::Fd fd = (*got)->fds.empty() ? io::Fd() : std::move((*got)->fds[0]);
      return Take(*message, std::move(fd));
    }
  }
  agent_.Reset();  // gone, or one that doesn't speak our language
  return true;
}

bool SnapshotKeeper::Take(const SnapshotKeeperMessage& message, io::Fd fd) {
  if (greeted_ == (message.kind == SnapshotKeeperKind::kHello)) {
    agent_.Reset();
    return true;
  }
  switch (message.kind) {
    case SnapshotKeeperKind::kHello:
      if (const Status greeted = Greet(message.text); !greeted.ok()) {
        (void)Send(agent_, {SnapshotKeeperKind::kRefused, 0, false, 0, greeted.message()});
        agent_.Reset();
      }
      return true;
    case SnapshotKeeperKind::kPut: {
      const Key key{message.text, message.rank, message.copy};
      if (!fd.valid()) return true;
      if (arenas_.size() < kMaxArenas || arenas_.contains(key)) {
        arenas_.insert_or_assign(key, std::move(fd));
      }
      return true;
    }
    case SnapshotKeeperKind::kDropJob:
      std::erase_if(arenas_, [&message](const auto& entry) {
        return std::get<0>(entry.first) == message.text;
      });
      return true;
    case SnapshotKeeperKind::kDropOne:
      arenas_.erase({message.text, message.rank, message.copy});
      return true;
    case SnapshotKeeperKind::kEnd:
      return false;
    case SnapshotKeeperKind::kWelcome:
    case SnapshotKeeperKind::kHeld:
    case SnapshotKeeperKind::kRefused:
      break;
  }
  agent_.Reset();
  return true;
}

Status SnapshotKeeper::Greet(const std::string& node) {
  if (!node_.empty() && node_ != node) {
    return FailedPrecondition("these arenas are of node " + node_ + ", not of " + node);
  }
  node_ = node;
  greeted_ = true;
  const SnapshotKeeperMessage welcome{SnapshotKeeperKind::kWelcome, static_cast<uint32_t>(getpid()),
                                      false, static_cast<uint32_t>(arenas_.size()), ""};
  RETURN_IF_ERROR(Send(agent_, welcome));
  for (const auto& [key, arena] : arenas_) {
    const auto& [job, rank, copy] = key;
    RETURN_IF_ERROR(Send(agent_, {SnapshotKeeperKind::kHeld, rank, copy, 0, job}, &arena));
  }
  return {};
}

int SnapshotKeeperMain(Duration hold) {
  signal(SIGPIPE, SIG_IGN);
  (void)prctl(PR_SET_NAME, kSnapshotKeeperProcessName);
  // A descriptor an arena.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
  io::Fd listener(kSnapshotKeeperListenerFd);
  const int flags = fcntl(listener.get(), F_GETFL);
  if (flags < 0 || fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    std::fprintf(stderr, "longhaul snapshot keeper: started by an agent, not by hand\n");
    return 2;
  }
  SnapshotKeeper keeper(std::move(listener));
  const Status ended = keeper.Run(hold);
  // While the listener is open an agent can connect, and does not put another socket here.
  (void)unlink(kSnapshotKeeperSocketName);
  if (ended.ok()) return 0;
  io::LogError("snapshot-keeper", ToString(ended));
  return 1;
}

}  // namespace longhaul::service
