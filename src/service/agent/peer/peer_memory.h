// Snapshots that agents keep for each other: what other nodes have sent here, and what of ours may
// be fetched from here.
//
// Copies lie in arenas as a rank's own do, so that a copy under way never touches the newest sealed
// one. Threads: any, at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "checkpoint/peer/transfer.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service {

// Holds a sealed snapshot to read from it. Only so many may at once: waits some seconds while all
// places are taken. As SnapshotPin::Take otherwise.
Result<checkpoint::SnapshotPin> HoldToRead(std::span<std::byte> arena, uint64_t step,
                                           uint64_t attempt);

class PeerMemory {
 public:
  using Place = std::pair<std::string, uint32_t>;  // job and rank

  // Copies for others take at most `limit` bytes.
  explicit PeerMemory(uint64_t limit) : limit_(limit) {}

  // Calls `made` with each new arena for copies, on the thread that makes it, before anything is in
  // it. Before the first Take.
  void OnNew(
      std::function<void(const Place& place, std::shared_ptr<const io::SharedMemory> arena)> made) {
    made_ = std::move(made);
  }
  // A copy that an earlier agent has left here. As Take beyond the limit.
  Status Adopt(const Place& place, std::shared_ptr<const io::SharedMemory> arena, uint64_t bytes);

  // Ours: the rank's own arena on this node, as the arena keeper has it; may be fetched. One before
  // it that holds snapshots is kept until the new one has two: with the first of them whole on
  // every node, nobody wants older ones, and the second comes only after that.
  void Show(const Place& place, std::shared_ptr<const io::SharedMemory> arena);
  void NoteSealed(const Place& place);
  // The job is over: nothing of it is kept or shown.
  void Drop(const std::string& job);

  // Receives an announced snapshot into the place's arena and seals it. kResourceExhausted naming
  // the limit, kUnavailable when another copy for the place is under way.
  Status Take(const checkpoint::PeerMessage& offer, const checkpoint::ReadBytes& read);

  // The arenas that may hold the place's snapshots: our own of that name, newest first, or the one
  // that is kept for that rank of another node.
  std::vector<std::shared_ptr<const io::SharedMemory>> OwnArenasOf(const Place& place) const;
  std::vector<std::shared_ptr<const io::SharedMemory>> CopiesOf(const Place& place) const;

  uint64_t bytes() const;

 private:
  struct Kept {
    std::shared_ptr<const io::SharedMemory> arena;
    uint64_t bytes = 0;
    bool receiving = false;
  };
  struct Own {
    std::vector<std::shared_ptr<const io::SharedMemory>> arenas;  // newest first
    int sealed = 0;                                               // snapshots in the newest
  };
  Result<std::shared_ptr<const io::SharedMemory>> Reserve(const Place& place, uint64_t bytes);

  Status CheckRoom(uint64_t others, uint64_t bytes) const;

  const uint64_t limit_;
  std::function<void(const Place& place, std::shared_ptr<const io::SharedMemory> arena)> made_;
  mutable std::mutex mutex_;  // guards all below
  uint64_t bytes_ = 0;        // of copies
  std::map<Place, Kept> kept_;
  std::map<Place, Own> own_;
};

}  // namespace longhaul::service
