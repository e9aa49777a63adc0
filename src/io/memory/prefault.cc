#include "io/memory/prefault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "io/clock.h"

namespace longhaul::io {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStepPages = 1024;  // some milliseconds, if they have to be made
constexpr size_t kStepBytes = kStepPages * kPage;
constexpr unsigned kPollUs = 1000;

// False on a kernel before 5.14.
bool Populate(std::span<std::byte> pages, int advice) {
  return madvise(pages.data(), pages.size(), advice) == 0;
}

// The number of existing pages. All of them when the kernel does not report it.
size_t Present(std::span<std::byte> pages) {
  std::array<unsigned char, kStepPages> there{};
  const size_t count = (pages.size() + kPage - 1) / kPage;
  if (mincore(pages.data(), pages.size(), there.data()) != 0) return count;
  return static_cast<size_t>(std::count_if(there.begin(),
                                           there.begin() + static_cast<ptrdiff_t>(count),
                                           [](unsigned char page) { return (page & 1) != 0; }));
}

void TouchEach(std::span<std::byte> pages) {
  for (size_t at = 0; at < pages.size(); at += kPage) {
    (void)*static_cast<volatile std::byte*>(pages.data() + at);
  }
}

}  // namespace

PageMaker::PageMaker(std::shared_ptr<const SharedMemory> memory)
    : thread_([this, memory = std::move(memory)]() mutable { Run(std::move(memory)); }) {}

PageMaker::~PageMaker() {
  stop_ = true;
  thread_.join();
}

void PageMaker::Run(std::shared_ptr<const SharedMemory> memory) {
  const std::span<std::byte> all = memory->bytes();
  for (size_t at = 0; at < all.size() && !stop_ && memory.use_count() > 1; at += kStepBytes) {
    // Where it can't be done the user's first touch does it.
    if (!Populate(all.subspan(at, std::min(kStepBytes, all.size() - at)), MADV_POPULATE_WRITE)) {
      return;
    }
  }
}

PageMapper::PageMapper(std::span<std::byte> mapping, Duration patience)
    : mapping_(mapping), patience_(patience), thread_([this] { Run(); }) {}

PageMapper::~PageMapper() {
  stop_ = true;
  thread_.join();
}

void PageMapper::Wait(size_t bytes) const {
  bytes = std::min(bytes, mapping_.size());
  for (size_t mapped = 0; (mapped = mapped_.load()) < bytes;) mapped_.wait(mapped);
}

void PageMapper::Run() {
  for (size_t at = 0; at < mapping_.size() && !stop_; at += kStepBytes) {
    const auto step = mapping_.subspan(at, std::min(kStepBytes, mapping_.size() - at));
    AwaitPages(step);
    // A read maps as many neighbours at once as the kernel chooses; a shared page may then be
    // written.
    if (!stop_ && !Populate(step, MADV_POPULATE_READ)) TouchEach(step);
    mapped_ = at + step.size();
    mapped_.notify_all();
  }
  mapped_ = mapping_.size();
  mapped_.notify_all();
}

void PageMapper::AwaitPages(std::span<std::byte> pages) const {
  size_t present = 0;
  for (Instant since = MonotonicNow(); !stop_ && MonotonicNow() - since < patience_;) {
    const size_t now = Present(pages);
    if (now * kPage >= pages.size()) return;
    if (now > std::exchange(present, now)) since = MonotonicNow();
    usleep(kPollUs);
  }
}

}  // namespace longhaul::io
