// Files behind an interface, so that the commit protocol can be tested against every legal crash.
//
// `FileSystem` is the small set of operations that durable data needs; `PosixFileSystem` is the
// real one. The module sim has a fake one that records operations and simulates crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::io {

// An open file being written from its start, in order.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(std::span<const std::byte> bytes) = 0;
  // The same for bytes that stay unchanged until Sync has returned or the file is destroyed: may
  // write them without a copy.
  virtual Status AppendStable(std::span<const std::byte> bytes) { return Append(bytes); }
  virtual Status Sync() = 0;   // data and size are durable after this
  virtual Status Close() = 0;  // Requires no further call.
};

// An open file with random access for reading. Threads may read at the same time.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t bytes() const = 0;  // when the file was opened
  // Fills all of `to` from `offset` on; kDataLoss when the file ends earlier.
  virtual Status Read(uint64_t offset, std::span<std::byte> to) const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // The same for a large file that is read whole, in order, by one thread: may read past the page
  // cache, from the disk itself.
  virtual Result<std::unique_ptr<ReadableFile>> OpenBulk(const std::string& path) {
    return Open(path);
  }
  // Truncates an existing file.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // The same for a large file of a known size: may write past the page cache, several blocks at a
  // time. Appended bytes are in the file after Sync. Returns kResourceExhausted at once when there
  // is not enough space.
  virtual Result<std::unique_ptr<WritableFile>> CreateBulk(const std::string& path,
                                                           uint64_t /*bytes*/) {
    return Create(path);
  }
  // The whole file; kResourceExhausted above `limit` bytes.
  virtual Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) = 0;
  virtual Result<uint64_t> Size(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;           // a file; absent is not found
  virtual Status RemoveDirectory(const std::string& path) = 0;  // an empty one
  virtual Status MakeDirectories(const std::string& path) = 0;  // and its parents; existing is fine
  virtual Status SyncDirectory(const std::string& path) = 0;    // renames in it are durable
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
  // A file becomes visible whole, once it is synced, or not at all: it needs no temporary name, and
  // it cannot be renamed. Object stores behave like this.
  virtual bool appears_whole() const { return false; }
};

// The machine's file system.
FileSystem& PosixFileSystem();

// The whole file as text; kResourceExhausted above `limit` bytes. For small inputs: job files,
// keys.
Result<std::string> ReadText(const std::string& path, uint64_t limit);

// Writes a whole file so that a reader, also after a crash, sees the old or the new one: temporary
// file, sync, rename, directory sync.
Status WriteFileAtomically(FileSystem& files, const std::string& path,
                           std::span<const std::byte> bytes);
Status WriteTextAtomically(FileSystem& files, const std::string& path, std::string_view text);

}  // namespace longhaul::io
