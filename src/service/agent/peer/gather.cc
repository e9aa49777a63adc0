#include "service/agent/peer/gather.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/chunk_source.h"
#include "checkpoint/reshard/load_snapshots.h"
#include "service/agent/peer/peer_connection.h"

namespace longhaul::service {
namespace {

using checkpoint::ChunkId;
using checkpoint::PeerKind;
using checkpoint::ReachedSnapshot;
using checkpoint::StatePlan;

// Read and put into the arena at once: so much, or one tensor.
constexpr uint64_t kBatchBytes = 64 << 20;
// An agent serves so many at once that a whole gang may have to queue.
constexpr int kTries = 40;
constexpr std::chrono::milliseconds kPause(50);

// The connection to one agent. It is opened when it is needed, and again after whatever broke off.
// An agent that does not accept it is gone: its successor has another port. It is not tried again,
// because a gang may need many pieces of each agent that was lost.
class Link {
 public:
  Link(std::string address, uint32_t port) : address_(std::move(address)), port_(port) {}

  // A connection on which nobody's answer is under way.
  Result<PeerConnection*> Ready(const void* user) {
    if (user_ != nullptr || peer_ == nullptr) {
      peer_.reset();
      RETURN_IF_ERROR(gone_);
      auto peer = PeerConnection::Connect(address_, static_cast<uint16_t>(port_), 0);
      if (!peer.ok()) return gone_ = peer.status();
      peer_ = std::make_unique<PeerConnection>(*std::move(peer));
    }
    user_ = user;
    return peer_.get();
  }
  PeerConnection& peer() { return *peer_; }
  bool gone() const { return !gone_.ok(); }
  void Done() { user_ = nullptr; }  // its answer has been read to its end

 private:
  const std::string address_;
  const uint32_t port_;
  std::unique_ptr<PeerConnection> peer_;
  Status gone_;                 // why no connection was accepted
  const void* user_ = nullptr;  // whose answer is not all read
};

// A piece that an agent elsewhere holds.
class RemotePiece : public checkpoint::ChunkSource {
 public:
  RemotePiece(Link& link, const std::string& secret, checkpoint::SnapshotKey key, bool copy)
      : link_(link), secret_(secret), key_(std::move(key)), copy_(copy) {}

  // Its plan and hashes. One that is asked by too many hangs up, and is asked again.
  Result<checkpoint::PeerMessage> Describe() {
    for (int i = 1;; ++i) {
      auto described = TryDescribe();
      const bool hung_up =
          described.status().code() == Code::kUnavailable && !refused_ && !link_.gone();
      if (described.ok() || !hung_up || i == kTries) return described;
      std::this_thread::sleep_for(kPause);
    }
  }

  void Expect(std::vector<ChunkId> chunks) override {
    expected_ = std::move(chunks);
    next_ = 0;
  }

  Status Read(ChunkId chunk, std::span<std::byte> to) override {
    CHECK(next_ < expected_.size() && expected_[next_] == chunk);
    if (next_ == 0) {
      ASSIGN_OR_RETURN(PeerConnection * peer, link_.Ready(this));
      RETURN_IF_ERROR(AskForChunks(*peer, secret_, key_, copy_, expected_));
    }
    RETURN_IF_ERROR(link_.peer().Reader()(to));
    if (++next_ == expected_.size()) link_.Done();
    return {};
  }

 private:
  Result<checkpoint::PeerMessage> TryDescribe() {
    refused_ = false;
    ASSIGN_OR_RETURN(PeerConnection * peer, link_.Ready(this));
    auto described = AskForCopy(*peer, secret_, key_, copy_, PeerKind::kDescribe);
    if (described.ok()) link_.Done();
    refused_ = !described.ok() && described.status().message().starts_with("refused");
    return described;
  }

  Link& link_;
  const std::string& secret_;
  const checkpoint::SnapshotKey key_;
  const bool copy_;
  bool refused_ = false;
  std::vector<ChunkId> expected_;
  size_t next_ = 0;
};

// A piece that was reached: here, or elsewhere with its plan and hashes.
struct Piece {
  proto::Restore::Piece where;
  ReachedSnapshot snapshot;
  std::shared_ptr<const io::SharedMemory> arena;  // of one that is here
  std::optional<checkpoint::SnapshotPin> pin;
  std::unique_ptr<RemotePiece> remote;
};

std::string NameOf(const proto::Restore::Piece& piece) {
  return "rank " + std::to_string(piece.rank()) + "'s snapshot in " +
         (piece.copy() ? "the copies of " : "the memory of ") + piece.node();
}

class Gatherer {
 public:
  Gatherer(const GatherOrder& order, const PeerMemory& memory) : order_(order), memory_(memory) {}

  Gathered Run() {
    gathered_.status = Reach();
    if (gathered_.status.ok()) gathered_.status = order_.plan ? Fill() : ReportSavedPlan();
    return std::move(gathered_);
  }

 private:
  // Asks all pieces for their plans.
  Status Reach() {
    for (const proto::Restore::Piece& where : order_.restore.pieces()) {
      Piece piece;
      piece.where = where;
      piece.snapshot.where = NameOf(where);
      const Status reached = where.node() == order_.node ? ReachHere(piece) : ReachThere(piece);
      if (reached.ok()) {
        pieces_.push_back(std::move(piece));
      } else {
        NoteBad(where, piece.snapshot.where + ": " + reached.message());
      }
    }
    // As a checkpoint on disk has its files: by the ranks that saved them.
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return std::tuple(a.where.rank(), a.remote != nullptr) <
             std::tuple(b.where.rank(), b.remote != nullptr);
    });
    if (pieces_.empty()) return DataLoss("no piece of the snapshot can be read: " + gathered_.why);
    return {};
  }

  Status ReachHere(Piece& piece) {
    const PeerMemory::Place place = {order_.job.value(), piece.where.name()};
    for (const auto& arena :
         piece.where.copy() ? memory_.CopiesOf(place) : memory_.OwnArenasOf(place)) {
      auto pin = HoldToRead(arena->bytes(), order_.restore.step(), order_.restore.saved_attempt());
      if (!pin.ok()) continue;
      const checkpoint::ArenaReader reader(arena->bytes());
      ASSIGN_OR_RETURN(piece.snapshot.sealed, reader.InSlot(pin->slot()));
      if (piece.snapshot.sealed.snapshot.non_finite)
        return DataLoss("the snapshot contains NaN or infinity");
      piece.pin = *std::move(pin);
      piece.arena = arena;
      return {};
    }
    return NotFound("the snapshot no longer exists");
  }

  Status ReachThere(Piece& piece) {
    const auto at = std::pair(piece.where.address(), piece.where.port());
    Link& link = links_.try_emplace(at, piece.where.address(), piece.where.port()).first->second;
    const checkpoint::SnapshotKey key = {order_.job.value(), piece.where.name(),
                                         order_.restore.step(), order_.restore.saved_attempt()};
    piece.remote = std::make_unique<RemotePiece>(link, order_.secret, key, piece.where.copy());
    ASSIGN_OR_RETURN(checkpoint::PeerMessage described, piece.remote->Describe());
    if (described.key.attempt != key.attempt) return InternalError("it is of another attempt");
    piece.snapshot.sealed.snapshot.step = key.step;
    piece.snapshot.sealed.snapshot.attempt = key.attempt;
    piece.snapshot.sealed.plan = std::move(described.plan);
    piece.snapshot.sealed.chunks = std::move(described.chunks);
    piece.snapshot.source = piece.remote.get();
    return {};
  }

  void NoteBad(const proto::Restore::Piece& where, const std::string& why) {
    gathered_.bad.push_back(where);
    gathered_.why += (gathered_.why.empty() ? "" : "; ") + why;
  }

  // The plan of the rank's own piece, else of the first.
  Status ReportSavedPlan() {
    const auto own = std::find_if(pieces_.begin(), pieces_.end(), [this](const Piece& piece) {
      return piece.where.rank() == order_.rank;
    });
    gathered_.saved = (own == pieces_.end() ? pieces_.front() : *own).snapshot.sealed.plan;
    return {};
  }

  // Pieces to read from: those of the rank itself when they have just the wanted plan, else all.
  void Choose() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const bool own =
          pieces_[i].where.rank() == order_.rank && pieces_[i].snapshot.sealed.plan == *order_.plan;
      if (own) chosen_.push_back(i);
    }
    if (!chosen_.empty()) return;
    for (size_t i = 0; i < pieces_.size(); ++i) chosen_.push_back(i);
  }

  Status Fill() {
    const StatePlan& plan = *order_.plan;
    if (plan.total_bytes() > order_.limit) {
      return ResourceExhausted("a state of " + std::to_string(plan.total_bytes()) +
                               " bytes is above this node's limit of " +
                               std::to_string(order_.limit) + " bytes");
    }
    Choose();
    const Bytes size(static_cast<int64_t>(checkpoint::ArenaBytesFor(plan)));
    ASSIGN_OR_RETURN(io::Fd fd, io::CreateSharedMemory("longhaul-gathered", size, false));
    ASSIGN_OR_RETURN(auto arena, io::SharedMemory::Open(std::move(fd)));
    checkpoint::ArenaWriter writer(arena->bytes());
    RETURN_IF_ERROR(writer.Begin(order_.restore.step(), order_.restore.saved_attempt(), plan));
    for (size_t first = 0; first < plan.size();) {
      size_t end = first;
      uint64_t bytes = 0;
      for (; end < plan.size() && (end == first || bytes + plan.bytes(end) <= kBatchBytes); ++end) {
        bytes += plan.bytes(end);
      }
      RETURN_IF_ERROR(FillSome(first, end, writer));
      first = end;
    }
    writer.Seal();
    gathered_.arena = std::move(arena);
    return {};
  }

  // Tensors [first, end) of the plan.
  Status FillSome(size_t first, size_t end, checkpoint::ArenaWriter& writer) {
    if (chosen_.empty())
      return DataLoss("no readable piece of the snapshot is left: " + gathered_.why);
    const auto& tensors = order_.plan->tensors();
    ASSIGN_OR_RETURN(const StatePlan part, StatePlan::Create(std::vector<checkpoint::TensorInfo>(
                                               tensors.begin() + static_cast<ptrdiff_t>(first),
                                               tensors.begin() + static_cast<ptrdiff_t>(end))));
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::span<std::byte>> memory;
    for (size_t i = 0; i < part.size(); ++i) {
      memory.emplace_back(bytes.emplace_back(part.bytes(i)));
    }
    std::vector<ReachedSnapshot> snapshots;
    for (const size_t i : chosen_) snapshots.push_back(pieces_[i].snapshot);
    checkpoint::LoadedSnapshots loaded;
    const Status read = LoadFromSnapshots(snapshots, part, memory, loaded);
    gathered_.bytes_fetched += loaded.bytes_fetched;
    for (size_t i = 0; i < loaded.left_out.size(); ++i) {
      NoteBad(pieces_[chosen_[loaded.left_out[i]]].where, loaded.damaged[i]);
    }
    std::vector<size_t> still;
    for (size_t i = 0; i < chosen_.size(); ++i) {
      const auto& out = loaded.left_out;
      if (std::find(out.begin(), out.end(), i) == out.end()) still.push_back(chosen_[i]);
    }
    chosen_ = std::move(still);
    RETURN_IF_ERROR(read);
    for (size_t i = 0; i < part.size(); ++i) writer.Write(first + i, memory[i]);
    return {};
  }

  const GatherOrder& order_;
  const PeerMemory& memory_;
  Gathered gathered_;
  std::map<std::pair<std::string, uint32_t>, Link> links_;
  std::vector<Piece> pieces_;   // reached, by the rank that sealed them, those here first
  std::vector<size_t> chosen_;  // of them
};

}  // namespace

Gathered Gather(const GatherOrder& order, const PeerMemory& memory) {
  return Gatherer(order, memory).Run();
}

}  // namespace longhaul::service
