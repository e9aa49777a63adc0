#include "service/agent/peer/peer_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/text.h"
#include "checkpoint/arena.h"
#include "io/clock.h"
#include "io/net/socket.h"

namespace longhaul::service {
namespace {

using checkpoint::PeerKind;
using checkpoint::PeerMessage;

constexpr int kWaitMs = 30'000;  // without a byte
// A host without power does not refuse: the kernel would try for two minutes.
constexpr Duration kConnectLimit = std::chrono::seconds(5);
constexpr size_t kPacedBytes = 1u << 20;  // written at once

Status AsStatus(const PeerMessage& answer, PeerKind wanted) {
  if (answer.kind == wanted) return {};
  if (answer.kind == PeerKind::kRefused)
    return Unavailable("the other agent refused: " + Printable(answer.reason));
  return InternalError("the other agent answers out of turn");
}

}  // namespace

PeerConnection::PeerConnection(io::Fd socket, uint64_t bytes_per_second)
    : socket_(std::move(socket)), budget_(bytes_per_second) {}

Result<PeerConnection> PeerConnection::Connect(const std::string& address, uint16_t port,
                                               uint64_t bytes_per_second) {
  Result<io::Fd> socket = io::ConnectTcpWithin(address, port, kConnectLimit);
  if (!socket.ok()) return Unavailable(socket.status().message());
  return PeerConnection(*std::move(socket), bytes_per_second);
}

Result<PeerConnection> PeerConnection::ConnectWithin(const std::string& address, uint16_t port,
                                                     Duration limit) {
  const Instant deadline = io::MonotonicNow() + limit;
  ASSIGN_OR_RETURN(io::Fd socket, io::ConnectTcpWithin(address, port, limit));
  PeerConnection connection(std::move(socket), 0);
  connection.deadline_ = deadline;
  return connection;
}

Status PeerConnection::Await(short events) const {
  pollfd wanted{socket_.get(), events, 0};
  for (;;) {
    int64_t wait_ms = kWaitMs;
    if (deadline_.has_value()) {
      const Duration left = *deadline_ - io::MonotonicNow();
      if (left <= Duration(0)) {
        return DeadlineExceeded("the time limit for the other agent has passed");
      }
      wait_ms = std::min(wait_ms, left.count() / 1'000'000 + 1);
    }
    const int ready = poll(&wanted, 1, static_cast<int>(wait_ms));
    if (ready > 0) return {};
    if (ready == 0 && !deadline_.has_value()) {
      return Unavailable("the other agent did not answer within 30 s");
    }
    if (ready < 0 && errno != EINTR) return FromErrno(errno, "cannot wait for the other agent");
  }
}

void PeerConnection::BreakOff() { shutdown(socket_.get(), SHUT_RDWR); }

checkpoint::ReadBytes PeerConnection::Reader() {
  return [this](std::span<std::byte> to) { return Read(to); };
}
checkpoint::WriteBytes PeerConnection::Writer() {
  return [this](std::span<const std::byte> bytes) { return Write(bytes); };
}

Status PeerConnection::Read(std::span<std::byte> to) {
  while (!to.empty()) {
    RETURN_IF_ERROR(Await(POLLIN));
    ASSIGN_OR_RETURN(const std::optional<size_t> got, io::ReceiveSome(socket_, to));
    if (!got) continue;
    if (*got == 0) return Unavailable("the other agent closed the connection");
    to = to.subspan(*got);
  }
  return {};
}

Status PeerConnection::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kPacedBytes));
    const Duration wait = budget_.Use(part.size(), io::MonotonicNow());
    if (wait > Duration(0)) std::this_thread::sleep_for(wait);
    size_t sent = 0;
    while (sent < part.size()) {
      RETURN_IF_ERROR(Await(POLLOUT));
      ASSIGN_OR_RETURN(const size_t now, io::SendSome(socket_, part.subspan(sent)));
      sent += now;
    }
    bytes = bytes.subspan(part.size());
  }
  return {};
}

Duration Budget::Use(size_t bytes, Instant now) {
  if (bytes_per_second_ == 0) return Duration(0);
  const Duration wait = std::max(Duration(0), free_at_ - now);
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
  free_at_ = std::max(free_at_, now - kBurst) + DurationFromSeconds(seconds);
  return wait;
}

Status SendCopy(PeerConnection& peer, const std::string& secret, const checkpoint::SnapshotKey& key,
                std::span<std::byte> arena) {
  ASSIGN_OR_RETURN(
      const checkpoint::SnapshotPin pin,
      checkpoint::SnapshotPin::Take(arena, key.step, key.attempt, checkpoint::PinUse::kPeer));
  ASSIGN_OR_RETURN(const checkpoint::ArenaReader::Hashed snapshot,
                   checkpoint::ArenaReader(arena).InSlot(pin.slot()));
  PeerMessage offer;
  offer.kind = PeerKind::kOffer;
  offer.secret = secret;
  offer.key = key;
  offer.plan = snapshot.plan;
  offer.chunks = snapshot.chunks;
  RETURN_IF_ERROR(SendPeerMessage(offer, peer.Writer()));
  ASSIGN_OR_RETURN(const PeerMessage ready, checkpoint::ReceivePeerMessage(peer.Reader()));
  RETURN_IF_ERROR(AsStatus(ready, PeerKind::kReady));
  RETURN_IF_ERROR(SendSnapshotData(snapshot, peer.Writer()));
  ASSIGN_OR_RETURN(const PeerMessage sealed, checkpoint::ReceivePeerMessage(peer.Reader()));
  return AsStatus(sealed, PeerKind::kSealed);
}

Result<PeerMessage> AskForCopy(PeerConnection& peer, const std::string& secret,
                               const checkpoint::SnapshotKey& key, bool copy, PeerKind kind) {
  PeerMessage fetch;
  fetch.kind = kind;
  fetch.secret = secret;
  fetch.key = key;
  fetch.copy = copy;
  RETURN_IF_ERROR(SendPeerMessage(fetch, peer.Writer()));
  ASSIGN_OR_RETURN(PeerMessage snapshot, checkpoint::ReceivePeerMessage(peer.Reader()));
  RETURN_IF_ERROR(AsStatus(snapshot, PeerKind::kSnapshot));
  if (snapshot.key.job != key.job || snapshot.key.rank != key.rank ||
      snapshot.key.step != key.step) {
    return InternalError("the other agent gives " + ToString(snapshot.key) + " for " +
                         ToString(key));
  }
  return snapshot;
}

Status Probe(PeerConnection& peer, const std::string& secret, uint64_t seed, uint64_t bytes,
             uint64_t answer_bytes) {
  PeerMessage probe;
  probe.kind = PeerKind::kProbe;
  probe.secret = secret;
  probe.seed = seed;
  probe.answer_bytes = answer_bytes;
  probe.contents = checkpoint::ProbeContents(seed, bytes);
  RETURN_IF_ERROR(SendPeerMessage(probe, peer.Writer()));
  ASSIGN_OR_RETURN(const PeerMessage answer, checkpoint::ReceivePeerMessage(peer.Reader()));
  RETURN_IF_ERROR(AsStatus(answer, PeerKind::kProbeAnswer));
  if (answer.contents != checkpoint::ProbeContents(~seed, answer_bytes)) {
    return DataLoss("the other agent's answer has wrong contents");
  }
  return {};
}

Status AskForChunks(PeerConnection& peer, const std::string& secret,
                    const checkpoint::SnapshotKey& key, bool copy,
                    const std::vector<checkpoint::ChunkId>& chunks) {
  PeerMessage request;
  request.kind = PeerKind::kFetchChunks;
  request.secret = secret;
  request.key = key;
  request.copy = copy;
  request.wanted = chunks;
  RETURN_IF_ERROR(SendPeerMessage(request, peer.Writer()));
  ASSIGN_OR_RETURN(const PeerMessage ready, checkpoint::ReceivePeerMessage(peer.Reader()));
  return AsStatus(ready, PeerKind::kReady);
}

}  // namespace longhaul::service
