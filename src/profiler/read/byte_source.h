// Bytes of a trace, in order, from a file as it is, from gzip or from zstd.
//
// The form is told by the first bytes, not by the name. Inflating is ISA-L's (gzip, several members
// allowed) and libzstd's; both stream, so memory does not grow with the file. What a bomb could do
// is bounded: after 64 MiB of output, more than `max_ratio` bytes out of one are refused.
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
  // Of the file behind it, so far.
  virtual uint64_t file_bytes() const = 0;
};

struct SourceLimits {
  uint64_t max_ratio = 1100;  // deflate itself ends at 1,032
  uint64_t max_bytes = uint64_t{1} << 42;
};

// A text that the caller keeps; for tests and fuzzers. Decompresses as a file would.
std::unique_ptr<ByteSource> OpenBytes(std::string_view bytes, const SourceLimits& limits = {});
Result<std::unique_ptr<ByteSource>> OpenFile(const std::string& path,
                                             const SourceLimits& limits = {});

}  // namespace longhaul::profiler
