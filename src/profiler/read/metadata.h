// A trace's metadata outside its events: rank, world, groups, device, base of time.
//
// Reads Kineto's members of the outermost object. `distributedInfo.host` and `hostname` are read
// where a program writes them; Kineto does not. Values of a wrong type count as absent.
#pragma once

#include <string_view>

#include "profiler/trace/trace.h"

namespace longhaul::profiler {

// Whether ReadMember supports the member.
bool IsKnownMember(std::string_view key);

// Reads a known member's value, a JSON text; false if it is unreadable.
bool ReadMember(std::string_view key, std::string_view json, Metadata* metadata);

// "[0, 1, 2]" as numbers. A list that is cut ("[0, 1, ...") or malformed gives its readable part
// and sets `cut`.
std::vector<int64_t> ParseRanks(std::string_view text, bool* cut);

}  // namespace longhaul::profiler
