#include "engines/kubernetes/import/command/command_words.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMostReference = 300;  // of $(NAME)
// A job file refuses words of more than 32,768 bytes: such a one may be cut, for it is an error.
constexpr size_t kMostValues = 100'000;

bool IsNameCharacter(char c) { return IsLetterOrDigit(c) || c == '_'; }

// The parts of a text around its references $(NAME), in order.
struct Part {
  std::string text;        // with $$ for a dollar already replaced
  bool reference = false;  // text is the name of a variable at run time
};

std::vector<Part> Parts(std::string_view word, const CommandVariables& variables) {
  std::vector<Part> parts(1);
  size_t bytes = 0;  // of the values
  for (size_t at = 0; at < word.size() && bytes <= kMostValues;) {
    const std::string_view rest = word.substr(at);
    if (rest.starts_with("$$(")) {
      parts.back().text += "$";
      at += 2;
      continue;
    }
    const size_t end =
        rest.starts_with("$(") ? rest.substr(0, kMostReference).find(')') : rest.npos;
    if (end == rest.npos) {
      parts.back().text += word[at++];
      continue;
    }
    const std::string name(rest.substr(2, end - 2));
    const auto value = variables.values.find(name);
    if (value != variables.values.end()) {
      parts.back().text += value->second;
      bytes += value->second.size();
    } else if (variables.at_run_time.contains(name)) {
      parts.push_back({name, true});
      parts.emplace_back();
    } else {
      parts.back().text += rest.substr(0, end + 1);
    }
    at += end + 1;
  }
  return parts;
}

// In double quotes.
std::string InQuotes(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '$' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace

CommandWord ExpandReferences(std::string_view word, const CommandVariables& variables) {
  const std::vector<Part> parts = Parts(word, variables);
  if (parts.size() == 1) return {parts.front().text, true};
  std::string source = "\"";
  for (const Part& part : parts) {
    source += part.reference ? "${" + part.text + "}" : InQuotes(part.text);
  }
  return {source + "\"", false};
}

std::string ExpandScript(std::string_view script, const CommandVariables& variables) {
  std::string text;
  for (const Part& part : Parts(script, variables)) {
    text += part.reference ? "${" + part.text + "}" : part.text;
  }
  return text;
}

std::string ShellSource(const CommandWord& word) {
  if (!word.literal) return word.text;
  const bool plain = !word.text.empty() && std::ranges::all_of(word.text, [](char c) {
    return IsLetterOrDigit(c) || std::string_view("_-./:=@%+,").find(c) != std::string_view::npos;
  });
  if (plain) return word.text;
  std::string quoted = "'";
  for (const char c : word.text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string ShellSource(const std::vector<CommandWord>& words) {
  std::vector<std::string> sources;
  for (const CommandWord& word : words) sources.push_back(ShellSource(word));
  return Join(sources, " ");
}

bool MentionsName(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !IsNameCharacter(text[at - 1]);
    const size_t end = at + name.size();
    if (begins && (end == text.size() || !IsNameCharacter(text[end]))) return true;
  }
  return false;
}

}  // namespace longhaul::engines::kubernetes
