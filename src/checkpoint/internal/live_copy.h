// Copies memory as it is at one moment while other threads continue to write it: copy on write
// without a fork.
//
// All of the memory is write-protected first (io::WriteGuard); the caller waits only for that. A
// thread then copies it in windows of 2 MiB of addresses, and releases each window once it is
// copied. A write to a protected window makes that window the next one, so a writer waits for one
// window, never for all. Compared with a fork: no page is copied twice, no later cost remains for
// the writers, huge pages stay whole, and protection changes one entry for each page instead of
// copying a page table. The copy doesn't survive the end of this process; a forked child doesn't
// either.
//
// The thread allocates nothing, takes no lock, and writes only to its own pages, because it must
// never wait for a writer that waits for it.
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

// A chunk: the unit of copying and hashing.
struct LivePiece {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // aligned to 64 bytes
  size_t bytes = 0;         // at most kChunkBytes
};

class LiveCopy {
 public:
  // Write-protects the pages of all pieces and begins to copy them. After OK, the pieces may be
  // written; they must stay mapped until Wait. When all are copied and released, `seal(argument,
  // hashes)` runs on the copying thread, with a hash for each piece. The guard must outlive this.
  // Returns kFailedPrecondition, with nothing protected, when memory can't be protected.
  static Result<std::unique_ptr<LiveCopy>> Start(io::WriteGuard& guard,
                                                 std::vector<LivePiece> pieces,
                                                 void (*seal)(void*, const uint64_t*),
                                                 void* argument);
  ~LiveCopy();  // waits
  LiveCopy(const LiveCopy&) = delete;
  LiveCopy& operator=(const LiveCopy&) = delete;

  void Wait();
  // After Wait: the number of writes that waited for their window, the number of windows, and the
  // working time of the copying thread.
  size_t waited_writes() const { return shared_->waited_writes; }
  size_t windows() const { return windows_.size(); }
  Duration worked() const { return shared_->worked; }

 private:
  struct Window {
    std::span<const std::byte> pages;
    size_t first = 0, last = 0;  // of by_address_: all pieces that touch the window
  };
  // The state that the threads write, in its own pages.
  struct Shared {
    std::atomic<size_t> next_slice = 0;
    std::atomic<size_t> guarded_slices = 0;
    std::atomic<bool> failed = false;
    std::atomic<bool> begun = false;
    size_t waited_writes = 0;
    Duration worked{};
    // Followed by a hash for each piece, and a byte for each piece and window: whether it is
    // copied.
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
  // Parts of windows_ that are protected together: [slices_[i], slices_[i + 1]).
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
