// Any text gives queues or a message, and queues are read back from what they are written as.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/queue/queue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto queues = longhaul::spec::ParseQueues(text, "fuzz");
  if (!queues.ok()) {
    CHECK(!queues.status().message().empty());
    return 0;
  }
  const auto again = longhaul::spec::ParseQueues(longhaul::spec::ToYaml(*queues), "again");
  CHECK(again.ok()) << again.status().message();
  CHECK(*again == *queues);
  return 0;
}
