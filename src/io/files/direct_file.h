// Large files written past the page cache: io_uring and O_DIRECT, several blocks in progress at
// once, so that a checkpoint neither waits for each write in turn nor evicts cached data that other
// processes read.
//
// Where the file system refuses O_DIRECT the writes go through the cache, and where the kernel
// refuses io_uring they are made one by one. Not part of liblonghaul.so, because workers only read
// checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::io {

// How a file is written; for tests and measurements. An unavailable feature is not used.
struct DirectOptions {
  size_t block_bytes = 4u << 20;  // of a write; a multiple of 4096
  unsigned depth = 8;             // concurrent writes
  bool use_ring = true;
  bool use_direct = true;
  bool shared = false;  // with the mode that the user's umask leaves (files/private_files.h)
};

// Reserves space for `bytes` at once: kResourceExhausted when there is not enough.
Result<std::unique_ptr<WritableFile>> CreateDirectFile(const std::string& path, uint64_t bytes,
                                                       const DirectOptions& options = {});

// The machine's files, with CreateBulk by CreateDirectFile and OpenBulk by OpenDirectReader.
FileSystem& DirectFileSystem();
// The same over SharedFileSystem.
FileSystem& SharedDirectFileSystem();

}  // namespace longhaul::io
