// Any text gives a job or a message, and a job is read back from its YAML and its JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "spec/job/job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::spec;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = ParseJob(text, "fuzz.yaml");
  if (!job.ok()) {
    CHECK(!job.status().message().empty());
    return 0;
  }
  for (const std::string& written : {ToYaml(*job), ToJson(*job)}) {
    const auto again = ParseJob(written, "again");
    CHECK(again.ok()) << again.status().message() << "\n" << written;
    CHECK(*again == *job) << written;
  }
  return 0;
}
