#include "service/agent/peer/peer_memory.h"

#include <chrono>
#include <thread>

#include "base/units.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service {

Result<checkpoint::SnapshotPin> HoldToRead(std::span<std::byte> arena, uint64_t step,
                                           uint64_t attempt) {
  constexpr int kTries = 200;
  constexpr std::chrono::milliseconds kPause(25);
  for (int i = 1;; ++i) {
    auto pin = checkpoint::SnapshotPin::Take(arena, step, attempt, checkpoint::PinUse::kPeer);
    if (pin.status().code() != Code::kResourceExhausted || i == kTries) return pin;
    std::this_thread::sleep_for(kPause);
  }
}

void PeerMemory::Show(const Place& place, std::shared_ptr<const io::SharedMemory> arena) {
  std::lock_guard lock(mutex_);
  Own& own = own_[place];
  std::erase_if(own.arenas, [&arena](const auto& earlier) {
    return earlier == arena || checkpoint::ArenaReader(earlier->bytes()).ListSealed().empty();
  });
  own.arenas.insert(own.arenas.begin(), std::move(arena));
  own.sealed = 0;
}

void PeerMemory::NoteSealed(const Place& place) {
  std::lock_guard lock(mutex_);
  const auto own = own_.find(place);
  if (own == own_.end() || ++own->second.sealed < 2) return;
  own->second.arenas.resize(1);
}

void PeerMemory::Drop(const std::string& job) {
  std::lock_guard lock(mutex_);
  std::erase_if(own_, [&job](const auto& entry) { return entry.first.first == job; });
  std::erase_if(kept_, [this, &job](const auto& entry) {
    if (entry.first.first != job) return false;
    bytes_ -= entry.second.bytes;
    return true;
  });
}

Status PeerMemory::CheckRoom(uint64_t others, uint64_t bytes) const {
  if (bytes <= limit_ && others <= limit_ - bytes) return {};
  return ResourceExhausted("a copy of " + std::to_string(bytes) + " bytes beside " +
                           std::to_string(others) + " of others is above this node's limit of " +
                           std::to_string(limit_) + " bytes for copies");
}

Status PeerMemory::Adopt(const Place& place, std::shared_ptr<const io::SharedMemory> arena,
                         uint64_t bytes) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckRoom(bytes_, bytes));
  if (!kept_.emplace(place, Kept{std::move(arena), bytes, false}).second) {
    return AlreadyExists("a copy exists already for rank " + std::to_string(place.second));
  }
  bytes_ += bytes;
  return {};
}

Result<std::shared_ptr<const io::SharedMemory>> PeerMemory::Reserve(const Place& place,
                                                                    uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(place);
  const bool there = found != kept_.end();
  if (there && found->second.receiving) {
    return Unavailable("another copy for rank " + std::to_string(place.second) + " is under way");
  }
  if (there && found->second.bytes >= bytes) {
    found->second.receiving = true;
    return found->second.arena;
  }
  const uint64_t others = bytes_ - (there ? found->second.bytes : 0);
  RETURN_IF_ERROR(CheckRoom(others, bytes));
  const std::string name = "longhaul-copy-" + place.first + "-" + std::to_string(place.second);
  ASSIGN_OR_RETURN(io::Fd fd,
                   io::CreateSharedMemory(name, Bytes(static_cast<int64_t>(bytes)), false));
  ASSIGN_OR_RETURN(auto arena, io::SharedMemory::Open(std::move(fd)));
  bytes_ = others + bytes;
  if (made_) made_(place, arena);
  Kept kept{std::move(arena), bytes, true};
  return kept_.insert_or_assign(place, std::move(kept)).first->second.arena;
}

Status PeerMemory::Take(const checkpoint::PeerMessage& offer, const checkpoint::ReadBytes& read) {
  const Place place{offer.key.job, offer.key.rank};
  const uint64_t bytes = checkpoint::ArenaBytesFor(offer.plan);
  ASSIGN_OR_RETURN(const std::shared_ptr<const io::SharedMemory> arena, Reserve(place, bytes));
  const Status received = checkpoint::ReceiveSnapshotData(offer, read, arena->bytes());
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(place);
  if (found == kept_.end() || found->second.arena != arena) return received;
  found->second.receiving = false;
  if (received.ok() && received_) received_(offer.key);
  return received;
}

void PeerMemory::OnReceived(std::function<void(const checkpoint::SnapshotKey& key)> received) {
  std::lock_guard lock(mutex_);
  received_ = std::move(received);
}

std::vector<std::shared_ptr<const io::SharedMemory>> PeerMemory::OwnArenasOf(
    const Place& place) const {
  std::lock_guard lock(mutex_);
  const auto found = own_.find(place);
  if (found == own_.end()) return {};
  return found->second.arenas;
}

std::vector<std::shared_ptr<const io::SharedMemory>> PeerMemory::CopiesOf(
    const Place& place) const {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(place);
  if (found == kept_.end()) return {};
  return {found->second.arena};
}

uint64_t PeerMemory::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace longhaul::service
