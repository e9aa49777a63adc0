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

// A new, zeroed, sealed-in-size memfd. The pages are charged to whoever touches them first; with
// `populate` this process touches all of them now.
Result<Fd> CreateSharedMemory(const std::string& name, Bytes size, bool populate);

// The size of the memory behind a descriptor; refuses a descriptor that isn't a size-sealed memfd,
// so a mapping of it can never be cut short under its user (SIGBUS).
Result<Bytes> SharedMemorySize(const Fd& fd);

// A read-write mapping of the whole of it, unmapped by the destructor. Pages are mapped as they are
// touched, or with `populate` all of them now.
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

// Such memory with one mapping of it for all who use it here: what is mapped once stays so.
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
