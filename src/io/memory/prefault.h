// Pages of shared memory made and mapped before they are needed, on a thread of its own: the first
// touch of a page costs several times the copy into it.
//
// Two sides: who made the memory touches it (the pages are charged to the control group of who does
// so first), who uses it maps the pages as they come. Only memory that others may write meanwhile:
// nothing is changed in it.
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

// Makes all pages of shared memory, from its first on; ends early when nobody else holds it.
class PageMaker {
 public:
  explicit PageMaker(std::shared_ptr<const SharedMemory> memory);
  ~PageMaker();  // what is not made by then isn't
  PageMaker(const PageMaker&) = delete;
  PageMaker& operator=(const PageMaker&) = delete;

 private:
  void Run(std::shared_ptr<const SharedMemory> memory);

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Maps the pages of a mapping in order, each as soon as its maker has made it; when no page comes
// for as long as its patience lasts, makes them itself. Requires a mapping that outlives this.
class PageMapper {
 public:
  explicit PageMapper(std::span<std::byte> mapping, Duration patience = std::chrono::seconds(1));
  ~PageMapper();
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;

  // Returns when the first `bytes` are mapped, or can't be.
  void Wait(size_t bytes) const;

 private:
  void Run();
  // Returns when the pages are there, nobody makes them or we are to stop.
  void AwaitPages(std::span<std::byte> pages) const;

  const std::span<std::byte> mapping_;
  const Duration patience_;
  std::atomic<bool> stop_ = false;
  std::atomic<size_t> mapped_ = 0;  // bytes from the start; all at the end
  std::thread thread_;
};

}  // namespace longhaul::io
