// Patterns for paths, compared byte by byte.
//
//   ?        one byte but '/'          *        any run of bytes but '/'
//   [a-z_]   one of these              [!a-z]   none of these, and not '/'
//   **       as a whole component: any number of components, none included
//   \x       the byte x
//
// A pattern matches a whole path. Braces are plain bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::corpus {

// Whether one component (no '/') matches a pattern's component. An unclosed '[' is a plain byte.
bool MatchComponent(std::string_view pattern, std::string_view name);

// Whether the whole path matches. Takes time in the product of both lengths, for any pattern.
bool MatchGlob(std::string_view pattern, std::string_view path);

// Whether a component has no wildcard; and the component without its escapes.
bool IsLiteral(std::string_view component);
std::string Unescape(std::string_view component);

// The components between slashes, without empty ones and with "**/**" merged into "**".
std::vector<std::string_view> Components(std::string_view path);

}  // namespace longhaul::corpus
