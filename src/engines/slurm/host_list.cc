#include "engines/slurm/host_list.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace longhaul::engines::slurm {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxDigits = 9;

Status Wrong(std::string_view text, const char* what) {
  return InvalidArgument("'" + Printable(text, 80) + "' is no list of hosts: " + what);
}

Status TooMany() {
  return ResourceExhausted("a list of hosts stands for more than " + WithThousands(kMaxHosts) +
                           " names");
}

// The entries of a list: commas within brackets separate numbers, not hosts.
Result<std::vector<std::string_view>> Entries(std::string_view text) {
  std::vector<std::string_view> entries;
  size_t from = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      if (i == from) return Wrong(text, "an entry is empty");
      entries.push_back(text.substr(from, i - from));
      from = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return Wrong(text, "brackets do not match");
      inside = !inside;
    }
  }
  if (inside) return Wrong(text, "a bracket is not closed");
  return entries;
}

Result<uint64_t> Number(std::string_view text, std::string_view digits) {
  if (digits.empty() || digits.size() > kMaxDigits) return Wrong(text, "a number is missing");
  const Result<uint64_t> number = ParseUint64(digits);
  if (!number.ok()) return Wrong(text, "brackets contain numbers and ranges only");
  return *number;
}

// "01-03,7" -> 01, 02, 03, 7.
Result<std::vector<std::string>> Numbers(std::string_view text, std::string_view inside) {
  std::vector<std::string> numbers;
  for (const std::string_view range : Split(inside, ',')) {
    const size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    ASSIGN_OR_RETURN(const uint64_t from, Number(text, first));
    uint64_t to = from;
    if (dash != std::string_view::npos) {
      ASSIGN_OR_RETURN(to, Number(text, range.substr(dash + 1)));
    }
    if (to < from) return Wrong(text, "a range ends before it begins");
    if (to - from >= kMaxHosts - numbers.size()) return TooMany();
    for (uint64_t number = from; number <= to; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }
  return numbers;
}

// The names of one entry: the product of its brackets.
Status Expand(std::string_view text, std::string_view entry, std::vector<std::string>& names) {
  std::vector<std::string> begun = {""};
  while (!entry.empty()) {
    const size_t open = entry.find('[');
    const std::string_view plain = entry.substr(0, open);
    for (std::string& name : begun) name += plain;
    if (open == std::string_view::npos) break;
    const size_t close = entry.find(']');
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                     Numbers(text, entry.substr(open + 1, close - open - 1)));
    if (numbers.size() * begun.size() > kMaxHosts) return TooMany();
    std::vector<std::string> product;
    for (const std::string& name : begun) {
      for (const std::string& number : numbers) product.push_back(name + number);
    }
    begun = std::move(product);
    entry.remove_prefix(close + 1);
  }
  if (names.size() + begun.size() > kMaxHosts) return TooMany();
  for (std::string& name : begun) {
    if (name.size() > kMaxNameBytes) return Wrong(text, "a name is too long");
    names.push_back(std::move(name));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> ExpandHostList(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return IsLetterOrDigit(c) || std::string_view("-_.[],").find(c) != std::string_view::npos;
  });
  if (!plain) return Wrong(text, "a name has a character that no host name has");
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(const std::vector<std::string_view> entries, Entries(text));
  for (const std::string_view entry : entries) RETURN_IF_ERROR(Expand(text, entry, names));
  return names;
}

}  // namespace longhaul::engines::slurm
