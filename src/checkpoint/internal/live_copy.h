// Copies memory as it is at one moment while others continue to write it: copy on write without a
// fork.
//
// All of it is guarded against writes (io::WriteGuard), which is what the caller waits for; a
// thread of ours then copies it window by window, 2 MiB of addresses each, and releases every
// window as soon as it is copied. A write that hits a window which is still guarded has that one
// copied next, so a writer waits for one window, never for all. Beside a fork: no page is copied
// twice, nothing is left behind that the writers' next pass pays for, huge pages stay whole, and
// the guard costs one entry changed a page instead of a page table copied. What it doesn't survive
// is the end of this process, which a forked child doesn't survive either.
//
// The thread allocates nothing and takes no lock, and what it writes to lies in pages of its own:
// it may never wait for a writer that waits for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/memory/write_guard.h"

namespace longhaul::checkpoint::internal {

// What is copied and hashed at once: a chunk.
struct LivePiece {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // aligned to 64 bytes
  size_t bytes = 0;         // at most kChunkBytes
};

class LiveCopy {
 public:
  // Guards the pages of all pieces and begins to copy them. After a return of ok the pieces may be
  // written; they must stay mapped until Wait. When all are copied, `seal(argument, hashes)` runs
  // on the copying thread, with a hash for each piece; nothing is guarded any more then. The guard
  // must outlive this. kFailedPrecondition when memory can't be guarded; nothing is guarded then.
  static Result<std::unique_ptr<LiveCopy>> Start(io::WriteGuard& guard,
                                                 std::vector<LivePiece> pieces,
                                                 void (*seal)(void*, const uint64_t*),
                                                 void* argument);
  ~LiveCopy();  // waits
  LiveCopy(const LiveCopy&) = delete;
  LiveCopy& operator=(const LiveCopy&) = delete;

  void Wait();
  // After Wait: how many writes had to wait for their window, the windows, and what the copying
  // thread has worked.
  size_t waited_writes() const { return shared_->waited_writes; }
  size_t windows() const { return windows_.size(); }
  Duration worked() const { return shared_->worked; }

 private:
  struct Window {
    std::span<const std::byte> pages;
    size_t first = 0, last = 0;  // of by_address_: all pieces that touch it are there
  };
  // What the threads write, in pages of its own.
  struct Shared {
    std::atomic<size_t> next_slice = 0;
    std::atomic<size_t> guarded_slices = 0;
    std::atomic<bool> failed = false;
    std::atomic<bool> begun = false;
    size_t waited_writes = 0;
    Duration worked{};
    // Then a hash for each piece, and a byte for each piece and window: whether it is copied.
  };

  LiveCopy(io::WriteGuard& guard, std::vector<LivePiece> pieces)
      : guard_(guard), pieces_(std::move(pieces)) {}
  void CutWindows();
  void CutRegion(uintptr_t begin, uintptr_t end);
  Status MakeShared();
  void GuardSlices();
  void Run();
  void ServeWrites();
  void CopyWindow(size_t index);

  io::WriteGuard& guard_;
  const std::vector<LivePiece> pieces_;
  std::vector<size_t> by_address_;  // of pieces_
  std::vector<Window> windows_;     // by address
  // Of windows_, guarded at once: [slices_[i], slices_[i + 1]).
  std::vector<size_t> slices_ = {0};
  Shared* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  uint64_t* hashes_ = nullptr;
  uint8_t* piece_done_ = nullptr;
  uint8_t* window_done_ = nullptr;
  void (*seal_)(void*, const uint64_t*) = nullptr;
  void* argument_ = nullptr;
  std::thread thread_;
};

}  // namespace longhaul::checkpoint::internal
