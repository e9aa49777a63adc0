// The worker's end of the worker API as pure functions: parses and checks the agent's packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/status.h"
#include "worker_api/protocol.h"
#include "worker_api/server_codec.h"

namespace longhaul::worker_api {

struct ArenaAnswer {
  uint64_t bytes = 0;
  std::string reason;  // when it was refused
};
struct PiecesAnswer {
  uint64_t bytes = 0;
  bool of_another_state = false;
  std::string reason;  // when it was refused
};
struct WelcomePart {
  Welcome welcome;
  std::string text;
};
using FromAgent = std::variant<WelcomePart, ArenaAnswer, PiecesAnswer, SnapshotIntervalMessage>;

Result<FromAgent> ParseFromAgent(std::span<const std::byte> packet);

// Assembles the packets of a Welcome.
class WelcomeAssembler {
 public:
  // Returns the whole content with the last packet, nothing before.
  Result<std::optional<WelcomeContent>> Add(const WelcomePart& part);

 private:
  std::string text_;
};

}  // namespace longhaul::worker_api
