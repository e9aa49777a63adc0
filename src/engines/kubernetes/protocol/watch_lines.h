// Cuts the bytes of a watch into lines: one JSON document each.
//
// The bytes arrive in chunks of any size; a line may be spread over many of them. Each line is
// copied once, into a buffer that is reused and that has the padding which the parser requires.
// Pure: no I/O.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/padded_text.h"

namespace longhaul::engines::kubernetes {

// Objects of the API stay below 1.5 MiB (the limit of etcd); more than this is an error.
constexpr size_t kMaxLineBytes = size_t{8} << 20;

class WatchLines {
 public:
  using OnLine = std::function<Status(PaddedText line)>;

  explicit WatchLines(size_t max_line_bytes = kMaxLineBytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `on_line` for each line that `chunk` completes, without its line feed; empty lines are
  // dropped. A line is valid during the call. Stops at the first error of `on_line` and returns it.
  // Returns kResourceExhausted when a line is longer than the limit. After an error, requires Reset
  // before the next Append.
  Status Append(std::string_view chunk, const OnLine& on_line);

  // Whether the stream may end here: false within a line, whose bytes are then lost.
  bool at_line_end() const { return size_ == 0; }
  size_t buffered_bytes() const { return size_; }

  // Forgets the bytes of an incomplete line.
  void Reset() { size_ = 0; }

 private:
  void Reserve(size_t bytes);

  const size_t max_line_bytes_;
  std::string buffer_;  // its first size_ bytes are the incomplete line; kTextPadding more exist
  size_t size_ = 0;
};

}  // namespace longhaul::engines::kubernetes
