// Checkpoints that this node copies to the second tier and fetches from there.
#pragma once

#include <string>

#include "runtime/agent/agent_context.h"

namespace longhaul::runtime::agent {

class SecondTier {
 public:
  explicit SecondTier(AgentContext& context) : context_(context) {}

  void CopyOutOne(const proto::CopyCheckpoint& command);
  void Take(const CheckpointCopied& fact);
  void Take(const CheckpointFetched& fact);

 private:
  void ReportUncopied(const JobId& id, const SnapshotId& snapshot, const std::string& reason,
                      bool while_restoring);

  AgentContext& context_;
};

}  // namespace longhaul::runtime::agent
