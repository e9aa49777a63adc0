// Text: splitting, strict parsing of numbers, and the nearest known word for an error message.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul {

// The parts between separators; an empty text has one empty part.
std::vector<std::string_view> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);  // without spaces, tabs and line ends at both ends
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

bool ContainsAny(std::string_view text, std::initializer_list<std::string_view> words);
bool IsLetterOrDigit(char c);  // of ASCII

// Parses the whole text as a number; rejects a plus sign, spaces, trailing text and overflow.
Result<int64_t> ParseInt64(std::string_view text);
Result<uint64_t> ParseUint64(std::string_view text);
Result<double> ParseDouble(std::string_view text);  // finite only

// "20s", "250ms", "5min", "2h", "3d": a number and a unit. Never negative.
Result<Duration> ParseDuration(std::string_view text);

// The entry of `known` that `word` probably means: within a third of its length in edits, but at
// least one. Nothing for words over 64 bytes, so that a hostile word costs nothing.
std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> known);

// 1234567 -> "1,234,567".
std::string WithThousands(int64_t number);
// "1 layer", "1,024 branches".
std::string Counted(uint64_t number, std::string_view noun);

// Replaces bytes that are not printable ASCII by \xNN; cut to `limit` with "..." at the end.
std::string Printable(std::string_view text, size_t limit = 120);

// Appends what printf would print, at most 1,023 bytes of it.
[[gnu::format(printf, 2, 3)]] void AppendFormat(std::string* out, const char* format, ...);

}  // namespace longhaul
