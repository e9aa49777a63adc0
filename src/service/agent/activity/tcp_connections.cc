#include "service/agent/activity/tcp_connections.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/text.h"
#include "io/fd.h"

namespace longhaul::service {
namespace {

constexpr size_t kMostConnections = 65'536;
constexpr uint8_t kEstablished = 1;  // TCP_ESTABLISHED of the kernel

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 query;
};

// An address of IPv4 that is mapped into IPv6 is written as one of IPv4. Empty: of this machine.
std::string AddressOf(const inet_diag_msg& message) {
  std::array<unsigned char, 16> bytes{};
  std::memcpy(bytes.data(), message.id.idiag_dst, bytes.size());
  constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr unsigned char kLoopback = 127;
  bool is_v4 = message.idiag_family == AF_INET;
  const unsigned char* v4 = bytes.data();
  if (!is_v4 && std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) {
    is_v4 = true;
    v4 += kMapped.size();
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_v4) {
    if (v4[0] == kLoopback) return "";
    return inet_ntop(AF_INET, v4, text.data(), text.size()) == nullptr ? "" : text.data();
  }
  constexpr std::array<unsigned char, 16> kLocal = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  if (bytes == kLocal) return "";
  return inet_ntop(AF_INET6, bytes.data(), text.data(), text.size()) == nullptr ? "" : text.data();
}

// Attributes follow the message. Older kernels have a shorter tcp_info.
std::optional<tcp_info> InfoOf(std::span<const char> attributes) {
  while (attributes.size() >= sizeof(rtattr)) {
    rtattr attribute{};
    std::memcpy(&attribute, attributes.data(), sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > attributes.size()) break;
    if (attribute.rta_type == INET_DIAG_INFO) {
      tcp_info info{};
      const size_t size = std::min(attribute.rta_len - sizeof(attribute), sizeof(info));
      if (size < offsetof(tcp_info, tcpi_rwnd_limited) + sizeof(info.tcpi_rwnd_limited)) break;
      std::memcpy(&info, attributes.data() + sizeof(attribute), size);
      return info;
    }
    attributes = attributes.subspan(
        std::min<size_t>(attributes.size(), RTA_ALIGN(static_cast<size_t>(attribute.rta_len))));
  }
  return std::nullopt;
}

void TakeMessage(std::span<const char> body, TcpConnections& connections) {
  inet_diag_msg message{};
  if (body.size() < sizeof(message) || connections.size() >= kMostConnections) return;
  std::memcpy(&message, body.data(), sizeof(message));
  const std::string address = AddressOf(message);
  if (address.empty() || message.idiag_inode == 0) return;
  const std::optional<tcp_info> info = InfoOf(body.subspan(NLMSG_ALIGN(sizeof(message))));
  if (!info.has_value()) return;
  connections[message.idiag_inode] = {address, info->tcpi_bytes_acked, info->tcpi_bytes_received,
                                      info->tcpi_busy_time, info->tcpi_rwnd_limited};
}

Status ReadFamily(const io::Fd& socket, uint8_t family, TcpConnections& connections) {
  Request request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.query.sdiag_family = family;
  request.query.sdiag_protocol = IPPROTO_TCP;
  request.query.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  request.query.idiag_states = 1 << kEstablished;
  if (send(socket.get(), &request, sizeof(request), 0) < 0) {
    return Unavailable("the kernel's list of connections: " +
                       std::generic_category().message(errno));
  }
  alignas(nlmsghdr) std::array<char, 32 * 1024> answer{};
  while (true) {
    const ssize_t size = recv(socket.get(), answer.data(), answer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      return Unavailable("the kernel's list of connections: " +
                         std::generic_category().message(size < 0 ? errno : ENODATA));
    }
    if (TakeSocketMessages({answer.data(), static_cast<size_t>(size)}, connections)) {
      return Status();
    }
  }
}

}  // namespace

bool TakeSocketMessages(std::span<const char> answer, TcpConnections& connections) {
  while (answer.size() >= sizeof(nlmsghdr)) {
    nlmsghdr header{};
    std::memcpy(&header, answer.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > answer.size()) return true;
    if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) return true;
    if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
      TakeMessage(answer.subspan(sizeof(header), header.nlmsg_len - sizeof(header)), connections);
    }
    answer = answer.subspan(
        std::min<size_t>(answer.size(), NLMSG_ALIGN(static_cast<size_t>(header.nlmsg_len))));
  }
  return false;
}

Result<TcpConnections> ReadTcpConnections() {
  const io::Fd connection(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (connection.get() < 0) {
    return Unavailable("a socket of NETLINK_SOCK_DIAG: " + std::generic_category().message(errno));
  }
  // The kernel answers at once; the limit is for one that does not.
  const timeval limit{1, 0};
  (void)setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  TcpConnections connections;
  RETURN_IF_ERROR(ReadFamily(connection, AF_INET, connections));
  RETURN_IF_ERROR(ReadFamily(connection, AF_INET6, connections));
  return connections;
}

std::set<uint64_t> SocketsOf(pid_t process) {
  std::set<uint64_t> sockets;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/" + std::to_string(process) + "/fd", error),
       end;
       at != end && !error && sockets.size() < kMostConnections; at.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(at->path(), gone).string();
    constexpr std::string_view kSocket = "socket:[";
    if (gone || !target.starts_with(kSocket) || !target.ends_with(']')) continue;
    const Result<uint64_t> number = ParseUint64(
        std::string_view(target).substr(kSocket.size(), target.size() - kSocket.size() - 1));
    if (number.ok()) sockets.insert(*number);
  }
  return sockets;
}

bool SharesNetwork(pid_t process) {
  const auto namespace_of = [](const std::string& folder) {
    std::error_code unreadable;
    return std::filesystem::read_symlink("/proc/" + folder + "/ns/net", unreadable).string();
  };
  const std::string own = namespace_of("self");
  return !own.empty() && namespace_of(std::to_string(process)) == own;
}

uint64_t BytesOf(const std::set<uint64_t>& sockets, const TcpConnections& connections) {
  uint64_t bytes = 0;
  for (const uint64_t number : sockets) {
    const auto found = connections.find(number);
    if (found == connections.end()) continue;
    bytes += found->second.bytes_acknowledged + found->second.bytes_received;
  }
  return bytes;
}

std::vector<proto::WorkersSampled::Connection> SentBetween(const std::set<uint64_t>& sockets,
                                                           const TcpConnections& before,
                                                           const TcpConnections& after) {
  constexpr int64_t kNsOfUs = 1'000;
  std::map<std::string, proto::WorkersSampled::Connection> by_address;
  for (const uint64_t number : sockets) {
    const auto now = after.find(number);
    if (now == after.end()) continue;
    TcpCounts first;
    const auto earlier = before.find(number);
    if (earlier != before.end()) first = earlier->second;
    const TcpCounts& last = now->second;
    // A number that another socket has got since.
    if (last.bytes_acknowledged < first.bytes_acknowledged || last.busy_us < first.busy_us)
      continue;
    proto::WorkersSampled::Connection& sum = by_address[last.address];
    sum.set_address(last.address);
    sum.set_bytes(sum.bytes() + last.bytes_acknowledged - first.bytes_acknowledged);
    sum.set_busy_ns(sum.busy_ns() + static_cast<int64_t>(last.busy_us - first.busy_us) * kNsOfUs);
    const uint64_t limited =
        last.receiver_limited_us - std::min(first.receiver_limited_us, last.receiver_limited_us);
    sum.set_receiver_limited_ns(sum.receiver_limited_ns() +
                                static_cast<int64_t>(limited) * kNsOfUs);
  }
  std::vector<proto::WorkersSampled::Connection> sent;
  for (auto& [address, sum] : by_address) {
    if (sum.bytes() > 0) sent.push_back(std::move(sum));
  }
  return sent;
}

}  // namespace longhaul::service
