// Large files read past the page cache, once and mostly in order: reading a checkpoint to verify or
// to copy it must neither evict cached data that other processes read nor return data from memory
// instead of the disk, and it costs no copy by the kernel.
//
// Reads come from a window of the file, aligned as the disk requires; a read outside of it moves
// the window. One thread at a time. Where O_DIRECT is refused, reads go through the cache.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::io {

inline constexpr size_t kReadWindow = 4u << 20;

// Requires a window that is a multiple of 4096 bytes.
Result<std::unique_ptr<ReadableFile>> OpenDirectReader(const std::string& path,
                                                       size_t window_bytes = kReadWindow);

}  // namespace longhaul::io
