#include "service/agent/native_stacks/call_name.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestName = 96;
// Demangling repeats parts of a symbol that refers to itself, so that the result may be much
// longer.
constexpr size_t kLongestSymbol = 2048;

bool IsOfIdentifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Returns the end of the part in brackets that begins at `at`, or of the text if it has no end.
size_t EndOfBrackets(std::string_view name, size_t at) {
  const char open = name[at];
  const char close = open == '<' ? '>' : ')';
  size_t depth = 0;
  for (size_t i = at; i < name.size(); ++i) {
    if (name[i] == open) ++depth;
    const bool is_arrow = close == '>' && i > 0 && name[i - 1] == '-';
    if (name[i] == close && !is_arrow && --depth == 0) return i + 1;
  }
  return name.size();
}

// Returns the length of "operator<<" and the like at `at`; 0 if there is none. Without it, the
// symbols of the operator would be brackets.
size_t OperatorLength(std::string_view name, size_t at) {
  constexpr std::string_view kOperator = "operator";
  if (!name.substr(at).starts_with(kOperator)) return 0;
  if (at > 0 && IsOfIdentifier(name[at - 1])) return 0;
  size_t end = at + kOperator.size();
  if (name.substr(end).starts_with("()")) return kOperator.size() + 2;
  while (end < name.size() &&
         std::string_view("<>=-+*/%&|^!~,[]").find(name[end]) != std::string_view::npos) {
    ++end;
  }
  // "operator new" and "operator bool": a name after a space.
  const bool has_name = end == at + kOperator.size() && end < name.size() && name[end] == ' ';
  return has_name ? kOperator.size() + 1 : end - at;
}

std::string Shortened(std::string_view name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  std::string result;
  size_t at = 0;
  while (at < name.size()) {
    const std::string_view rest = name.substr(at);
    if (rest.starts_with(kUnnamed)) {
      result += "(anonymous)";
      at += kUnnamed.size();
    } else if (const size_t length = OperatorLength(name, at); length > 0) {
      result += rest.substr(0, length);
      at += length;
    } else if (rest[0] == '<' || rest[0] == '(') {
      result += rest[0] == '<' ? "<>" : "";
      at = EndOfBrackets(name, at);
    } else if (rest.starts_with("[abi:")) {
      const size_t end = name.find(']', at);
      at = end == std::string_view::npos ? name.size() : end + 1;
    } else if (rest.starts_with(" [clone")) {
      break;
    } else if (rest.starts_with(" const") && (rest.size() == 6 || !IsOfIdentifier(rest[6]))) {
      at += 6;
    } else if (rest[0] == ' ' || rest[0] == '&') {
      // What was before a space is the return type, or a word such as "thunk to".
      if (rest.size() > 1 && IsOfIdentifier(rest[1])) result.clear();
      ++at;
    } else {
      result += rest[0];
      ++at;
    }
  }
  return result;
}

}  // namespace

std::string CallName(std::string_view symbol) {
  const std::string mangled(symbol.substr(0, symbol.find('@')));  // without "@@GLIBC_2.34"
  std::string name = mangled;
  if (mangled.starts_with("_Z") && mangled.size() <= kLongestSymbol) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> demangled(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
    if (demangled != nullptr) name = demangled.get();
  }
  // "function.part.0" of C.
  if (!name.starts_with("_Z") && name.find("::") == std::string::npos) {
    const size_t suffix = name.find('.', 1);
    if (suffix != std::string::npos) name.resize(suffix);
  }
  const std::string result = Shortened(name);
  return Printable(result.empty() ? name : result, kLongestName);
}

}  // namespace longhaul::service
