// The text form of a schedule, for people, files and tests.
//
//   ranks 2 micro-batches 3 chunks 1 placement loop
//   rank 0: F0.0 SendF0.0 F1.0 {SendF1.0 RecvB0.0} B0.0 W0.0 ...
//   rank 1: RecvF0.0 F0.0 B0.0 W0.0 {SendB0.0 RecvF1.0} ...
//
// An action is followed by its micro-batch and chunk. Braces hold transfers that are posted
// together. Empty lines, and what follows "#" in a line, are left out.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "schedule/schedule.h"

namespace longhaul::schedule {

// Any text from outside. kInvalidArgument names the line and the word.
Result<Schedule> ParseSchedule(std::string_view text);
std::string ToText(const Schedule& schedule);

}  // namespace longhaul::schedule
