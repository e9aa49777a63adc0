#include "service/agent/arena_keeper.h"

#include <string>

#include "base/units.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service {
namespace {

// Touching a page costs 0.5 s a GiB (memfd, measured): above this the loop would stand still too
// long, and a thread does it.
constexpr uint64_t kPopulateUpTo = 64 << 20;

}  // namespace

Result<std::shared_ptr<const io::SharedMemory>> ArenaKeeper::Provide(const JobId& job,
                                                                     uint32_t rank,
                                                                     uint64_t bytes) {
  const auto found = arenas_.find({job, rank});
  const bool there = found != arenas_.end();
  if (there && found->second.bytes >= bytes) return found->second.memory;
  if (bytes == 0) return NotFound("rank " + std::to_string(rank) + " has no arena");

  RETURN_IF_ERROR(CheckRoom(job, rank, bytes));
  const std::string name = "longhaul-" + job.value() + "-" + std::to_string(rank);
  ASSIGN_OR_RETURN(io::Fd fd, io::CreateSharedMemory(name, Bytes(static_cast<int64_t>(bytes)),
                                                     bytes <= kPopulateUpTo));
  ASSIGN_OR_RETURN(const auto arena, io::SharedMemory::Open(std::move(fd)));
  Place(job, rank, arena, bytes);
  if (bytes > kPopulateUpTo) MakePages(job, rank);
  return arena;
}

Status ArenaKeeper::CheckRoom(const JobId& job, uint32_t rank, uint64_t bytes) const {
  const auto found = arenas_.find({job, rank});
  const uint64_t others = bytes_ - (found == arenas_.end() ? 0 : found->second.bytes);
  if (bytes <= limit_ && others <= limit_ - bytes) return {};
  return ResourceExhausted("an arena of " + std::to_string(bytes) + " bytes beside " +
                           std::to_string(others) + " of others is above this node's limit of " +
                           std::to_string(limit_) + " bytes");
}

Status ArenaKeeper::Install(const JobId& job, uint32_t rank,
                            std::shared_ptr<const io::SharedMemory> arena, uint64_t bytes) {
  RETURN_IF_ERROR(CheckRoom(job, rank, bytes));
  Place(job, rank, std::move(arena), bytes);
  // It has the pages of the state that came, and not those of the other slots.
  MakePages(job, rank);
  return {};
}

void ArenaKeeper::Place(const JobId& job, uint32_t rank,
                        std::shared_ptr<const io::SharedMemory> arena, uint64_t bytes) {
  Arena& place = arenas_[{job, rank}];
  bytes_ = bytes_ - place.bytes + bytes;
  place = Arena{std::move(arena), nullptr, bytes};
}

void ArenaKeeper::MakePages(const JobId& job, uint32_t rank) {
  Arena& place = arenas_.at({job, rank});
  place.maker = std::make_unique<io::PageMaker>(place.memory);
}

std::shared_ptr<const io::SharedMemory> ArenaKeeper::Find(const JobId& job, uint32_t rank) const {
  const auto found = arenas_.find({job, rank});
  return found == arenas_.end() ? nullptr : found->second.memory;
}

void ArenaKeeper::Drop(const JobId& job) {
  auto arena = arenas_.lower_bound({job, 0});
  while (arena != arenas_.end() && arena->first.first == job) {
    bytes_ -= arena->second.bytes;
    arena = arenas_.erase(arena);
  }
}

}  // namespace longhaul::service
