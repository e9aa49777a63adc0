// Any text gives jobs in an order in which each comes after those that it names, or a message.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "base/check.h"
#include "spec/job/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::spec;
  const auto file = ParseJobFile({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!file.ok()) {
    CHECK(!file.status().message().empty());
    return 0;
  }
  CHECK(!file->jobs.empty());
  std::set<std::string_view> names;
  for (size_t i = 0; i < file->jobs.size(); ++i) {
    CHECK(names.insert(file->jobs[i].name).second);
    if (!file->several) continue;
    for (const auto& name : file->jobs[i].after.jobs) {
      const auto found = file->Find(name);
      CHECK(!found || found->job < i) << name;
    }
  }
  return 0;
}
