// Memory shared between processes through a descriptor (memfd) that outlives any one of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/units.h"
#include "io/fd.h"

namespace longhaul::io {

// Makes a new, zeroed memfd with a sealed size. The process that touches a page first is charged
// for it; with `populate` this process touches all of them now.
Result<Fd> CreateSharedMemory(const std::string& name, Bytes size, bool populate);

// The size of the memory of a descriptor; rejects a descriptor that is not a size-sealed memfd, so
// that no process can shrink the memory under a mapping (SIGBUS).
Result<Bytes> SharedMemorySize(const Fd& fd);

// A read-write mapping of the whole memory, unmapped by the destructor. Pages are mapped when they
// are touched; with `populate` all of them are mapped now.
class SharedMapping {
 public:
  static Result<SharedMapping> Map(const Fd& fd, bool populate = false);
  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Such memory with one mapping for all users in this process, which keeps its mapped pages.
class SharedMemory {
 public:
  static Result<std::shared_ptr<const SharedMemory>> Open(Fd fd);

  const Fd& fd() const { return fd_; }
  std::span<std::byte> bytes() const { return mapping_.bytes(); }

 private:
  SharedMemory(Fd fd, SharedMapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  Fd fd_;
  SharedMapping mapping_;
};

}  // namespace longhaul::io
