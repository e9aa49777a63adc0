#include "service/agent/peer/peer_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "checkpoint/arena.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "service/agent/peer/peer_connection.h"
#include "service/security/secret.h"

namespace longhaul::service {
namespace {

using checkpoint::PeerKind;
using checkpoint::PeerMessage;

PeerMessage Refusal(const std::string& reason) {
  PeerMessage refused;
  refused.kind = PeerKind::kRefused;
  refused.reason = reason;
  return refused;
}

PeerMessage Plain(PeerKind kind) {
  PeerMessage message;
  message.kind = kind;
  return message;
}

Status Take(const PeerMessage& offer, PeerMemory& memory, PeerConnection& peer) {
  bool ready_sent = false;
  // Ready is said when there is room for it: with the first read.
  const checkpoint::ReadBytes read = peer.Reader();
  const auto read_when_ready = [&](std::span<std::byte> to) -> Status {
    if (!std::exchange(ready_sent, true)) {
      RETURN_IF_ERROR(SendPeerMessage(Plain(PeerKind::kReady), peer.Writer()));
    }
    return read(to);
  };
  RETURN_IF_ERROR(memory.Take(offer, read_when_ready));
  // A state without bytes has had no read.
  if (!ready_sent) RETURN_IF_ERROR(SendPeerMessage(Plain(PeerKind::kReady), peer.Writer()));
  return SendPeerMessage(Plain(PeerKind::kSealed), peer.Writer());
}

// A snapshot that somebody asks for, held meanwhile.
struct Found {
  std::shared_ptr<const io::SharedMemory> arena;
  checkpoint::SnapshotPin pin;
  checkpoint::ArenaReader::Hashed snapshot;
};

// The wanted step in any arena that may hold it, of the wanted attempt if one is named.
Result<Found> Find(const PeerMessage& request, const PeerMemory& memory) {
  const PeerMemory::Place place = {request.key.job, request.key.rank};
  for (const auto& arena : request.copy ? memory.CopiesOf(place) : memory.OwnArenasOf(place)) {
    const std::span<std::byte> bytes = arena->bytes();
    for (const auto& sealed : checkpoint::ArenaReader(bytes).ListSealed()) {
      if (sealed.step != request.key.step || sealed.non_finite) continue;
      if (request.key.attempt != 0 && sealed.attempt != request.key.attempt) continue;
      auto pin = HoldToRead(bytes, sealed.step, sealed.attempt);
      if (!pin.ok()) continue;
      ASSIGN_OR_RETURN(auto snapshot, checkpoint::ArenaReader(bytes).InSlot(pin->slot()));
      return Found{arena, *std::move(pin), std::move(snapshot)};
    }
  }
  return NotFound("no " + ToString(request.key) + " here");
}

Status Give(const PeerMessage& request, const PeerMemory& memory, PeerConnection& peer) {
  ASSIGN_OR_RETURN(const Found found, Find(request, memory));
  if (request.kind == PeerKind::kFetchChunks) {
    RETURN_IF_ERROR(CheckChunks(found.snapshot, request.wanted));
    RETURN_IF_ERROR(SendPeerMessage(Plain(PeerKind::kReady), peer.Writer()));
    return SendChunks(found.snapshot, request.wanted, peer.Writer());
  }
  PeerMessage announced = Plain(PeerKind::kSnapshot);
  announced.key = request.key;
  announced.key.attempt = found.snapshot.snapshot.attempt;
  announced.plan = found.snapshot.plan;
  announced.chunks = found.snapshot.chunks;
  RETURN_IF_ERROR(SendPeerMessage(announced, peer.Writer()));
  if (request.kind == PeerKind::kDescribe) return {};
  return SendSnapshotData(found.snapshot, peer.Writer());
}

// The contents were compared with their hash; comparing them with the seed's finds damage in the
// sender's memory too.
Status AnswerProbe(const PeerMessage& probe, PeerConnection& peer) {
  if (probe.contents != checkpoint::ProbeContents(probe.seed, probe.contents.size())) {
    return DataLoss("the contents of a probe are wrong");
  }
  PeerMessage answer = Plain(PeerKind::kProbeAnswer);
  answer.contents = checkpoint::ProbeContents(~probe.seed, probe.answer_bytes);
  return SendPeerMessage(answer, peer.Writer());
}

bool IsRequest(PeerKind kind) {
  return kind == PeerKind::kOffer || kind == PeerKind::kFetch || kind == PeerKind::kDescribe ||
         kind == PeerKind::kFetchChunks || kind == PeerKind::kProbe;
}

}  // namespace

Result<std::unique_ptr<PeerServer>> PeerServer::Listen(const std::string& address,
                                                       std::string secret, PeerMemory& memory) {
  ASSIGN_OR_RETURN(io::Listener listener, io::ListenTcp(address, 0));
  io::Fd wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.valid()) return FromErrno(errno, "cannot create an eventfd");
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(listener.fd), listener.port,
                                                    std::move(wake), std::move(secret), memory));
}

PeerServer::PeerServer(io::Fd listener, uint16_t port, io::Fd wake, std::string secret,
                       PeerMemory& memory)
    : listener_(std::move(listener)),
      port_(port),
      wake_(std::move(wake)),
      secret_(std::move(secret)),
      memory_(memory),
      acceptor_([this] { AcceptAll(); }) {}

PeerServer::~PeerServer() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  acceptor_.join();
  // No connection is added any more.
  for (const auto& connection : connections_) {
    connection->peer.BreakOff();
    connection->thread.join();
  }
}

void PeerServer::AcceptAll() {
  for (;;) {
    pollfd wanted[2] = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[1].revents != 0) return;
    Result<std::optional<io::Fd>> accepted = io::Accept(listener_);
    if (!accepted.ok() || !accepted->has_value()) continue;
    JoinEnded();
    if (connections_.size() >= kMaxConnections) continue;  // closes it
    Connection& connection =
        *connections_.emplace_back(std::make_unique<Connection>(**std::move(accepted)));
    connection.thread = std::thread([this, &connection] {
      Serve(connection.peer);
      connection.peer.BreakOff();
      connection.over = true;
    });
  }
}

void PeerServer::JoinEnded() {
  std::erase_if(connections_, [](const auto& connection) {
    if (!connection->over) return false;
    connection->thread.join();
    return true;
  });
}

void PeerServer::Serve(PeerConnection& peer) {
  for (;;) {
    const Result<PeerMessage> request = checkpoint::ReceivePeerMessage(peer.Reader());
    if (!request.ok()) return;
    Status status;
    if (!IsRequest(request->kind)) {
      status = InvalidArgument("the message is not a request");
    } else if (!EqualInConstantTime(request->secret, secret_)) {
      status = InvalidArgument("the secret is wrong");
    } else if (request->kind == PeerKind::kProbe) {
      status = AnswerProbe(*request, peer);
    } else if (request->kind == PeerKind::kOffer) {
      status = Take(*request, memory_, peer);
    } else {
      status = Give(*request, memory_, peer);
    }
    if (status.ok()) continue;
    // What the other end still sends has no reader: the connection ends with the reason.
    (void)SendPeerMessage(Refusal(status.message()), peer.Writer());
    return;
  }
}

}  // namespace longhaul::service
