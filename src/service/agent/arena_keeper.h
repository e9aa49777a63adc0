// The memory of workers' snapshots: one memfd for each job and rank. The agent holds it, so it
// outlives the worker. docs/arena.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/ids.h"
#include "base/status.h"
#include "io/memory/prefault.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service {

class ArenaKeeper {
 public:
  // All arenas together take at most `limit` bytes.
  explicit ArenaKeeper(uint64_t limit) : limit_(limit) {}

  // Returns the rank's arena, which is created, or replaced by a larger one if it has fewer than
  // `bytes`. With 0, returns the existing one (kNotFound if there is none). kResourceExhausted
  // names the limit.
  Result<std::shared_ptr<const io::SharedMemory>> Provide(const JobId& job, uint32_t rank,
                                                          uint64_t bytes);

  // Replaces the rank's arena by one that was filled elsewhere. Errors as for Provide.
  Status Install(const JobId& job, uint32_t rank, std::shared_ptr<const io::SharedMemory> arena,
                 uint64_t bytes);

  // Returns null when there is none.
  std::shared_ptr<const io::SharedMemory> Find(const JobId& job, uint32_t rank) const;

  // Drops the job's arenas. The memory is freed once no process maps it.
  void Drop(const JobId& job);

  uint64_t bytes() const { return bytes_; }

 private:
  // Returns whether an arena of this many bytes can replace the rank's.
  Status CheckRoom(const JobId& job, uint32_t rank, uint64_t bytes) const;
  void Place(const JobId& job, uint32_t rank, std::shared_ptr<const io::SharedMemory> arena,
             uint64_t bytes);
  // Makes the arena's pages on a thread: a worker waits for those of a slot before its first save.
  void MakePages(const JobId& job, uint32_t rank);

  struct Arena {
    std::shared_ptr<const io::SharedMemory> memory;  // shared with its readers
    std::unique_ptr<io::PageMaker> maker;            // allocates the pages where that takes long
    uint64_t bytes = 0;
  };

  uint64_t limit_;
  uint64_t bytes_ = 0;  // of all arenas
  std::map<std::pair<JobId, uint32_t>, Arena> arenas_;
};

}  // namespace longhaul::service
