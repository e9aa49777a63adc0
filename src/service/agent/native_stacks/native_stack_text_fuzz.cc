// Any bytes give printable lines, and a part of the text gives no more than the whole.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "service/agent/native_stacks/native_stack_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using longhaul::service::ParseNativeStacks;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stacks = ParseNativeStacks(text);
  for (const auto& [process, stack] : stacks) {
    CHECK(process > 0);
    for (const char c : stack.text) CHECK(c == '\n' || (c >= ' ' && c <= '~'));
    for (const auto& call : stack.main_calls) {
      CHECK(stack.text.find("  " + call + "\n") != std::string::npos);
    }
  }
  for (const auto& [process, part] : ParseNativeStacks(text.substr(0, size / 2))) {
    const auto whole = stacks.find(process);
    CHECK(whole != stacks.end() && whole->second.text.starts_with(part.text));
  }
  return 0;
}
