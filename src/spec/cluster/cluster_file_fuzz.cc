// Any text gives a cluster that has a topology, or a message that names the source.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/cluster/cluster_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cluster = longhaul::spec::ParseClusterFile(text, "c.yaml");
  if (!cluster.ok()) {
    CHECK(cluster.status().message().starts_with("c.yaml:"));
    return 0;
  }
  const auto topology = longhaul::spec::Topology::Create(*cluster);
  CHECK(topology.ok()) << topology.status().message();
  uint32_t hosts = 0;
  for (const longhaul::spec::Domain& leaf : topology->levels()[0].domains) hosts += leaf.hosts();
  CHECK(hosts == topology->size());
  return 0;
}
