#include "io/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>

#include "io/clock.h"

namespace longhaul::io {
namespace {

constexpr size_t kMaxFds = 8;
constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn

// A TCP or Unix address in the form that the system calls require.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

Result<SocketAddress> TcpAddress(const std::string& address, uint16_t port) {
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    result.bytes = sizeof(sockaddr_in);
    return result;
  }
  result = {};
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    result.bytes = sizeof(sockaddr_in6);
    return result;
  }
  return InvalidArgument("not a numeric IPv4 or IPv6 address: \"" + address + "\"");
}

Result<SocketAddress> UnixAddress(const std::string& path) {
  SocketAddress result;
  auto* local = reinterpret_cast<sockaddr_un*>(&result.storage);
  if (path.empty() || path.size() >= sizeof(local->sun_path)) {
    return InvalidArgument("a socket's path must have 1 to 107 bytes: \"" + path + "\"");
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.data(), path.size());
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return result;
}

std::string Name(const std::string& address, uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

// Fails harmlessly on what isn't TCP.
void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A connect that a signal interrupts continues by itself; EISCONN then means success.
int ConnectThroughSignals(int fd, SocketAddress& address) {
  int result = 0;
  do {
    result = connect(fd, address.get(), address.bytes);
  } while (result != 0 && (errno == EINTR || errno == EALREADY));
  return result != 0 && errno == EISCONN ? 0 : result;
}

Status RemoveStaleSocket(const std::string& path) {
  struct stat existing {};
  if (lstat(path.c_str(), &existing) != 0) return {};  // bind reports what is wrong, if anything is
  if (!S_ISSOCK(existing.st_mode)) {
    return AlreadyExists("cannot listen at " + path + ": it exists and is not a socket");
  }
  if (unlink(path.c_str()) != 0) return FromErrno(errno, "cannot replace the socket " + path);
  return {};
}

std::vector<Fd> TakeFds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<Listener> ListenTcp(const std::string& address, uint16_t port) {
  ASSIGN_OR_RETURN(SocketAddress local, TcpAddress(address, port));
  const std::string what = "cannot listen on " + Name(address, port);
  Listener listener;
  listener.fd = Fd(socket(local.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.fd.valid()) return FromErrno(errno, what);
  const int on = 1;
  setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.fd.get(), local.get(), local.bytes) != 0 ||
      listen(listener.fd.get(), kBacklog) != 0 ||
      getsockname(listener.fd.get(), local.get(), &local.bytes) != 0) {
    return FromErrno(errno, what);
  }
  listener.port =
      ntohs(local.family() == AF_INET ? reinterpret_cast<sockaddr_in*>(&local.storage)->sin_port
                                      : reinterpret_cast<sockaddr_in6*>(&local.storage)->sin6_port);
  return listener;
}

Result<Fd> ConnectTcp(const std::string& address, uint16_t port) {
  ASSIGN_OR_RETURN(SocketAddress remote, TcpAddress(address, port));
  const std::string what = "cannot connect to " + Name(address, port);
  Fd fd(socket(remote.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ConnectThroughSignals(fd.get(), remote) != 0) return FromErrno(errno, what);
  SetNoDelay(fd.get());
  return fd;
}

Result<Fd> ConnectTcpWithin(const std::string& address, uint16_t port, Duration limit) {
  ASSIGN_OR_RETURN(SocketAddress remote, TcpAddress(address, port));
  const std::string what = "cannot connect to " + Name(address, port);
  Fd fd(socket(remote.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return FromErrno(errno, what);
  if (connect(fd.get(), remote.get(), remote.bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return FromErrno(errno, what);
    const Instant deadline = MonotonicNow() + limit;
    pollfd wanted{fd.get(), POLLOUT, 0};
    for (;;) {
      const int64_t left_ms = (deadline - MonotonicNow()).count() / 1'000'000;
      if (left_ms <= 0) return DeadlineExceeded(what + " within " + ToString(limit));
      const int ready = poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left_ms, INT_MAX)));
      if (ready < 0 && errno != EINTR) return FromErrno(errno, what);
      if (ready > 0) break;
    }
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return FromErrno(error, what);
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0)
    return FromErrno(errno, what);
  SetNoDelay(fd.get());
  return fd;
}

Result<std::string> ResolveHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return NotFound("no address of \"" + host + "\": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  const addrinfo* best = found;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET) continue;
    best = each;
    break;
  }
  char text[NI_MAXHOST];
  if (getnameinfo(best->ai_addr, best->ai_addrlen, text, sizeof(text), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return NotFound("no numeric address of \"" + host + "\"");
  }
  return std::string(text);
}

Result<std::string> LocalAddressTowards(const std::string& address) {
  constexpr uint16_t kAnyPort = 9;  // a datagram socket only chooses its way when it connects
  ASSIGN_OR_RETURN(SocketAddress target, TcpAddress(address, kAnyPort));
  const Fd fd(socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress local;
  local.bytes = sizeof(local.storage);
  if (!fd.valid() || connect(fd.get(), target.get(), target.bytes) != 0 ||
      getsockname(fd.get(), local.get(), &local.bytes) != 0) {
    return FromErrno(errno, "no way to " + address);
  }
  char text[NI_MAXHOST];
  if (getnameinfo(local.get(), local.bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return InternalError("no numeric form of the address towards " + address);
  }
  return std::string(text);
}

Result<std::string> PeerAddress(const Fd& socket) {
  SocketAddress peer;
  peer.bytes = sizeof(peer.storage);
  if (getpeername(socket.get(), peer.get(), &peer.bytes) != 0) {
    return FromErrno(errno, "cannot tell the peer's address");
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  const char* name = nullptr;
  if (peer.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<sockaddr_in*>(&peer.storage);
    name = inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  } else if (peer.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<sockaddr_in6*>(&peer.storage);
    name = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)
               ? inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text.data(), text.size())
               : inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  }
  if (name == nullptr) return InvalidArgument("not a TCP connection");
  return std::string(name);
}

Result<std::optional<Fd>> Accept(const Fd& listener) {
  while (true) {
    const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      SetNoDelay(fd);
      return std::optional<Fd>(Fd(fd));
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Fd>();
    if (errno != EINTR && errno != ECONNABORTED) return FromErrno(errno, "cannot accept");
  }
}

Result<size_t> SendSome(const Fd& socket, std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return FromErrno(errno, "cannot send");
  }
}

Result<std::optional<size_t>> ReceiveSome(const Fd& socket, std::span<std::byte> buffer) {
  CHECK(!buffer.empty());
  while (true) {
    const ssize_t got = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got >= 0) return std::optional<size_t>(static_cast<size_t>(got));
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<size_t>();
    if (errno != EINTR) return FromErrno(errno, "cannot receive");
  }
}

Result<Fd> ListenUnix(const std::string& path) {
  ASSIGN_OR_RETURN(SocketAddress local, UnixAddress(path));
  RETURN_IF_ERROR(RemoveStaleSocket(path));
  const std::string what = "cannot listen at " + path;
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return FromErrno(errno, what);
  // Before bind, so that there is no moment at which others could connect.
  if (fchmod(fd.get(), 0600) != 0 || bind(fd.get(), local.get(), local.bytes) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(fd.get(), kBacklog) != 0) {
    return FromErrno(errno, what);
  }
  return fd;
}

Result<Fd> ConnectUnix(const std::string& path) {
  ASSIGN_OR_RETURN(SocketAddress remote, UnixAddress(path));
  const std::string what = "cannot connect to " + path;
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ConnectThroughSignals(fd.get(), remote) != 0) return FromErrno(errno, what);
  return fd;
}

Result<std::pair<Fd, Fd>> UnixPair() {
  std::array<int, 2> fds{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return FromErrno(errno, "cannot create a pair of sockets");
  }
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Status SendMessage(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  CHECK(!bytes.empty()) << "an empty message would read as the end of the connection";
  CHECK(fds.size() <= kMaxFds);
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  while (sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    const std::string what = "cannot send a message of " + std::to_string(bytes.size()) + " bytes";
    if (errno == EMSGSIZE) return InvalidArgument(what + ": the socket's buffer is smaller");
    return FromErrno(errno, what);
  }
  return {};
}

Result<std::optional<UnixMessage>> ReceiveMessage(const Fd& socket, size_t limit) {
  ssize_t size = -1;
  // When a peer closes without having read all our data, Linux reports ECONNRESET once, before the
  // messages that the peer has sent. They follow, and then the end.
  bool reset = false;
  do {
    size = recv(socket.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (size < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<UnixMessage>();
  if (size == 0 || (size < 0 && errno == ECONNRESET)) return std::optional(UnixMessage{});
  if (size < 0) return FromErrno(errno, "cannot receive a message");
  if (static_cast<size_t>(size) > limit) {
    recv(socket.get(), nullptr, 0, MSG_DONTWAIT);
    return ResourceExhausted("a message of " + std::to_string(size) + " bytes; at most " +
                             std::to_string(limit) + " are allowed");
  }

  UnixMessage result;
  result.bytes.resize(static_cast<size_t>(size));
  iovec data{result.bytes.data(), result.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return FromErrno(errno, "cannot receive a message");
  result.fds = TakeFds(message);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return ResourceExhausted("a message with more than " + std::to_string(kMaxFds) +
                             " descriptors, or a socket with two readers");
  }
  return std::optional(std::move(result));
}

}  // namespace longhaul::io
