// Formats numbers and texts for people: terminals, reports, charts and the web page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul {

// A decimal with `digits` digits after the point: "2.310"; "-" when it isn't finite.
std::string Decimal(double number, int digits);

// About three digits and a power of a thousand: "22.3k", "1.90M", "640".
std::string Compact(double number);

// "93.1 %" of a share of 1.
std::string Percent(double share, int digits = 1);

// "850 ms", "4.51 s", "3 min 20 s"; "-" when it is negative or not finite.
std::string SecondsText(double seconds);

// "1 step", "2 steps".
std::string Plural(uint64_t count, std::string_view noun);

// Replaces bytes that a terminal would interpret: control characters become spaces, malformed UTF-8
// becomes question marks.
std::string Harmless(std::string_view text);

// A multi-line message in brief, made harmless: the last line of a Python traceback, the first and
// the last line of any other text.
std::string Headline(std::string_view text);

// The number of code points, which is the width of text without East Asian wide characters.
size_t Width(std::string_view text);
// At most `columns` code points, the last one an ellipsis when something was cut off.
std::string Fit(std::string_view text, size_t columns);

// Escapes text between tags or in a quoted attribute of XML.
std::string EscapeXml(std::string_view text);
// Escapes text for one cell of a Markdown table or a line of prose, so that it has no formatting.
std::string EscapeMarkdown(std::string_view text);

}  // namespace longhaul
