#include "service/client/sse.h"

#include <utility>

namespace longhaul::service {

Result<std::vector<SseEvent>> SseReader::Feed(std::string_view bytes) {
  std::vector<SseEvent> events;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + event_.data.size() > limit_) {
      return ResourceExhausted("an event of the stream is longer than " + std::to_string(limit_) +
                               " bytes");
    }
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    TakeLine(line_, events);
    line_.clear();
  }
  return events;
}

void SseReader::TakeLine(std::string_view line, std::vector<SseEvent>& events) {
  if (line.empty()) {
    SseEvent event = std::exchange(event_, SseEvent());
    if (event.data.empty()) return;
    event.data.pop_back();  // the line feed after its last line
    if (event.kind.empty()) event.kind = "message";
    events.push_back(std::move(event));
    return;
  }
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "id") {
    event_.id = value;
  } else if (name == "event") {
    event_.kind = value;
  } else if (name == "data") {
    event_.data += value;
    event_.data += '\n';
  }
}

}  // namespace longhaul::service
