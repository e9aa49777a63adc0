// Any text is a list of hosts within the limits, or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/slurm/host_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto names = longhaul::engines::slurm::ExpandHostList(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!names.ok()) return 0;
  CHECK(!names->empty() && names->size() <= longhaul::engines::slurm::kMaxHosts);
  for (const std::string& name : *names) {
    CHECK(!name.empty() && name.find_first_of("[],/ ") == std::string::npos);
  }
  return 0;
}
