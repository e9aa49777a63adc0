// Makes idle nodes ready for the jobs that they may run next: the fork servers of those jobs are
// started there, so that a gang which loses a node, or grows, does not wait for `import torch`.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class AttemptStarter;

class SpareNodes {
 public:
  SpareNodes(ControllerContext& context, const AttemptStarter& starter)
      : context_(context), starter_(starter) {}

  // The number of idle nodes, not on probation, that could have the place of one of the job's.
  size_t Count(const JobRecord& job) const;
  // After a reconnect it is unknown which fork servers the agent still has, so Settle sends it its
  // list of jobs again.
  void OnAgentJoined(const NodeId& node);
  // Sends each node whose list of jobs has changed the new one. Costs nothing where neither nodes
  // nor the set of active jobs have changed.
  void Settle();

 private:
  using Jobs = std::set<std::string>;

  // By name, those on probation last: the scheduler uses them if no others are left.
  std::vector<const Node*> IdleNodes() const;
  // Several nodes of one host are lost together, and share its cores and memory.
  bool SharesHost(const Node& node, const JobRecord& job) const;
  // Whether a worker group of the job could have the node, as far as the nodes that it has tell.
  bool Suits(const Node& node, const JobRecord& job) const;
  // A node that was ready for the job and now belongs to its gang keeps the fork server, from which
  // its workers come.
  void KeepMembers(const JobRecord& job, std::map<NodeId, Jobs>& wanted) const;
  std::map<NodeId, Jobs> Wanted() const;
  void SendList(const NodeId& node, const Jobs& jobs);

  ControllerContext& context_;
  const AttemptStarter& starter_;
  std::map<NodeId, Jobs> sent_;  // none: an empty list
  std::set<NodeId> joined_;      // since the last call of Settle, with a list from before
  uint64_t seen_nodes_ = 0;      // NodeTable::changes
  uint64_t seen_jobs_ = 0;       // ControllerContext::active_changes
};

}  // namespace longhaul::runtime::controller
