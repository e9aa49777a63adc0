// Reads from the kernel what the TCP connections of processes have transferred (sock_diag(7),
// without rights). Only of this network namespace, and only established connections.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/events.pb.h"

namespace longhaul::service {

// The numbers count from the beginning of the connection. Times are in microseconds.
struct TcpCounts {
  std::string address;  // of the other end
  uint64_t bytes_acknowledged = 0;
  uint64_t bytes_received = 0;
  uint64_t busy_us = 0;              // with something to send
  uint64_t receiver_limited_us = 0;  // of it, the receiver had no room
};

// By the number of the socket (inode), which is unique while it is open.
using TcpConnections = std::map<uint64_t, TcpCounts>;

// Takes the messages of one answer of the kernel. Returns whether the answer is complete; what is
// malformed ends it.
bool TakeSocketMessages(std::span<const char> answer, TcpConnections& connections);

// All connections of this network namespace to other machines: not those of the loopback network.
Result<TcpConnections> ReadTcpConnections();

// The numbers of the sockets that the process has open, by the links in /proc/PID/fd.
std::set<uint64_t> SocketsOf(pid_t process);

// Whether the process has the network namespace of this one, and may be looked at.
bool SharesNetwork(pid_t process);

// What the sockets have sent and received since their connections began.
uint64_t BytesOf(const std::set<uint64_t>& sockets, const TcpConnections& connections);

// What the sockets have sent between two readings, by address. Connections that were opened in
// between count from their beginning; those that were closed do not count.
std::vector<proto::WorkersSampled::Connection> SentBetween(const std::set<uint64_t>& sockets,
                                                           const TcpConnections& before,
                                                           const TcpConnections& after);

}  // namespace longhaul::service
