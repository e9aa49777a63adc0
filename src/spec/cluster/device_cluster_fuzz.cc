// Any text is a cluster or a message, never a crash; what is read is sound.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/cluster/device_cluster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::spec;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& cluster : {ParseDeviceCluster(text, "fuzz"), ParseClusterName(text)}) {
    if (cluster.ok()) CHECK(CheckDeviceCluster(*cluster).ok());
  }
  return 0;
}
