// Listens for other agents: takes copies of their snapshots, gives what they fetch.
//
// A thread waits for connections, each connection has a thread of its own, at most kMaxConnections
// at once; whoever doesn't know the secret is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/fd.h"
#include "service/agent/peer/peer_connection.h"
#include "service/agent/peer/peer_memory.h"

namespace longhaul::service {

class PeerServer {
 public:
  static constexpr size_t kMaxConnections = 64;

  // `memory` must outlive this.
  static Result<std::unique_ptr<PeerServer>> Listen(const std::string& address, std::string secret,
                                                    PeerMemory& memory);
  // Breaks off what is under way.
  ~PeerServer();
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  uint16_t port() const { return port_; }

 private:
  struct Connection {
    explicit Connection(io::Fd socket) : peer(std::move(socket), 0) {}
    PeerConnection peer;
    std::thread thread;
    std::atomic<bool> over{false};
  };

  PeerServer(io::Fd listener, uint16_t port, io::Fd wake, std::string secret, PeerMemory& memory);
  void AcceptAll();
  void Serve(PeerConnection& peer);
  void JoinEnded();

  io::Fd listener_;
  const uint16_t port_;
  io::Fd wake_;  // an eventfd: readable when all shall end
  const std::string secret_;
  PeerMemory& memory_;
  std::vector<std::unique_ptr<Connection>> connections_;  // the acceptor's, until it has ended
  std::thread acceptor_;
};

}  // namespace longhaul::service
