// The file of hooks: what is accepted is within its limits, and no name of a hook has its secrets.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "spec/notify/notify_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto hooks = spec::ParseNotifyFile(text, "notify.yaml");
  if (!hooks.ok()) {
    CHECK(!hooks.status().message().empty());
    return 0;
  }
  CHECK(hooks->size() <= 16);
  for (const spec::HookSpec& hook : *hooks) {
    CHECK(hook.webhook.empty() != hook.command.empty());
    CHECK(!hook.events.empty());
    const std::string name = spec::NameOf(hook);
    CHECK(hook.command.size() > 0 || name.find('@') == std::string::npos);
  }
  return 0;
}
