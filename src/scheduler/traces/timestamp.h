// Times of day in traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace longhaul::scheduler {

// Returns the seconds since 1970 of "2017-10-09 07:01:55", read as UTC, with `separator` between
// date and time; nothing if the text has another form or the date does not exist.
std::optional<int64_t> ParseTimestamp(std::string_view text, char separator);

}  // namespace longhaul::scheduler
