// What a trace says of itself outside its events: rank, world, groups, device, base of time.
//
// Kineto's members of the outermost object. `distributedInfo.host` and `hostname` are read where
// somebody writes them; Kineto does not. Values of a wrong type count as absent.
#pragma once

#include <string_view>

#include "profiler/trace/trace.h"

namespace longhaul::profiler {

// Whether the member is one that ReadMember understands.
bool IsKnownMember(std::string_view key);

// Takes a known member's value, JSON text; false if it can't be read.
bool ReadMember(std::string_view key, std::string_view json, Metadata* metadata);

// "[0, 1, 2]" as numbers. One that is cut ("[0, 1, ...") or no list gives what can be read and sets
// `cut`.
std::vector<int64_t> ParseRanks(std::string_view text, bool* cut);

}  // namespace longhaul::profiler
