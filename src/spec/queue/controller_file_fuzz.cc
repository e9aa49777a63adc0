// Any text gives a configuration or a message that names the source.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/queue/controller_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = longhaul::spec::ParseControllerFile(text, "fuzz");
  if (!file.ok()) {
    CHECK(file.status().message().starts_with("fuzz:")) << file.status().message();
    return 0;
  }
  CHECK(longhaul::spec::CheckQueues(file->queues).ok());
  CHECK(file->reservations >= 1);
  for (const auto& [name, priority] : file->priorities) {
    CHECK(!name.empty() && priority <= longhaul::spec::kMaxJobPriority);
  }
  return 0;
}
