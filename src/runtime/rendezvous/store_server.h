// A TcpStore on real sockets: a job's workers connect to it at MASTER_ADDR:MASTER_PORT.
//
// The protocol has no authentication. So listen on the job's own interface, list the job's nodes in
// `allowed_addresses`, open one server for each attempt and destroy it when the attempt closes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/net/socket.h"
#include "runtime/rendezvous/tcp_store.h"

namespace longhaul::runtime {

struct StoreServerOptions {
  StoreDialect dialect = StoreDialect::kTorch1;  // of clients with an unknown dialect
  StoreLimits limits;
  size_t connections = 65'536;  // more are closed at once; a worker of PyTorch 1.x opens two
  // Numeric addresses that may connect; empty: any. On loopback only this host can connect.
  std::vector<std::string> allowed_addresses;
  // Called with the reason when a client is disconnected.
  std::function<void(const Status&)> on_hang_up;
};

// All calls, the destructor too, must be on the loop's thread.
class StoreServer {
 public:
  // Listens on `port`, or on a free one for 0. `loop` must outlive the server.
  static Result<std::unique_ptr<StoreServer>> Listen(io::EventLoop& loop,
                                                     const std::string& address, uint16_t port,
                                                     StoreServerOptions options = {});
  // Closes the port and every connection.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const { return listener_.port; }
  const TcpStore& store() const { return store_; }

 private:
  struct Peer {
    io::Fd fd;
    bool blocked = false;  // its socket's buffer is full: the loop reports when it is writable
  };

  StoreServer(io::EventLoop& loop, io::Listener listener, StoreServerOptions options);

  void WatchListener();
  void AcceptAll();
  Status Admit(const io::Fd& fd) const;
  void OnReady(TcpStore::ConnectionId id, bool readable, bool writable);
  Status Read(TcpStore::ConnectionId id, const Peer& peer);
  void Flush();
  Status Write(TcpStore::ConnectionId id, Peer& peer);
  void HangUp(TcpStore::ConnectionId id);
  void Report(const Status& reason) const;

  io::EventLoop& loop_;
  io::Listener listener_;
  StoreServerOptions options_;
  TcpStore store_;
  std::map<TcpStore::ConnectionId, Peer> peers_;
  io::EventLoop::TimerId accept_again_ = 0;
};

}  // namespace longhaul::runtime
