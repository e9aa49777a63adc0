#include "engines/kubernetes/protocol/watch_lines.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace longhaul::engines::kubernetes {

void WatchLines::Reserve(size_t bytes) {
  const size_t needed = bytes + kTextPadding;
  // Doubled, so that a line of many chunks is not copied once a chunk.
  if (buffer_.size() < needed) buffer_.resize(std::max(needed, 2 * buffer_.size()));
}

Status WatchLines::Append(std::string_view chunk, const OnLine& on_line) {
  while (!chunk.empty()) {
    const size_t end = chunk.find('\n');
    const std::string_view part = chunk.substr(0, end);
    if (size_ + part.size() > max_line_bytes_) {
      return ResourceExhausted("a line of the watch has more than " +
                               WithThousands(static_cast<int64_t>(max_line_bytes_)) + " bytes");
    }
    Reserve(size_ + part.size());
    std::memcpy(buffer_.data() + size_, part.data(), part.size());
    size_ += part.size();
    if (end == chunk.npos) return Status();
    chunk.remove_prefix(end + 1);
    // The buffer may grow or be overwritten by the next line, so a line is valid during the call
    // only.
    const PaddedText line{std::string_view(buffer_).substr(0, size_)};
    size_ = 0;
    if (!line.text.empty()) RETURN_IF_ERROR(on_line(line));
  }
  return Status();
}

}  // namespace longhaul::engines::kubernetes
