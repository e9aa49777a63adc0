#include "scheduler/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace longhaul::scheduler {

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digit run at the text's start, without leading zeros; `text` continues after it.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return number;
}

// Below zero: a is first; above: b; zero: equal but for leading zeros.
int Compare(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a.front()) && IsDigit(b.front())) {
      const std::string_view x = TakeNumber(a);
      const std::string_view y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = x.compare(y); order != 0) return order;
      continue;
    }
    if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1 : 1;
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() == b.empty() ? 0 : (a.empty() ? -1 : 1);
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  // Names of a cluster share their beginning: skip it, back to where a number may have begun.
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  auto begin = static_cast<size_t>(differ.first - a.begin());
  while (begin > 0 && IsDigit(a[begin - 1])) --begin;
  const int order = Compare(a.substr(begin), b.substr(begin));
  return order != 0 ? order < 0 : a < b;
}

}  // namespace longhaul::scheduler
