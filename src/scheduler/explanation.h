// Why a job waits, until when, and what would start it now.
//
// The fix is the smallest set of changes found, by count and then by weight, that starts the job at
// once; it is given as events, and it was applied to a copy of the scheduler, whose next round
// started the job. Equal states give equal texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "scheduler/event.h"

namespace longhaul::scheduler {

enum class WaitReason : uint8_t {
  kNone,         // it isn't waiting
  kNotTried,     // the next round will look at it
  kLeaving,      // its own last tasks have not stopped yet
  kQuota,        // its queue, or one above, has no quota left
  kNoRoom,       // not enough free slots that its rules allow
  kReservation,  // room is held for a job that goes before
  kOrder,        // its queue is served strictly in order
  kNeverFits,    // not even with nothing else running
};
std::string ToString(WaitReason reason);  // "no-room"

// What whoever asks could do about it.
struct Changeable {
  bool other_size = true;  // let the job run with fewer tasks
};

struct Explanation {
  WaitReason reason = WaitReason::kNone;
  std::string sentence;
  // The numbers behind it, by name: {"tasks_needed", 4}, {"tasks_that_fit", 2}.
  std::vector<std::pair<std::string, int64_t>> numbers;
  std::optional<Instant> expected_start;  // by the median of what runs
  std::optional<Instant> expected_late;   // nine of ten times it starts before
  std::vector<std::string> fix_texts;     // what to change, one a change; empty: nothing found
  std::vector<Event> fix;                 // the same, to be applied in order
};

// {"reason": "no-room", ...}: one object, keys in a fixed order.
std::string ToJson(const Explanation& explanation);

}  // namespace longhaul::scheduler
