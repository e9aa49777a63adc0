// Listens for other agents: stores copies of their snapshots and sends those that they fetch.
//
// One thread accepts connections, and each connection has its own thread, at most kMaxConnections
// at once. Connections without the secret are refused.
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
  // Ends all transfers under way.
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
  io::Fd wake_;  // an eventfd: readable when all threads must end
  const std::string secret_;
  PeerMemory& memory_;
  // Used only by the accepting thread until it has ended.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread acceptor_;
};

}  // namespace longhaul::service
