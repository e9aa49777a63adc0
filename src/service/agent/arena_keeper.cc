#include "service/agent/arena_keeper.h"

#include <string>

#include "base/units.h"
#include "io/shared_memory.h"

namespace longhaul::service {
namespace {

// Touching a page costs 0.5 s a GiB (memfd, measured): above this the loop would stand still too
// long, and the worker's first copy pays instead.
constexpr uint64_t kPopulateUpTo = 64 << 20;

}  // namespace

Result<std::shared_ptr<const io::Fd>> ArenaKeeper::Provide(const JobId& job, uint32_t rank,
                                                           uint64_t bytes) {
  const auto found = arenas_.find({job, rank});
  const bool there = found != arenas_.end();
  if (there && found->second.bytes >= bytes) return found->second.fd;
  if (bytes == 0) return NotFound("rank " + std::to_string(rank) + " has no arena");

  const uint64_t others = bytes_ - (there ? found->second.bytes : 0);
  if (bytes > limit_ || others > limit_ - bytes) {
    return ResourceExhausted("an arena of " + std::to_string(bytes) + " bytes beside " +
                             std::to_string(others) + " of others is above this node's limit of " +
                             std::to_string(limit_) + " bytes");
  }
  const std::string name = "longhaul-" + job.value() + "-" + std::to_string(rank);
  ASSIGN_OR_RETURN(io::Fd fd, io::CreateSharedMemory(name, Bytes(static_cast<int64_t>(bytes)),
                                                     bytes <= kPopulateUpTo));
  Arena arena{std::make_shared<const io::Fd>(std::move(fd)), bytes};
  bytes_ = others + bytes;
  arenas_.insert_or_assign({job, rank}, arena);
  return arena.fd;
}

std::shared_ptr<const io::Fd> ArenaKeeper::Find(const JobId& job, uint32_t rank) const {
  const auto found = arenas_.find({job, rank});
  return found == arenas_.end() ? nullptr : found->second.fd;
}

void ArenaKeeper::Drop(const JobId& job) {
  auto arena = arenas_.lower_bound({job, 0});
  while (arena != arenas_.end() && arena->first.first == job) {
    bytes_ -= arena->second.bytes;
    arena = arenas_.erase(arena);
  }
}

}  // namespace longhaul::service
