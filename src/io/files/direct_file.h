// Large files written past the page cache: io_uring and O_DIRECT, several blocks on their way at
// once, so that a checkpoint neither waits for one write after the other nor drives what others
// read out of memory.
//
// Where the file system refuses O_DIRECT the writes go through the cache, and where the kernel
// refuses io_uring they are made one by one. Not in liblonghaul.so: workers read checkpoints, they
// don't write them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::io {

// How a file is written; for tests and measurements. What can't be had is done without.
struct DirectOptions {
  size_t block_bytes = 4u << 20;  // of a write; a multiple of 4096
  unsigned depth = 8;             // writes at once
  bool use_ring = true;
  bool use_direct = true;
  bool shared = false;  // with the mode that the user's umask leaves (files/private_files.h)
};

// Room for `bytes` is taken at once: kResourceExhausted when there isn't any.
Result<std::unique_ptr<WritableFile>> CreateDirectFile(const std::string& path, uint64_t bytes,
                                                       const DirectOptions& options = {});

// The machine's own files, CreateBulk by CreateDirectFile, OpenBulk by OpenDirectReader.
FileSystem& DirectFileSystem();
// The same over SharedFileSystem.
FileSystem& SharedDirectFileSystem();

}  // namespace longhaul::io
