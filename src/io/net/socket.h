// Sockets: TCP on given addresses, and Unix sockets that keep message boundaries and pass
// descriptors. All are non-blocking and close-on-exec unless a function's comment states otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"

namespace longhaul::io {

struct Listener {
  Fd fd;
  uint16_t port = 0;  // the one in use, also when 0 was requested
};

// Listens on a numeric IPv4 or IPv6 address ("127.0.0.1", "::1"). kAlreadyExists when the port is
// in use, naming it.
Result<Listener> ListenTcp(const std::string& address, uint16_t port);

// The next pending connection (with TCP_NODELAY for TCP), or nothing when none is pending.
Result<std::optional<Fd>> Accept(const Fd& listener);

// Blocking connect; the result is a blocking socket, TCP_NODELAY set.
Result<Fd> ConnectTcp(const std::string& address, uint16_t port);
// The same, with kDeadlineExceeded when there is no connection after `limit`.
Result<Fd> ConnectTcpWithin(const std::string& address, uint16_t port, Duration limit);

// The numeric address of the other end of a TCP connection, an IPv4 one always in IPv4's notation.
Result<std::string> PeerAddress(const Fd& socket);

// A numeric address of a host by its name, an IPv4 one if there is one; a numeric address is
// returned as it is. Blocks for the system's resolver.
Result<std::string> ResolveHost(const std::string& host);

// This machine's numeric address on the way to another one: nothing is sent.
Result<std::string> LocalAddressTowards(const std::string& address);

// Sends the bytes that fit now: 0 when it would block. kUnavailable when the peer has closed.
Result<size_t> SendSome(const Fd& socket, std::span<const std::byte> bytes);
// Receives the available bytes: nothing when it would block, 0 bytes when the peer has closed.
// Requires a buffer that is not empty.
Result<std::optional<size_t>> ReceiveSome(const Fd& socket, std::span<std::byte> buffer);

// Listens for SOCK_SEQPACKET connections at a path (at most 107 bytes), mode 0600. An existing
// socket there is replaced.
Result<Fd> ListenUnix(const std::string& path);
// Blocking connect; the result is a blocking socket.
Result<Fd> ConnectUnix(const std::string& path);
// A connected pair of blocking SOCK_SEQPACKET sockets, close-on-exec.
Result<std::pair<Fd, Fd>> UnixPair();

// One message on a SOCK_SEQPACKET socket, with at most 8 descriptors.
struct UnixMessage {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};
// kUnavailable when it would block or the peer has closed, kInvalidArgument when the message is too
// long for the socket's buffer. Requires at least one byte.
Status SendMessage(const Fd& socket, std::span<const std::byte> bytes,
                   std::span<const int> fds = {});
// Nothing when it would block; a message of zero bytes means that the peer has closed. A
// message longer than `limit` is dropped and kResourceExhausted returned.
Result<std::optional<UnixMessage>> ReceiveMessage(const Fd& socket, size_t limit);

}  // namespace longhaul::io
