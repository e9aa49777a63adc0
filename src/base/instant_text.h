// Reads a date or an instant that a person has written.
#pragma once

#include <string_view>

#include "base/status.h"
#include "base/time.h"

namespace longhaul {

// "2026-01-31" (its first moment) or "2026-01-31T08:00Z" with, if wanted, seconds and up to nine
// decimals; UTC, in the years 1970 to 2200.
Result<Instant> ParseInstant(std::string_view text);

}  // namespace longhaul
