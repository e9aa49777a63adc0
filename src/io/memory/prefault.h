// Makes and maps pages of shared memory before they are needed, on a separate thread: the first
// touch of a page costs several times the copy into it.
//
// There are two sides: the process that made the memory touches it (the pages are charged to the
// control group of the process that touches them first), and the process that uses it maps the
// pages as they are made. Other processes may write meanwhile: neither side changes the content.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "base/time.h"
#include "io/memory/shared_memory.h"

namespace longhaul::io {

// Makes all pages of shared memory, from the first on; ends early when no other holder is left.
class PageMaker {
 public:
  explicit PageMaker(std::shared_ptr<const SharedMemory> memory);
  ~PageMaker();  // pages not made by then stay unmade
  PageMaker(const PageMaker&) = delete;
  PageMaker& operator=(const PageMaker&) = delete;

 private:
  void Run(std::shared_ptr<const SharedMemory> memory);

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Maps the pages of a mapping in order, each as soon as it has been made; when no new page appears
// within `patience`, makes them itself. Requires a mapping that outlives this object.
class PageMapper {
 public:
  explicit PageMapper(std::span<std::byte> mapping, Duration patience = std::chrono::seconds(1));
  ~PageMapper();
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;

  // Returns when the first `bytes` are mapped, or cannot be mapped.
  void Wait(size_t bytes) const;

 private:
  void Run();
  // Returns when the pages exist, when no process makes them, or on a request to stop.
  void AwaitPages(std::span<std::byte> pages) const;

  const std::span<std::byte> mapping_;
  const Duration patience_;
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> mapped_ = 0;  // bytes from the start; all at the end
  std::thread thread_;
};

}  // namespace longhaul::io
