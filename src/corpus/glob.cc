#include "corpus/glob.h"

#include <cstddef>

namespace longhaul::corpus {
namespace {

// One element of a pattern: how many bytes of it were used and whether it takes `byte`.
struct Element {
  size_t length = 1;
  bool matches = false;
};

// A class "[...]" at the pattern's start; length 0 when it isn't closed.
Element MatchClass(std::string_view pattern, unsigned char byte) {
  size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool inside = false;
  // A ']' in the first place belongs to the set.
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) return {at + 1, inside != negated};
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const auto low = static_cast<unsigned char>(pattern[at++]);
    auto high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      high = static_cast<unsigned char>(pattern[at++]);
    }
    inside |= low <= byte && byte <= high;
  }
  return {0, false};
}

// Requires a pattern that isn't empty and doesn't start with '*'.
Element MatchOne(std::string_view pattern, char byte) {
  if (pattern[0] == '?') return {1, true};
  if (pattern[0] == '[') {
    const Element element = MatchClass(pattern, static_cast<unsigned char>(byte));
    if (element.length > 0) return element;
  }
  if (pattern[0] == '\\' && pattern.size() > 1) return {2, pattern[1] == byte};
  return {1, pattern[0] == byte};
}

}  // namespace

bool MatchComponent(std::string_view pattern, std::string_view name) {
  // Going back to the latest star alone is enough: an earlier one could only take more of what the
  // latest may take as well.
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t star_name = 0;
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
      continue;
    }
    if (n == name.size() && p == pattern.size()) return true;
    if (n < name.size() && p < pattern.size()) {
      const Element element = MatchOne(pattern.substr(p), name[n]);
      if (element.matches) {
        p += element.length;
        ++n;
        continue;
      }
    }
    if (star == std::string_view::npos || star_name >= name.size()) return false;
    p = star + 1;
    n = ++star_name;
  }
}

bool MatchGlob(std::string_view pattern, std::string_view path) {
  if (pattern.starts_with('/') != path.starts_with('/')) {
    // Only a leading "**" stands for both kinds of path.
    if (!pattern.starts_with("**/") && pattern != "**") return false;
  }
  const auto patterns = Components(pattern);
  const auto names = Components(path);
  // reached[n]: the patterns so far can match the first n names.
  std::vector<char> reached(names.size() + 1, 0);
  reached[0] = 1;
  for (const std::string_view component : patterns) {
    std::vector<char> next(names.size() + 1, 0);
    if (component == "**") {
      char any = 0;
      for (size_t n = 0; n <= names.size(); ++n) next[n] = any = any | reached[n];
    } else {
      for (size_t n = 0; n < names.size(); ++n) {
        next[n + 1] = reached[n] != 0 && MatchComponent(component, names[n]) ? 1 : 0;
      }
    }
    reached = std::move(next);
  }
  return reached[names.size()] != 0;
}

bool IsLiteral(std::string_view component) {
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\') {
      ++i;
    } else if (component[i] == '*' || component[i] == '?' || component[i] == '[') {
      return false;
    }
  }
  return true;
}

std::string Unescape(std::string_view component) {
  std::string text;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\' && i + 1 < component.size()) ++i;
    text.push_back(component[i]);
  }
  return text;
}

std::vector<std::string_view> Components(std::string_view path) {
  std::vector<std::string_view> components;
  while (!path.empty()) {
    const size_t end = path.find('/');
    const std::string_view component = path.substr(0, end);
    path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
    if (component.empty()) continue;
    if (component == "**" && !components.empty() && components.back() == "**") continue;
    components.push_back(component);
  }
  return components;
}

}  // namespace longhaul::corpus
