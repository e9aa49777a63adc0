// The memory that workers' snapshots lie in: one memfd a job and rank, held here, so that it
// outlives the worker. docs/arena.md says what is inside.
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

  // The rank's arena, made or replaced by a larger one when it has fewer than `bytes`; with 0 the
  // one that is there (kNotFound without one). kResourceExhausted names the limit.
  Result<std::shared_ptr<const io::SharedMemory>> Provide(const JobId& job, uint32_t rank,
                                                          uint64_t bytes);

  // Puts an arena that was filled elsewhere in the place of the rank's. As Provide.
  Status Install(const JobId& job, uint32_t rank, std::shared_ptr<const io::SharedMemory> arena,
                 uint64_t bytes);

  // Null when there is none.
  std::shared_ptr<const io::SharedMemory> Find(const JobId& job, uint32_t rank) const;

  // The memory goes once nobody maps it any more.
  void Drop(const JobId& job);

  uint64_t bytes() const { return bytes_; }

 private:
  // Whether so many bytes may take the place of the rank's arena.
  Status CheckRoom(const JobId& job, uint32_t rank, uint64_t bytes) const;

  struct Arena {
    std::shared_ptr<const io::SharedMemory> memory;  // shared with who reads it
    std::unique_ptr<io::PageMaker> maker;            // of its pages, where that takes long
    uint64_t bytes = 0;
  };

  uint64_t limit_;
  uint64_t bytes_ = 0;  // of all
  std::map<std::pair<JobId, uint32_t>, Arena> arenas_;
};

}  // namespace longhaul::service
