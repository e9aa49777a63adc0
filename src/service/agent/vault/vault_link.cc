#include "service/agent/vault/vault_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "io/process.h"
#include "io/socket.h"
#include "service/agent/vault/vault.h"

namespace longhaul::service {
namespace {

constexpr char kSocketName[] = "vault.sock";
constexpr int kPatienceMs = 5000;
constexpr int kListenerFd = 3;

// Before a vault that has ended is replaced; doubled while new ones don't live long.
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
    return "/proc/self/fd/" + std::to_string(fd_.get()) + "/" + kSocketName;
  }

 private:
  io::Fd fd_;
};

Result<io::Fd> StartVault(const std::string& path, const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(const io::Fd listener, io::ListenUnix(path));
  io::ProcessOptions process;
  process.argv = command;
  process.environment = io::CurrentEnvironment();
  process.inherited = {{listener.get(), kListenerFd}};
  RETURN_IF_ERROR(io::Start(process).status());
  return io::ConnectUnix(path);
}

struct Received {
  VaultMessage message;
  io::Fd fd;
};
Result<Received> Receive(const io::Fd& socket) {
  pollfd wanted{socket.get(), POLLIN, 0};
  const int ready = poll(&wanted, 1, kPatienceMs);
  if (ready < 0) return FromErrno(errno, "cannot wait for the vault");
  if (ready == 0) return DeadlineExceeded("the vault is silent");
  ASSIGN_OR_RETURN(std::optional<io::UnixMessage> got, io::ReceiveMessage(socket, kMaxVaultPacket));
  if (!got.has_value() || got->bytes.empty()) return Unavailable("the vault has hung up");
  ASSIGN_OR_RETURN(VaultMessage message, ParseVaultMessage(got->bytes));
  io::Fd fd = got->fds.empty() ? io::Fd() : std::move(got->fds[0]);
  if (message.kind == VaultKind::kRefused) return Unavailable("the vault: " + message.text);
  return Received{std::move(message), std::move(fd)};
}

struct Greeting {
  int64_t process = 0;
  std::vector<KeptArena> kept;
};
Result<Greeting> Greet(const io::Fd& socket, const std::string& node) {
  RETURN_IF_ERROR(
      io::SendMessage(socket, EncodeVaultMessage({VaultKind::kHello, 0, false, 0, node})));
  ASSIGN_OR_RETURN(const Received welcome, Receive(socket));
  if (welcome.message.kind != VaultKind::kWelcome) return InternalError("no welcome by the vault");
  Greeting greeting{welcome.message.rank, {}};
  for (uint32_t i = 0; i < welcome.message.number; ++i) {
    ASSIGN_OR_RETURN(Received held, Receive(socket));
    if (held.message.kind != VaultKind::kHeld || !held.fd.valid()) {
      return InternalError("the vault gives no arena");
    }
    ASSIGN_OR_RETURN(auto arena, io::SharedMemory::Open(std::move(held.fd)));
    greeting.kept.push_back(
        {held.message.text, held.message.rank, held.message.copy, std::move(arena)});
  }
  return greeting;
}

}  // namespace

Result<VaultLink::Vault> VaultLink::Join(const std::string& directory,
                                         const std::vector<std::string>& command,
                                         const std::string& node) {
  const ShortPath path(directory);
  if (!path.valid()) return FromErrno(errno, "cannot open " + directory);
  // The agent before us may be dying still.
  constexpr int kTries = 100;
  constexpr auto kPause = std::chrono::milliseconds(10);
  Status status;
  for (int i = 0; i < kTries; ++i) {
    Result<io::Fd> socket = io::ConnectUnix(path.socket());
    if (!socket.ok()) socket = StartVault(path.socket(), command);
    if (!socket.ok()) return socket.status().WithContext("no vault for snapshots");
    Result<Greeting> greeting = Greet(*socket, node);
    status = greeting.status();
    if (greeting.ok()) {
      Result<io::Fd> pidfd = io::OpenPidfd(static_cast<pid_t>(greeting->process));
      return Vault{*std::move(socket), greeting->process, pidfd.ok() ? *std::move(pidfd) : io::Fd(),
                   std::move(greeting->kept)};
    }
    if (status.code() != Code::kUnavailable) return status;
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

Result<VaultLink::Opened> VaultLink::Open(const std::string& directory,
                                          const std::vector<std::string>& command,
                                          const std::string& node) {
  ASSIGN_OR_RETURN(Vault vault, Join(directory, command, node));
  Opened opened;
  opened.kept = vault.kept;
  opened.link.reset(new VaultLink(directory, command, node, std::move(vault)));
  return opened;
}

VaultLink::VaultLink(std::string directory, std::vector<std::string> command, std::string node,
                     Vault vault)
    : directory_(std::move(directory)),
      command_(std::move(command)),
      node_(std::move(node)),
      vault_(std::move(vault)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  for (KeptArena& kept : vault_.kept) {
    held_.emplace(Key(kept.job, kept.rank, kept.copy), std::move(kept.arena));
  }
  vault_.kept.clear();
  watch_ = std::thread([this] { Watch(); });
}

VaultLink::~VaultLink() {
  const uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof(one));
  watch_.join();
}

bool VaultLink::Pause(Duration time) const {
  pollfd stopped{stop_.get(), POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return poll(&stopped, 1, static_cast<int>(ms)) == 0;
}

void VaultLink::Watch() {
  Duration pause = kFirstPause;
  for (;;) {
    const Instant joined = io::MonotonicNow();
    // Only this thread replaces the vault. It never speaks unasked: what can be read is its end.
    pollfd wanted[] = {{vault_.socket.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(wanted, 2, -1) < 0) {
    }
    if (wanted[1].revents != 0) return;
    {
      const std::lock_guard lock(mutex_);
      vault_.socket.Reset();
      if (ending_) return;
    }
    // One that ends soon after each start isn't started in a loop.
    if (io::MonotonicNow() - joined > kLongLife) pause = kFirstPause;
    for (Status renewed = Unavailable(""); !renewed.ok();) {
      if (!Pause(pause)) return;
      pause = std::min(2 * pause, kLongestPause);
      renewed = Renew();
      if (renewed.ok()) continue;
      std::fprintf(stderr,
                   "%s: the vault has ended and there is no new one, snapshots in memory end with "
                   "this agent; tried again in %s: %s\n",
                   node_.c_str(), ToString(pause).c_str(), ToString(renewed).c_str());
    }
  }
}

Status VaultLink::Renew() {
  constexpr int kEndMs = 100;  // it has closed its socket: it is ending
  pollfd ended{vault_.pidfd.get(), POLLIN, 0};
  if (vault_.pidfd.valid() && poll(&ended, 1, kEndMs) == 1) (void)io::Reap(vault_.pidfd);
  ASSIGN_OR_RETURN(Vault vault, Join(directory_, command_, node_));
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr,
               "%s: the vault, process %lld, has ended; process %lld keeps %zu arenas now\n",
               node_.c_str(), static_cast<long long>(vault_.process),
               static_cast<long long>(vault.process), held_.size());
  vault_ = std::move(vault);
  // It may be the old one, with which a word was lost.
  for (const KeptArena& kept : std::exchange(vault_.kept, {})) {
    if (held_.contains({kept.job, kept.rank, kept.copy})) continue;
    Say({VaultKind::kDropOne, kept.rank, kept.copy, 0, kept.job});
  }
  for (const auto& [key, arena] : held_) {
    const auto& [job, rank, copy] = key;
    Say({VaultKind::kPut, rank, copy, 0, job}, &arena->fd());
  }
  return {};
}

void VaultLink::Say(const VaultMessage& message, const io::Fd* arena) {
  if (!vault_.socket.valid()) return;  // a new one is told all
  const int fd = arena == nullptr ? -1 : arena->get();
  const Status sent = io::SendMessage(vault_.socket, EncodeVaultMessage(message),
                                      std::span<const int>(&fd, arena == nullptr ? 0 : 1));
  if (!sent.ok()) (void)shutdown(vault_.socket.get(), SHUT_RDWR);  // the watch sees it
}

int64_t VaultLink::process() const {
  const std::lock_guard lock(mutex_);
  return vault_.process;
}

void VaultLink::Put(const std::string& job, uint32_t rank, bool copy,
                    std::shared_ptr<const io::SharedMemory> arena) {
  const std::lock_guard lock(mutex_);
  Say({VaultKind::kPut, rank, copy, 0, job}, &arena->fd());
  held_.insert_or_assign(Key(job, rank, copy), std::move(arena));
}

void VaultLink::DropJob(const std::string& job) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&job](const auto& entry) { return std::get<0>(entry.first) == job; });
  Say({VaultKind::kDropJob, 0, false, 0, job});
}

void VaultLink::DropOne(const std::string& job, uint32_t rank, bool copy) {
  const std::lock_guard lock(mutex_);
  held_.erase({job, rank, copy});
  Say({VaultKind::kDropOne, rank, copy, 0, job});
}

void VaultLink::End() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  Say({VaultKind::kEnd, 0, false, 0, ""});
}

void VaultLink::Kill() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  if (vault_.pidfd.valid()) (void)io::Signal(vault_.pidfd, SIGKILL);
}

}  // namespace longhaul::service
