// Snapshots that agents keep for each other: copies from other nodes, and own snapshots that other
// nodes may fetch.
//
// Copies are stored in arenas like those of own ranks, so an incomplete copy never overwrites the
// newest sealed one. Threads: any, at any time.
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

// Pins a sealed snapshot to read from it. The number of readers is limited: waits some seconds for
// a free place. Otherwise as SnapshotPin::Take.
Result<checkpoint::SnapshotPin> HoldToRead(std::span<std::byte> arena, uint64_t step,
                                           uint64_t attempt);

class PeerMemory {
 public:
  using Place = std::pair<std::string, uint32_t>;  // job and rank

  // All copies for other nodes take at most `limit` bytes.
  explicit PeerMemory(uint64_t limit) : limit_(limit) {}

  // Calls `made` with each new, empty arena for copies, on the thread that creates it. Call before
  // the first Take.
  void OnNew(
      std::function<void(const Place& place, std::shared_ptr<const io::SharedMemory> arena)> made) {
    made_ = std::move(made);
  }
  // Calls `received` with each copy that is sealed from now on, on the thread that received it. It
  // must not call this object.
  void OnReceived(std::function<void(const checkpoint::SnapshotKey& key)> received);
  // Adds a copy that an earlier agent has left here. Fails beyond the limit, as Take does.
  Status Adopt(const Place& place, std::shared_ptr<const io::SharedMemory> arena, uint64_t bytes);

  // Lets other nodes fetch from the rank's own arena on this node. An earlier arena with snapshots
  // is kept until the new one has two: once every node has the first of them, older ones are no
  // longer needed, and the second is sealed only after that.
  void Show(const Place& place, std::shared_ptr<const io::SharedMemory> arena);
  void NoteSealed(const Place& place);
  // The job has ended: drops everything of it.
  void Drop(const std::string& job);

  // Receives an announced snapshot into the place's arena and seals it. Returns kResourceExhausted
  // with the limit, or kUnavailable when another copy for the place is under way.
  Status Take(const checkpoint::PeerMessage& offer, const checkpoint::ReadBytes& read);

  // Returns the arenas that may hold the place's snapshots: the node's own with that name, newest
  // first, or the one that is kept for that rank of another node.
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
  std::function<void(const checkpoint::SnapshotKey& key)> received_;
  uint64_t bytes_ = 0;  // of all copies
  std::map<Place, Kept> kept_;
  std::map<Place, Own> own_;
};

}  // namespace longhaul::service
