#include "service/agent/native_stacks/native_stack_text.h"

#include <cstdint>
#include <limits>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestLine = 200;
constexpr size_t kMostMainCalls = 64;

// Returns the number after the word of a line such as "process 4711"; 0 for other lines.
pid_t NumberAfter(std::string_view word, std::string_view line) {
  if (!line.starts_with(word)) return 0;
  const std::string_view rest = line.substr(word.size());
  const Result<uint64_t> number = ParseUint64(rest.substr(0, rest.find(' ')));
  if (!number.ok() || *number > std::numeric_limits<pid_t>::max()) return 0;
  return static_cast<pid_t>(*number);
}

}  // namespace

std::map<pid_t, NativeStack> ParseNativeStacks(std::string_view text) {
  std::map<pid_t, NativeStack> stacks;
  NativeStack* stack = nullptr;
  pid_t process = 0;
  bool is_main = false;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string_view::npos;
       at = end + 1) {
    const std::string_view line = text.substr(at, end - at);
    if (const pid_t number = NumberAfter("process ", line); number != 0) {
      process = number;
      stack = &stacks[process];
      is_main = false;
      continue;
    }
    if (stack == nullptr) continue;
    if (const pid_t thread = NumberAfter("thread ", line); thread != 0) {
      is_main = thread == process;
    }
    const std::string shown = Printable(line, kLongestLine);
    const bool is_call = line.starts_with("  ") && line.size() > 2;
    if (is_main && is_call && stack->main_calls.size() < kMostMainCalls) {
      stack->main_calls.push_back(shown.substr(2));
    }
    stack->text += shown + "\n";
  }
  return stacks;
}

}  // namespace longhaul::service
