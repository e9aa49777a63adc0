// The cluster of the cluster file, if there is one, combined with the nodes that have joined.
//
// The file declares names, network domains, labels and devices; agents report slots, cores and
// memory. MakeTopology combines both into the topology that the scheduler decides over. An agent's
// slots decide how many devices its node has. The file bounds its cores and memory, and supplies
// what the agent does not report. Nodes that the file leaves out, or all of them without a file,
// are added in natural order of their names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "runtime/scheduling/reservations/node_reservations.h"
#include "spec/cluster/topology.h"

namespace longhaul::runtime::scheduling {

// What an agent reports of its node; 0: not reported.
struct NodeFacts {
  uint32_t slots = 0;
  uint64_t cores = 0;
  uint64_t memory_bytes = 0;

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

struct JoinedNode {
  std::string_view name;
  NodeFacts facts;
  spec::NodeCondition condition = spec::NodeCondition::kDown;
};

class DeclaredCluster {
 public:
  DeclaredCluster() = default;
  explicit DeclaredCluster(std::optional<spec::ClusterDeclaration> declaration);

  // Nothing: there is no cluster file.
  const std::optional<spec::ClusterDeclaration>& declaration() const { return declaration_; }
  bool has_file() const { return declaration_.has_value(); }

  // Returns the condition of a healthy node: ready, or what the file states.
  spec::NodeCondition StandardCondition(const std::string& node) const;
  // Returns the device model of a node; "undeclared" if the file does not state it.
  std::string ModelOf(const std::string& node) const;
  // Returns whether the scheduler's device numbers of a node with so many slots are those of the
  // node: the file declares its devices, and it has no more slots than devices.
  bool KnowsDevices(const std::string& node, uint32_t slots) const;
  // Returns the memory of each device of a node, in MiB; 0: unknown.
  int64_t DeviceMemoryOf(const std::string& node) const;
  // Returns in what the facts of a node fall short of the file; empty when they agree or the node
  // is not declared.
  std::string Contradiction(const std::string& node, const NodeFacts& facts) const;

  // Returns the node's name, and then the names of all domains that it lies in: those that the file
  // declares, "undeclared" for the nodes that it leaves out, and kAllNodes. They are valid as long
  // as this and `node`.
  NodeNames NamesOf(const std::string& node) const;

  // Returns the topology in which each accelerator has `slots_per_accelerator` slots and declared
  // nodes that have not joined are down. Nodes have the taints of their reservations. Requires that
  // `joined` is sorted by name. Fails without any node, and beyond the limits of a topology.
  Result<spec::Topology> MakeTopology(std::span<const JoinedNode> joined,
                                      uint32_t slots_per_accelerator,
                                      const NodeReservations& reservations = {}) const;

 private:
  // The node's kind in the file; null: the node is not declared.
  const spec::NodeKind* KindOf(const std::string& node) const;

  std::optional<spec::ClusterDeclaration> declaration_;
  std::map<std::string, size_t, std::less<>> index_;  // of the declaration's nodes, by name
};

}  // namespace longhaul::runtime::scheduling
