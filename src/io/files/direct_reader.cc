#include "io/files/direct_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/fd.h"
#include "io/files/aligned_memory.h"

namespace longhaul::io {
namespace {

class DirectReader final : public ReadableFile {
 public:
  DirectReader(Fd fd, std::string path, uint64_t bytes, size_t window_bytes)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        bytes_(bytes),
        window_bytes_(window_bytes),
        window_(AllocateAligned(window_bytes)) {
    CHECK(window_ != nullptr);
  }

  uint64_t bytes() const override { return bytes_; }

  Status Read(uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      if (offset < begin_ || offset >= begin_ + filled_) RETURN_IF_ERROR(MoveTo(offset));
      const auto inside = static_cast<size_t>(offset - begin_);
      const size_t part = std::min(to.size(), filled_ - inside);
      std::memcpy(to.data(), window_.get() + inside, part);
      offset += part;
      to = to.subspan(part);
    }
    return {};
  }

 private:
  // The window holds at least the byte at `offset` afterwards.
  Status MoveTo(uint64_t offset) const {
    begin_ = offset / kDirectAlignment * kDirectAlignment;
    filled_ = 0;
    while (filled_ < window_bytes_) {
      const ssize_t got = pread(fd_.get(), window_.get() + filled_, window_bytes_ - filled_,
                                static_cast<off_t>(begin_ + filled_));
      if (got < 0 && errno == EINTR) continue;
      // Some file systems take O_DIRECT when opening and refuse it when reading.
      if (got < 0 && errno == EINVAL && UseCache()) continue;
      if (got < 0) return FromErrno(errno, "cannot read " + path_);
      filled_ += static_cast<size_t>(got);
      // A read that ends amid a page is the file's last one.
      if (got == 0 || filled_ % kDirectAlignment != 0) break;
    }
    if (offset < begin_ + filled_) return {};
    return DataLoss(path_ + " ends at byte " + std::to_string(begin_ + filled_));
  }

  // False where it is in use already.
  bool UseCache() const {
    const int flags = fcntl(fd_.get(), F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 &&
           fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
  }

  Fd fd_;
  std::string path_;
  uint64_t bytes_;
  size_t window_bytes_;
  // What was read last: a cache, so reading changes nothing that can be seen.
  AlignedMemory window_;
  mutable uint64_t begin_ = 0;
  mutable size_t filled_ = 0;
};

}  // namespace

Result<std::unique_ptr<ReadableFile>> OpenDirectReader(const std::string& path,
                                                       size_t window_bytes) {
  CHECK(window_bytes > 0 && window_bytes % kDirectAlignment == 0);
  int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
  // A file system without O_DIRECT (tmpfs before 6.6, some network ones) returns EINVAL.
  if (opened < 0 && errno == EINVAL) opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return FromErrno(errno, "cannot open " + path);
  Fd fd(opened);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return FromErrno(errno, "cannot read " + path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path + " is not a regular file");
  return std::unique_ptr<ReadableFile>(
      new DirectReader(std::move(fd), path, static_cast<uint64_t>(info.st_size), window_bytes));
}

}  // namespace longhaul::io
