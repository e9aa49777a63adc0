#include "engines/kubernetes/import/manifest/manifest_writer.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "base/utf8.h"
#include "engines/kubernetes/import/manifest/yaml_scalar.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostPlainKey = 500;

// Whether a text is readable as a block of lines (|) and is read back as it is: printable ASCII in
// several lines, of which the first has text and does not begin with a blank.
bool IsBlock(std::string_view text) {
  if (text.find('\n') == text.npos || text.front() == ' ' || text.front() == '\n') return false;
  return std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c < 0x7F); });
}

std::string Blanks(size_t count) { return std::string(count, ' '); }

// "|-", "|" or "|+" and the lines.
void AppendBlock(std::string_view text, size_t indent, std::string* out) {
  size_t ends = 0;
  while (ends < text.size() && text[text.size() - 1 - ends] == '\n') ++ends;
  *out += ends == 0 ? "|-\n" : ends == 1 ? "|\n" : "|+\n";
  text.remove_suffix(ends);
  for (const std::string_view line : Split(text, '\n')) {
    *out += (line.empty() ? "" : Blanks(indent) + std::string(line)) + "\n";
  }
  for (size_t i = 1; i < ends; ++i) *out += "\n";
}

bool IsOneLine(const JobJson& value) { return !value.is_structured() || value.empty(); }

// What follows "key: " or "- ", with the line's end.
void AppendOneLine(const JobJson& value, size_t indent, std::string* out) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (IsBlock(text)) return AppendBlock(text, indent, out);
    *out += ScalarOfText(text) + "\n";
    return;
  }
  *out += value.dump() + "\n";
}

// YAML reads a key of more than 1,024 characters only after a question mark.
void AppendKey(const std::string& key, size_t indent, std::string* out) {
  const std::string scalar = ScalarOfText(key);
  if (scalar.size() <= kMostPlainKey) {
    *out += scalar + ":";
  } else {
    *out += "? " + scalar + "\n" + Blanks(indent) + ":";
  }
}

// The lines of a list or a map that is not empty. `begun`: the blanks of the first line are there.
void AppendLines(const JobJson& value, size_t indent, bool begun, std::string* out) {
  for (const auto& [key, each] : value.items()) {
    if (!begun) *out += Blanks(indent);
    begun = false;
    if (value.is_array()) {
      *out += "- ";
      if (IsOneLine(each)) {
        AppendOneLine(each, indent + 2, out);
      } else {
        AppendLines(each, indent + 2, true, out);
      }
      continue;
    }
    AppendKey(key, indent, out);
    if (IsOneLine(each)) {
      *out += " ";
      AppendOneLine(each, indent + 2, out);
    } else {
      *out += "\n";
      AppendLines(each, each.is_array() ? indent : indent + 2, false, out);
    }
  }
}

}  // namespace

std::string ToYamlDocuments(const std::vector<JobJson>& objects) {
  std::string text;
  for (const JobJson& object : objects) {
    if (!text.empty()) text += "---\n";
    if (IsOneLine(object)) {
      AppendOneLine(object, 2, &text);
    } else {
      AppendLines(object, 0, false, &text);
    }
  }
  return text;
}

}  // namespace longhaul::engines::kubernetes
