// Proves that a schedule is correct, or says what is wrong with it: each computation once and after
// what it needs, each transfer once on each end and in one order, no deadlock, and the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace longhaul::schedule {

struct VerifyOptions {
  // Messages that a link takes before their receiver asks for them; a further send waits. 0: each
  // send waits for its receiver (rendezvous), as with large messages.
  uint32_t buffers = 0;
  // The most activations that a rank may hold, in chunks of micro-batches; nothing: any number.
  std::optional<uint32_t> most_activations = {};
};

struct Verdict {
  std::vector<std::string> findings;  // empty: the schedule is correct; at most kMostFindings
  // By rank: the most micro-batches of a chunk whose activations it holds at once, from F to W.
  std::vector<uint32_t> activations;

  static constexpr size_t kMostFindings = 20;
};

// Deterministic, in time linear in the number of actions.
Verdict Verify(const Schedule& schedule, const VerifyOptions& options);

}  // namespace longhaul::schedule
