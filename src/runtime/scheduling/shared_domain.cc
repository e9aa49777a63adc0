#include "runtime/scheduling/shared_domain.h"

#include <cstdint>
#include <set>

namespace longhaul::runtime::scheduling {

// Nodes are numbered so that those of a domain follow each other.
std::string SharedDomain(const spec::Topology& topology, const std::vector<std::string>& nodes,
                         const std::string& level) {
  std::set<uint32_t> members;
  for (const std::string& name : nodes) {
    const auto node = topology.Find(name);
    if (!node) return "";
    members.insert(*node);
  }
  if (members.empty()) return "";
  for (const spec::Level& each : topology.levels()) {
    if (each.name != level) continue;
    for (const spec::Domain& domain : each.domains) {
      if (*members.begin() < domain.first || *members.rbegin() >= domain.last) continue;
      return domain.name;
    }
  }
  return "";
}

}  // namespace longhaul::runtime::scheduling
