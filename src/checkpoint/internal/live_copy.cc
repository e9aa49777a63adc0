#include "checkpoint/internal/live_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/check.h"
#include "checkpoint/copy.h"
#include "io/clock.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uintptr_t kWindow = 2u << 20;  // a huge page: released whole, it stays whole
constexpr size_t kWindowsASlice = 16;    // 32 MiB: half a millisecond of guarding 4 KiB pages

// Beside the caller and the copying thread. An entry of 4 KiB takes a core 80 ns (measured: the
// kernel's walk), so time falls with the cores; a small state isn't worth their start.
size_t GuardHelpers(size_t slices) {
  constexpr size_t kCoresAHelper = 8, kMost = 6, kSlicesAHelper = 4;
  return std::min(
      {std::thread::hardware_concurrency() / kCoresAHelper, kMost, slices / kSlicesAHelper});
}

uintptr_t Address(const std::byte* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace

// The training thread is stopped only for the guarding. Its duration grows with the number of
// pages, so several threads share it; the copy itself runs while training continues.
Result<std::unique_ptr<LiveCopy>> LiveCopy::Start(io::WriteGuard& guard,
                                                  std::vector<LivePiece> pieces,
                                                  void (*seal)(void*, const uint64_t*),
                                                  void* argument) {
  std::unique_ptr<LiveCopy> copy(new LiveCopy(guard, std::move(pieces)));
  copy->seal_ = seal;
  copy->argument_ = argument;
  copy->CutWindows();
  RETURN_IF_ERROR(copy->MakeShared());
  (void)HashChunk({});  // chooses the build of the loop here: the thread may run no initializers
  const size_t slices = copy->slices_.size() - 1;
  copy->thread_ = std::thread([&one = *copy] { one.Run(); });
  std::vector<std::thread> helpers;
  for (size_t i = 0; i < GuardHelpers(slices); ++i) {
    helpers.emplace_back([&one = *copy] { one.GuardSlices(); });
  }
  // All guard. From here on this thread writes nothing but its stack until all is guarded.
  copy->shared_->begun = true;
  copy->GuardSlices();
  while (copy->shared_->guarded_slices.load() < slices) std::this_thread::yield();
  for (std::thread& helper : helpers) helper.join();
  if (!copy->shared_->failed.load()) return copy;
  // Guarding failed, so the thread ends without a seal. Pages that were guarded must be released,
  // or the next write to them would block without an end.
  copy->Wait();
  for (const Window& window : copy->windows_) guard.Release(window.pages);
  return FailedPrecondition("part of the state lies in memory that can't be guarded");
}

LiveCopy::~LiveCopy() {
  Wait();
  if (shared_ != nullptr) munmap(shared_, shared_bytes_);
}

void LiveCopy::Wait() {
  if (thread_.joinable()) thread_.join();
}

// The pages that pieces touch, where they meet as one region, cut at multiples of a window.
void LiveCopy::CutWindows() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    CHECK(pieces_[i].bytes <= kChunkBytes);
    if (pieces_[i].bytes > 0) by_address_.push_back(i);
  }
  // Windows refer to ranges of this order, so a fault finds its pieces without a search over all of
  // them.
  std::sort(by_address_.begin(), by_address_.end(), [&](size_t one, size_t other) {
    return Address(pieces_[one].from) < Address(pieces_[other].from);
  });
  uintptr_t begin = 0, end = 0;
  for (const size_t i : by_address_) {
    const uintptr_t from = Address(pieces_[i].from);
    const uintptr_t piece_begin = from / io::kGuardPage * io::kGuardPage;
    const uintptr_t piece_end =
        (from + pieces_[i].bytes + io::kGuardPage - 1) / io::kGuardPage * io::kGuardPage;
    // Tensors that share a page, or follow each other, form one region: a page must be guarded and
    // released once.
    if (piece_begin > end) {
      CutRegion(begin, end);
      begin = piece_begin;
    }
    end = std::max(end, piece_end);
  }
  CutRegion(begin, end);
}

void LiveCopy::CutRegion(uintptr_t begin, uintptr_t end) {
  const auto first_from = [&](uintptr_t address) {
    const auto found = std::lower_bound(
        by_address_.begin(), by_address_.end(), address,
        [&](size_t i, uintptr_t wanted) { return Address(pieces_[i].from) < wanted; });
    return static_cast<size_t>(found - by_address_.begin());
  };
  for (uintptr_t at = begin; at < end;) {
    const uintptr_t next = std::min(end, (at / kWindow + 1) * kWindow);
    // A piece that begins before the window may reach into it.
    windows_.push_back({{reinterpret_cast<const std::byte*>(at), next - at},
                        first_from(at - std::min<uintptr_t>(at, kChunkBytes)),
                        first_from(next)});
    at = next;
    const bool slice_full = windows_.size() - slices_.back() == kWindowsASlice;
    if (slice_full || at == end) slices_.push_back(windows_.size());
  }
}

// The memory is populated before the guarding begins and lies outside of any guarded page, so the
// copying thread never faults on a page that only it could release.
Status LiveCopy::MakeShared() {
  shared_bytes_ = sizeof(Shared) + pieces_.size() * (sizeof(uint64_t) + 1) + windows_.size();
  void* memory = mmap(nullptr, shared_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return FromErrno(errno, "no memory for a copy's books");
  shared_ = new (memory) Shared;
  hashes_ = reinterpret_cast<uint64_t*>(shared_ + 1);
  piece_done_ = reinterpret_cast<uint8_t*>(hashes_ + pieces_.size());
  window_done_ = piece_done_ + pieces_.size();
  return {};
}

// Takes slices until all are taken. A slice lies in one region and holds whole windows, so that no
// window is guarded again after it was released.
void LiveCopy::GuardSlices() {
  while (!shared_->begun.load()) std::this_thread::yield();
  const size_t slices = slices_.size() - 1;
  for (size_t i = 0; (i = shared_->next_slice.fetch_add(1)) < slices;) {
    const std::byte* begin = windows_[slices_[i]].pages.data();
    const auto last = windows_[slices_[i + 1] - 1].pages;
    if (!guard_.Protect({begin, last.data() + last.size()})) shared_->failed = true;
    shared_->guarded_slices.fetch_add(1);
  }
}

void LiveCopy::Run() {
  GuardSlices();
  // Somebody may wait already, though the state itself isn't written before Start has returned:
  // pages at a tensor's ends hold other data too.
  while (shared_->guarded_slices.load() + 1 < slices_.size()) {
    ServeWrites();
    std::this_thread::yield();
  }
  if (shared_->failed.load()) return;
  const Instant before = io::ThreadCpuTime();
  for (size_t i = 0; i < windows_.size(); ++i) {
    ServeWrites();
    CopyWindow(i);
  }
  FenceStores();  // streamed stores are ordered by the thread that made them
  shared_->worked = io::ThreadCpuTime() - before;
  seal_(argument_, hashes_);
}

// A blocked write has priority: training stands still until its window has been copied and
// released. A window that was released already is found done, and the write continues.
void LiveCopy::ServeWrites() {
  while (const auto address = guard_.NextWrite()) {
    const auto after = std::upper_bound(
        windows_.begin(), windows_.end(), *address,
        [](uintptr_t wanted, const Window& one) { return wanted < Address(one.pages.data()); });
    if (after == windows_.begin()) continue;
    ++shared_->waited_writes;
    CopyWindow(static_cast<size_t>(after - windows_.begin()) - 1);
  }
}

// A piece that reaches into two windows is copied whole with the first of them, so that its hash
// covers one consistent state. Only then are the pages released.
void LiveCopy::CopyWindow(size_t index) {
  if (window_done_[index] != 0) return;
  const Window& window = windows_[index];
  for (size_t i = window.first; i < window.last; ++i) {
    const size_t which = by_address_[i];
    const LivePiece& piece = pieces_[which];
    const bool touches = piece.from + piece.bytes > window.pages.data();
    if (!touches || piece_done_[which] != 0) continue;
    hashes_[which] = CopyChunkOut(piece.to, {piece.from, piece.bytes});
    piece_done_[which] = 1;
  }
  window_done_[index] = 1;
  guard_.Release(window.pages);
}

}  // namespace longhaul::checkpoint::internal
