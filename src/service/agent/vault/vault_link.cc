#include "service/agent/vault/vault_link.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "io/process.h"
#include "io/socket.h"
#include "service/agent/vault/vault.h"

namespace longhaul::service {
namespace {

constexpr char kSocketName[] = "vault.sock";
constexpr int kPatienceMs = 5000;
constexpr int kListenerFd = 3;

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
    greeting.kept.push_back({held.message.text, held.message.rank, held.message.copy,
                             std::make_shared<const io::Fd>(std::move(held.fd))});
  }
  return greeting;
}

}  // namespace

VaultLink::VaultLink(io::Fd socket, int64_t process, io::Fd pidfd)
    : socket_(std::move(socket)), process_(process), pidfd_(std::move(pidfd)) {}

Result<VaultLink::Opened> VaultLink::Open(const std::string& directory,
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
      Opened opened;
      opened.kept = std::move(greeting->kept);
      opened.link.reset(new VaultLink(*std::move(socket), greeting->process,
                                      pidfd.ok() ? *std::move(pidfd) : io::Fd()));
      return opened;
    }
    if (status.code() != Code::kUnavailable) return status;
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

void VaultLink::Say(const VaultMessage& message, const io::Fd* arena) {
  const int fd = arena == nullptr ? -1 : arena->get();
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  const Status sent = io::SendMessage(socket_, EncodeVaultMessage(message),
                                      std::span<const int>(&fd, arena == nullptr ? 0 : 1));
  if (sent.ok()) return;
  gone_ = true;
  std::fprintf(stderr, "the vault is gone, snapshots in memory end with this agent: %s\n",
               ToString(sent).c_str());
}

void VaultLink::Put(const std::string& job, uint32_t rank, bool copy, const io::Fd& arena) {
  Say({VaultKind::kPut, rank, copy, 0, job}, &arena);
}
void VaultLink::DropJob(const std::string& job) { Say({VaultKind::kDropJob, 0, false, 0, job}); }
void VaultLink::DropOne(const std::string& job, uint32_t rank, bool copy) {
  Say({VaultKind::kDropOne, rank, copy, 0, job});
}
void VaultLink::End() { Say({VaultKind::kEnd, 0, false, 0, ""}); }
void VaultLink::Kill() {
  if (pidfd_.valid()) (void)io::Signal(pidfd_, SIGKILL);
}

}  // namespace longhaul::service
