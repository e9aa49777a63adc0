// Text in XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

// Replaces & < > " by entities, so that the text can stand between tags and in double quotes.
std::string XmlEscape(std::string_view text);

}  // namespace longhaul
