// Bytes of a trace, in order, from a plain file, from gzip or from zstd.
//
// The first bytes determine the format, not the name. ISA-L (gzip, several members allowed) and
// libzstd decompress; both stream, so memory does not grow with the file. Decompression bombs are
// bounded: after 64 MiB of output, more than `max_ratio` bytes per input byte are rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::profiler {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills a part of `buffer`; 0 at the end. Requires a buffer that isn't empty.
  virtual Result<size_t> Read(std::span<char> buffer) = 0;
  // Bytes read from the underlying file so far.
  virtual uint64_t file_bytes() const = 0;
};

struct SourceLimits {
  uint64_t max_ratio = 1100;  // the limit of deflate itself is 1,032
  uint64_t max_bytes = uint64_t{1} << 42;
};

// Reads from memory that the caller keeps; for tests and fuzzers. Decompresses like a file.
std::unique_ptr<ByteSource> OpenBytes(std::string_view bytes, const SourceLimits& limits = {});
Result<std::unique_ptr<ByteSource>> OpenFile(const std::string& path,
                                             const SourceLimits& limits = {});

}  // namespace longhaul::profiler
