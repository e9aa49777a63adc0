// What a run on Slurm asks of its own controller about nodes. Each call blocks until the answer.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "service/client/endpoint.h"

namespace longhaul::engines::slurm {

// Returns a token with which only the agent of this node can join, once.
Result<std::string> MakeJoinToken(const service::Endpoint& endpoint, const std::string& node);

// Lets the job leave these nodes, after a snapshot.
Status DrainNodes(const service::Endpoint& endpoint, const std::vector<std::string>& nodes);
// Uses a node again that was drained.
Status UncordonNode(const service::Endpoint& endpoint, const std::string& node);
// The agents (AgentNameOf) that have work.
Result<std::set<std::string>> BusyAgents(const service::Endpoint& endpoint);
// Whether no job is on any of these nodes.
Result<bool> AreIdle(const service::Endpoint& endpoint, const std::vector<std::string>& nodes);

}  // namespace longhaul::engines::slurm
