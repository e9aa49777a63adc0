#include "io/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace longhaul::io {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Touches all pages now, so that a lack of memory is an error here and not a SIGBUS later.
Status Populate(const Fd& fd, const std::string& what, size_t size) {
  // The pages stay with the memfd when this mapping goes.
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return FromErrno(errno, "cannot map " + what);
  Status populated;
  // Before Linux 5.14 there is no such advice; allocating the blocks commits the pages as well.
  if (madvise(data, size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) {
      populated = FromErrno(errno, "cannot populate " + what);
    } else if (const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(size)); error) {
      populated = FromErrno(error, "cannot populate " + what);
    }
  }
  munmap(data, size);
  return populated;
}

}  // namespace

Result<Fd> CreateSharedMemory(const std::string& name, Bytes size, bool populate) {
  const std::string what = "shared memory " + name + " of " + ToString(size);
  if (size <= Bytes(0)) return InvalidArgument("cannot create " + what + ": not a positive size");
  Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return FromErrno(errno, "cannot create " + what);
  if (ftruncate(fd.get(), size.count()) != 0) return FromErrno(errno, "cannot size " + what);
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) return FromErrno(errno, "cannot seal " + what);
  if (populate) RETURN_IF_ERROR(Populate(fd, what, static_cast<size_t>(size.count())));
  return fd;
}

Result<Bytes> SharedMemorySize(const Fd& fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return InvalidArgument("descriptor is not shared memory with seals");
  constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW;
  if ((seals & kFixed) != kFixed) return InvalidArgument("shared memory is not sealed in its size");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "cannot look at shared memory");
  if (info.st_size <= 0) return InvalidArgument("shared memory is empty");
  return Bytes(info.st_size);
}

Result<SharedMapping> SharedMapping::Map(const Fd& fd, bool populate) {
  ASSIGN_OR_RETURN(const Bytes size, SharedMemorySize(fd));
  const size_t bytes = static_cast<size_t>(size.count());
  const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
  if (data == MAP_FAILED) return FromErrno(errno, "cannot map shared memory of " + ToString(size));
  SharedMapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = bytes;
  return mapping;
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<std::shared_ptr<const SharedMemory>> SharedMemory::Open(Fd fd) {
  ASSIGN_OR_RETURN(SharedMapping mapping, SharedMapping::Map(fd));
  return std::shared_ptr<const SharedMemory>(new SharedMemory(std::move(fd), std::move(mapping)));
}

}  // namespace longhaul::io
