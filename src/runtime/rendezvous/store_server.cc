#include "runtime/rendezvous/store_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace longhaul::runtime {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
// Out of descriptors, say: the waiting connection stays readable, so the loop must look away.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::Listen(io::EventLoop& loop,
                                                         const std::string& address, uint16_t port,
                                                         StoreServerOptions options) {
  ASSIGN_OR_RETURN(io::Listener listener, io::ListenTcp(address, port));
  return std::unique_ptr<StoreServer>(
      new StoreServer(loop, std::move(listener), std::move(options)));
}

StoreServer::StoreServer(io::EventLoop& loop, io::Listener listener, StoreServerOptions options)
    : loop_(loop),
      listener_(std::move(listener)),
      options_(std::move(options)),
      store_(options_.dialect, options_.limits) {
  WatchListener();
}

// The loop outlives the server, so nothing of it may stay registered there.
StoreServer::~StoreServer() {
  loop_.Cancel(accept_again_);
  loop_.Unwatch(listener_.fd.get());
  for (const auto& [id, peer] : peers_) loop_.Unwatch(peer.fd.get());
}

void StoreServer::WatchListener() {
  loop_.Watch(listener_.fd.get(), false, [this](bool, bool) { AcceptAll(); });
}

void StoreServer::AcceptAll() {
  while (true) {
    Result<std::optional<io::Fd>> accepted = io::Accept(listener_.fd);
    if (!accepted.ok()) {
      Report(accepted.status());
      loop_.Unwatch(listener_.fd.get());
      accept_again_ = loop_.After(kAcceptPause, [this] { WatchListener(); });
      return;
    }
    if (!accepted->has_value()) return;
    io::Fd fd = std::move(**accepted);
    if (const Status admitted = Admit(fd); !admitted.ok()) {
      Report(admitted);
      continue;
    }
    const TcpStore::ConnectionId id = store_.Open();
    loop_.Watch(fd.get(), false,
                [this, id](bool readable, bool writable) { OnReady(id, readable, writable); });
    peers_[id].fd = std::move(fd);
  }
}

// The protocol has no authentication, so the peer's address is all that can be checked.
Status StoreServer::Admit(const io::Fd& fd) const {
  if (peers_.size() >= options_.connections) {
    return ResourceExhausted("the store has its limit of " + std::to_string(options_.connections) +
                             " connections");
  }
  if (options_.allowed_addresses.empty()) return {};
  ASSIGN_OR_RETURN(const std::string address, io::PeerAddress(fd));
  if (std::ranges::find(options_.allowed_addresses, address) == options_.allowed_addresses.end()) {
    return PermissionDenied("a store connection from " + address + ", which is no node of the job");
  }
  return {};
}

void StoreServer::OnReady(TcpStore::ConnectionId id, bool readable, bool writable) {
  Peer& peer = peers_.at(id);
  if (writable && peer.blocked) {
    peer.blocked = false;
    loop_.WantWrite(peer.fd.get(), false);
  }
  if (readable) {
    if (const Status status = Read(id, peer); !status.ok()) {
      // What a peer that has left says is no news.
      if (status.code() != Code::kUnavailable) Report(status);
      HangUp(id);
    }
  }
  Flush();
}

Status StoreServer::Read(TcpStore::ConnectionId id, const Peer& peer) {
  std::array<std::byte, kReadBytes> buffer;
  ASSIGN_OR_RETURN(const std::optional<size_t> bytes, io::ReceiveSome(peer.fd, buffer));
  if (!bytes.has_value()) return {};
  if (*bytes == 0) return Unavailable("closed by the client");
  return store_.Receive(id, std::span(buffer).first(*bytes));
}

// One request can wake any number of connections.
void StoreServer::Flush() {
  // A copy: Consume and HangUp change the set during the loop.
  const std::vector<TcpStore::ConnectionId> waiting(store_.with_output().begin(),
                                                    store_.with_output().end());
  for (const TcpStore::ConnectionId id : waiting) {
    Peer& peer = peers_.at(id);
    if (!peer.blocked && !Write(id, peer).ok()) HangUp(id);
  }
}

Status StoreServer::Write(TcpStore::ConnectionId id, Peer& peer) {
  while (true) {
    const std::string_view output = store_.Output(id);
    if (output.empty()) return {};
    ASSIGN_OR_RETURN(const size_t sent,
                     io::SendSome(peer.fd, std::as_bytes(std::span(output.data(), output.size()))));
    // The socket is full. The loop reports when it is writable again; until then Flush skips this
    // connection, so that one slow client does not delay the others.
    if (sent == 0) {
      peer.blocked = true;
      loop_.WantWrite(peer.fd.get(), true);
      return {};
    }
    store_.Consume(id, sent);
  }
}

void StoreServer::HangUp(TcpStore::ConnectionId id) {
  const auto peer = peers_.find(id);
  loop_.Unwatch(peer->second.fd.get());
  store_.Close(id);
  peers_.erase(peer);
}

void StoreServer::Report(const Status& reason) const {
  if (options_.on_hang_up) options_.on_hang_up(reason);
}

}  // namespace longhaul::runtime
