// Reads a stream of server-sent events (the WHATWG format, as far as the controller uses it).
//
// Lines end in LF or CRLF; "id", "event" and "data" fields count, several data lines are joined by
// LF, comments and unknown fields are skipped, an event without data is dropped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace longhaul::service {

struct SseEvent {
  std::string id;
  std::string kind;  // "message" when the stream names none
  std::string data;

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

class SseReader {
 public:
  // Longer events are refused.
  explicit SseReader(size_t limit = 4 << 20) : limit_(limit) {}

  // Takes the next bytes, split anywhere, and returns the complete events. After an error the
  // reader must not be used again.
  Result<std::vector<SseEvent>> Feed(std::string_view bytes);

 private:
  void TakeLine(std::string_view line, std::vector<SseEvent>& events);

  size_t limit_;
  std::string line_;  // incomplete
  SseEvent event_;    // incomplete
};

}  // namespace longhaul::service
