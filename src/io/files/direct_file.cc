#include "io/files/direct_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/fd.h"
#include "io/files/aligned_memory.h"
#include "io/files/direct_reader.h"
#include "io/files/private_files.h"

namespace longhaul::io {
namespace {

// A write's worth of the file: being filled, or on its way.
struct Block {
  AlignedMemory memory;
  const std::byte* from = nullptr;  // what is on its way: its own memory, or the caller's
  size_t filled = 0;
  uint64_t offset = 0;  // in the file
  size_t written = 0;   // of what is to be written
  size_t to_write = 0;  // rounded up to the alignment
  bool under_way = false;
};

class DirectFile final : public WritableFile {
 public:
  DirectFile(Fd fd, std::string path, const DirectOptions& options)
      : fd_(std::move(fd)), path_(std::move(path)), block_bytes_(options.block_bytes) {
    has_ring_ = options.use_ring && io_uring_queue_init(options.depth, &ring_, 0) == 0;
    blocks_.resize(has_ring_ ? options.depth : 1);
    for (Block& block : blocks_) {
      block.memory = AllocateAligned(block_bytes_);
      CHECK(block.memory != nullptr);
    }
  }
  ~DirectFile() override {
    if (!has_ring_) return;
    (void)Drain();  // the kernel must not read our memory any more
    io_uring_queue_exit(&ring_);
  }

  Status Append(std::span<const std::byte> bytes) override {
    RETURN_IF_ERROR(failure_);
    while (!bytes.empty()) {
      Block& block = blocks_[current_];
      const size_t part = std::min(bytes.size(), block_bytes_ - block.filled);
      std::memcpy(block.memory.get() + block.filled, bytes.data(), part);
      block.filled += part;
      bytes = bytes.subspan(part);
      if (block.filled == block_bytes_) RETURN_IF_ERROR(SendCurrent());
    }
    return {};
  }

  // What lies in the file as it lies in memory, counted in pages, goes there without a copy.
  Status AppendStable(std::span<const std::byte> bytes) override {
    RETURN_IF_ERROR(failure_);
    while (!bytes.empty()) {
      const uint64_t at = end_ + blocks_[current_].filled;
      const uint64_t into_page = at % kDirectAlignment;
      const bool congruent =
          reinterpret_cast<uintptr_t>(bytes.data()) % kDirectAlignment == into_page;
      if (!congruent || bytes.size() < kDirectAlignment * 2) return Append(bytes);
      size_t part = (kDirectAlignment - into_page) % kDirectAlignment;  // up to the next page
      if (part > 0) {
        RETURN_IF_ERROR(Append(bytes.first(part)));
      } else {
        if (blocks_[current_].filled > 0) RETURN_IF_ERROR(SendCurrent());
        part = std::min(bytes.size() / kDirectAlignment * kDirectAlignment, block_bytes_);
        RETURN_IF_ERROR(Send(bytes.data(), part, part));
      }
      bytes = bytes.subspan(part);
    }
    return {};
  }

  Status Sync() override {
    if (blocks_[current_].filled > 0) RETURN_IF_ERROR(SendCurrent());
    RETURN_IF_ERROR(Drain());
    // The last block was written whole, and more space may have been reserved.
    if (ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) {
      return FromErrno(errno, "cannot size " + path_);
    }
    if (fsync(fd_.get()) != 0) return FromErrno(errno, "cannot sync " + path_);
    return {};
  }

  Status Close() override {
    RETURN_IF_ERROR(Drain());
    if (close(fd_.Release()) != 0 && errno != EINTR) {
      return FromErrno(errno, "cannot close " + path_);
    }
    return {};
  }

 private:
  // Starts the write of what the current block was filled with.
  Status SendCurrent() {
    Block& block = blocks_[current_];
    const size_t filled = std::exchange(block.filled, 0);
    const size_t whole = (filled + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    std::memset(block.memory.get() + filled, 0, whole - filled);
    return Send(block.memory.get(), filled, whole);
  }

  // Starts a write at the file's end, of which `bytes` count, as the current block, and finds
  // another one to fill.
  Status Send(const std::byte* from, size_t bytes, size_t to_write) {
    // After a Sync the file would have to continue inside of a block.
    if (end_ % kDirectAlignment != 0)
      return FailedPrecondition(path_ + " has been ended by a sync");
    Block& block = blocks_[current_];
    block.from = from;
    block.offset = end_;
    block.written = 0;
    block.to_write = to_write;
    end_ += bytes;
    if (!has_ring_) return WriteNow(block);
    RETURN_IF_ERROR(Submit(current_));
    for (;;) {
      for (size_t i = 0; i < blocks_.size(); ++i) {
        if (blocks_[i].under_way) continue;
        current_ = i;
        return {};
      }
      RETURN_IF_ERROR(AwaitOne());
    }
  }

  Status WriteNow(Block& block) {
    while (block.written < block.to_write) {
      const ssize_t done =
          pwrite(fd_.get(), block.from + block.written, block.to_write - block.written,
                 static_cast<off_t>(block.offset + block.written));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return Failed(FromErrno(done < 0 ? errno : EIO, "cannot write " + path_));
      block.written += static_cast<size_t>(done);
    }
    return {};
  }

  Status Submit(size_t index) {
    Block& block = blocks_[index];
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    CHECK(entry != nullptr);  // as many entries as blocks
    io_uring_prep_write(entry, fd_.get(), block.from + block.written,
                        static_cast<unsigned>(block.to_write - block.written),
                        block.offset + block.written);
    io_uring_sqe_set_data64(entry, index);
    block.under_way = true;
    int submitted = 0;
    do {
      submitted = io_uring_submit(&ring_);
    } while (submitted == -EINTR || submitted == -EAGAIN);
    if (submitted < 0) {
      block.under_way = false;
      return Failed(FromErrno(-submitted, "cannot write " + path_));
    }
    return {};
  }

  // Waits until one write has ended; what it left over is sent again.
  Status AwaitOne() {
    io_uring_cqe* entry = nullptr;
    int waited = 0;
    do {
      waited = io_uring_wait_cqe(&ring_, &entry);
    } while (waited == -EINTR);
    CHECK(waited == 0) << "io_uring_wait_cqe: " << std::strerror(-waited);
    const size_t index = io_uring_cqe_get_data64(entry);
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    Block& block = blocks_[index];
    block.under_way = false;
    if (result == -EINTR || result == -EAGAIN) return Submit(index);
    if (result <= 0) return Failed(FromErrno(result < 0 ? -result : EIO, "cannot write " + path_));
    block.written += static_cast<size_t>(result);
    if (block.written < block.to_write) return Submit(index);
    return failure_;
  }

  // Waits for all writes, failed or not; the first failure counts, now and forever.
  Status Drain() {
    for (const Block& block : blocks_) {
      while (block.under_way) (void)AwaitOne();
    }
    return failure_;
  }

  Status Failed(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
    return failure_;
  }

  Fd fd_;
  std::string path_;
  const size_t block_bytes_;
  std::vector<Block> blocks_;
  size_t current_ = 0;
  uint64_t end_ = 0;  // of what was sent
  Status failure_;
  bool has_ring_ = false;
  io_uring ring_{};
};

// Everything but large files as PosixFileSystem does it.
class Direct final : public FileSystem {
 public:
  explicit Direct(bool shared)
      : shared_(shared), files_(shared ? SharedFileSystem() : PosixFileSystem()) {}

  Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    return files_.Open(path);
  }
  Result<std::unique_ptr<ReadableFile>> OpenBulk(const std::string& path) override {
    return OpenDirectReader(path);
  }
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return files_.Create(path);
  }
  Result<std::unique_ptr<WritableFile>> CreateBulk(const std::string& path,
                                                   uint64_t bytes) override {
    DirectOptions options;
    options.shared = shared_;
    return CreateDirectFile(path, bytes, options);
  }
  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) override {
    return files_.ReadAll(path, limit);
  }
  Result<uint64_t> Size(const std::string& path) override { return files_.Size(path); }
  Status Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  Status Remove(const std::string& path) override { return files_.Remove(path); }
  Status RemoveDirectory(const std::string& path) override { return files_.RemoveDirectory(path); }
  Status MakeDirectories(const std::string& path) override { return files_.MakeDirectories(path); }
  Status SyncDirectory(const std::string& path) override { return files_.SyncDirectory(path); }
  Result<std::vector<std::string>> List(const std::string& path) override {
    return files_.List(path);
  }

 private:
  const bool shared_;
  FileSystem& files_;
};

Result<Fd> OpenDirect(const std::string& path, bool direct) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  int fd = direct ? open(path.c_str(), flags | O_DIRECT, 0666) : -1;
  // A file system without O_DIRECT (tmpfs before 6.6, some network ones) returns EINVAL.
  if (!direct || (fd < 0 && errno == EINVAL)) fd = open(path.c_str(), flags, 0666);
  if (fd < 0) return FromErrno(errno, "cannot create " + path);
  return Fd(fd);
}

}  // namespace

Result<std::unique_ptr<WritableFile>> CreateDirectFile(const std::string& path, uint64_t bytes,
                                                       const DirectOptions& options) {
  CHECK(options.block_bytes > 0 && options.block_bytes % kDirectAlignment == 0 &&
        options.depth > 0);
  ASSIGN_OR_RETURN(Fd fd, OpenDirect(path, options.use_direct));
  if (options.shared) ShareFile(fd);
  if (bytes > 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
    const Status status = FromErrno(errno, "cannot make room for " + path);
    (void)PosixFileSystem().Remove(path);
    return status;
  }
  return std::unique_ptr<WritableFile>(new DirectFile(std::move(fd), path, options));
}

FileSystem& DirectFileSystem() {
  static Direct files(false);
  return files;
}

FileSystem& SharedDirectFileSystem() {
  static Direct files(true);
  return files;
}

}  // namespace longhaul::io
